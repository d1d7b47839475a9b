"""Fields and schemas shared by several resources."""

from __future__ import annotations

import datetime as dt
import json
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.declared.arguments import MAX_IDS
from shoal.models.vocabulary import MEANINGS
from shoal.support.clock import timestamp
from shoal.support.other_names import meant_name
from shoal_api.problems import MAX_ERRORS


def hint(name: str, known: Sequence[str], inner: Mapping[str, Sequence[str]]) -> str:
    """Return the message for an unknown field `name`.

    `known` are the names at this level; `inner` maps objects at this level to the names inside them.
    """
    for parent, names in inner.items():
        if name in names:
            example = json.dumps({parent: {name: "..."}}).replace('"..."', "...")
            return f"belongs in `{parent}`: {example}"
    meant = meant_name(name, known)
    if meant is None:
        dotted = {field: f"{parent}.{field}" for parent, names in inner.items() for field in names}
        match = meant_name(name, dotted)
        meant = dotted[match] if match else None
    if meant is not None:
        return f"is not known; did you mean `{meant}`?"
    return "is not known; known are " + ", ".join(known) if known else "is not known"


def parameter_hint(
    name: str, known: Sequence[str], of_body: Sequence[str] = (), takers: Sequence[str] = ()
) -> str:
    """Return the message for an unknown query parameter `name` of a request with the fields `of_body`.

    `takers`: the operations that have a parameter of this name.
    """
    if name in of_body:
        return "is a field of the body, not a query parameter"
    if meant_name(name, known) is None:
        meant = meant_name(name, of_body)
        if meant is not None:
            return f"is not known; did you mean the field `{meant}` of the body?"
        if len(takers) == 1:
            return f"is not known here; `{takers[0]}` takes it"
        if not known:
            return "is not known: this address has no query parameters"
    return hint(name, known, {})


SPACED_ZONE = re.compile(r"(\d:\d\d(?::\d\d(?:\.\d+)?)?) (\d\d:?\d\d)$")
"""A time and a zone east of Greenwich without its `+`."""

MAX_FIELDS = 100
"""Most members of an object, or query parameters; no schema has half as many."""


class Schema(ma.Schema):
    """Base schema: refuses unknown fields and suggests known ones."""

    class Meta:
        unknown = ma.RAISE

    error_messages: dict[str, str] = {"type": "must be an object"}  # noqa: RUF012 - as the base class declares it

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        """Add the description in MEANINGS to a field without its own."""
        if field_name in MEANINGS and "description" not in field_obj.metadata:
            field_obj.metadata = {**field_obj.metadata, "description": MEANINGS[field_name]}

    @ma.pre_load
    def _check_number(self, data: Any, **_: Any) -> Any:
        if isinstance(data, Mapping) and len(data) > MAX_FIELDS:
            raise ma.ValidationError(f"has {len(data):,} fields; the limit is {MAX_FIELDS:,}")
        return data

    def handle_error(
        self, error: ma.ValidationError, data: Any, *, many: bool | None = None, **kwargs: Any
    ) -> None:
        """Replace the message for an unknown field by one with a suggestion."""
        default_messages = [self.error_messages["unknown"]]
        messages = error.messages
        if not isinstance(messages, dict) or many:
            return
        inner = {
            name: list(field.schema.fields)
            for name, field in self.load_fields.items()
            if isinstance(field, fields.Nested) and not field.many
        }
        unknown = [name for name, texts in messages.items() if texts == default_messages]
        for name in unknown[:MAX_ERRORS]:
            messages[name] = [hint(str(name), list(self.load_fields), inner)]


def between(low: float, high: float) -> validate.Range:
    """Return a validator for an inclusive range, with a message in the style of the service."""
    return validate.Range(low, high, error=f"must be between {low:,} and {high:,}")


def stated(low: float, high: float | None, description: str) -> dict[str, Any]:
    """Return the metadata of a number whose limits the library checks, so that the API document has them."""
    limits = {"minimum": low, "maximum": high}
    return {
        **{name: value for name, value in limits.items() if value is not None},
        "description": description,
    }


class ResultCount(fields.Integer):
    """A number of results, whose limit is a setting: `openapi.Api` adds it to the API document."""


class BoundedList(fields.List[Any]):
    """A list whose length is checked before its elements, because each element could add an error."""

    def __init__(self, inner: fields.Field[Any], *, max_items: int = MAX_IDS, **kwargs: Any) -> None:
        length = validate.Length(
            max=max_items, error=f"has more than {max_items:,} elements, which is the limit"
        )
        super().__init__(inner, validate=length, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, list):
            self._validate(value)
        return super()._deserialize(value, attr, data, **kwargs)


class OneOrMany(BoundedList):
    """A list, or a single element without the list."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        return super()._deserialize([value] if isinstance(value, str) else value, attr, data, **kwargs)


class TextOrWhole(fields.String):
    """A text; a whole number is its text."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return super()._deserialize(str(value) if is_number else value, attr, data, **kwargs)


class StrictBoolean(fields.Boolean):
    """A boolean that accepts only true and false, not 1, "yes" or "on"."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


class StrictFloat(fields.Float):
    """A float that accepts only JSON numbers, not numeric strings."""

    def _validated(self, value: Any) -> float:
        if not isinstance(value, int | float):
            raise self.make_error("invalid", input=value)
        return super()._validated(value)


class Moment(fields.AwareDateTime):
    """A time in ISO 8601, in UTC by default; loaded as the text stored in the database."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(format="iso", default_timezone=dt.UTC, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        moment = super()._deserialize(value, attr, data, **kwargs)
        try:
            return timestamp(moment)
        except (OverflowError, ValueError) as error:
            raise self.make_error("invalid", input=value, obj_type=self.OBJ_TYPE) from error

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        return value


class AddressMoment(Moment):
    """A time in a query parameter, where an unescaped `+` before the zone arrives as a space."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, str):
            value = SPACED_ZONE.sub(r"\1+\2", value)
        return super()._deserialize(value, attr, data, **kwargs)


class CommaList(fields.String):
    """Comma-separated values of a query parameter, which may be repeated: `tags=biology,darwin`. Drops empty
    values."""

    is_multiple = True
    """Tells webargs to pass all values of a repeated parameter as a list."""

    def __init__(self, inner: fields.Field[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = inner

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        texts = value if isinstance(value, list) else [value]
        joined = ",".join(super(CommaList, self)._deserialize(text, attr, data, **kwargs) for text in texts)
        if joined.count(",") >= MAX_IDS:
            raise ma.ValidationError(f"has more than {MAX_IDS:,} elements, which is the limit")
        return [
            self.inner.deserialize(part.strip(), attr, data) for part in joined.split(",") if part.strip()
        ]


class Record(fields.Nested):
    """An object whose attributes are serialized as they are, without marshmallow's conversions.

    A page of chunks holds tens of thousands of reefs, for which marshmallow's nested fields take seconds.
    Attributes in fields of this class, or of `Records`, are serialized in the same way; null stays null. The
    schema serializes a dict that stands in place of a record.
    """

    def __init__(self, schema: type[ma.Schema], **kwargs: Any) -> None:
        super().__init__(schema, **kwargs)
        members = schema().fields
        self._names = tuple(members)
        # Of a single name, attrgetter returns no tuple.
        self._values = operator.attrgetter(*(self._names if len(self._names) > 1 else self._names * 2))
        self._inner = {
            name: field.members
            for name, field in members.items()
            if isinstance(field, Record | Records | RecordMap)
        }
        self._if_set = getattr(schema, "if_set", ())

    def members(self, record: Any) -> Any:
        """Return the members of the JSON object."""
        if type(record) is dict:
            return self.schema.dump(record)
        members = dict(zip(self._names, self._values(record), strict=False))
        for name, of_value in self._inner.items():
            if members[name] is not None:
                members[name] = of_value(members[name])
        for name in self._if_set:
            if members[name] is None:
                del members[name]
        return members

    def _serialize(  # type: ignore[override]  # marshmallow names the argument in two ways
        self, value: Any, attr: str | None, obj: Any, **kwargs: Any
    ) -> Any:
        return None if value is None else self.members(value)


class Records(fields.List[Any]):
    """A list of objects that are serialized like a `Record`."""

    def __init__(self, schema: type[ma.Schema], **kwargs: Any) -> None:
        self._record = Record(schema)
        super().__init__(self._record, **kwargs)

    def members(self, records: Any) -> Any:
        """Return the list of JSON objects."""
        return list(map(self._record.members, records))

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        return None if value is None else self.members(value)


class RecordMap(fields.Dict):
    """Objects by name that are serialized like a `Record`."""

    def __init__(self, schema: type[ma.Schema], **kwargs: Any) -> None:
        self._record = Record(schema)
        super().__init__(keys=fields.String(), values=self._record, **kwargs)

    def members(self, records: Any) -> Any:
        """Return the JSON objects by name."""
        return {name: self._record.members(record) for name, record in records.items()}

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        return None if value is None else self.members(value)


class Unchecked(fields.Nested):
    """An object of a list that is checked later, alone, so that an error in it does not refuse the list."""

    def _deserialize(  # type: ignore[override]
        self, value: Any, attr: str | None, data: Any, **kwargs: Any
    ) -> Any:
        return value


class AnyOf(fields.Field[Any]):
    """An object of one of several kinds, for the API document alone: see `openapi.describe_alternatives`."""

    def __init__(self, *alternatives: fields.Nested, **kwargs: Any) -> None:
        self.alternatives = alternatives
        super().__init__(**kwargs)


class Prepared(fields.List[Any]):
    """A list whose elements are JSON already; `inner` only describes them."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        return value


class ProblemSchema(Schema):
    """RFC 9457 problem details. Some problems have further members."""

    class Meta:
        unknown = ma.INCLUDE

    type = fields.String(
        required=True, metadata={"description": "`about:blank`: `status` gives the kind of problem"}
    )
    title = fields.String(required=True, metadata={"description": "the name of the status"})
    status = fields.Integer(required=True, metadata={"description": "HTTP status of the response"})
    code = fields.String(
        required=True,
        metadata={
            "description": "what is wrong, for programs; the codes are stable and listed in the documentation"
        },
    )
    detail = fields.String(required=True, metadata={"description": "what is wrong, for people"})
    errors = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        metadata={"description": "field (dotted where nested) -> what is wrong with it"},
    )
    trace_id = fields.String(required=True)
