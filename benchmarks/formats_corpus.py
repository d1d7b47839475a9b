"""Files of every format, made from texts by the programs and writers that a machine has.

Each file comes with the words and headings that it was made of, and with its parts (pages, slides, rows,
cues) as read by something else than Shoal's converters.
"""

from __future__ import annotations

import ast
import csv
import html
import itertools
import json
import re
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

PROGRAM_SECONDS = 300.0
CUE_SECONDS = 4
N_PARAGRAPHS = 60
"""Paragraphs of a text that are used."""

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<title>{title} | Daily Reader</title>
<style>p {{ margin: 1em }}</style><script>var visits = 1;</script></head><body>
<header class="site-header"><a href="/">The Daily Reader</a></header>
<nav><ul><li><a href="/">Home</a></li><li><a href="/world">World</a></li><li><a href="/sport">Sport</a></li>
</ul></nav>
<div id="cookie-banner" role="dialog"><p>We use cookies for better visits.</p><button>Accept</button></div>
<main><article><h1>{title}</h1>
{body}
</article></main>
<aside class="sidebar"><h2>Most read</h2><ul><li><a href="/a">Ten quiet islands</a></li></ul></aside>
<footer><p>© 2026 The Daily Reader. All rights reserved.</p><a href="/privacy">Privacy</a></footer>
</body></html>"""


class Section(NamedTuple):
    """A heading with its level (1: the title of the text) and the paragraphs below it."""

    level: int
    heading: str
    paragraphs: tuple[str, ...]


class Part(NamedTuple):
    """A part of a file as an independent reader finds it: numbers as in a locator, and its text. `name`: of
    the sheet, else empty."""

    first: float
    last: float
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """A file, and what it was made of. `parts` is empty for a format without places."""

    format: str
    path: Path
    text: str
    headings: tuple[str, ...]
    parts: tuple[Part, ...] = ()


def read_texts(corpora: Path, n_texts: int) -> Iterator[tuple[Section, ...]]:
    """The sections of articles and books in turn, shortened to N_PARAGRAPHS."""
    articles = (_article(path) for path in sorted((corpora / "wikipedia").glob("*.txt")))
    books = (_book(path) for path in sorted((corpora / "books").glob("*.md")))
    both = (text for pair in zip(articles, books, strict=False) for text in pair)
    yield from islice((_shortened(text) for text in both), n_texts)


def _article(path: Path) -> list[Section]:
    title, _, rest = path.read_text().strip().partition("\n")
    return _sections(title, re.split(r"(?m)^(==+) *(.+?) *=+$", rest))


def _book(path: Path) -> list[Section]:
    body = re.sub(r"\[(\d+)\]", "", path.read_text())
    return _sections(path.stem.replace("-", " ").title(), re.split(r"(?m)^(##+) *(.+?) *$", body))


def _sections(title: str, pieces: list[str]) -> list[Section]:
    """`pieces`: text, then mark, heading and text of each section."""
    sections = [Section(1, title, _paragraphs(pieces[0]))]
    for mark, heading, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        sections.append(Section(min(len(mark), 4), _plain(heading), _paragraphs(text)))
    return sections


def _paragraphs(text: str) -> tuple[str, ...]:
    plain = (_plain(part) for part in re.split(r"\n\s*\n", text))
    return tuple(part for part in plain if re.search(r"[a-z]{3}", part))


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[*_#`\\<>|$^~{}\[\]]|--+|^\W+", " ", text).split())


def _shortened(sections: Iterable[Section]) -> tuple[Section, ...]:
    kept: list[Section] = []
    left = N_PARAGRAPHS
    for section in sections:
        paragraphs = section.paragraphs[:left]
        left -= len(paragraphs)
        if paragraphs or section.level == 1:
            kept.append(Section(section.level, section.heading, paragraphs))
    return tuple(kept)


def plain_text(sections: Iterable[Section]) -> str:
    return "\n\n".join(line for each in sections for line in (each.heading, *each.paragraphs))


def headings_of(sections: Iterable[Section]) -> tuple[str, ...]:
    return tuple(each.heading for each in sections)


def make_files(texts: Iterable[tuple[Section, ...]], folder: Path) -> Iterator[Made]:
    """Write the files that this machine can make; raises no error for a program that is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, sections in enumerate(texts):
        stem = f"text-{number:03}"
        yield from _by_programs(sections, folder, stem)
        for suffix, write in WRITERS.items():
            yield write(sections, folder / f"{stem}{suffix}")
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[: number + 1]:
        yield _source_code(path, folder)


# Programs


def _by_programs(sections: tuple[Section, ...], folder: Path, stem: str) -> Iterator[Made]:
    text, headings = plain_text(sections), headings_of(sections)
    markdown = folder / f"{stem}.md"
    markdown.write_text(_markdown(sections))
    yield Made("Markdown", markdown, text, headings)
    for suffix in ("docx", "odt", "rtf", "epub", "rst"):
        path = folder / f"{stem}.pandoc.{suffix}"
        options = ("--metadata", "title=" + sections[0].heading) if suffix == "epub" else ()
        if _run("pandoc", "-f", "markdown-smart", "-s", str(markdown), "-o", str(path), *options):
            parts = _chapters(path) if suffix == "epub" else ()
            yield Made(_NAMES[suffix] + ", pandoc", path, text, headings, parts)
    word, odt = folder / f"{stem}.pandoc.docx", folder / f"{stem}.pandoc.odt"
    for source, suffix in ((odt, "docx"), (word, "odt"), (word, "rtf"), (word, "pdf")):
        path = folder / f"{stem}.writer.{suffix}"
        if source.exists() and _office(source, path):
            parts = _pages(path) if suffix == "pdf" else ()
            yield Made(_NAMES[suffix] + ", LibreOffice", path, text, headings, parts)
    page, path = folder / f"{stem}.print.html", folder / f"{stem}.browser.pdf"
    page.write_text(
        _html(sections, "<!DOCTYPE html><meta charset=utf-8><title>{title}</title><h1>{title}</h1>{body}")
    )
    if _run("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--print-to-pdf={path}", str(page)):
        yield Made("PDF, browser", path, text, headings, _pages(path))
    page.unlink()
    yield from _latex(sections, folder / f"{stem}.latex.pdf")
    yield from _slides(sections, folder, stem)
    yield from _office_workbook(sections, folder / f"{stem}.calc.xlsx")


def _latex(sections: tuple[Section, ...], path: Path) -> Iterator[Made]:
    """Without the letters that pdflatex has none for."""
    known = tuple(
        Section(level, _western(heading), tuple(map(_western, paragraphs)))
        for level, heading, paragraphs in sections
    )
    source = path.with_suffix(".md")
    source.write_text(_markdown(known))
    if _run("pandoc", "-f", "markdown-smart", "-s", str(source), "-o", str(path), "--pdf-engine=pdflatex"):
        yield Made("PDF, LaTeX", path, plain_text(known), headings_of(known), _pages(path))
    source.unlink()


def _slides(sections: tuple[Section, ...], folder: Path, stem: str) -> Iterator[Made]:
    """A slide for each section, with the first sentence of its paragraphs."""
    short = tuple(
        Section(2, f"{section.heading}", tuple(_sentences(each)[0][:200] for each in section.paragraphs[:4]))
        for section in sections
        if section.paragraphs
    )
    source = folder / f"{stem}.slides.md"
    lines = (
        f"## {each.heading}\n\n" + "\n".join(f"- {_escaped(one)}" for one in each.paragraphs)
        for each in short
    )
    source.write_text("\n\n".join(lines))
    path = folder / f"{stem}.pandoc.pptx"
    if _run("pandoc", "-f", "markdown-smart", str(source), "-o", str(path)):
        yield Made("PPTX, pandoc", path, plain_text(short), headings_of(short), _slide_parts(path))
        again = folder / f"{stem}.impress.odp"
        if _office(path, again):
            back = folder / f"{stem}.impress.pptx"
            if _office(again, back):
                yield Made(
                    "PPTX, LibreOffice", back, plain_text(short), headings_of(short), _slide_parts(back)
                )
            again.unlink()
    source.unlink()


def _run(program: str, *arguments: str) -> bool:
    if shutil.which(program) is None:
        return False
    done = subprocess.run([program, *arguments], capture_output=True, check=False, timeout=PROGRAM_SECONDS)
    return done.returncode == 0


def _office(source: Path, target: Path, *options: str) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        done = _run(
            "soffice",
            f"-env:UserInstallation=file://{PROFILE}",
            "--headless",
            "--convert-to",
            target.suffix[1:],
            *options,
            "--outdir",
            scratch,
            str(source),
        )
        made = next(Path(scratch).iterdir(), None)
        if not done or made is None:
            return False
        shutil.move(made, target)
    return True


PROFILE = Path(tempfile.gettempdir()) / "shoal-benchmark-office"
"""Settings of LibreOffice, which takes seconds to make them."""

_NAMES = {"docx": "DOCX", "odt": "ODT", "rtf": "RTF", "epub": "EPUB", "rst": "reStructuredText", "pdf": "PDF"}


def _western(text: str) -> str:
    return " ".join(text.encode("latin-1", "ignore").decode("latin-1").split())


def _markdown(sections: Iterable[Section]) -> str:
    blocks = (
        block
        for level, heading, paragraphs in sections
        for block in ("#" * level + f" {_escaped(heading)}", *map(_escaped, paragraphs))
    )
    return "\n\n".join(blocks) + "\n"


def _escaped(text: str) -> str:
    """Text that Markdown does not take for a list or a reference."""
    return re.sub(r"^(\w{1,5})([.)])(?= )", r"\1\\\2", text).replace("@", r"\@").replace("&", r"\&")


def _html(sections: tuple[Section, ...], page: str) -> str:
    body = []
    for level, heading, paragraphs in sections:
        body += [f"<h{level}>{html.escape(heading)}</h{level}>"] if level > 1 else []
        body += [f"<p>{html.escape(each)}</p>" for each in paragraphs]
    return page.format(title=html.escape(sections[0].heading), body="\n".join(body))


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text)


# Writers


def _web_page(sections: tuple[Section, ...], path: Path) -> Made:
    path.write_text(_html(sections, PAGE))
    return Made("HTML", path, plain_text(sections), headings_of(sections))


def _archived_page(sections: tuple[Section, ...], path: Path) -> Made:
    message = EmailMessage()
    message["From"] = "<Saved by Blink>"
    message["Snapshot-Content-Location"] = "https://example.com/read"
    message["Subject"] = sections[0].heading
    message.set_content(_html(sections, PAGE), subtype="html", cte="quoted-printable")
    message.add_related(b"\x89PNG\r\n\x1a\n", maintype="image", subtype="png")
    path.write_bytes(message.as_bytes())
    return Made("MHTML", path, plain_text(sections), headings_of(sections))


def _message(subject: str, paragraphs: Iterable[str]) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "Ann <ann@example.com>", "bob@example.com"
    message["Date"] = "Mon, 1 Jan 2024 10:00:00 +0000"
    message["Subject"] = subject
    message.set_content("\n\n".join(paragraphs) + "\n")
    return message


def _mail(sections: tuple[Section, ...], path: Path) -> Made:
    text = plain_text(sections)
    path.write_bytes(_message(sections[0].heading, [text]).as_bytes())
    return Made("EML", path, text, (sections[0].heading,))


def _mailbox(sections: tuple[Section, ...], path: Path) -> Made:
    parts = []
    with path.open("wb") as out:
        for number, (_, heading, paragraphs) in enumerate(sections, 1):
            out.write(b"From ann@example.com Mon Jan  1 10:00:00 2024\n")
            message = _message(heading, paragraphs)
            out.write(re.sub(rb"(?m)^(>*From )", rb">\1", message.as_bytes()) + b"\n")
            head = " ".join(f"{name} {value}" for name, value in message.items())
            parts.append(Part(number, number, f"{head} {' '.join(paragraphs)}"))
    return Made("MBOX", path, plain_text(sections), headings_of(sections), tuple(parts))


def _notebook(sections: tuple[Section, ...], path: Path) -> Made:
    cells: list[dict[str, object]] = []
    for level, heading, paragraphs in sections:
        text = "\n\n".join(("#" * level + f" {heading}", *paragraphs))
        cells.append({"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)})
        code = f"length_of_section = {len(text)}\nprint(length_of_section)"
        output = {"output_type": "stream", "name": "stdout", "text": f"{len(text)}\n"}
        cells.append(
            {"cell_type": "code", "metadata": {}, "source": code, "outputs": [output], "execution_count": 1}
        )
    parts = tuple(
        Part(number, number, f"{''.join(cell['source'])} {cell.get('outputs', '')}")  # type: ignore[arg-type]
        for number, cell in enumerate(cells, 1)
    )
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    return Made("Jupyter notebook", path, plain_text(sections), headings_of(sections), parts)


COLUMNS = ("Section", "Number", "Sentence")


def _row_text(row: tuple[str, ...]) -> str:
    """A row with the headers of its cells."""
    return " ".join(word for pair in zip(COLUMNS, row, strict=True) for word in pair)


def _rows(sections: tuple[Section, ...]) -> list[tuple[str, str, str]]:
    rows = [COLUMNS]
    for section in sections:
        for number, sentence in enumerate(
            (one for each in section.paragraphs for one in _sentences(each)), 1
        ):
            rows.append((section.heading, str(number), sentence))
    return rows


def _table(sections: tuple[Section, ...], path: Path) -> Made:
    rows = _rows(sections)
    with path.open("w", newline="") as out:
        csv.writer(out).writerows(rows)
    # A cell in quotes may not hold a line break here, so a row is a line.
    parts = tuple(Part(number, number, _row_text(row)) for number, row in enumerate(rows, 1))
    return Made("CSV", path, " ".join(map(" ".join, rows)), (), parts)


def _workbook(sections: tuple[Section, ...], path: Path) -> Made:
    """A workbook of two sheets with equal headers."""
    rows = _rows(sections)
    half = (len(rows) + 1) // 2
    sheets = {"First part": rows[:half], "Second part": [rows[0], *rows[half:]]}
    write_workbook(sheets, path)
    parts = tuple(
        Part(at, at, _row_text(row), name) for name, own in sheets.items() for at, row in enumerate(own, 1)
    )
    return Made("XLSX", path, " ".join(map(" ".join, rows)), (), parts)


def write_workbook(sheets: Mapping[str, Sequence[Sequence[str]]], path: Path) -> None:
    """Write the rows of sheets into a workbook."""
    files = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>',
        "_rels/.rels": _relations([("officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_RELATIONS}"><sheets>'
        + "".join(
            f'<sheet name="{name}" sheetId="{number}" r:id="r{number}"/>'
            for number, name in enumerate(sheets, 1)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": _relations(
            [("worksheet", f"worksheets/sheet{number}.xml") for number in range(1, len(sheets) + 1)]
        ),
    }
    for number, own in enumerate(sheets.values(), 1):
        lines = (
            f'<row r="{at}">'
            + "".join(f'<c t="inlineStr"><is><t>{escape(cell)}</t></is></c>' for cell in row)
            + "</row>"
            for at, row in enumerate(own, 1)
        )
        sheet = f'<worksheet xmlns="{_SHEET}"><sheetData>{"".join(lines)}</sheetData></worksheet>'
        files[f"xl/worksheets/sheet{number}.xml"] = sheet
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in files.items():
            archive.writestr(member, text)


_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def _relations(targets: list[tuple[str, str]]) -> str:
    rows = "".join(
        f'<Relationship Id="r{number}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{rows}</Relationships>'


def _office_workbook(sections: tuple[Section, ...], path: Path) -> Iterator[Made]:
    table = path.with_suffix(".csv")
    made = _table(sections, table)
    # Commas, quotation marks and UTF-8, which LibreOffice does not guess.
    done = _office(table, path, "--infilter=CSV:44,34,76,1")
    table.unlink()
    if done:
        parts = tuple(part._replace(name=table.stem) for part in made.parts)
        yield Made("XLSX, LibreOffice", path, made.text, (), parts)


def _cues(sections: tuple[Section, ...]) -> tuple[Part, ...]:
    lines = (one for each in sections for paragraph in each.paragraphs for one in _sentences(paragraph))
    return tuple(Part(at * CUE_SECONDS, (at + 1) * CUE_SECONDS, line) for at, line in enumerate(lines))


def _clock(seconds: float, mark: str) -> str:
    return f"{int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}{mark}000"


def _vtt(sections: tuple[Section, ...], path: Path) -> Made:
    cues = _cues(sections)
    lines = (
        f"{_clock(cue.first, '.')} --> {_clock(cue.last, '.')}\n<v Ann>{html.escape(cue.text, quote=False)}"
        for cue in cues
    )
    path.write_text("WEBVTT\n\n" + "\n\n".join(lines) + "\n")
    return Made("VTT", path, " ".join(cue.text for cue in cues), (), cues)


def _srt(sections: tuple[Section, ...], path: Path) -> Made:
    cues = _cues(sections)
    lines = (
        f"{number}\n{_clock(cue.first, ',')} --> {_clock(cue.last, ',')}\n{cue.text}"
        for number, cue in enumerate(cues, 1)
    )
    path.write_text("\n\n".join(lines) + "\n")
    return Made("SRT", path, " ".join(cue.text for cue in cues), (), cues)


def _transcript(sections: tuple[Section, ...], path: Path) -> Made:
    cues = _cues(sections)
    path.write_text(
        "\n".join(
            f"[{_clock(cue.first, '.')[:8]} - {_clock(cue.last, '.')[:8]}] Ann: {cue.text}" for cue in cues
        )
    )
    return Made("transcript", path, " ".join(cue.text for cue in cues), (), cues)


def _source_code(path: Path, folder: Path) -> Made:
    text = path.read_text()
    names = tuple(
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )
    target = folder / path.name
    target.write_text(text)
    return Made("source code", target, text, names)


WRITERS: dict[str, Callable[[tuple[Section, ...], Path], Made]] = {
    ".html": _web_page,
    ".mhtml": _archived_page,
    ".eml": _mail,
    ".mbox": _mailbox,
    ".ipynb": _notebook,
    ".csv": _table,
    ".xlsx": _workbook,
    ".vtt": _vtt,
    ".srt": _srt,
    ".txt": _transcript,
}


def pdf_of_pages(sections: tuple[Section, ...], path: Path) -> Made:
    """A PDF with a page for each section, in a standard font; only for texts of Latin letters."""
    texts = [
        "\n".join((each.heading, *map("\n".join, map(_sentences, each.paragraphs)))) for each in sections
    ]
    first = 4
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(texts)))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(texts)}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, text in enumerate(texts):
        shown = text.translate({ord(mark): f"\\{mark}" for mark in "()\\"}).split("\n")
        sizes = (
            f"/F {18 if at == 0 else 11} Tf ({line}) Tj 0 -{40 if at == 0 else 14} Td"
            for at, line in enumerate(shown)
        )
        stream = f"BT 72 720 Td {' '.join(sizes)} ET"
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {first + 2 * number + 1} 0 R"
            "/Resources<</Font<</F 3 0 R>>>>>>"
        )
        objects.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
    data, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, text in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{text}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\n"
    path.write_bytes(data + f"{end}startxref\n{len(data)}\n%%EOF\n".encode())
    parts = tuple(Part(number, number, text) for number, text in enumerate(texts, 1))
    return Made("PDF", path, plain_text(sections), headings_of(sections), parts)


# Readers that share nothing with the converters


def _pages(path: Path) -> tuple[Part, ...]:
    """Text of the pages by pdftotext; empty where it is missing."""
    if shutil.which("pdftotext") is None:
        return ()
    done = subprocess.run(
        ["pdftotext", str(path), "-"], capture_output=True, check=True, timeout=PROGRAM_SECONDS
    )
    pages = done.stdout.decode().rstrip("\f").split("\f")
    return tuple(
        Part(number, number, re.sub(r"[-\u00ad]\n", "", page)) for number, page in enumerate(pages, 1)
    )


def _chapters(path: Path) -> tuple[Part, ...]:
    """Text of the chapters of a book in the order of its spine: what follows each entry of the table of
    contents in its file, or the whole of a file without entries."""
    with zipfile.ZipFile(path) as archive:
        package = next(name for name in archive.namelist() if name.endswith(".opf"))
        root = ET.fromstring(archive.read(package))
        places = {item.get("id"): item.get("href") for item in root.findall(".//{*}item")}
        base = package.rpartition("/")[0]
        contents = next(item for item in root.findall(".//{*}item") if item.get("properties") == "nav")
        table = archive.read(f"{base}/{contents.get('href')}".lstrip("/")).decode()
        entries = re.findall(r'<a href="([^"#]+)#([^"]+)"', table)
        texts = []
        for reference in root.findall(".//{*}itemref"):
            if reference.get("idref") == contents.get("id"):
                continue
            name = places[reference.get("idref")]
            page = archive.read(f"{base}/{name}".lstrip("/")).decode()
            body = page[page.find("<body") :]
            anchors = (body.find(f'id="{anchor}"') for file, anchor in entries if file == name)
            cuts = sorted(body.rfind("<", 0, at) for at in anchors if at >= 0)
            bounds = [*itertools.pairwise([*cuts, len(body)])] or [(0, len(body))]
            texts += [html.unescape(re.sub(r"<[^>]+>", " ", body[start:end])) for start, end in bounds]
    return tuple(Part(number, number, text) for number, text in enumerate(texts, 1))


def _slide_parts(path: Path) -> tuple[Part, ...]:
    """Text of the slides in the order of their names, which is that of the two programs that write them."""
    with zipfile.ZipFile(path) as archive:
        names = (re.fullmatch(r"ppt/slides/slide(\d+)\.xml", name) for name in archive.namelist())
        numbers = sorted(int(name[1]) for name in names if name)
        slides = [ET.fromstring(archive.read(f"ppt/slides/slide{each}.xml")) for each in numbers]
    texts = [" ".join(run.text or "" for run in slide.findall(".//{*}t")) for slide in slides]
    return tuple(Part(number, number, text) for number, text in enumerate(texts, 1))
