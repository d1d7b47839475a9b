"""The intervals of histograms: of dates by the calendar, of numbers of one width from 0 on."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

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
