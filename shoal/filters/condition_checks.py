"""One condition: whether its values fit the field and the comparison, and in which form they compare."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

from shoal.errors import FilterError, QueryError
from shoal.filters.dates import span_of, span_of_year
from shoal.filters.fields import FIELDS, Field, Kind
from shoal.filters.tree import RANGES, TEXT_SEARCHES, Condition, Op, Scalar
from shoal.filters.value_checks import check_characters, check_file_type, check_number
from shoal.models.documents import DocFormat

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
