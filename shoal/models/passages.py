"""Passages of a document that its caller has cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from shoal.models.files import Locator, LocatorKind


class Passage(NamedTuple):
    """A passage that the caller cut: its span in the content, the headings above it from the outermost, and
    the unit (`page` or `line`) that it begins and ends in; no unit: 0."""

    start_char: int
    end_char: int
    headings: tuple[str, ...] = ()
    unit: str = ""
    first: int = 0
    last: int = 0

    @property
    def locator(self) -> Locator | None:
        """The place that the caller gave."""
        if not self.unit:
            return None
        return Locator(self.start_char, self.end_char, LocatorKind(self.unit), "", self.first, self.last)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Passage:
        """Read a passage from a row of JSON."""
        start, end, headings, *place = row
        return cls(start, end, tuple(headings), *place)
