"""What a converter returns: text that Shoal can parse, and where in the original each part comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shoal.models.documents import DocFormat
from shoal.models.files import Locator, LocatorKind, Removed

__all__ = ["ConversionError", "Converted", "Converter", "Locator", "LocatorKind", "Removed"]


CONVERTER_VERSION = 2
"""Raised when a converter gives another text, title or places for the same file. A file that an earlier
version converted is converted again when it is sent again."""


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


_ADVICE = {
    "encrypted": "save it without a password",
    "broken": "save it again, or convert it to text",
    "no_text": "leave it out",
    "too_large": "split it into several files",
    "missing_extra": "ask the person who installed Shoal",
    "time_limit": "split it into several files, or raise SHOAL_CONVERSION_SECONDS",
    "memory_limit": "split it into several files, or raise SHOAL_CONVERSION_MEMORY_BYTES",
    "crashed": "save it again, or convert it to text",
    "unsupported": "convert it to text, Markdown or PDF",
}


class ConversionError(Exception):
    """A file that cannot be converted. `code`: a key of _ADVICE.

    The message is `problem; advice`, in the form of all messages of errors: what is wrong with the file as a
    sentence that begins with a small letter and has no period, and what a person can do about it.
    """

    def __init__(self, code: str, problem: str, advice: str | None = None) -> None:
        """`advice`: by default the usual one for the code; empty if `problem` ends with it."""
        parts = (problem.strip().rstrip("."), _ADVICE[code] if advice is None else advice)
        super().__init__("; ".join(filter(None, parts)))
        self.code = code


def broken(reason: str) -> ConversionError:
    """Return the error for a file whose content contradicts its format."""
    return ConversionError("broken", f"the file is broken: {reason}")
