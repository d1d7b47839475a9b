"""How well the main content of real web pages is found: pieces of text that people have judged.

    python -m benchmarks.web_pages LABELS PAGES... [--misses N] [--rivals]

LABELS is a JSON file in the form of trafilatura (`tests/evaldata.json` of github.com/adbar/trafilatura): an
object of entries with `file`, the name of a page in one of the folders PAGES (`tests/cache`, `tests/eval`);
`with`, pieces that belong to the main content; and `without`, pieces that do not. A piece is found if the
text contains it, white space and marks of Markdown aside. It prints for each half of the pages:

    precision  found pieces of `with`, of all pieces found
    recall     found pieces of `with`, of all pieces of `with`
    f1         the harmonic mean of both
    MB/s       of the pages, per second of processor time

The hash of a page's name decides its half. Rules are made with the `seen` half, and `--misses` prints
pieces that are wrongly missing or present. Of the `unseen` half only sums are printed. `--rivals` measures
trafilatura and readability-lxml if they are installed. Nothing is read from the network.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shoal.conversion.converted import ConversionError
from shoal.conversion.web_pages import convert_html

_SPACE = re.compile(r"\s+")
# Marks of Markdown at the beginning of a line, and within one.
_LINE_MARKS = re.compile(r"^(?:[ \t]*[>#|-]+(?=[ \t|]|$))+", re.MULTILINE)
_MARKS = re.compile(r"\\(?=[^\w\s])|`+(?!\w*$)|`{3,}\w*|[ \t]*\|(?=[ \t]|$)", re.MULTILINE)


class JudgedPage(NamedTuple):
    """A page and the pieces of text that belong to its main content, or do not."""

    name: str
    data: bytes
    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]

    @property
    def half(self) -> str:
        return "unseen" if hashlib.sha256(self.name.encode()).digest()[0] & 1 else "seen"


@dataclass(slots=True)
class Sums:
    """Sums over pages: pieces that belong to the text, those found, pieces wrongly found, seconds, bytes."""

    n_pages: int = 0
    n_wanted: int = 0
    n_found: int = 0
    n_wrong: int = 0
    n_bytes: int = 0
    seconds: float = 0.0

    def row(self) -> str:
        precision = self.n_found / max(1, self.n_found + self.n_wrong)
        recall = self.n_found / max(1, self.n_wanted)
        f1 = 2 * self.n_found / max(1, self.n_wanted + self.n_found + self.n_wrong)
        speed = self.n_bytes / 1e6 / max(self.seconds, 1e-9)
        return f"{self.n_pages:6} {precision:10.3f} {recall:8.3f} {f1:8.3f} {speed:8.2f}"


def judged_pages(labels: Path, folders: Sequence[Path]) -> Iterator[JudgedPage]:
    """Yield the judged pages by name. Raises FileNotFoundError for a page that is missing."""
    entries = json.loads(labels.read_text(encoding="utf-8")).values()
    for entry in sorted(entries, key=lambda entry: str(entry["file"])):
        name = entry["file"]
        paths = [folder / name for folder in folders if (folder / name).is_file()]
        if not paths:
            raise FileNotFoundError(f"no folder of pages has {name}")
        yield JudgedPage(
            name,
            paths[0].read_bytes(),
            tuple(map(normalised, entry["with"])),
            tuple(map(normalised, entry["without"])),
        )


def normalised(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def shoal(page: bytes) -> str:
    """Return the text of our converter without marks of Markdown."""
    try:
        markdown = convert_html(page, "page.html").content
    except ConversionError as error:
        if error.code != "no_text":
            raise
        return ""
    return _MARKS.sub("", _LINE_MARKS.sub("", markdown))


def rivals() -> Iterator[tuple[str, Callable[[bytes], str]]]:
    """Yield other readers of pages that are installed."""

    def trafilatura(page: bytes) -> str:
        return importlib.import_module("trafilatura").extract(page, include_comments=False) or ""

    def readability(page: bytes) -> str:
        document = importlib.import_module("readability").Document(page.decode("utf-8", "replace"))
        return str(importlib.import_module("lxml.html").fromstring(document.summary()).text_content())

    for reader in (trafilatura, readability):
        try:
            reader(b"<html><body><p>" + b"Some text to read. " * 20)
        except ImportError:
            continue
        yield reader.__name__, reader


def measure(
    pages: Sequence[JudgedPage], reader: Callable[[bytes], str]
) -> tuple[dict[str, Sums], list[tuple[str, str, str]]]:
    """Return the sums of each half, and of the seen half the name, kind and text of pieces that are wrong."""
    halves = {"seen": Sums(), "unseen": Sums()}
    misses: list[tuple[str, str, str]] = []
    for page in pages:
        started = time.process_time()
        text = reader(page.data)
        sums = halves[page.half]
        sums.seconds += time.process_time() - started
        text = normalised(text)
        missing = [piece for piece in page.wanted if piece not in text]
        wrong = [piece for piece in page.unwanted if piece in text]
        sums.n_pages += 1
        sums.n_bytes += len(page.data)
        sums.n_wanted += len(page.wanted)
        sums.n_found += len(page.wanted) - len(missing)
        sums.n_wrong += len(wrong)
        if page.half == "seen":
            misses += [(page.name, "missing", piece) for piece in missing]
            misses += [(page.name, "wrong", piece) for piece in wrong]
    return halves, misses


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", type=Path)
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--misses", type=int, default=0, help="wrong pieces of the seen half to print")
    parser.add_argument("--rivals", action="store_true")
    options = parser.parse_args()
    pages = list(judged_pages(options.labels, options.pages))
    readers = [("shoal", shoal), *(rivals() if options.rivals else ())]
    print(f"{'':12} {'half':7} {'pages':>6} {'precision':>10} {'recall':>8} {'f1':>8} {'MB/s':>8}")
    for name, reader in readers:
        halves, misses = measure(pages, reader)
        for half, sums in halves.items():
            print(f"{name:12} {half:7} {sums.row()}", flush=True)
        for miss in misses[: options.misses]:
            print("    {}: {}: {}".format(*miss))


if __name__ == "__main__":
    main()
