"""What the pages of a PDF repeat: headers, footers and page numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shoal.conversion.pdf_lines import Line

_EDGE_LINES = 3  # at the top and bottom of a page that may be a header or footer
_MIN_REPEATS = 3
_MAX_NUMBERS = 4
_MAX_CHARS = 200
_CONTENTS = re.compile(
    r"(?:table of )?contents|inhalt(?:sverzeichnis)?|table des matières|índice|sommaire", re.IGNORECASE
)
_ENTRY_NUMBER = re.compile(r"\b(\d{1,5})\Z")
_MIN_ENTRIES, _MAX_ENTRIES = 3, 2000
_NUMBER = re.compile(r"\d{1,9}")
_ROMAN = re.compile(r"[ivxlcdm]{1,8}", re.IGNORECASE)
_BARE_PAGE_NUMBER = re.compile(
    r"(?:page |p\. ?)?[-–—\[(]? ?(\d{1,6}) ?[-–—\])]?(?: ?(?:/|of) ?\d{1,6})?", re.IGNORECASE
)


class Repeated(NamedTuple):
    reason: str
    text: str


def split_repeated(
    pages: Sequence[Sequence[Line]], labels: Sequence[str]
) -> tuple[list[list[Line]], list[Repeated]]:
    """Return the lines of each page without headers, footers and page numbers, and those that were taken out.

    A line at the edge of a page is one of them if the same text is at the same edge of two other pages,
    where its numbers may grow with the pages; or if it is the number of the page.
    """
    edges = [_edge_lines(page) for page in pages]
    counts: Counter[tuple[str, str]] = Counter()
    for number, lines in enumerate(edges):
        counts.update({key for edge, line in lines for key in _signatures(edge, line, number)})
    least = min(_MIN_REPEATS, max(len(pages), 2))
    kept: list[list[Line]] = []
    removed: list[Repeated] = []
    for number, (page, lines) in enumerate(zip(pages, edges, strict=True)):
        reasons: dict[int, str] = {}
        for edge, line in lines:
            reason = ""
            if _is_page_number(line.text, number, labels[number]):
                reason = "page number"
            elif any(counts[key] >= least for key in _signatures(edge, line, number)):
                bare = _ROMAN.fullmatch(line.text) or not any(map(str.isalpha, line.text))
                reason = "page number" if bare else f"repeated {edge}"
            if reason:
                reasons[id(line)] = reason
        if len(reasons) == len(page):
            # A page with nothing else is no page with a header.
            reasons = {key: reason for key, reason in reasons.items() if reason == "page number"}
        removed += [Repeated(reasons[id(line)], line.text) for line in page if id(line) in reasons]
        kept.append([line for line in page if id(line) not in reasons])
    return kept, removed


def split_contents(pages: Sequence[Sequence[Line]]) -> tuple[list[list[Line]], list[Repeated]]:
    """Return the lines of each page without the table of contents, and its lines.

    It is a line with its usual name, then lines with rising numbers of pages at their ends. An entry may
    have two lines.
    """
    lines = [line for page in pages for line in page]
    out: set[int] = set()
    removed: list[Repeated] = []
    for start, line in enumerate(lines):
        if not _CONTENTS.fullmatch(line.text):
            continue
        end = _contents_end(lines, start + 1)
        out.update(map(id, lines[start:end]))
        removed += [Repeated("table of contents", entry.text) for entry in lines[start:end]]
        if end > start:
            break
    return [[line for line in page if id(line) not in out] for page in pages], removed


def _contents_end(lines: Sequence[Line], start: int) -> int:
    """Return the end of the entries after a heading; `start - 1`, the heading, if they are too few."""
    numbers = [_ENTRY_NUMBER.search(line.text) for line in lines[start : start + _MAX_ENTRIES]]
    last_page = n_entries = 0
    end = start
    for i, number in enumerate(numbers):
        following = numbers[i + 1] if i + 1 < len(numbers) else None
        if number is None and following is None:
            break
        if number is not None:
            page = int(number.group(1))
            if page < last_page:
                break
            last_page, n_entries, end = page, n_entries + 1, start + i + 1
    return end if n_entries >= _MIN_ENTRIES else start - 1


def _edge_lines(page: Sequence[Line]) -> list[tuple[str, Line]]:
    from_top = sorted(page, key=lambda line: -line.bottom)
    top = from_top[:_EDGE_LINES]
    bottom = from_top[max(_EDGE_LINES, len(page) - _EDGE_LINES) :]
    return [("header", line) for line in top] + [("footer", line) for line in bottom]


def _signatures(edge: str, line: Line, page: int) -> Iterator[tuple[str, str]]:
    """Yield the keys that a line shares with its repetitions: its text, and its text with one number as a
    distance from the page."""
    if len(line.text) > _MAX_CHARS:
        return
    yield edge, line.text
    for number in list(_NUMBER.finditer(line.text))[:_MAX_NUMBERS]:
        distance = int(number.group()) - page
        yield edge, f"{line.text[: number.start()]}<{distance}>{line.text[number.end() :]}"
    if _ROMAN.fullmatch(line.text):
        yield edge, f"<{_roman(line.text) - page}>"


def _roman(text: str) -> int:
    values = [
        {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}[char] for char in text.lower()
    ]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


def _is_page_number(text: str, page: int, label: str) -> bool:
    match = _BARE_PAGE_NUMBER.fullmatch(text)
    return (match is not None and int(match.group(1)) == page + 1) or (bool(label) and text == label)
