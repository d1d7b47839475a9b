"""From a filter as a JSON object to a tree, in the form that Chroma, Pinecone and MongoDB share.

    {"tags": "sea", "year": {"$gte": 2020}, "$or": [{"draft": false}, {"$not": {"draft": {"$exists": true}}}]}

The members of an object are all to be met.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.errors import FilterError
from shoal.filters.fields import Field, UnknownFieldError
from shoal.filters.parsing import MAX_DEPTH, TOO_DEEP, parse_expression, parse_field
from shoal.filters.tree import All, Node, Not, Op, Origin, Some
from shoal.filters.value_checks import Limits, condition

_JOINED: dict[str, type[All | Some]] = {"$and": All, "$or": Some}
_NOT = "$not"
_ONE_VALUE = {
    "$eq": Op.eq,
    "$lt": Op.lt,
    "$lte": Op.le,
    "$gt": Op.gt,
    "$gte": Op.ge,
    "$prefix": Op.prefix,
    "$contains": Op.contains,
}
_OPERATORS = (*_ONE_VALUE, "$ne", "$in", "$nin", "$exists")
_SHOWN_CHARS = 60


def make_filter(given: object) -> Node | None:
    """Return the tree of a filter as an expression or an object; None if it has no condition.

    Raises FilterError.
    """
    if given is None:
        return None
    if isinstance(given, str):
        try:
            return parse_expression(given)
        except FilterError as error:
            error.expression = given
            raise
    if not isinstance(given, Mapping):
        raise FilterError("must be an expression or an object")
    return _of_object(given, "filter", Limits(), 0) if given else None


def _of_object(given: object, place: str, limits: Limits, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise FilterError(TOO_DEEP)
    if not isinstance(given, Mapping) or not given:
        raise _error(place, "must be an object with at least one member")
    parts: list[Node] = []
    for name, value in given.items():
        here = f"{place}.{str(name)[:_SHOWN_CHARS]}"
        if name in _JOINED:
            if isinstance(value, str | bytes) or not isinstance(value, Sequence) or not value:
                raise _error(here, "must be a list of at least one object")
            nodes = tuple(
                _of_object(each, f"{here}[{number}]", limits, depth + 1) for number, each in enumerate(value)
            )
            parts.append(nodes[0] if len(nodes) == 1 else _JOINED[name](nodes))
        elif name == _NOT:
            parts.append(Not(_of_object(value, here, limits, depth + 1)))
        elif not isinstance(name, str) or name.startswith("$"):
            raise _error(here, _unknown(name, (*_JOINED, _NOT)))
        else:
            parts.extend(_of_field(name, value, here, limits))
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _of_field(name: str, value: object, place: str, limits: Limits) -> list[Node]:
    try:
        field = parse_field(name)
    except (UnknownFieldError, FilterError) as error:
        raise _error(place, str(error)) from None
    if not isinstance(value, Mapping):
        if isinstance(value, list | tuple):
            raise _error(place, f'is a list; write {{"{name[:_SHOWN_CHARS]}": {{"$in": […]}}}}')
        value = {"$eq": value}
    if not value:
        raise _error(place, f"needs an operator: {', '.join(_OPERATORS)}")
    return [
        _compared(field, operator, compared, f"{place}.{str(operator)[:_SHOWN_CHARS]}", limits)
        for operator, compared in value.items()
    ]


def _compared(field: Field, operator: object, value: Any, place: str, limits: Limits) -> Node:
    if operator in ("$in", "$nin"):
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise _error(place, "must be a list")
        node = _condition(field, Op.any_of, tuple(value), place, limits)
        return node if operator == "$in" else Not(node)
    if operator == "$exists":
        if not isinstance(value, bool):
            raise _error(place, "must be true or false")
        node = _condition(field, Op.exists, (), place, limits)
        return node if value else Not(node)
    if operator == "$ne":
        return Not(_condition(field, Op.eq, (value,), place, limits))
    if not isinstance(operator, str) or operator not in _ONE_VALUE:
        raise _error(place, _unknown(operator, _OPERATORS))
    return _condition(field, _ONE_VALUE[operator], (value,), place, limits)


def _condition(field: Field, op: Op, values: tuple[Any, ...], place: str, limits: Limits) -> Node:
    if any(value is not None and not isinstance(value, str | int | float) for value in values):
        raise _error(place, "compares with strings, numbers, true, false and null")
    try:
        checked = condition(field, op, values, limits)
    except FilterError as error:
        raise _error(place, str(error)) from None
    return dataclasses.replace(checked, origin=Origin(path=place.removeprefix("filter.")))


def _unknown(name: object, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(str(name)[:_SHOWN_CHARS], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return f"there is no operator {str(name)[:_SHOWN_CHARS]}; {hint}"


def _error(place: str, message: str) -> FilterError:
    return FilterError(f"{place.removeprefix('filter.')}: {message}" if place != "filter" else message)
