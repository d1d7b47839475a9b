"""Checks of conditions, and of the values that filters and other arguments share, dates among them."""

from __future__ import annotations

import difflib
import functools
import math
import re
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from shoal.conversion.file_kinds import FILE_KINDS, KIND_OF_SUFFIX
from shoal.errors import FilterError, QueryError
from shoal.filters.fields import FIELDS, Field, Kind
from shoal.filters.tree import RANGES, TEXT_SEARCHES, Condition, Op, Scalar
from shoal.models.documents import DocFormat
from shoal.settings import Settings
from shoal.storage.chunk_queries import MEDIA
from shoal.support.clock import timestamp

_MONTH = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MAX_CHARS = 40
"""No date is longer."""
LAST_YEAR = 9998
"""The end of the year 9999 is no date."""

Span = tuple[int, int]
"""Begin and end, the end exclusive."""


@functools.lru_cache(maxsize=4096)
def span_of(text: str) -> Span | None:
    """Return the span that a text names, or None if it is no date."""
    if len(text) > MAX_CHARS:
        return None
    try:
        if month := _MONTH.fullmatch(text):
            first = date(int(month[1]), int(month[2]), 1)
            return _span(first, (first + timedelta(days=31)).replace(day=1))
        if _DAY.fullmatch(text):
            day = date.fromisoformat(text)
            return _span(day, day + timedelta(days=1))
        if _MOMENT.match(text):
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            begin = (moment - _EPOCH) // _MICROSECOND
            return begin, begin + 1
    except (ValueError, OverflowError):
        pass
    return None


def moment_of(microseconds: int) -> str:
    """Return a moment, in microseconds since 1970, in ISO 8601."""
    return timestamp(_EPOCH + timedelta(microseconds=microseconds))


def span_of_year(year: int) -> Span | None:
    """Return the span of a year from 1 to LAST_YEAR, or None."""
    return _span(date(year, 1, 1), date(year + 1, 1, 1)) if 1 <= year <= LAST_YEAR else None


def _span(first: date, end: date) -> Span:
    return _begin(first), _begin(end)


def _begin(day: date) -> int:
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND


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
    """Return a file type in the form of `shoal.storage.chunk_queries`; None for an empty text. Raises
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


MAX_CONDITIONS = 256
"""In one filter; each looks at every document."""
MAX_VALUES = 10_000
"""In all lists of a filter together."""
MAX_SEARCHES = 16
"""`CONTAINS` and `STARTS WITH` in one filter; each reads all texts of a field."""
MAX_VALUE_CHARS = 4_096

_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", re.ASCII)
_YEAR = re.compile(r"\d{4}", re.ASCII)
_TEXT_FIELDS = ", ".join(name for name, known in FIELDS.items() if known.kind is Kind.text)


@dataclass
class Limits:
    """What a filter has used of its limits. Raises FilterError when one is exceeded."""

    n_conditions: int = 0
    n_values: int = 0
    n_searches: int = 0

    def count(self, op: Op, values: tuple[Scalar, ...]) -> None:
        self.n_conditions += 1
        self.n_values += len(values)
        self.n_searches += op in TEXT_SEARCHES
        for used, limit, what in (
            (self.n_conditions, MAX_CONDITIONS, "conditions"),
            (self.n_values, MAX_VALUES + MAX_CONDITIONS, "values"),
            (self.n_searches, MAX_SEARCHES, "conditions with CONTAINS or STARTS WITH"),
        ):
            if used > limit:
                raise FilterError(f"a filter has at most {limit:,} {what}")


def condition(field: Field, op: Op, values: tuple[Scalar, ...], limits: Limits) -> Condition:
    """Return a condition whose values are in the form that is stored.

    Raises FilterError, whose `blamed` is the number of a value.
    """
    limits.count(op, values)
    if op in TEXT_SEARCHES and field.kind not in (Kind.text, Kind.json):
        raise FilterError(f"{field.text} is not a text; {op} is for {_TEXT_FIELDS} and the metadata")
    if op in RANGES and field.kind in (Kind.text, Kind.named):
        raise FilterError(f"{field.text} has no order; {op} is for numbers and dates")
    checked = []
    for number, value in enumerate(values):
        try:
            checked.append(_checked(field, op, value))
        except QueryError as error:
            raise FilterError(str(error), blamed=number) from None
    return Condition(field, op, tuple(checked))


def _checked(field: Field, op: Op, value: Scalar) -> Scalar:
    if isinstance(value, str):
        check_characters("filter", value)
        if len(value) > MAX_VALUE_CHARS:
            raise FilterError(f"a text has at most {MAX_VALUE_CHARS:,} characters")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        check_number("filter", value)
    if op in TEXT_SEARCHES:
        if not isinstance(value, str) or not value:
            raise FilterError(f"{op} needs a text that is not empty")
        return value
    return _CHECKS[field.kind](field, op, value)


def _any(_field: Field, op: Op, value: Scalar) -> Scalar:
    if op in RANGES and (value is None or isinstance(value, bool)):
        raise FilterError(f"{op} compares numbers and dates")
    if op in RANGES and isinstance(value, str) and span_of(value) is None:
        raise FilterError(f"{op} compares numbers and dates such as 2026-01-31; {value[:40]!r} is neither")
    return value


def _text(field: Field, op: Op, value: Scalar) -> str:
    if not isinstance(value, str):
        raise FilterError(f"{field.text} is a text; write the value in quotation marks")
    if field.name == "tags":
        return " ".join(value.split())
    if field.name == "format" and value not in DocFormat.__members__:
        raise FilterError(
            f"{value[:40]!r} is not one of {', '.join(DocFormat)}{_near(value, list(DocFormat))}"
        )
    return (check_file_type("filter", value) or "") if field.name == "file_type" else value


def _number(field: Field, _op: Op, value: Scalar) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(f"{field.text} is a number")
    return value


def _date(field: Field, _op: Op, value: Scalar) -> Scalar:
    if isinstance(value, str) and _YEAR.fullmatch(value):
        value = int(value)
    is_year = isinstance(value, int) and not isinstance(value, bool) and span_of_year(value) is not None
    if not is_year and not (isinstance(value, str) and span_of(value) is not None):
        raise FilterError(
            f"{field.text} is a date, such as 2026, 2026-01, 2026-01-31 or 2026-01-31T12:00:00Z"
        )
    return value


def _time(field: Field, _op: Op, value: Scalar) -> float:
    if isinstance(value, str) and (clock := _CLOCK.fullmatch(value)):
        return int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + float(clock[3])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(f"{field.text} is a time in seconds, or such as 1:02:30")
    return value


def _name(field: Field, _op: Op, value: Scalar) -> Scalar:
    if value is None or isinstance(value, bool | float):
        raise FilterError(f"{field.text} is a whole number or a name")
    return value


def _near(name: str, names: list[Any]) -> str:
    close = difflib.get_close_matches(name[:60], names, n=1)
    return f"; did you mean {close[0]}?" if close else ""


_CHECKS = {
    Kind.json: _any,
    Kind.text: _text,
    Kind.number: _number,
    Kind.date: _date,
    Kind.time: _time,
    Kind.named: _name,
}
