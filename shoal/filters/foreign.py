"""Conditions of other programs' interfaces as filters, in the form of an object (`shoal.filters.parsing`).

Each function checks the form and the operators. The library checks fields and values when it reads the
filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from shoal.errors import FilterError
from shoal.filters.tree import METADATA, quoted

Filter = dict[str, Any]

SHOWN_CHARS = 60
"""Characters of a value that an error shows."""
YEAR_CHARS = 4
"""A text of so many digits is a year, and no number of seconds."""
OF_SHOAL = "shoal:"
"""In front of the name of a field in a condition of Dify."""
SHOWN_FIELDS = {"title": "title", "source": "source_path", "document_id": "id"}
"""Members of a record's metadata that are fields of its document, and win over keys of the same names."""
_NUMERIC = re.compile(r"-?(0|[1-9]\d{0,40})(\.\d{1,40})?", re.ASCII)
_JOINED = {"and": "$and", "or": "$or"}


def key_of(name: str) -> str:
    """Return how a filter names a key of the metadata, whatever characters it has."""
    return f"{METADATA}.{quoted(name)}"


OPENAI_OPERATORS = {
    each: f"${each}" if each != "nin" else "$nin"
    for each in ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")
}


def of_openai(given: object, place: str = "filters") -> Filter:
    """Return the filter for comparisons of attributes, which may be joined by `and` and `or`.

    Raises FilterError, which names the place.
    """
    if not isinstance(given, Mapping):
        raise FilterError(f"{place}: must be an object")
    kind = _one_of(given.get("type"), (*OPENAI_OPERATORS, *_JOINED), f"{place}.type")
    if kind in _JOINED:
        (parts,) = _members(given, ("filters",), place)
        return {_JOINED[kind]: _parts(parts, of_openai, f"{place}.filters")}
    key, value = _members(given, ("key", "value"), place)
    return {key_of(_text(key, f"{place}.key")): {OPENAI_OPERATORS[kind]: value}}


def of_dify(given: Mapping[str, Any], place: str = "metadata_condition") -> Filter | None:
    """Return the filter for metadata conditions of Dify's external knowledge API; None for no condition.

    A name is a key of the metadata, as records show it; `shoal:` in front makes it a field of a filter.
    Raises FilterError, which names the place.
    """
    joined = _one_of(given.get("logical_operator") or "and", tuple(_JOINED), f"{place}.logical_operator")
    conditions = given.get("conditions") or []
    return {_JOINED[joined]: _parts(conditions, _of_dify, f"{place}.conditions")} if conditions else None


def _of_dify(given: Mapping[str, Any], place: str) -> Filter:
    name = given["name"]
    if isinstance(name, list) and len(name) == 1:
        name = name[0]  # as older versions of the contract have it
    field = _shown_field(_text(name, f"{place}.name"))
    operator = _one_of(given["comparison_operator"], (*DIFY_OPERATORS,), f"{place}.comparison_operator")
    compared, read = DIFY_OPERATORS[operator]
    return compared(field, read(given.get("value"), f"{place}.value"))


def _shown_field(name: str) -> str:
    """Return the field that the metadata of a record shows under a name."""
    if name.startswith(OF_SHOAL):
        return name.removeprefix(OF_SHOAL)
    return SHOWN_FIELDS.get(name) or key_of(name)


def _missing_or(*values: Any) -> Callable[[str, object], Filter]:
    return lambda field, _: {"$or": [{field: {"$exists": False}}, {field: {"$in": list(values)}}]}


def _compared(operator: str) -> Callable[[str, object], Filter]:
    return lambda field, value: {field: {operator: value}}


def _not(positive: Callable[[str, object], Filter]) -> Callable[[str, object], Filter]:
    return lambda field, value: {"$not": positive(field, value)}


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise FilterError(f"{place}: must be a text that is not empty")
    return value


def _scalar(value: object, place: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise FilterError(f"{place}: must be a text or a number")
    return value


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise FilterError(f"{place}: must be a list")
    return list(value)


def _number(value: object, place: str) -> Any:
    if isinstance(value, str) and _NUMERIC.fullmatch(value):
        return json.loads(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(f"{place}: must be a number")
    return value


def _moment(value: object, place: str) -> Any:
    """Return a date as it is, and seconds as a number."""
    is_date = isinstance(value, str) and (len(value) <= YEAR_CHARS or not _NUMERIC.fullmatch(value))
    return value if is_date else _number(value, place)


def _nothing(value: object, place: str) -> None:
    """The operators that need no value ignore one, as the contract says."""


DIFY_OPERATORS: Mapping[str, tuple[Callable[[str, object], Filter], Callable[[object, str], Any]]] = {
    "contains": (_compared("$contains"), _text),
    "not contains": (_not(_compared("$contains")), _text),
    "start with": (_compared("$prefix"), _text),
    "end with": (_compared("$suffix"), _text),
    "is": (_compared("$eq"), _scalar),
    "is not": (_compared("$ne"), _scalar),
    "in": (_compared("$in"), _list),
    "not in": (_compared("$nin"), _list),
    "empty": (_missing_or(None, ""), _nothing),
    "not empty": (_not(_missing_or(None, "")), _nothing),
    "null": (_missing_or(None), _nothing),
    "not null": (_not(_missing_or(None)), _nothing),
    "=": (_compared("$eq"), _number),
    "≠": (_compared("$ne"), _number),
    ">": (_compared("$gt"), _number),
    "<": (_compared("$lt"), _number),
    "≥": (_compared("$gte"), _number),
    "≤": (_compared("$lte"), _number),
    "before": (_compared("$lt"), _moment),
    "after": (_compared("$gt"), _moment),
}
"""What each operator of Dify compares, and what reads its value."""


def _parts(given: object, part: Callable[[Any, str], Filter], place: str) -> list[Filter]:
    parts = _list(given, place)
    if not parts:
        raise FilterError(f"{place}: must have at least one condition")
    return [part(each, f"{place}[{number}]") for number, each in enumerate(parts)]


def _members(given: Mapping[Any, Any], names: tuple[str, ...], place: str) -> list[Any]:
    """Return the members of a condition besides its type, which has these and no others."""
    unknown = next((name for name in given if name not in ("type", *names)), None)
    if unknown is not None:
        raise FilterError(f"{place}: {str(unknown)[:SHOWN_CHARS]!r} is not known")
    missing = next((name for name in names if name not in given), None)
    if missing is not None:
        raise FilterError(f"{place}: {missing} is missing")
    return [given[name] for name in names]


def _one_of(value: object, known: tuple[str, ...], place: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise FilterError(f"{place}: {str(value)[:SHOWN_CHARS]!r} is none of {', '.join(known)}")
    return value


_HAYSTACK = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
HAYSTACK_OPERATORS = ("==", "!=", *_HAYSTACK, "in", "not in")
_LOGIC = ("AND", "OR", "NOT")
_META = "meta."


def of_haystack(given: object, place: str = "filters") -> Filter:
    """Return the filter for one of Haystack: comparisons of `meta.KEY` and `id`, joined by AND, OR and NOT.

    As there, a key that is missing is null. `id` is the source path of a document. Raises FilterError, which
    names the place.
    """
    if not isinstance(given, Mapping):
        raise FilterError(f"{place}: must be an object")
    if "field" not in given:
        operator = _one_of(given.get("operator"), _LOGIC, f"{place}.operator")
        parts = _parts(given.get("conditions"), of_haystack, f"{place}.conditions")
        return {"$not": {"$and": parts}} if operator == "NOT" else {f"${operator.lower()}": parts}
    operator = _one_of(given.get("operator"), HAYSTACK_OPERATORS, f"{place}.operator")
    if "value" not in given:
        raise FilterError(f"{place}: value is missing")
    field = _haystack_field(_text(given["field"], f"{place}.field"), f"{place}.field")
    value = given["value"]
    if operator in _HAYSTACK:
        # What is null compares with nothing.
        return {field: {_HAYSTACK[operator]: value}} if value is not None else {field: {"$in": []}}
    values = _list(value, f"{place}.value") if operator.endswith("in") else [value]
    node: Filter = {field: {"$in": values}}
    if None in values:
        node = {"$or": [node, {field: {"$exists": False}}]}
    return {"$not": node} if operator in ("!=", "not in") else node


def _haystack_field(name: str, place: str) -> str:
    if name == "id":
        return "source_path"
    if name in ("content", "blob", "score", "embedding", "sparse_embedding"):
        raise FilterError(f"{place}: a filter cannot compare {name}; compare id or a key of meta")
    # A name without `meta.` that is no field of a document is one of its meta, too.
    return ".".join([METADATA, *map(quoted, name.removeprefix(_META).split("."))])
