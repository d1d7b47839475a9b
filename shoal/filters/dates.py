"""Dates in filters: a text is the span of time that it names, in microseconds since 1970, UTC.

`2026-01` is a month and `2026-01-31` a day; with a time of day it is that moment. Without a time zone, UTC.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, date, datetime, timedelta

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
