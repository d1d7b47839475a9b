"""Schemas of saved searches and their webhooks."""

from __future__ import annotations

import dataclasses

from marshmallow import fields, validate

from shoal.declared.search import LIKELY, SEARCH
from shoal.models.saved_searches import (
    DeliveryDetail,
    DeliveryPage,
    DeliveryStatus,
    NewSavedSearch,
    SavedSearch,
    SavedSearchPage,
)
from shoal.saved_searches.arguments import (
    DEFAULTS,
    MAX_NAME_CHARS,
    MAX_SECRET_CHARS,
    MIN_SECRET_CHARS,
)
from shoal_api.schemas.arguments import body_field, schema_of
from shoal_api.schemas.common import (
    PageSchema,
    Schema,
    StrictBoolean,
    StrictFloat,
    between,
)
from shoal_api.schemas.records import record_schema
from shoal_api.schemas.search import IN_BODY

STATUSES = [status.value for status in DeliveryStatus]

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


class DeliveryQuerySchema(PageSchema):
    status = fields.String(
        validate=validate.OneOf(STATUSES), metadata={"description": "only webhooks with this status"}
    )


SavedSearchSchema = record_schema(SavedSearch)
CreatedSavedSearchSchema = record_schema(NewSavedSearch, "CreatedSavedSearch")
SavedSearchListSchema = record_schema(SavedSearchPage, "SavedSearchList")
DeliveryDetailSchema = record_schema(DeliveryDetail)
DeliveryListSchema = record_schema(DeliveryPage, "DeliveryList")
