"""Headings: their plain text, and the path from the outermost to the innermost."""

from __future__ import annotations

import html
import re
from typing import NamedTuple

# A longer line that looks like a heading is text that happens to have its marks: it stays searchable.
MAX_HEADING_CHARS = 500

_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])")
_CLOSING_HASHES = re.compile(r"(?:(?<=[ \t])|\A)#+[ \t]*\Z")
_EDIT_MARK = re.compile(r"\[(?:edit|edit source)\]", re.IGNORECASE)
_ATTRIBUTES = re.compile(r"\{[#.:][^{}]*\}[ \t]*$")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--[^<>]*-->")
_MARKS = re.compile(r"[*`~]+|(?<!\w)_+|(?<!_)_++(?!\w)")

_NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth last"
)
NUMBER = rf"(?:[ivxlcdm]+|\d{{1,4}}|(?:{'|'.join(_NUMBER_WORDS.split())})(?:-\w+)?)"
_DIVISION = re.compile(
    rf"(volume|book|part|act|chapter|canto|scene|section)s?[ \t]+(?:the[ \t]+)?({NUMBER})\b(?!\.\d)",
    re.IGNORECASE,
)
_EPILOGUE = re.compile(r"(?:(\w+)[ \t]+)?(epilogue)\b", re.IGNORECASE)
# What usually holds what; the places between are for parts, which some books have inside of chapters.
_USUAL_ORDER = {
    "volume": 0,
    "book": 1,
    "epilogue": 1,
    "part": 2,
    "act": 3,
    "chapter": 3,
    "canto": 3,
    "scene": 5,
    "section": 5,
}
_PART_OF_CHAPTER = 4
_FIRST_NUMBERS = frozenset({"i", "1", "one", "first"})
# Headings as digital editions open with: they describe the book and hold none of it.
_CATALOGUE = re.compile(
    r"(?:author|year|date|translator|editor|publisher|language|source|release date):", re.IGNORECASE
)


def atx_heading(source: str) -> str:
    """As `plain_heading`, of what stands behind the opening `#`s of a Markdown heading."""
    return plain_heading(_CLOSING_HASHES.sub("", source))


def plain_heading(source: str) -> str:
    """The words of a heading, on one line, without markup."""
    text = source
    if "[" in text:
        text = _LINK.sub(r"\1", _EDIT_MARK.sub("", text))
    if "{" in text:
        text = _ATTRIBUTES.sub("", text)
    if "<" in text:
        text = _TAG.sub("", text)
    text = _MARKS.sub("", text)
    if "&" in text:
        text = html.unescape(text)
    return " ".join(text.split())


def division(heading: str) -> tuple[str, str] | None:
    """`("chapter", "iv")` for "Chapter IV. Of Man"; None for a heading that is not numbered so."""
    found = _DIVISION.match(heading)
    if found:
        return found.group(1).lower(), found.group(2).lower()
    found = _EPILOGUE.match(heading)
    return (found.group(2).lower(), (found.group(1) or "").lower()) if found else None


class _Open(NamedTuple):
    level: int
    heading: str
    kind: str | None
    place: int | None  # in the order of divisions


class HeadingPath:
    """The headings that are open at a place of the document.

    Levels decide what is inside what, except where writers of digitised books were careless with them: of
    divisions on the same level the larger holds the smaller (volume, book, part, chapter), and two of a kind
    never hold each other. A part belongs to a chapter where the first part comes after one.
    """

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._order = dict(_USUAL_ORDER)
        self._seen: set[str] = set()

    def enter(self, level: int, heading: str) -> tuple[str, ...]:
        """The path of the section that this heading opens. An empty heading adds nothing to it."""
        kind = self._kind(heading)
        new = _Open(level, heading, kind, None if kind is None else self._order[kind])
        while self._open and not _holds(self._open[-1], new):
            self._open.pop()
        if kind is not None:
            alike = [i for i, outer in enumerate(self._open) if outer.kind == kind]
            del self._open[alike[0] if alike else len(self._open) :]
        self._open.append(new)
        return tuple(outer.heading for outer in self._open if outer.heading)

    def _kind(self, heading: str) -> str | None:
        found = division(heading)
        if found is None:
            return None
        kind, number = found
        if kind == "part" and kind not in self._seen and "chapter" in self._seen and number in _FIRST_NUMBERS:
            self._order["part"] = _PART_OF_CHAPTER
        self._seen.add(kind)
        return kind


def _holds(outer: _Open, inner: _Open) -> bool:
    if _CATALOGUE.match(outer.heading):
        return False
    if outer.level != inner.level:
        return outer.level < inner.level
    return outer.place is not None and inner.place is not None and outer.place < inner.place
