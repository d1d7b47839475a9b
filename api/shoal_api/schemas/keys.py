"""Schemas of keys."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.access.keys import (
    MAX_NAME_CHARS,
    MAX_OWNERS,
    MAX_RATE,
    MAX_SCOPES,
    MAX_SECONDS,
    MIN_RATE,
    KeyState,
)
from shoal.access.rights import Right
from shoal_api.schemas.common import (
    BoundedList,
    Moment,
    PageSchema,
    Record,
    Records,
    Schema,
    StrictFloat,
    between,
)

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


class KeyScopeSchema(Schema):
    collection = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "present name of the collection, `*` for all; null if it was deleted"},
    )
    right = fields.String(
        required=True, validate=validate.OneOf(RIGHTS), metadata={"description": ABOUT_RIGHT}
    )


class KeySchema(Schema):
    id = fields.String(required=True, metadata={"description": "id of the key"})
    name = fields.String(required=True, metadata={"description": "its name"})
    fingerprint = fields.String(
        required=True,
        metadata={"description": "first eight digits of its SHA-256, as logs and metrics name it"},
    )
    state = fields.String(
        required=True,
        validate=validate.OneOf([state.value for state in KeyState]),
        metadata={"description": "whether it opens anything"},
    )
    scopes = Records(KeyScopeSchema, required=True, metadata={"description": "its rights"})
    owners = fields.List(
        fields.String(), required=True, allow_none=True, metadata={"description": ABOUT_OWNERS}
    )
    requests_per_second = fields.Float(required=True, allow_none=True, metadata={"description": ABOUT_RATE})
    created_at = Moment(required=True, metadata={"description": "when it was created"})
    expires_at = Moment(
        required=True, allow_none=True, metadata={"description": "when it stops working; null for never"}
    )
    last_used_at = Moment(
        required=True,
        allow_none=True,
        metadata={"description": "when it was last used, at most a minute late; null for never"},
    )
    revoked_at = Moment(
        required=True,
        allow_none=True,
        metadata={"description": "when it was revoked, or will be after a rotation; null if it was not"},
    )


class CreatedKeySchema(Schema):
    key = fields.String(
        required=True, metadata={"description": "what clients send; shown this once and stored nowhere"}
    )
    details = Record(KeySchema, required=True, metadata={"description": "what was created"})


class KeyListSchema(Schema):
    keys = Records(KeySchema, required=True, metadata={"description": "a page, newest first"})
    total = fields.Integer(required=True, metadata={"description": "on all pages"})
