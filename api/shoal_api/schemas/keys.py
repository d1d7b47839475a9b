"""Schemas of keys."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.access.keys import MAX_NAME_CHARS, MAX_OWNERS, MAX_RATE, MAX_SCOPES, MAX_SECONDS, MIN_RATE
from shoal.models.keys import CreatedKey, KeyDetails, KeyPage, Right
from shoal_api.schemas.common import (
    BoundedList,
    Moment,
    PageSchema,
    Schema,
    StrictFloat,
    between,
)
from shoal_api.schemas.records import record_schema

RIGHTS = [right.value for right in Right]

ABOUT_COLLECTION = "name of a collection, or `*` for all, also those of the future"
ABOUT_RIGHT = "what the key may do there; each right includes the ones before it"
ABOUT_OWNERS = "the only owners of notes that the key may name; null for any"
ABOUT_RATE = "most requests a second to each process of the API; null for the limit of the service"


class NewScopeSchema(Schema):
    error_messages: dict[str, str] = {  # noqa: RUF012 - as the base class declares it
        "type": 'must be an object such as {"collection": "main", "right": "read"}'
    }

    collection = fields.String(required=True, metadata={"description": ABOUT_COLLECTION})
    right = fields.String(
        required=True, validate=validate.OneOf(RIGHTS), metadata={"description": ABOUT_RIGHT}
    )


class NewKeySchema(Schema):
    """A key to create."""

    name = fields.String(
        required=True, metadata={"description": f"for people, up to {MAX_NAME_CHARS} characters"}
    )
    scopes = BoundedList(
        fields.Nested(NewScopeSchema),
        max_items=MAX_SCOPES,
        required=True,
        metadata={"description": "the rights of the key, one for each collection"},
    )
    owners = BoundedList(
        fields.String(),
        max_items=MAX_OWNERS,
        allow_none=True,
        load_default=None,
        metadata={"description": ABOUT_OWNERS},
    )
    expires_at = Moment(
        allow_none=True,
        load_default=None,
        metadata={"description": "when the key stops working (ISO 8601); null for never"},
    )
    requests_per_second = StrictFloat(
        allow_none=True,
        load_default=None,
        validate=validate.Range(MIN_RATE, MAX_RATE, error=f"must be from {MIN_RATE:g} to {MAX_RATE:,.0f}"),
        metadata={"description": ABOUT_RATE},
    )


class KeyQuerySchema(PageSchema):
    only_active = fields.Boolean(
        load_default=False, metadata={"description": "leave out expired and revoked keys"}
    )


class RotateSchema(Schema):
    """How to rotate a key."""

    may_be_absent = True

    grace_seconds = StrictFloat(
        load_default=0.0,
        validate=between(0, int(MAX_SECONDS)),
        metadata={"description": "how long the old key stays valid; default 0: no longer"},
    )


KeySchema = record_schema(KeyDetails, "Key")
KeyListSchema = record_schema(KeyPage, "KeyList")
CreatedKeySchema = record_schema(CreatedKey)
