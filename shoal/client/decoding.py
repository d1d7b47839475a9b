"""Decodes JSON of the HTTP API into dataclasses and named tuples, by field name.

Unknown names are ignored, so that a client works with a newer service. A missing field takes its default;
without a default, decoding fails.
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
    """The JSON does not have the expected structure."""


def decode(kind: type[T], value: Any) -> T:
    """Decode parsed JSON as a value of type `kind`. Raises UnexpectedError."""
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
    kinds = [argument for argument in typing.get_args(kind) if argument is not types.NoneType]
    if len(kinds) > 1:
        # Values of JSON that are themselves, such as a text or a number.
        if type(value) in (*kinds, *((int,) if float in kinds else ())):
            return value
        raise UnexpectedError("a value of another type was expected")
    return _decode(kinds[0], value)


def _collection(origin: Any, inner: tuple[Any, ...], value: Any) -> Any:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise UnexpectedError("an object was expected")
        return {name: _decode(inner[1], element) for name, element in value.items()}
    if not isinstance(value, list):
        raise UnexpectedError("an array was expected")
    if origin is tuple and Ellipsis not in inner:
        if len(value) != len(inner):
            raise UnexpectedError(f"an array of {len(inner)} was expected")
        return tuple(
            _decode(element_kind, element) for element_kind, element in zip(inner, value, strict=True)
        )
    assert origin is tuple or issubclass(origin, Sequence)
    elements = (_decode(inner[0], element) for element in value)
    return list(elements) if origin is list else tuple(elements)


def _record(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise UnexpectedError("an object was expected")
    fields = {}
    for name, (inner, has_default) in _fields(kind).items():
        if name in value:
            fields[name] = _decode(inner, value[name])
        elif not has_default:
            raise UnexpectedError(f"{name} is missing")
    return kind(**fields)


@functools.cache
def _fields(kind: Any) -> dict[str, Field]:
    hints = typing.get_type_hints(kind)
    if not dataclasses.is_dataclass(kind):
        return {name: (hints[name], name in kind._field_defaults) for name in kind._fields}
    missing = dataclasses.MISSING
    return {
        field.name: (hints[field.name], not (field.default is missing and field.default_factory is missing))
        for field in dataclasses.fields(kind)
    }


def _plain(kind: Any, value: Any) -> Any:
    if issubclass(kind, enum.StrEnum):
        try:
            return kind(value)
        except ValueError:
            # A newer service may have more states; every state is a text.
            return str(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UnexpectedError(f"{kind.__name__} was expected")
    return value
