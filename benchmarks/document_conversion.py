"""Converters of documents compared with their sources, and with other libraries.

    python benchmarks/document_conversion.py make CORPORA FOLDER
    python benchmarks/document_conversion.py measure FOLDER [--rivals]

`make` writes documents from texts of CORPORA (`books/*.md`, `wikipedia/*.txt`) with the programs that this
machine has: pandoc, LibreOffice (`soffice`), pdflatex, Chromium, openpyxl. `measure` prints for each document
and reader: the share of the source's words that the text has, the share of its runs of three words (their
order), the headings found and those invented, and MB of the file per second of processor time.
`--rivals` adds each library that is installed.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

BOOKS = ("walden", "the-art-of-war", "flatland")
N_ARTICLES = 8
N_TABLE_ROWS = 5000
UTF8_TABLE = "--infilter=CSV:44,34,76"  # comma, quotation mark, UTF-8
_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_WIKI_HEADING = re.compile(r"^(={2,6})[ \t]*(.+?)[ \t]*=+[ \t]*$", re.MULTILINE)
_TABLE_HEADER = ("Article", "Number", "Added", "Sentence")

Reader = Callable[[bytes, str], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make")
    make.add_argument("corpora", type=Path)
    make.add_argument("folder", type=Path)
    measure = commands.add_parser("measure")
    measure.add_argument("folder", type=Path)
    measure.add_argument("--rivals", action="store_true")
    measure.add_argument("--only", default="", help="a part of the names of the documents to measure")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make_documents(arguments.corpora, arguments.folder)
    else:
        measure_documents(arguments.folder, rivals=arguments.rivals, only=arguments.only)


# Making documents


def make_documents(corpora: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sources = [
        _write(folder / f"{book}.md", (corpora / "books" / f"{book}.md").read_text()) for book in BOOKS
    ]
    articles = sorted((corpora / "wikipedia").glob("*.txt"))[:N_ARTICLES]
    texts = [_article(path.read_text()) for path in articles]
    sources.append(_write(folder / "articles.md", "\n\n".join(texts)))
    slides = _write(folder / "slides.md", "\n\n".join(map(_slides, texts)))
    for source in sources:
        stem = source.with_suffix("").name
        _pandoc(source, folder / f"{stem}.pandoc.docx")
        _pandoc(source, folder / f"{stem}.pandoc.odt")
        _pandoc(source, folder / f"{stem}.pandoc.rtf")
        _pandoc(source, folder / f"{stem}.pandoc.html")
        _latex(source, folder / f"{stem}.latex.pdf", "--number-sections")
        _latex(source, folder / f"{stem}.columns.pdf", "-V", "classoption=twocolumn")
        _soffice(folder / f"{stem}.pandoc.docx", folder / f"{stem}.writer.pdf")
        _soffice(folder / f"{stem}.pandoc.odt", folder / f"{stem}.writer.docx")
        _soffice(folder / f"{stem}.pandoc.docx", folder / f"{stem}.writer.odt")
        _soffice(folder / f"{stem}.pandoc.docx", folder / f"{stem}.writer.rtf")
        _chromium(folder / f"{stem}.pandoc.html", folder / f"{stem}.chromium.pdf")
    _pandoc(slides, folder / "slides.pandoc.pptx")
    _soffice(folder / "slides.pandoc.pptx", folder / "slides.impress.odp")
    _soffice(folder / "slides.impress.odp", folder / "slides.impress.pptx")
    _soffice(folder / "slides.pandoc.pptx", folder / "slides.impress.pdf")
    table = folder / "table.csv"
    with table.open("w", newline="", encoding="utf-8-sig") as out:
        csv.writer(out).writerows(_table(texts))
    _soffice(table, folder / "table.calc.xlsx", UTF8_TABLE)
    _soffice(table, folder / "table.calc.ods", UTF8_TABLE)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>10,} {path.name}")


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _article(text: str) -> str:
    title, _, body = text.partition("\n")
    body = _WIKI_HEADING.sub(lambda match: "#" * len(match.group(1)) + " " + match.group(2), body)
    return f"# {title.strip()}\n\n" + body.replace("\n", "\n\n")


def _slides(article: str) -> str:
    """One slide for each section, with its first sentences as a list."""
    parts = re.split(r"(?m)^#+[ \t]*(.+)$", article)
    slides = []
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        points = re.split(r"(?<=\.)\s+", body.strip())[:3]
        items = "\n".join(f"- {' '.join(point.split())[:200]}" for point in points if point.strip())
        slides.append(f"## {heading}\n\n{items}")
    return "\n\n".join(slides)


def _table(texts: Iterable[str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [_TABLE_HEADER]
    for text in texts:
        title = text.partition("\n")[0].lstrip("# ")
        for number, sentence in enumerate(re.split(r"(?<=\.)\s+", text), 1):
            day = f"2024-{number % 12 + 1:02}-{number % 28 + 1:02}"
            rows.append((title, str(number), day, " ".join(sentence.split()).lstrip("=#- ")))
    return rows[: N_TABLE_ROWS + 1]


def _pandoc(source: Path, target: Path, *options: str) -> None:
    if not target.exists():
        _run("pandoc", "--standalone", "--quiet", str(source), "-o", str(target), *options)


def _latex(source: Path, target: Path, *options: str) -> None:
    """As `_pandoc`, without the characters that pdflatex has no letters for."""
    with tempfile.TemporaryDirectory() as scratch:
        text = source.read_text().encode("cp1252", errors="ignore").decode("cp1252").replace("\\", "")
        _pandoc(_write(Path(scratch) / "text.md", text), target, *options)


def _soffice(source: Path, target: Path, *options: str) -> None:
    if target.exists() or not source.exists():
        return
    with tempfile.TemporaryDirectory() as scratch:
        profile = f"-env:UserInstallation=file://{scratch}/profile"
        kind = target.suffix[1:]
        _run(
            "soffice", profile, "--headless", *options, "--convert-to", kind, "--outdir", scratch, str(source)
        )
        for made in Path(scratch).glob(f"*.{kind}"):
            shutil.move(made, target)


def _chromium(source: Path, target: Path) -> None:
    if not target.exists() and source.exists():
        _run(
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--print-to-pdf={target}", str(source)
        )


def _run(program: str, *arguments: str) -> None:
    if shutil.which(program) is None:
        print(f"without {program}: {arguments[-1]}", file=sys.stderr)
        return
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        print(f"{program} {arguments}: {done.stderr[-500:]}", file=sys.stderr)


# Readers


def _shoal(module: str, function: str) -> Reader:
    convert = getattr(importlib.import_module(f"shoal.conversion.{module}"), function)
    return lambda data, name: convert(data, name).content


def _readers(suffix: str, *, rivals: bool) -> dict[str, Reader]:
    """The readers of a format that are installed, by name."""
    makers: dict[str, Callable[[], Reader]] = {"shoal": lambda: _shoal(*OURS[suffix])}
    if rivals:
        makers |= {name: make for name, (suffixes, make) in RIVALS.items() if suffix in suffixes}
    readers = {}
    for name, make in makers.items():
        try:
            readers[name] = make()
        except ImportError as missing:
            print(f"without {name}: {missing}", file=sys.stderr)
    return readers


def _pypdfium2() -> Reader:
    library = importlib.import_module("pypdfium2")

    def read(data: bytes, name: str) -> str:
        return "\n".join(page.get_textpage().get_text_range() for page in library.PdfDocument(data))

    return read


def _pypdf() -> Reader:
    library = importlib.import_module("pypdf")
    return lambda data, name: "\n".join(
        page.extract_text() for page in library.PdfReader(io.BytesIO(data)).pages
    )


def _pdfminer() -> Reader:
    library = importlib.import_module("pdfminer.high_level")
    return lambda data, name: library.extract_text(io.BytesIO(data))


def _python_docx() -> Reader:
    library = importlib.import_module("docx")

    def read(data: bytes, name: str) -> str:
        lines = []
        for paragraph in library.Document(io.BytesIO(data)).paragraphs:
            style = paragraph.style.name if paragraph.style is not None else ""
            lines.append(("# " if style.startswith("Heading") else "") + paragraph.text)
        return "\n\n".join(lines)

    return read


def _mammoth() -> Reader:
    library = importlib.import_module("mammoth")
    return lambda data, name: library.convert_to_markdown(io.BytesIO(data)).value.replace("\\", "")


def _markitdown() -> Reader:
    library = importlib.import_module("markitdown")
    converter = library.MarkItDown()
    return lambda data, name: (
        converter.convert_stream(io.BytesIO(data), file_extension=Path(name).suffix).text_content
    )


def _kreuzberg() -> Reader:
    library = importlib.import_module("kreuzberg")
    types = {
        ".pdf": "application/pdf",
        ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ".odt": "application/vnd.oasis.opendocument.text",
        ".ods": "application/vnd.oasis.opendocument.spreadsheet",
        ".rtf": "application/rtf",
        ".csv": "text/csv",
    }
    config = library.ExtractionConfig(output_format="markdown", use_cache=False)

    def read(data: bytes, name: str) -> str:
        content: str = library.extract_bytes_sync(data, types[Path(name).suffix], config=config).content
        return content.replace("\\", "")

    return read


def _openpyxl() -> Reader:
    library = importlib.import_module("openpyxl")

    def read(data: bytes, name: str) -> str:
        book = library.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        return "\n".join(str(row) for sheet in book for row in sheet.iter_rows(values_only=True))

    return read


def _calamine() -> Reader:
    library = importlib.import_module("python_calamine")

    def read(data: bytes, name: str) -> str:
        book = library.CalamineWorkbook.from_filelike(io.BytesIO(data))
        rows = (row for sheet in book.sheet_names for row in book.get_sheet_by_name(sheet).iter_rows())
        return "\n".join(map(str, rows))

    return read


def _python_pptx() -> Reader:
    library = importlib.import_module("pptx")

    def read(data: bytes, name: str) -> str:
        lines = []
        for slide in library.Presentation(io.BytesIO(data)).slides:
            for shape in slide.shapes:
                if shape.has_text_frame:
                    title = shape == slide.shapes.title
                    lines.append(("# " if title else "") + shape.text_frame.text)
        return "\n\n".join(lines)

    return read


def _odfpy() -> Reader:
    opendocument = importlib.import_module("odf.opendocument")
    teletype = importlib.import_module("odf.teletype")
    text = importlib.import_module("odf.text")

    def read(data: bytes, name: str) -> str:
        document = opendocument.load(io.BytesIO(data))
        headings = [f"# {teletype.extractText(part)}" for part in document.getElementsByType(text.H)]
        paragraphs = [teletype.extractText(part) for part in document.getElementsByType(text.P)]
        return "\n\n".join(headings + paragraphs)

    return read


def _striprtf() -> Reader:
    library = importlib.import_module("striprtf.striprtf")
    return lambda data, name: library.rtf_to_text(data.decode("latin-1"), errors="ignore")


OURS = {
    ".pdf": ("pdf", "convert_pdf"),
    ".docx": ("docx", "convert_docx"),
    ".pptx": ("pptx", "convert_pptx"),
    ".xlsx": ("spreadsheets", "convert_xlsx"),
    ".csv": ("delimited", "convert_csv"),
    ".rtf": ("rtf", "convert_rtf"),
    ".odt": ("opendocument", "convert_opendocument"),
    ".ods": ("opendocument", "convert_opendocument"),
    ".odp": ("opendocument", "convert_opendocument"),
}
RIVALS: dict[str, tuple[tuple[str, ...], Callable[[], Reader]]] = {
    "pypdfium2": ((".pdf",), _pypdfium2),
    "pypdf": ((".pdf",), _pypdf),
    "pdfminer.six": ((".pdf",), _pdfminer),
    "python-docx": ((".docx",), _python_docx),
    "mammoth": ((".docx",), _mammoth),
    "openpyxl": ((".xlsx",), _openpyxl),
    "python-calamine": ((".xlsx", ".ods"), _calamine),
    "python-pptx": ((".pptx",), _python_pptx),
    "odfpy": ((".odt",), _odfpy),
    "striprtf": ((".rtf",), _striprtf),
    "markitdown": ((".pdf", ".docx", ".pptx", ".xlsx", ".csv"), _markitdown),
    "kreuzberg": ((".pdf", ".docx", ".pptx", ".xlsx", ".odt", ".ods", ".rtf", ".csv"), _kreuzberg),
}


# Measuring


def measure_documents(folder: Path, *, rivals: bool, only: str) -> None:
    print(
        f"{'document':<28} {'reader':<16} {'words':>6} {'order':>6} {'headings':>9} {'more':>5} {'MB/s':>7}"
    )
    totals: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in OURS or only not in path.name:
            continue
        data = path.read_bytes()
        words, order, headings = _source(folder, path)
        for name, read in _readers(path.suffix, rivals=rivals).items():
            started = time.process_time()
            try:
                content = read(data, path.name)
            except Exception as error:
                print(f"{path.name:<28} {name:<16} {type(error).__name__}: {str(error)[:80]}")
                continue
            seconds = max(time.process_time() - started, 1e-4)
            found_words = _words(content)
            found_headings = Counter(_plain(match.group(2)) for match in _HEADING.finditer(content))
            row = (
                _share(words, Counter(found_words)),
                _share(order, _triples(found_words)),
                _share(headings, found_headings) if headings else float("nan"),
                (found_headings - headings).total(),
                len(data) / 1e6 / seconds,
            )
            totals.setdefault((path.suffix, name), []).append(row)
            print(f"{path.name:<28} {name:<16} {_line(row)}", flush=True)
    print("\nMean of each format")
    for (suffix, name), rows in totals.items():
        mean = tuple(sum(row[i] for row in rows) / len(rows) for i in range(5))
        print(f"{suffix:<28} {name:<16} {_line(mean)}")
    print(json.dumps({f"{s} {n}": len(rows) for (s, n), rows in totals.items()}))


def _line(row: tuple[float, ...]) -> str:
    return f"{row[0]:>6.1%} {row[1]:>6.1%} {row[2]:>9.1%} {row[3]:>5.0f} {row[4]:>7.2f}"


def _source(folder: Path, path: Path) -> tuple[Counter[str], Counter[tuple[str, ...]], Counter[str]]:
    """Words, runs of three words and headings of the text that a document was made of."""
    stem = path.name.partition(".")[0]
    if stem == "table":
        text = (folder / "table.csv").read_text(encoding="utf-8-sig")
        cells = [" ".join(row[3:]) for row in csv.reader(io.StringIO(text))][1:]
        all_words = [word for cell in cells for word in _words(cell)]
        return (
            Counter(all_words),
            Counter(t for cell in cells for t in _triples(_words(cell)).elements()),
            Counter(),
        )
    text = (folder / f"{stem}.md").read_text()
    headings = Counter(_plain(match.group(2)) for match in _HEADING.finditer(text))
    words = _words(text)
    return Counter(words), _triples(words), headings


def _plain(heading: str) -> str:
    # Numbers that LaTeX puts before headings are not in the source.
    return " ".join(_words(re.sub(r"^(?:\d+\.)*\d+\s+", "", heading)))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold().replace("’", "'"))


def _triples(words: list[str]) -> Counter[tuple[str, ...]]:
    return Counter(zip(words, words[1:], words[2:], strict=False))


def _share(
    source: Counter[str] | Counter[tuple[str, ...]], found: Counter[str] | Counter[tuple[str, ...]]
) -> float:
    return (source & found).total() / source.total() if source.total() else 1.0  # type: ignore[operator]


if __name__ == "__main__":
    main()
