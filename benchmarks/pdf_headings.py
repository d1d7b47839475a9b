"""Headings that the PDF converter finds, compared with labels: precision and recall.

    python -m benchmarks.pdf_headings label FOLDER LABELS [--pages N]
    python -m benchmarks.pdf_headings measure FOLDER LABELS [--missed]

`label` writes labels for the PDF files of FOLDER that have an outline (bookmarks) of at least 5 entries, and
between 4 and N pages: a JSON object with the headings of each file, as [level, title], by its name. Read and
correct them: people make outlines, and some list figures or leave out sections. `measure` converts each
labelled file twice: with its outline hidden from the converter, and with it.

A heading is found if its letters, without numbers, are those of a label of its file, or nearly. A label
counts once. Precision leaves out what outlines do not list: headings before the first labelled one (title,
authors), names such as References (`UNLISTED`), and numbers with more parts than the outline has levels. Each
file counts once in the means.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pypdfium2

from shoal.conversion.converted import ConversionError
from shoal.conversion.pdf import convert_pdf

MIN_ENTRIES, MIN_PAGES, MAX_PAGES = 5, 4, 120
NEARLY = 0.85
"""Likeness of the letters of two headings that are the same."""
UNLISTED = re.compile(
    r"abstract|contents|tableofcontents|listof(?:figures|tables)|(?:general|index)?(?:terms|keywords)"
    r"|categoriesandsubjectdescriptors|ccsconcepts|acmreferenceformat|references|bibliography|notes|index"
    r"|acknowledge?ments?"
)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_LETTERS = re.compile(r"[^\W\d_]+")

_NUMBER = re.compile(r"[\dA-Z]+(?:\.\d+)+")

Label = tuple[int, str]
"""Level, from 1, and title of a heading."""


class Score(NamedTuple):
    """Of one file: labels found of all labels, and headings that are right of those that count."""

    n_found: int
    n_labels: int
    n_right: int
    n_headings: int
    missed: list[str]
    wrong: list[str]

    @property
    def recall(self) -> float:
        return self.n_found / self.n_labels if self.n_labels else 1.0

    @property
    def precision(self) -> float:
        return self.n_right / self.n_headings if self.n_headings else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    label = commands.add_parser("label")
    measure = commands.add_parser("measure")
    for command in (label, measure):
        command.add_argument("folder", type=Path)
        command.add_argument("labels", type=Path)
    label.add_argument("--pages", type=int, default=MAX_PAGES, help="longer files are left out")
    measure.add_argument("--missed", action="store_true", help="print missed and wrong headings")
    arguments = parser.parse_args()
    if arguments.command == "label":
        labels = dict(_outlines(arguments.folder, arguments.pages))
        arguments.labels.write_text(json.dumps(labels, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(f"{len(labels)} files, {sum(map(len, labels.values()))} headings")
    else:
        labels = json.loads(arguments.labels.read_text(encoding="utf-8"))
        measure_files(arguments.folder, labels, missed=arguments.missed)


def _outlines(folder: Path, max_pages: int) -> Iterator[tuple[str, list[Label]]]:
    for path in sorted(folder.rglob("*.pdf")):
        try:
            with pypdfium2.PdfDocument(path) as document:
                titles = [
                    (mark.level + 1, mark.get_title().strip()) for mark in document.get_toc(max_depth=6)
                ]
                n_pages = len(document)
        except (pypdfium2.PdfiumError, UnicodeError):
            continue
        titles = [(level, title) for level, title in titles if _key(title)]
        if len(titles) >= MIN_ENTRIES and MIN_PAGES <= n_pages <= max_pages:
            yield str(path.relative_to(folder)), titles


def measure_files(folder: Path, labels: dict[str, list[Label]], *, missed: bool = False) -> None:
    print(f"{'':<48} {'outline hidden':^23} {'with its outline':^23}")
    print(f"{'file':<48} {'precision':>11} {'recall':>11} {'precision':>11} {'recall':>11}")
    hidden: list[Score] = []
    shown: list[Score] = []
    for name, headings in labels.items():
        data = (folder / name).read_bytes()
        try:
            with _hidden_outline():
                hidden.append(score(convert_pdf(data, name).content, headings))
            shown.append(score(convert_pdf(data, name).content, headings))
        except ConversionError as error:
            print(f"{name[:48]:<48} {error}")
            continue
        print(f"{name[-48:]:<48} {_figures(hidden[-1:])} {_figures(shown[-1:])}", flush=True)
        if missed:
            print("".join(f"    - {text}\n" for text in hidden[-1].missed), end="")
            print("".join(f"    + {text}\n" for text in hidden[-1].wrong), end="")
    print(f"{f'mean of {len(hidden)} files':<48} {_figures(hidden)} {_figures(shown)}")
    if not hidden:
        sys.exit("no file could be converted")


def _figures(scores: Sequence[Score]) -> str:
    n = max(len(scores), 1)
    precision, recall = sum(each.precision for each in scores) / n, sum(each.recall for each in scores) / n
    return f"{precision:>11.3f} {recall:>11.3f}"


@contextmanager
def _hidden_outline() -> Iterator[None]:
    get_toc = pypdfium2.PdfDocument.get_toc
    pypdfium2.PdfDocument.get_toc = lambda *_args, **_options: iter(())
    try:
        yield
    finally:
        pypdfium2.PdfDocument.get_toc = get_toc


def score(content: str, labels: Sequence[Label]) -> Score:
    """Compare the headings of a converted text with those that it should have."""
    found = [match.group(1) for match in _HEADING.finditer(content)]
    open_labels = [(_key(label), label) for _, label in labels]
    deepest = max(level for level, _ in labels)
    right = [_take(_key(heading), open_labels) for heading in found]
    first = right.index(True) if True in right else 0
    wrong = [
        heading
        for heading, is_right in zip(found[first:], right[first:], strict=True)
        if not (is_right or UNLISTED.fullmatch(_key(heading)) or _depth(heading) > deepest)
    ]
    n_right = sum(right)
    return Score(
        n_right, len(labels), n_right, n_right + len(wrong), [label for _, label in open_labels], wrong
    )


def _take(key: str, labels: list[tuple[str, str]]) -> bool:
    """Take the label that is most like a key out of the open ones, if one is like it."""
    for i, (label, _) in enumerate(labels):
        if label == key:
            del labels[i]
            return True
    for i, (label, _) in enumerate(labels):
        if difflib.SequenceMatcher(None, label, key, autojunk=False).ratio() >= NEARLY:
            del labels[i]
            return True
    return False


def _depth(heading: str) -> int:
    number = _NUMBER.match(heading)
    return number.group().count(".") + 1 if number else 0


def _key(text: str) -> str:
    return "".join(_LETTERS.findall(text.casefold()))


if __name__ == "__main__":
    main()
