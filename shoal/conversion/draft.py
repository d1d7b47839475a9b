"""The text that a converter writes: blocks of Markdown, and the places in the original."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from shoal.conversion.converted import ConversionError, Converted, LocatorKind, Removed
from shoal.conversion.markdown_text import TextBuilder, heading, table
from shoal.models.documents import DocFormat

MAX_CONTENT_CHARS = 100_000_000
"""A longer text is refused. The longest books have 5 million characters."""
MAX_REMOVED_CHARS = 200
_MAX_REMOVED = 1000
_MAX_LIST_DEPTH = 8
# Code points that no text has: controls, halves of surrogate pairs, marks of byte order, non-characters.
_NOISE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\ud800-\udfff\ufeff\ufff0-\uffff]")
_NEWLINES = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_SPACES = re.compile(r"[^\S\n]+")
# The start of a line that Markdown would read as a heading, quote, list, fence, rule, comment or definition.
_STRUCTURE = re.compile(
    r"[#]{1,6}(?=\s|\Z) | > | [-+*](?=\s|\Z) | `{3} | ~{3} | <!-- | \[[^\[\]\n]{1,999}\]: | \|"
    r"| (?:[-*_=][ \t]*)+\Z | \+\+\+",
    re.VERBOSE,
)
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|\Z)")


def clean(text: str) -> str:
    """Return the text without control characters, with one kind of newline, and single spaces."""
    text = _NOISE.sub("", _NEWLINES.sub("\n", text))
    return _SPACES.sub(" ", text)


def one_line(text: str) -> str:
    return " ".join(_NOISE.sub("", text).split())


def escape(text: str) -> str:
    """Put a backslash before the marks that would make a line of plain text a block of Markdown."""
    lines = [line.strip() for line in text.split("\n")]
    return "\n".join(map(_escape_line, filter(None, lines)))


def _escape_line(line: str) -> str:
    if line[0].isalpha():
        return line
    if _STRUCTURE.match(line):
        return "\\" + line
    return _NUMBERED.sub(r"\1\\\2", line, count=1) if _NUMBERED.match(line) else line


class Draft:
    """Collects blocks, locators, removed text and warnings of one document.

    `place` names the origin of the blocks that follow it; blocks before the first have none.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._text = TextBuilder()
        self._last_item = ""  # the kind of the item that was the last block
        self._place: tuple[LocatorKind, str, float, float] | None = None
        self._place_start: int | None = None
        self._removed: dict[tuple[str, str], int] = {}

    def place(self, kind: LocatorKind, name: str, first: float, last: float | None = None) -> None:
        self.end_place()
        self._place = (kind, one_line(name), first, first if last is None else last)

    def end_place(self) -> None:
        if self._place is not None and self._place_start is not None:
            self._text.locate(self._place_start, *self._place)
        self._place = self._place_start = None

    def heading(self, level: int, text: str) -> None:
        text = heading(level, one_line(text))
        if text:
            self._block(text)

    def paragraph(self, text: str) -> None:
        text = escape(clean(text))
        if text:
            self._block(text)

    def continue_paragraph(self, text: str, *, joiner: str = " ") -> None:
        """Add text to the last block, as at a page break within a paragraph."""
        text = one_line(text)
        if text:
            self._write(joiner, text)

    def item(self, depth: int, text: str, number: int | None = None) -> None:
        """Add an item of a list; `depth` from 0. Items that follow each other are one list."""
        mark = "- " if number is None else f"{number % 10**9}. "
        text = one_line(text)
        if text:
            kind = "bullet" if number is None else "number"
            goes_on = self._last_item and (depth > 0 or self._last_item == kind)
            indent = "   " * min(max(depth, 0), _MAX_LIST_DEPTH) if goes_on else ""
            # Marks at the start of the text would begin a list within the list.
            self._write("\n" if goes_on else "\n\n", indent + mark + _escape_line(text))
            if depth <= 0 or not goes_on:
                self._last_item = kind

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Add a table; the first row is its head. Empty rows and columns are left out."""
        kept = [row for row in ([one_line(cell) for cell in row] for row in rows) if any(row)]
        width = max(map(len, kept), default=0)
        kept = [row + [""] * (width - len(row)) for row in kept]
        columns = [i for i in range(width) if any(row[i] for row in kept)]
        kept = [[row[i] for i in columns] for row in kept]
        if len(columns) == 1 or len(kept) == 1:
            for row in kept:
                self.paragraph(" ".join(filter(None, row)))
        elif kept:
            self._block(table(kept))

    def remove(self, reason: str, text: str, times: int = 1) -> None:
        """Record text of the original that is not in the content."""
        key = (reason, one_line(text)[:MAX_REMOVED_CHARS])
        if key[1] and (key in self._removed or len(self._removed) < _MAX_REMOVED):
            self._removed[key] = self._removed.get(key, 0) + times

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    @property
    def is_empty(self) -> bool:
        return not self._text.length

    def converted(self, title: str = "", format_: DocFormat = DocFormat.markdown) -> Converted:
        """Return the document. Raises ConversionError if it has no text."""
        self.end_place()
        if self.is_empty:
            raise ConversionError("no_text", "the file has no text")
        return Converted(
            self._text.content() + "\n",
            format_,
            one_line(title),
            tuple(self._text.locators),
            tuple(Removed(reason, text, times) for (reason, text), times in self._removed.items()),
            tuple(self.warnings),
        )

    def _block(self, text: str) -> None:
        self._write("\n\n", text)
        self._last_item = ""

    def _write(self, separator: str, text: str) -> None:
        start = self._text.block(text, separator)
        if self._place is not None and self._place_start is None:
            self._place_start = start
        if self._text.length > MAX_CONTENT_CHARS:
            raise ConversionError(
                "too_large", f"the text of the file has more than {MAX_CONTENT_CHARS:,} characters"
            )
