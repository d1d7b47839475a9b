"""Fields and schemas that several resources share."""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Mapping
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.engine import MAX_PAGE
from shoal.search.request import MAX_IDS
from shoal.support.clock import timestamp
from shoal_api.problems import MAX_ERRORS
from shoal_api.schemas.meanings import MEANINGS
from shoal_api.schemas.unknown import hint

MAX_ID = 2**63 - 1
"""The largest integer SQLite and PostgreSQL store; larger ones are nobody's id."""

SPACED_ZONE = re.compile(r"(\d:\d\d(?::\d\d(?:\.\d+)?)?) (\d\d:?\d\d)$")
"""A time and a zone east of Greenwich that has lost its sign."""

MAX_FIELDS = 100
"""Members of an object with known names, or parameters of an address; no schema has half as many."""

MAX_LIMIT = 1000
DEFAULT_LIMIT = 50


class Schema(ma.Schema):
    """Input with unknown fields is refused, and what was meant is told."""

    class Meta:
        unknown = ma.RAISE

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        """Describe a field whose name says what it means."""
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
        """Say more of a name that is not known than that."""
        plain = [self.error_messages["unknown"]]
        messages = error.messages
        if not isinstance(messages, dict) or many:
            return
        inner = {
            name: list(field.schema.fields)
            for name, field in self.load_fields.items()
            if isinstance(field, fields.Nested) and not field.many
        }
        unknown = [name for name, found in messages.items() if found == plain]
        for name in unknown[:MAX_ERRORS]:
            messages[name] = [hint(str(name), list(self.load_fields), inner)]


def between(low: int, high: int) -> validate.Range:
    """Both ends allowed; worded as the rest of the service words it."""
    return validate.Range(low, high, error=f"must be between {low:,} and {high:,}")


class BoundedList(fields.List[Any]):
    """A list whose length is checked before its elements: each of these could be an error of its own."""

    def __init__(self, inner: fields.Field[Any], *, max_items: int = MAX_IDS, **kwargs: Any) -> None:
        length = validate.Length(
            max=max_items, error=f"has more than {max_items:,} elements, which is the limit"
        )
        super().__init__(inner, validate=length, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, list):
            self._validate(value)
        return super()._deserialize(value, attr, data, **kwargs)


class StrictBoolean(fields.Boolean):
    """true or false, not 1, "yes" or "on"."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


class StrictFloat(fields.Float):
    """A number of JSON, not a string that looks like one."""

    def _validated(self, value: Any) -> float:
        if not isinstance(value, int | float):
            raise self.make_error("invalid", input=value)
        return super()._validated(value)


class Moment(fields.AwareDateTime):
    """A moment in ISO 8601, UTC where it names no zone; loaded as the text the database holds."""

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
    """A moment in an address, where an unescaped `+` before the zone arrives as a space."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if isinstance(value, str):
            value = SPACED_ZONE.sub(r"\1+\2", value)
        return super()._deserialize(value, attr, data, **kwargs)


class CommaList(fields.String):
    """Values separated by commas, as a query parameter, which may be repeated: `tags=biology,darwin`. Empty ones are left
    out."""

    is_multiple = True
    """For webargs: all values of the parameter are wanted, as a list."""

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


class Records(fields.List[Any]):
    """A list of flat values, written attribute by attribute.

    A page of chunks holds tens of thousands of reefs, for which marshmallow's own way takes seconds.
    """

    def __init__(self, schema: type[ma.Schema], **kwargs: Any) -> None:
        super().__init__(fields.Nested(schema), **kwargs)
        self._names = tuple(schema().fields)
        self._values = operator.attrgetter(*self._names)

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        return [dict(zip(self._names, self._values(each), strict=True)) for each in value]


class PageSchema(Schema):
    """Which part of a listing."""

    limit = fields.Integer(
        load_default=DEFAULT_LIMIT,
        validate=between(1, MAX_LIMIT),
        metadata={"description": "most entries to answer"},
    )
    offset = fields.Integer(
        load_default=0, validate=between(0, MAX_PAGE), metadata={"description": "entries to pass over"}
    )


class ProblemSchema(Schema):
    """RFC 9457 problem details; some have members of their own beside these."""

    class Meta:
        unknown = ma.INCLUDE

    type = fields.String(
        required=True, metadata={"description": "`about:blank`: the status says what kind of problem it is"}
    )
    title = fields.String(required=True, metadata={"description": "the name of the status"})
    status = fields.Integer(required=True, metadata={"description": "the status of the answer"})
    detail = fields.String(required=True, metadata={"description": "what is wrong, for the one who asked"})
    errors = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        metadata={"description": "field (dotted where nested) -> what is wrong with it"},
    )
    trace_id = fields.String(required=True)
