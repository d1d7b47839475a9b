"""Titles and headings: their plain text, the path to the innermost heading, and front matter.

Front matter is a block of metadata at the start of a Markdown file, YAML between `---` lines or TOML between
`+++` lines. Only `title` and `tags` are used, so the usual YAML forms of these two are read directly, without
a YAML parser.
"""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# A longer line with the marks of a heading is treated as text, so that it stays searchable.
MAX_HEADING_CHARS = 500

_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])")
_CLOSING_HASHES = re.compile(r"(?:(?<=[ \t])|\A)#+[ \t]*\Z")
_EDIT_MARK = re.compile(r"\[(?:edit|edit source)\]", re.IGNORECASE)
_ATTRIBUTES = re.compile(r"\{[#.:][^{}]*\}[ \t]*$")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--[^<>]*-->")
_HUGE_NUMBER = re.compile("&#[0-9]{9}")
"""Begins a reference to no character. Python raises ValueError for one of more than 4,300 digits."""
_MARKS = re.compile(r"[*`~]+|(?<!\w)_+|(?<!_)_++(?!\w)")

_NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty first second third fourth fifth sixth seventh eighth ninth tenth "
    "eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth "
    "last"
)
NUMBER = rf"(?:[ivxlcdm]+|\d{{1,4}}|(?:{'|'.join(_NUMBER_WORDS.split())})(?:-\w+)?)"
_DIVISION = re.compile(
    rf"(volume|book|part|act|chapter|canto|scene|section)s?[ \t]+(?:the[ \t]+)?({NUMBER})\b(?!\.\d)",
    re.IGNORECASE,
)
_EPILOGUE = re.compile(r"(?:(\w+)[ \t]+)?(epilogue)\b", re.IGNORECASE)
# The usual nesting of divisions. Rank 4 is for parts inside chapters, which some books have.
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
_WORD = re.compile(r"\w+")
_TITLE_LABEL = re.compile(r"\Atitle:\s*(?=\S)", re.IGNORECASE)
_FIRST_NUMBERS = frozenset({"i", "1", "one", "first"})
# Headings at the start of digital editions that describe the book; no section is inside them.
_CATALOGUE = re.compile(
    r"(?:author|year|date|translator|editor|publisher|language|source|release date):", re.IGNORECASE
)


def without_title_label(text: str) -> str:
    """Return a title without the label that catalogues put before it, as in "Title: Walden"."""
    return _TITLE_LABEL.sub("", text)


def headings_below(title: str, path: Sequence[str]) -> Sequence[str]:
    """Return the headings of a section without a first one that repeats the document's title."""
    return path[1:] if path and _words(without_title_label(path[0])) == _words(title) else path


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def atx_heading(source: str) -> str:
    """Like `plain_heading`, for the text after the opening `#`s of a Markdown heading."""
    return plain_heading(_CLOSING_HASHES.sub("", source))


def plain_heading(source: str) -> str:
    """Return the words of a heading on one line, without markup."""
    text = source
    if "[" in text:
        text = _LINK.sub(r"\1", _EDIT_MARK.sub("", text))
    if "{" in text:
        text = _ATTRIBUTES.sub("", text)
    if "<" in text:
        text = _TAG.sub("", text)
    text = _MARKS.sub("", text)
    if "&" in text and not _HUGE_NUMBER.search(text):
        text = html.unescape(text)
    return " ".join(text.split())


def division(heading: str) -> tuple[str, str] | None:
    """Return kind and number of a division: `("chapter", "iv")` for "Chapter IV. Of Man"; None for other
    headings."""
    match = _DIVISION.match(heading)
    if match:
        return match.group(1).lower(), match.group(2).lower()
    match = _EPILOGUE.match(heading)
    return (match.group(2).lower(), (match.group(1) or "").lower()) if match else None


class _OpenHeading(NamedTuple):
    level: int
    heading: str
    kind: str | None
    rank: int | None  # in the order of divisions


class HeadingPath:
    """The headings that are open at a position of the document.

    Levels decide the nesting. Digitised books often use them inconsistently, so there are exceptions: on the
    same level, the larger division contains the smaller (volume, book, part, chapter), and divisions of the
    same kind never contain each other. Parts are inside chapters if the first part comes after a chapter.
    """

    def __init__(self) -> None:
        self._open: list[_OpenHeading] = []
        self._order = dict(_USUAL_ORDER)
        self._seen: set[str] = set()

    def enter(self, level: int, heading: str) -> tuple[str, ...]:
        """Open a heading and return the path of its section. An empty heading adds nothing to the path."""
        kind = self._kind(heading)
        new = _OpenHeading(level, heading, kind, None if kind is None else self._order[kind])
        while self._open and not _contains(self._open[-1], new):
            self._open.pop()
        if kind is not None:
            same_kind = [i for i, outer in enumerate(self._open) if outer.kind == kind]
            del self._open[same_kind[0] if same_kind else len(self._open) :]
        self._open.append(new)
        return tuple(outer.heading for outer in self._open if outer.heading)

    def _kind(self, heading: str) -> str | None:
        kind_and_number = division(heading)
        if kind_and_number is None:
            return None
        kind, number = kind_and_number
        if kind == "part" and kind not in self._seen and "chapter" in self._seen and number in _FIRST_NUMBERS:
            self._order["part"] = _PART_OF_CHAPTER
        self._seen.add(kind)
        return kind


def _contains(outer: _OpenHeading, inner: _OpenHeading) -> bool:
    if _CATALOGUE.match(outer.heading):
        return False
    if outer.level != inner.level:
        return outer.level < inner.level
    return outer.rank is not None and inner.rank is not None and outer.rank < inner.rank


# Front matter is short; a "---" further down does not close it.
MAX_CHARS = 64 * 1024

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*(?:\r\n|\n|\r)")
_CLOSING = {
    "---": re.compile(r"[\r\n](?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)"),
    "+++": re.compile(r"[\r\n]\+\+\+[ \t]*(?=[\r\n]|\Z)"),
}
# The required start of the first line that is not a comment; otherwise the block is text between two rules.
_FIRST_KEY = {
    "---": re.compile(r"[\w\"'][\w .\"'-]{0,64}:(?:\s|\Z)"),
    "+++": re.compile(r"[\w\"'][\w .\"'-]{0,64}=|\["),
}
_NEWLINE = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"(title|tags|keywords)[ \t]*+:[ \t]*+(.*)", re.IGNORECASE)
# Per line of TOML: the time of tomllib is quadratic in the number of parts of a dotted key.
_MAX_DOTS = 100


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`end_char` is the end of the closing line, before its newline."""

    end_char: int
    title: str | None
    tags: tuple[str, ...]


def find_front_matter(content: str) -> FrontMatter | None:
    """Read the front matter of a Markdown text, or return None. Unreadable parts are ignored."""
    opening = _OPENING.match(content)
    if opening is None:
        return None
    fence = opening.group(1)
    closing = _CLOSING[fence].search(content, opening.end() - 1, opening.end() + MAX_CHARS)
    if closing is None:
        return None
    body = content[opening.end() : closing.start()]
    lines = _NEWLINE.split(body)
    stripped = (line.strip() for line in lines)
    first = next((line for line in stripped if line and not line.startswith("#")), "")
    if not _FIRST_KEY[fence].match(first):
        return None
    title, tags = _read_toml(lines) if fence == "+++" else _read_yaml(lines)
    return FrontMatter(closing.end(), title, tags)


def _read_toml(lines: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    if any(line.count(".") > _MAX_DOTS for line in lines):
        return None, ()
    try:
        fields = tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError):  # invalid TOML, a number of thousands of digits, or nested too deep
        return None, ()
    title = fields.get("title")
    return (title if isinstance(title, str) else None), _texts(fields.get("tags"))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _read_yaml(lines: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    title: str | None = None
    tags: list[str] = []
    collecting = False
    for line in lines:
        item = line.strip()
        if collecting and item.startswith("- "):
            tags.append(_unquoted(item[2:]))
            continue
        collecting = False
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            continue
        key, value = match.group(1).lower(), match.group(2).strip()
        if key == "title":
            title = _unquoted(value) or None
        elif value:
            tags += [_unquoted(part) for part in value.strip("[]").split(",")]
        else:
            collecting = True
    return title, tuple(tag for tag in tags if tag)


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1].strip()
    return value
