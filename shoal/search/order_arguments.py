"""The arguments `sort`, `decay` and `boosts` of a search: checks, and the forms in which they are written.

sort    ["-date", "title"], or the same as one text with commas
decay   {"field": "date", "half_life_days": 30, "weight": 0.2}, or "date:30:0.2"
boosts  [{"filter": "tags = sea", "weight": 0.2}], or ["0.2:tags = sea"]
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shoal.declared.search import MAX_BOOSTS, MAX_HALF_LIFE_DAYS, MAX_PART, MAX_SORT_KEYS, MIN_HALF_LIFE_DAYS
from shoal.errors import FilterError, QueryError
from shoal.filters.parsing import make_filter, parse_field
from shoal.filters.tree import (
    FIELDS,
    Field,
    Kind,
    Node,
    UnknownFieldError,
    check_characters,
    moment_of,
    span_of,
    text_of,
)
from shoal.support.clock import timestamp

MAX_FIELD_CHARS = 1_000
MAX_SORT_CHARS = MAX_SORT_KEYS * (MAX_FIELD_CHARS + 2)
"""Of the text with commas: each field may have a comma and a minus sign beside its name."""
DECAY_MEMBERS = ("field", "half_life_days", "weight", "now")
BOOST_MEMBERS = ("filter", "weight")

_SORT_FIELD = re.compile(r"""(?:[^,"]|"[^"]*"?)+""")


@dataclass(frozen=True, slots=True)
class SortKey:
    """A field of documents to sort by; missing values are last in both directions."""

    field: Field
    is_descending: bool = False

    @property
    def text(self) -> str:
        return f"-{self.field.text}" if self.is_descending else self.field.text


@dataclass(frozen=True, slots=True)
class Decay:
    """A part of the score that halves with every `half_life_days` of a document's age.

    `now`: the moment from which the age counts, in microseconds since 1970.
    """

    field: Field
    half_life_days: float
    weight: float
    now: int

    @property
    def moment(self) -> str:
        """`now` in ISO 8601, as exact as it is."""
        return moment_of(self.now)

    @property
    def members(self) -> dict[str, Any]:
        """The argument that means this decay."""
        return {
            "field": self.field.text,
            "half_life_days": self.half_life_days,
            "weight": self.weight,
            "now": self.moment,
        }


@dataclass(frozen=True, slots=True)
class Boost:
    """A part of the score of passages that meet a filter."""

    filter: Node
    weight: float

    @property
    def name(self) -> str:
        """The filter as an expression."""
        return text_of(self.filter)

    @property
    def members(self) -> dict[str, Any]:
        """The argument that means this boost."""
        return {"filter": self.name, "weight": self.weight}


def make_sort(given: object) -> tuple[SortKey, ...]:
    """Return the sort keys, the most important first. Raises QueryError."""
    if given is None:
        return ()
    names = _split_fields(given) if isinstance(given, str) else _listed("sort", given)
    if len(names) > MAX_SORT_KEYS:
        raise QueryError("sort", f"must have at most {MAX_SORT_KEYS} fields")
    keys: dict[Field, SortKey] = {}
    for name in names:
        if not isinstance(name, str):
            raise QueryError("sort", "must be names of fields, each perhaps with - in front")
        is_descending = name.strip().startswith("-")
        field = _field("sort", name.strip().removeprefix("-"))
        if field in keys:
            raise QueryError("sort", f"has {field.text} twice")
        keys[field] = SortKey(field, is_descending)
    return tuple(keys.values())


def make_decay(given: object) -> Decay | None:
    """Return the decay; without `now`, that of this moment. Raises QueryError for `decay.NAME`."""
    if given is None:
        return None
    members = _decay_of_text(given) if isinstance(given, str) else given
    if not isinstance(members, Mapping):
        raise QueryError("decay", "must be an object with field, half_life_days and weight")
    _check_members("decay", members, DECAY_MEMBERS, optional=("now",))
    name = members["field"]
    if not isinstance(name, str):
        raise QueryError("decay.field", "must be the name of a field")
    field = _field("decay.field", name)
    if field.kind not in (Kind.date, Kind.json):
        dates = ", ".join(each for each, known in FIELDS.items() if known.kind is Kind.date)
        raise QueryError("decay.field", f"{field.text} is no date; give {dates} or a key of the metadata")
    half_life = _number("decay.half_life_days", members["half_life_days"])
    if not MIN_HALF_LIFE_DAYS <= half_life <= MAX_HALF_LIFE_DAYS:
        limits = f"{MIN_HALF_LIFE_DAYS:g} and {MAX_HALF_LIFE_DAYS:,.0f}"
        raise QueryError("decay.half_life_days", f"must be between {limits}")
    return Decay(field, half_life, _weight("decay.weight", members["weight"]), _now(members.get("now")))


def make_boosts(given: object) -> tuple[Boost, ...]:
    """Return the boosts. Raises QueryError for `boosts[N].NAME`."""
    if given is None:
        return ()
    items = _listed("boosts", [given] if isinstance(given, str) else given)
    if len(items) > MAX_BOOSTS:
        raise QueryError("boosts", f"must have at most {MAX_BOOSTS} items")
    boosts: dict[str, Boost] = {}
    for number, item in enumerate(items):
        place = f"boosts[{number}]"
        boost = _boost(place, _boost_of_text(place, item) if isinstance(item, str) else item)
        if boost.name in boosts:
            raise QueryError(place, f"has the same filter as another: {boost.name[:60]}")
        boosts[boost.name] = boost
    return tuple(boosts.values())


def _boost(place: str, members: object) -> Boost:
    if not isinstance(members, Mapping):
        raise QueryError(place, "must be an object with filter and weight")
    _check_members(place, members, BOOST_MEMBERS)
    try:
        tree = make_filter(members["filter"])
    except FilterError as error:
        error.field = f"{place}.filter"
        raise
    if tree is None:
        raise QueryError(f"{place}.filter", "has no condition")
    return Boost(tree, _weight(f"{place}.weight", members["weight"]))


def _decay_of_text(text: str) -> dict[str, Any]:
    given, at, now = text.partition("@")
    parts = given.rsplit(":", 2)
    numbers = [_float(part) for part in parts[1:]]
    if len(parts) != 3 or None in numbers:
        raise QueryError("decay", "must be written as FIELD:HALF_LIFE_DAYS:WEIGHT, such as date:30:0.2")
    members = {"field": parts[0].strip(), "half_life_days": numbers[0], "weight": numbers[1]}
    return {**members, "now": now.strip()} if at else members


def _boost_of_text(place: str, text: str) -> dict[str, Any]:
    weight, separator, expression = text.partition(":")
    number = _float(weight)
    if not separator or number is None:
        raise QueryError(place, "must be written as WEIGHT:EXPRESSION, such as 0.2:tags = sea")
    return {"filter": expression, "weight": number}


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _split_fields(text: str) -> list[str]:
    """Split at commas that are not within quotation marks."""
    if len(text) > MAX_SORT_CHARS:
        raise QueryError("sort", f"has over {MAX_SORT_CHARS:,} characters")
    return [field for field in _SORT_FIELD.findall(text) if field.strip()]


def _field(argument: str, name: str) -> Field:
    if len(name) > MAX_FIELD_CHARS:
        raise QueryError(argument, f"has a field of over {MAX_FIELD_CHARS:,} characters")
    check_characters(argument, name)
    try:
        field = parse_field(name)
    except (UnknownFieldError, FilterError) as error:
        raise QueryError(argument, str(error)) from None
    if field.of_chunk:
        raise QueryError(argument, f"{field.text} is of passages; give a field of documents")
    if not field.path and FIELDS[field.name].is_many:
        raise QueryError(argument, f"{field.text} has several values for one document")
    return field


def _listed(argument: str, given: object) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise QueryError(argument, "must be a list")
    return list(given)


def _check_members(
    place: str, members: Mapping[Any, Any], known: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    for name in members:
        if name not in known:
            raise QueryError(place, f"there is no {str(name)[:40]!r}; known are {', '.join(known)}")
    for name in known:
        if name not in members and name not in optional:
            raise QueryError(f"{place}.{name}", "is missing")


def _number(argument: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueryError(argument, "must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise QueryError(argument, "must be a finite number")
    return number


def _weight(argument: str, value: object) -> float:
    weight = _number(argument, value)
    if not 0 < weight <= MAX_PART:
        raise QueryError(argument, f"must be above 0 and at most {MAX_PART:g}")
    return weight


def _now(value: object) -> int:
    """Microseconds since 1970, in whole milliseconds, which is as exact as times are shown."""
    if value is None:
        value = datetime.now(UTC)
    if isinstance(value, datetime):
        value = timestamp(value)
    span = span_of(value) if isinstance(value, str) else None
    if span is None:
        raise QueryError("decay.now", "must be a date or a time in ISO 8601, such as 2026-01-31T12:00:00Z")
    return span[0] - span[0] % 1_000
