"""Schemas of answers, which follow from the records that they show.

A record is a dataclass or a named tuple whose fields have their descriptions in `Annotated`
(`shoal.models.described`); names that mean the same everywhere have theirs in MEANINGS. A property with a
description is a member of the JSON object, too.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import marshmallow as ma
from marshmallow import fields, validate

from shoal.models.described import Format, Presence
from shoal.models.vocabulary import MEANINGS
from shoal_api.schemas.common import Moment, Record, RecordMap, Records, Schema

MakeField = Callable[..., fields.Field[Any]]
"""Returns a field from its options: `required`, `allow_none` and `metadata`."""

PLAIN: Mapping[Any, type[fields.Field[Any]]] = {
    Any: fields.Raw,
    bool: fields.Boolean,
    float: fields.Float,
    int: fields.Integer,
    str: fields.String,
}
JSON_TYPES = {bool: "boolean", float: "number", int: "integer", str: "string", types.NoneType: "null"}

_schemas: dict[type, type[RecordSchema]] = {}


class RecordSchema(Schema):
    """A schema that follows from a record."""

    if_set: ClassVar[tuple[str, ...]] = ()
    """Members that an answer lacks where they are null."""

    @ma.post_dump
    def _leave_out_unset(self, members: dict[str, Any], **_: Any) -> dict[str, Any]:
        for name in self.if_set:
            if members.get(name) is None:
                members.pop(name, None)
        return members


class Member(NamedTuple):
    """A member of the JSON object of a record."""

    name: str
    kind: Any
    description: str | None
    presence: Presence | None
    texts: tuple[str, ...]
    """All that it may be, if the type does not say so; else empty."""


def record_schema(record: type, name: str | None = None, /, **special: MakeField) -> type[RecordSchema]:
    """Return the schema of the answers that show a record; `name` in the API document, by default its class.

    `special`: what makes the field of a member whose type does not say enough, or that the service adds.
    Both are for the first call; another raises ValueError, because a record may be part of others.
    """
    known = _schemas.get(record)
    if known is None:
        members = members_of(record)
        members += [_member(each, str) for each in special.keys() - {member.name for member in members}]
        known = _schemas[record] = type(
            f"{name or record.__name__}Schema",
            (RecordSchema,),
            {
                "__doc__": record.__doc__,
                "if_set": tuple(each.name for each in members if each.presence is Presence.IF_SET),
                **{each.name: _member_field(each, special.get(each.name)) for each in members},
            },
        )
    elif special or name:
        raise ValueError(f"the schema of {record.__name__} exists already, as {known.__name__}")
    return known


def members_of(record: type) -> list[Member]:
    """Return the members of the JSON object of a record, in the order of its fields."""
    names = (
        [each.name for each in dataclasses.fields(record)]
        if dataclasses.is_dataclass(record)
        else record._fields  # type: ignore[attr-defined]
    )
    hints = typing.get_type_hints(record, include_extras=True)
    members = [_member(name, hints[name]) for name in names]
    for name, attribute in inspect.getmembers_static(record, lambda value: isinstance(value, property)):
        if attribute.fget is not None:
            returned = typing.get_type_hints(attribute.fget, include_extras=True)["return"]
            if any(isinstance(note, str) for note in _notes(returned)):
                members.append(_member(name, returned))
    return members


def known_records() -> Collection[type]:
    """Return the records that have a schema."""
    return _schemas.keys()


def is_record(kind: Any) -> bool:
    """Return whether a type is a dataclass or a named tuple."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"))


def _notes(hint: Any) -> tuple[Any, ...]:
    return tuple(hint.__metadata__) if typing.get_origin(hint) is typing.Annotated else ()


def _member(name: str, hint: Any) -> Member:
    notes = _notes(hint)
    return Member(
        name,
        hint,
        next((note for note in notes if isinstance(note, str)), MEANINGS.get(name)),
        next((note for note in notes if isinstance(note, Presence)), None),
        next((note for note in notes if isinstance(note, tuple)), ()),
    )


def _member_field(member: Member, make: MakeField | None) -> fields.Field[Any]:
    options: dict[str, Any] = {"required": member.presence is None}
    if member.description is not None:
        options["metadata"] = {"description": member.description}
    if _is_nullable(member.kind) and member.presence is not Presence.IF_SET:
        options["allow_none"] = True
    if member.texts:
        options["validate"] = validate.OneOf(member.texts)
    return (make or _maker(member.kind))(**options)


def _is_nullable(hint: Any) -> bool:
    while typing.get_origin(hint) is typing.Annotated:
        hint = hint.__origin__
    return types.NoneType in typing.get_args(hint)


def _maker(hint: Any) -> MakeField:
    """Return what makes the field of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return Moment if Format.TIME in hint.__metadata__ else _maker(hint.__origin__)
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not types.NoneType]
        return _maker(kinds[0]) if len(kinds) == 1 else _any_of(arguments)
    if origin is not None:
        return _collection(origin, arguments)
    if is_record(hint):
        return lambda **options: Record(record_schema(hint), **options)
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        values = [each.value for each in hint]
        return lambda **options: fields.String(validate=validate.OneOf(values), **options)
    return PLAIN[hint]


def _any_of(kinds: Sequence[type]) -> MakeField:
    """Return what makes a field for values of several types, which are JSON as they are."""

    def make(metadata: Mapping[str, Any] | None = None, **options: Any) -> fields.Raw:
        # Members have options, among them `allow_none`, which adds null; elements of lists have none.
        names = [JSON_TYPES[kind] for kind in kinds if kind is not types.NoneType or not options]
        return fields.Raw(metadata={"type": names, **(metadata or {})}, **options)

    return make


def _collection(origin: Any, arguments: Sequence[Any]) -> MakeField:
    if issubclass(origin, Mapping):
        if is_record(arguments[1]):
            return lambda **options: RecordMap(record_schema(arguments[1]), **options)
        values = None if arguments[1] is Any else _maker(arguments[1])()
        return lambda **options: fields.Dict(keys=fields.String(), values=values, **options)
    if is_record(arguments[0]):
        return lambda **options: Records(record_schema(arguments[0]), **options)
    return lambda **options: fields.List(_maker(arguments[0])(), **options)
