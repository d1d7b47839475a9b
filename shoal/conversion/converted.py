"""What a converter returns: text that Shoal can parse, and where in the original each part comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shoal.models import DocFormat, Locator, LocatorKind, Removed

__all__ = ["ConversionError", "Converted", "Converter", "Locator", "LocatorKind", "Removed"]


CONVERTER_VERSION = 1
"""Raised when a converter gives another text for the same file. A file that an earlier version converted is
converted again when it is sent again."""


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
