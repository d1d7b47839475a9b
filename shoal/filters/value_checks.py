"""Checks of values that filters and other arguments share."""

from __future__ import annotations

import difflib
import math
import sys

from shoal.conversion.file_kinds import FILE_KINDS, KIND_OF_SUFFIX
from shoal.errors import QueryError
from shoal.settings import Settings
from shoal.storage.file_types import MEDIA

FILE_TYPES = (*MEDIA, *(kind.id for kind in FILE_KINDS.values() if kind.refusal is None))
"""Types that the filter `file_type` knows, besides suffixes of files."""


def check_characters(field: str, text: str) -> str:
    """Return `text`. Raises QueryError for a lone surrogate (half a character), which has no UTF-8
    encoding."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise QueryError(field, "contains half a character (a lone surrogate)")
    return text


MAX_DIGITS = sys.int_info.default_max_str_digits
"""Digits of an integer: Python reads no longer one from JSON, so no metadata has one."""
_FIRST_TOO_LARGE = 10**MAX_DIGITS


def check_number(field: str, number: float) -> float:
    """Return a number that metadata can hold: finite, or an integer of up to MAX_DIGITS digits. Raises
    QueryError."""
    if isinstance(number, int) and abs(number) >= _FIRST_TOO_LARGE:
        raise QueryError(field, f"is too large a number: an integer has at most {MAX_DIGITS:,} digits")
    if isinstance(number, float) and not math.isfinite(number):
        raise QueryError(field, "is too large a number")
    return number


def check_file_type(field: str, value: object, _settings: Settings | None = None) -> str | None:
    """Return a file type in the form of `shoal.storage.file_types`; None for an empty text. Raises
    QueryError."""
    if not isinstance(value, str):
        raise QueryError(field, "must be a string")
    name = value.strip().lower()
    if not name or name in FILE_TYPES:
        return name or None
    suffix = name if name.startswith(".") else f".{name}"
    if suffix in KIND_OF_SUFFIX:
        return suffix
    close = difflib.get_close_matches(name, FILE_TYPES, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise QueryError(field, f"{value[:40]!r} is neither a suffix nor one of {', '.join(FILE_TYPES)}{hint}")
