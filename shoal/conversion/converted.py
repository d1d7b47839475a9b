"""What a converter returns: text that Shoal can parse, and where in the original each part comes from."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shoal.models import DocFormat


class LocatorKind(enum.StrEnum):
    """The unit of the original that a locator names."""

    page = "page"
    slide = "slide"
    sheet = "sheet"
    chapter = "chapter"
    message = "message"
    cell = "cell"
    time = "time"


class Locator(NamedTuple):
    """The place in the original of `content[start_char:end_char]`.

    | kind    | name              | first, last                                  |
    |---------|-------------------|----------------------------------------------|
    | page    | printed label     | number of the page, from 1                   |
    | slide   | title             | number of the slide, from 1                  |
    | sheet   | name of the sheet | rows, from 1 as in the file, both included   |
    | chapter | title             | number of the chapter in reading order, from 1 |
    | message | subject           | number of the message, from 1                |
    | cell    | kind of the cell  | number of the notebook's cell, from 1        |
    | time    | speaker           | seconds from the start of the recording      |

    `name` is empty if the original has none.
    """

    start_char: int
    end_char: int
    kind: LocatorKind
    name: str
    first: float
    last: float


class Removed(NamedTuple):
    """Text of the original that is not in the content. `reason`: such as `navigation`, `page number` or
    `repeated header`; `text`: its beginning, at most 200 characters; `times`: how often it was removed."""

    reason: str
    text: str
    times: int


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted file.

    `content` is Markdown or plain text, as `format` says; headings of the original are headings of Markdown,
    tables are tables of Markdown. `locators` are in the order of their starts and do not overlap. `title` is
    the title that the original declares, or empty. `warnings` tell a person what is missing from the text.
    """

    content: str
    format: DocFormat
    title: str = ""
    locators: tuple[Locator, ...] = ()
    removed: tuple[Removed, ...] = ()
    warnings: tuple[str, ...] = ()


class Converter(Protocol):
    """A function that converts the bytes of one format.

    Raises ConversionError with a code and a reason for a person. It follows no reference that leaves the
    file, and runs no script or macro. The process around it limits time, memory and output.
    """

    def __call__(self, data: bytes, name: str) -> Converted:
        """`name`: the name of the file, only for messages and defaults."""


class ConversionError(Exception):
    """A file that cannot be converted.

    `code`: `encrypted`, `broken`, `no_text`, `too_large`, `missing_extra`, `time_limit`, `memory_limit`,
    `crashed` or `unsupported`. The message says what is wrong and what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
