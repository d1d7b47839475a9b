"""Schemas of saved searches and their webhooks."""

from __future__ import annotations

import dataclasses

from marshmallow import fields, validate

from shoal.declared.search import SEARCH
from shoal.saved_searches.arguments import (
    DEFAULTS,
    MAX_NAME_CHARS,
    MAX_SECRET_CHARS,
    MIN_SECRET_CHARS,
)
from shoal.saved_searches.models import DeliveryEvent, DeliveryStatus
from shoal.search.relevance import LIKELY
from shoal_api.schemas.arguments import body_field, schema_of
from shoal_api.schemas.common import (
    Moment,
    PageSchema,
    Record,
    Records,
    Schema,
    StrictBoolean,
    StrictFloat,
    between,
)
from shoal_api.schemas.search import IN_BODY

STATUSES = [status.value for status in DeliveryStatus]
EVENTS = [event.value for event in DeliveryEvent]

ABOUT_URL = "where webhooks are sent; of a host that `SHOAL_WEBHOOK_HOSTS` lists"
ABOUT_ACTIVE = "whether new documents are reported"
ABOUT_SCORE = "lowest `match_score` of a match, 0 to 1"
ABOUT_SECRET = (
    f"signs the webhooks, {MIN_SECRET_CHARS} to {MAX_SECRET_CHARS} printable ASCII characters without spaces"
)
ABOUT_NAME = f"unique, up to {MAX_NAME_CHARS} characters"


OF_MATCH = dataclasses.replace(
    SEARCH["min_relevance"], default=LIKELY, about="lowest `relevance` of a match, 0 to 1"
)
SavedArgumentsSchema = schema_of(
    "SavedArguments",
    {
        **{name: field for name, field in IN_BODY.items() if name not in SEARCH or name in DEFAULTS},
        "min_relevance": body_field("min_relevance", OF_MATCH),
    },
    "The arguments of a search, without those that only shape its answer.",
)


class NewSavedSearchSchema(Schema):
    """A search to save."""

    name = fields.String(required=True, metadata={"description": ABOUT_NAME})
    search = fields.Nested(
        SavedArgumentsSchema, required=True, metadata={"description": "the search, as for `POST /search`"}
    )
    url = fields.String(required=True, metadata={"description": ABOUT_URL})
    secret = fields.String(metadata={"description": f"{ABOUT_SECRET}; default: a random one"})
    min_score = StrictFloat(validate=between(0, 1), metadata={"description": f"{ABOUT_SCORE}; default 0"})
    is_active = StrictBoolean(metadata={"description": f"{ABOUT_ACTIVE}; default true"})


class SavedSearchChangesSchema(Schema):
    """What to change; the rest stays."""

    name = fields.String(metadata={"description": ABOUT_NAME})
    search = fields.Nested(SavedArgumentsSchema, metadata={"description": "replaces the whole search"})
    url = fields.String(metadata={"description": ABOUT_URL})
    secret = fields.String(metadata={"description": ABOUT_SECRET})
    min_score = StrictFloat(validate=between(0, 1), metadata={"description": ABOUT_SCORE})
    is_active = StrictBoolean(
        metadata={"description": f"{ABOUT_ACTIVE}; what came while it was false is not reported later"}
    )


class SavedSearchSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the saved search"})
    name = fields.String(required=True, metadata={"description": "its name"})
    search = fields.Dict(
        keys=fields.String(),
        required=True,
        metadata={"description": "`query` and the arguments that differ from the defaults"},
    )
    min_score = fields.Float(required=True, metadata={"description": ABOUT_SCORE})
    url = fields.String(required=True, metadata={"description": "where webhooks are sent"})
    is_active = fields.Boolean(required=True, metadata={"description": ABOUT_ACTIVE})
    is_pending = fields.Boolean(
        required=True, metadata={"description": "whether documents of ended jobs wait for its evaluation"}
    )
    n_waiting = fields.Integer(required=True, metadata={"description": "webhooks that wait to be sent"})
    n_failed = fields.Integer(required=True, metadata={"description": "webhooks that were given up"})
    error = fields.String(
        required=True, allow_none=True, metadata={"description": "why its last evaluation was not possible"}
    )
    created_at = Moment(required=True, metadata={"description": "when it was created, UTC in ISO 8601"})
    updated_at = Moment(required=True, metadata={"description": "when it was changed, UTC in ISO 8601"})


class CreatedSavedSearchSchema(Schema):
    saved_search = Record(SavedSearchSchema, required=True, metadata={"description": "what was created"})
    secret = fields.String(required=True, metadata={"description": "signs the webhooks; shown this once"})


class SavedSearchListSchema(Schema):
    saved_searches = Records(SavedSearchSchema, required=True, metadata={"description": "a page, by id"})
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class DeliveryQuerySchema(PageSchema):
    status = fields.String(
        validate=validate.OneOf(STATUSES), metadata={"description": "only webhooks with this status"}
    )


class DeliverySchema(Schema):
    delivery_id = fields.String(required=True, metadata={"description": "the same for every try"})
    saved_search_id = fields.Integer(required=True, metadata={"description": "id of the saved search"})
    event = fields.String(
        required=True, validate=validate.OneOf(EVENTS), metadata={"description": "what it reports"}
    )
    n_passages = fields.Integer(required=True, metadata={"description": "passages in it"})
    status = fields.String(
        required=True,
        validate=validate.OneOf(STATUSES),
        metadata={"description": "`waiting` for the first or the next try; `failed`: given up"},
    )
    attempts = fields.Integer(required=True, metadata={"description": "tries so far"})
    next_try_at = Moment(
        required=True, allow_none=True, metadata={"description": "null if there is no next try"}
    )
    response_status = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "HTTP status of the last try; null without an answer"},
    )
    error = fields.String(
        required=True, allow_none=True, metadata={"description": "of the last try; null if there was none"}
    )
    created_at = Moment(
        required=True, metadata={"description": "when it was made, or last sent again, UTC in ISO 8601"}
    )
    updated_at = Moment(required=True, metadata={"description": "time of the last try"})


class DeliveryDetailSchema(DeliverySchema):
    body = fields.String(required=True, metadata={"description": "the JSON that is sent"})


class DeliveryListSchema(Schema):
    deliveries = Records(DeliverySchema, required=True, metadata={"description": "a page, newest first"})
    total = fields.Integer(required=True, metadata={"description": "on all pages"})
