"""The facets of a request: checks every argument; errors name the facet."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.declared.search import DEFAULT_FACET_VALUES, MAX_FACET_VALUES, MAX_FACETS
from shoal.errors import FilterError, QueryError
from shoal.filters.parsing import parse_field
from shoal.filters.tree import Field, Kind, UnknownFieldError, check_characters

Ints = NDArray[np.int64]

CALENDAR = {"day": "D", "week": "W", "month": "M", "year": "Y"}
"""Intervals of dates and their units in numpy."""
MIN_INTERVAL, MAX_INTERVAL = Decimal("0.000001"), Decimal(10**12)
"""Widths of intervals of numbers; all are multiples of the first, so that their bounds are exact."""
NO_BUCKET = np.iinfo(np.int64).min
_MONDAY = 3
"""Days from the Monday of the week of 1970-01-01 to that day."""
_EXACT = 2**53
"""Up to here, floats hold every integer."""
_LAST_DAY = np.datetime64("9999-12-30")
"""The last day that a filter can name."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Consecutive buckets, each with a number. `unit`: of dates; `width`: of numbers."""

    unit: str | None
    width: Fraction

    @classmethod
    def of_dates(cls, unit: str) -> Interval:
        return cls(unit, Fraction(0))

    @classmethod
    def of_numbers(cls, width: Decimal) -> Interval:
        return cls(None, Fraction(width))

    @property
    def shown(self) -> str | float:
        """As it is written in a request."""
        return _number(float(self.width)) if self.unit is None else self.unit

    def of_moments(self, moments: Ints) -> Ints:
        """Return the buckets of moments, in microseconds since 1970."""
        assert self.unit is not None, "an interval of dates"
        if self.unit == "week":
            days = moments.astype("datetime64[us]").astype("datetime64[D]").astype(np.int64)
            return np.asarray((days + _MONDAY) // 7)
        return moments.astype("datetime64[us]").astype(f"datetime64[{CALENDAR[self.unit]}]").astype(np.int64)

    def of_values(self, numbers: NDArray[np.float64]) -> Ints:
        """Return the buckets of numbers; NO_BUCKET for one so far from 0 that its bounds are not exact.

        A number is in the bucket whose bounds, as floats, it is between, the upper exclusive.
        """
        assert self.unit is None, "an interval of numbers"
        p, q = self.width.numerator, self.width.denominator
        most = _EXACT // p - 2
        with np.errstate(invalid="ignore", over="ignore"):
            estimated = np.floor(numbers * q / p)
            is_near = np.abs(estimated) <= most
        buckets = np.where(is_near, estimated, 0).astype(np.int64)
        # The quotient is rounded, and may be beside the right bucket.
        buckets -= numbers < buckets * p / q
        buckets += numbers >= (buckets + 1) * p / q
        return np.where(is_near, buckets, NO_BUCKET)

    def begin(self, bucket: int) -> str | float:
        """Return the first date of a bucket, as short as it can be, or its lower bound."""
        if self.unit is None:
            return _number(bucket * self.width.numerator / self.width.denominator)
        if self.unit == "week":
            return str(np.datetime64(bucket * 7 - _MONDAY, "D"))
        return str(np.array([bucket]).astype(f"datetime64[{CALENDAR[self.unit]}]")[0])

    def bounds(self, bucket: int) -> tuple[str | float, str | float | None]:
        """Return (first, end): the end is exclusive; None if no filter can name it, and nothing is later."""
        if self.unit is None:
            return self.begin(bucket), self.begin(bucket + 1)
        first, end = (np.datetime64(str(self.begin(each)), "D") for each in (bucket, bucket + 1))
        return str(first), None if end > _LAST_DAY else str(end)


def _number(value: float) -> float:
    return int(value) if value.is_integer() else value


MAX_FIELD_CHARS = 1_000
_DEFAULT_INTERVAL = "month"
"""Of dates, whose single values differ."""
_NAMES = ("field", "limit", "interval")
_WITH_INTERVAL = re.compile(rf"(.+):({'|'.join(CALENDAR)}|\d{{1,20}}(?:\.\d{{1,20}})?)", re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True)
class FacetRequest:
    """A facet that was asked for. `limit`: values in the response."""

    field: Field
    limit: int
    interval: Interval | None


def make_facets(given: object, *, limit: object = None) -> tuple[FacetRequest, ...]:
    """Validate the facets of a request, each a text such as `tags` and `created:month` or an object with
    `field`, `limit` and `interval`.

    `limit`: of facets without their own. Raises QueryError for `facets`, `facets[N]` or `facet_limit`.
    """
    common = None if limit is None else _limit("facet_limit", limit)
    if given is None:
        return ()
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise QueryError("facets", "must be a list of fields")
    facets = list(given)
    if len(facets) > MAX_FACETS:
        raise QueryError("facets", f"has more than {MAX_FACETS} fields")
    return tuple(_facet(f"facets[{number}]", facet, common) for number, facet in enumerate(facets))


def _facet(place: str, given: object, common: int | None) -> FacetRequest:
    if isinstance(given, str):
        match = _WITH_INTERVAL.fullmatch(given[: MAX_FIELD_CHARS + 100])
        name, interval = (match[1], match[2]) if match else (given, None)
        given = {"field": name, "interval": interval if interval in CALENDAR else _as_number(interval)}
        head, colon, unknown_interval = name.rpartition(":")
        if colon and not match and _is_own_field(head):
            given = {"field": head, "interval": unknown_interval}
    if not isinstance(given, Mapping):
        raise QueryError(place, "must be a field, or an object with field, limit and interval")
    for name in given:
        if name not in _NAMES:
            raise QueryError(place, f"there is no {str(name)[:40]!r}; known are {', '.join(_NAMES)}")
    field = _field(place, given.get("field"))
    interval = _interval(place, field, given.get("interval"))
    limit = given.get("limit")
    if limit is not None:
        return FacetRequest(field, _limit(f"{place}.limit", limit), interval)
    default = DEFAULT_FACET_VALUES if interval is None else MAX_FACET_VALUES
    return FacetRequest(field, default if common is None else common, interval)


def _is_own_field(name: str) -> bool:
    """Whether this is a field of documents or passages, not a key of the metadata."""
    try:
        return parse_field(name).kind is not Kind.json
    except (UnknownFieldError, FilterError):
        return False


def _as_number(text: str | None) -> float | None:
    return None if text is None else int(text) if text.isdecimal() else float(text)


def _field(place: str, name: object) -> Field:
    if not isinstance(name, str) or not name:
        raise QueryError(place, "needs the name of a field")
    if len(name) > MAX_FIELD_CHARS:
        raise QueryError(place, f"has a name of over {MAX_FIELD_CHARS:,} characters")
    try:
        return parse_field(check_characters(place, name))
    except (UnknownFieldError, FilterError) as error:
        raise QueryError(place, str(error)) from None


def _limit(place: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_FACET_VALUES:
        raise QueryError(place, f"must be a whole number from 1 to {MAX_FACET_VALUES:,}")
    return value


def _interval(place: str, field: Field, given: Any) -> Interval | None:
    if given is None:
        return Interval.of_dates(_DEFAULT_INTERVAL) if field.kind is Kind.date else None
    if isinstance(given, str):
        if given not in CALENDAR:
            raise QueryError(
                place, f"has the interval {given[:40]!r}; it is one of {', '.join(CALENDAR)}, or a number"
            )
        if field.kind not in (Kind.date, Kind.json):
            raise QueryError(place, f"{field.text} is no date, and has no interval {given}")
        return Interval.of_dates(given)
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise QueryError(place, f"has an interval that is none of {', '.join(CALENDAR)}, and no number")
    if field.kind not in (Kind.number, Kind.time, Kind.json):
        raise QueryError(place, f"{field.text} is no number, and has no interval {given}")
    width = Decimal(repr(given))
    if not MIN_INTERVAL <= width <= MAX_INTERVAL or width % MIN_INTERVAL:
        raise QueryError(
            place,
            f"has the interval {given}; it is from {MIN_INTERVAL} to {MAX_INTERVAL:,}, with at most "
            f"{-int(MIN_INTERVAL.as_tuple().exponent)} decimal places",
        )
    return Interval.of_numbers(width)
