"""Values about files of other formats: files to convert, and the places of passages in them.

All dataclasses are frozen. Character offsets are Unicode code points into the converted text, end exclusive.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from shoal.models.rights import Rights

ANY_TOKENS = "any"
"""Chunks end where the topic changes, and may have any number of tokens: the default."""
GIVEN_PASSAGES = "given"
"""The caller has cut the document."""

MIN_TOKENS = 20
MAX_TOKENS = 4000
LEAST_RATIO = 2
"""The upper end of a range is at least this many times the lower: any text can be cut into such pieces."""

_RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")


class TokenRange(NamedTuple):
    """The fewest and the most tokens of a chunk (`shoal.support.token_estimate`)."""

    low: int
    high: int

    @classmethod
    def of(cls, text: str) -> TokenRange | None:
        """Read a range such as `300-800`; None for `any`. Raises ValueError, which says what is wrong."""
        if text == ANY_TOKENS:
            return None
        match = _RANGE.fullmatch(text)
        if match is None:
            raise ValueError(f"must be {ANY_TOKENS}, or a range of tokens such as 300-800")
        low, high = map(int, match.groups())
        if low < MIN_TOKENS or high > MAX_TOKENS:
            raise ValueError(f"must be within {MIN_TOKENS}-{MAX_TOKENS}")
        if high < LEAST_RATIO * low:
            raise ValueError(
                f"must end at {LEAST_RATIO * low} or more: a text must be divisible into such pieces"
            )
        return cls(low, high)

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


def how_cut(chunk_tokens: str) -> str:
    """What a document is cut with, for people; empty for the default."""
    if chunk_tokens == ANY_TOKENS:
        return ""
    return "cut by its sender" if chunk_tokens == GIVEN_PASSAGES else f"passages of {chunk_tokens} tokens"


class LocatorKind(enum.StrEnum):
    """The unit of a file that a locator names."""

    page = "page"
    slide = "slide"
    sheet = "sheet"
    chapter = "chapter"
    message = "message"
    cell = "cell"
    time = "time"
    line = "line"


class Locator(NamedTuple):
    """The place in a file that `content[start_char:end_char]` comes from.

    | kind    | name              | first, last                                    |
    |---------|-------------------|------------------------------------------------|
    | page    | printed label     | number of the page, from 1                     |
    | slide   | title             | number of the slide, from 1                    |
    | sheet   | name of the sheet | rows, from 1 as in the file, both included     |
    | chapter | title             | number of the chapter in reading order, from 1 |
    | message | subject           | number of the message, from 1                  |
    | cell    | kind of the cell  | number of the notebook's cell, from 1          |
    | time    | speaker           | seconds from the start of the recording        |
    | line    |                   | number of the line, from 1                     |

    `name` is empty if the file has none.
    """

    start_char: int
    end_char: int
    kind: LocatorKind
    name: str
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class FilePlace:
    """The place of a passage in its file: fields of `Locator`, and the place in words.

    Labels are such as `page 12`, `pages 12-13`, `slide 3: Results`, `Sheet1, rows 2-40` or `1:04-2:10`.
    """

    kind: Annotated[LocatorKind, "the unit of the file that it names"]
    name: Annotated[str, "printed page label, sheet, chapter, subject or speaker; may be empty"]
    first: Annotated[float, "number from 1, or seconds if `kind` is `time`"]
    last: Annotated[float, "the same of its end, inclusive"]
    label: Annotated[str, "in words, such as `page 12`"]

    @property
    def beside_lines(self) -> str | None:
        """The label, for a citation that also names the lines; None if it says no more than they do."""
        return None if self.kind is LocatorKind.line else self.label

    @classmethod
    def of(cls, kind: LocatorKind, name: str, first: float, last: float) -> FilePlace:
        """Return the place with its label."""
        return cls(kind, name, first, last, _label(kind, name, first, last))


def _label(kind: LocatorKind, name: str, start: float, end: float) -> str:
    if kind is LocatorKind.time:
        return f"{_clock(start)}-{_clock(end)}" + (f", {name}" if name else "")
    first, last = int(start), int(end)
    span = f"{first}" if first == last else f"{first}-{last}"
    plural = "" if first == last else "s"
    if kind is LocatorKind.sheet:
        return f"{name}, row{plural} {span}" if name else f"row{plural} {span}"
    text = f"{kind}{plural} {span}"
    if kind is LocatorKind.page:
        return f"{text} ({name})" if name not in ("", span) else text
    return f"{text}: {name}" if name and kind is not LocatorKind.cell else text


def timecode(seconds: float) -> str:
    """Return a time in a recording as HH:MM:SS, to the second before it."""
    minutes, secs = divmod(int(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{secs:02}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Removed(NamedTuple):
    """Text of a file that is not in the content."""

    reason: Annotated[str, "such as `navigation`, `page number` or `repeated header`"]
    text: Annotated[str, "its beginning, at most 200 characters"]
    times: Annotated[int, "how often it was removed"]


class MissingPart(NamedTuple):
    """A part of a file that is not in its document, or words of it that are not."""

    kind: Annotated[str, "such as `text`, `header`, `comment`, `navigation`, `picture` or `attachment`"]
    place: Annotated[str, "in the file, such as `page 3` or `slide 2`; may be empty"]
    n_words: Annotated[int, "its visible words that are not in the document"]
    n_bytes: Annotated[int, "size of a part whose words cannot be counted, such as a picture; else 0"]
    is_intended: Annotated[bool, "whether it is left out on purpose, such as navigation"] = False
    text: Annotated[str, "its beginning, at most 80 characters"] = ""

    def __str__(self) -> str:
        where = f"{self.kind} of {self.place}" if self.place else self.kind
        return f"{where} ({self.n_words:,}: “{self.text}”)" if self.text else f"{where} ({self.n_words:,})"


_MAX_WARNED_PARTS = 3
MAX_MISSING_SHARE = 0.02
"""Of the words of a file, besides those that are left out on purpose. More are a warning of its document."""


@dataclass(frozen=True, slots=True)
class FileAccount:
    """What of a file is in its document, counted in visible words."""

    n_words: Annotated[int, "visible words of the file"]
    n_stored: Annotated[int, "of them in the document"]
    missing: Annotated[
        tuple[MissingPart, ...],
        "what is not: parts with most words first, those left out on purpose last; at most 52",
    ]

    @classmethod
    def of_fields(cls, fields: Sequence[Any] | None) -> FileAccount | None:
        """Return the account of its `fields`. Raises TypeError or ValueError for other values."""
        if fields is None:
            return None
        n_words, n_stored, rows = fields
        missing = tuple(
            MissingPart(str(kind), str(place), int(n), int(n_bytes), bool(is_intended), str(text))
            for kind, place, n, n_bytes, is_intended, text in rows
        )
        return cls(int(n_words), int(n_stored), missing)

    @property
    def fields(self) -> tuple[int, int, tuple[MissingPart, ...]]:
        """The account as it is stored."""
        return self.n_words, self.n_stored, self.missing

    def with_documents(self, names: Collection[str]) -> FileAccount:
        """Return the account with attachments that are documents of their own, by name, as intended."""
        missing = (
            part._replace(is_intended=True, text="a document of its own")
            if part.kind == "attachment" and any(name and part.place.endswith(name) for name in names)
            else part
            for part in self.missing
        )
        return FileAccount(self.n_words, self.n_stored, tuple(missing))

    @property
    def n_intended(self) -> int:
        """Words that are left out on purpose."""
        return sum(part.n_words for part in self.missing if part.is_intended)

    @property
    def stored_share(self) -> float:
        """Stored words of those that should be stored, 0 to 1."""
        wanted = self.n_words - self.n_intended
        return self.n_stored / wanted if wanted else 1.0

    @property
    def is_incomplete(self) -> bool:
        return self.stored_share < 1 - MAX_MISSING_SHARE

    def warnings(self) -> tuple[str, ...]:
        """Return a warning with the largest missing parts, if too much is missing."""
        if not self.is_incomplete:
            return ()
        parts = [part for part in self.missing if part.n_words and not part.is_intended]
        listed = "; ".join(map(str, parts[:_MAX_WARNED_PARTS]))
        more = len(parts) - _MAX_WARNED_PARTS
        rest = f" and {more:,} more parts" if more > 0 else ""
        lost = self.n_words - self.n_intended - self.n_stored
        return (f"{lost:,} of {self.n_words:,} words of the file are not in the document: {listed}{rest}",)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The file that a document was converted from.

    `kind`: such as `pdf`; `name`: without folders, may be empty; `file_hash`: SHA-256 (hex) of its bytes;
    `converter`: version of the converters. `locators` are in the order of their starts and do not overlap.
    `account` is None if its words were not counted.
    """

    kind: str
    name: str
    file_hash: str
    n_bytes: int
    converter: int
    locators: tuple[Locator, ...] = ()
    removed: tuple[Removed, ...] = ()
    account: FileAccount | None = None


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A validated file that is not yet converted.

    `title` is None if none was given: then it comes from the file. `file_hash`: SHA-256 (hex) of `data`.
    """

    data: bytes
    kind: str
    name: str
    file_hash: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    source_path: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    chunk_tokens: str = ANY_TOKENS
    rights: Rights | None = None
    language: str | None = None

    @property
    def n_bytes(self) -> int:
        return len(self.data)
