"""Writing Markdown: text that must not be read as markup, headings, tables, code, and places in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shoal.conversion.converted import Locator, LocatorKind

MAX_HEADING_CHARS = 400
"""A longer heading is written as text: readers of Markdown take none of over 500 characters."""

_MAX_TABLE_COLUMNS = 1000
_MARKS = r"""
        \#{1,6}(?:[ \t]|$) | [-+*](?:[ \t]|$) | `{3} | ~{3} | [=-]+[ \t]*$ | \+\+\+[ \t]*$
      | (?:[*_-][ \t]*){3,}$ | <!-- | \|?[ \t]*:?-+:?[ \t]*\| | \[[^\[\]\r\n]{1,999}\]:
"""
_MISREAD_BESIDES_QUOTES = re.compile(rf"^(?={_MARKS})", re.VERBOSE | re.MULTILINE)
_MISREAD = re.compile(rf"^(?=>|{_MARKS})", re.VERBOSE | re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_BACKTICKS = re.compile(r"`{3,}")
_SPACE = re.compile(r"\s+")


class TextBuilder:
    """Content that grows block by block, with the places of its parts."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0
        self.locators: list[Locator] = []

    def block(self, text: str, separator: str = "\n\n") -> int:
        """Append a block after a blank line and return its start. An empty block adds nothing."""
        if not text:
            return self.length
        if self.length:
            self._parts.append(separator)
            self.length += len(separator)
        start = self.length
        self._parts.append(text)
        self.length += len(text)
        return start

    def locate(self, start: int, kind: LocatorKind, name: str, first: float, last: float) -> None:
        """Name the place of everything from `start` to the end of the content, if there is anything."""
        if start < self.length:
            self.locators.append(Locator(start, self.length, kind, one_line(name)[:500], first, last))

    def content(self) -> str:
        return "".join(self._parts)


def one_line(text: str) -> str:
    """Return a text with each white space as one blank, without any at its ends."""
    return _SPACE.sub(" ", text).strip()


def escaped(text: str, *, with_quotes: bool = False) -> str:
    """Return prose whose lines are not read as headings, lists, rules or code: marks get a backslash.

    `with_quotes`: lines that begin with `>` are quotes, as in e-mail.
    """
    marks = _MISREAD_BESIDES_QUOTES if with_quotes else _MISREAD
    return marks.sub(_backslash, _INDENT.sub("", text))


def _backslash(_mark: re.Match[str]) -> str:
    return "\\"


def heading(level: int, text: str) -> str:
    """Return a heading of Markdown; one that is too long becomes text, one without words nothing."""
    line = one_line(text)
    if len(line) > MAX_HEADING_CHARS:
        return escaped(line)
    return f"{'#' * min(max(level, 1), 6)} {line}" if line else ""


def fence(code: str, language: str = "") -> str:
    """Return code in a fence that is longer than any in it."""
    longest = max((len(run) for run in _BACKTICKS.findall(code)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}{language}\n{code}\n{marks}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown; the first row has the headers. Rows that are too short are filled up."""
    rows = [[one_line(cell).replace("|", "\\|") for cell in row[:_MAX_TABLE_COLUMNS]] for row in rows]
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)
