"""JSON of the HTTP API as values of the library: dataclasses and named tuples, by the names of their fields.

Names that a class does not know are passed over, so that a client goes on with a service that says more than
it did. A field that is missing takes its default; without one, the answer is none of ours.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Field = tuple[Any, bool]
"""The type of a field, and whether it has a default."""


class UnexpectedError(ValueError):
    """The JSON has not the form that was expected."""


def decode(kind: type[T], value: Any) -> T:
    """`value`, parsed JSON, as a `kind`. Raises UnexpectedError."""
    decoded: T = _decode(kind, value)
    return decoded


def _decode(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _optional(kind, value)
    if origin is not None:
        return _collection(origin, typing.get_args(kind), value)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind, value)
    return _plain(kind, value)


def _optional(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    (inner,) = (one for one in typing.get_args(kind) if one is not types.NoneType)
    return _decode(inner, value)


def _collection(origin: Any, inner: tuple[Any, ...], value: Any) -> Any:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise UnexpectedError("an object was expected")
        return {name: _decode(inner[1], each) for name, each in value.items()}
    if not isinstance(value, list):
        raise UnexpectedError("an array was expected")
    if origin is tuple and Ellipsis not in inner:
        if len(value) != len(inner):
            raise UnexpectedError(f"an array of {len(inner)} was expected")
        return tuple(_decode(one, each) for one, each in zip(inner, value, strict=True))
    assert origin is tuple or issubclass(origin, Sequence)
    return tuple(_decode(inner[0], each) for each in value)


def _record(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise UnexpectedError("an object was expected")
    found = {}
    for name, (inner, has_default) in _fields(kind).items():
        if name in value:
            found[name] = _decode(inner, value[name])
        elif not has_default:
            raise UnexpectedError(f"{name} is missing")
    return kind(**found)


@functools.cache
def _fields(kind: Any) -> dict[str, Field]:
    hints = typing.get_type_hints(kind)
    if not dataclasses.is_dataclass(kind):
        return {name: (hints[name], name in kind._field_defaults) for name in kind._fields}
    missing = dataclasses.MISSING
    return {
        each.name: (hints[each.name], not (each.default is missing and each.default_factory is missing))
        for each in dataclasses.fields(kind)
    }


def _plain(kind: Any, value: Any) -> Any:
    if issubclass(kind, enum.StrEnum):
        try:
            return kind(value)
        except ValueError:
            # A state that a newer service knows is a text, as all states are.
            return str(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UnexpectedError(f"{kind.__name__} was expected")
    return value
