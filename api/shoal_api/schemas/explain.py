"""Schemas of explanations."""

from __future__ import annotations

import functools

from marshmallow import fields

from shoal.declared.arguments import MAX_ID
from shoal.models.explanations import Explanation
from shoal_api.schemas.arguments import schema_of
from shoal_api.schemas.common import Record, between
from shoal_api.schemas.records import record_schema
from shoal_api.schemas.results import UsedWeightsSchema
from shoal_api.schemas.search import IN_BODY


def _id(about: str) -> fields.Integer:
    return fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        validate=between(1, MAX_ID),
        metadata={"description": about},
    )


ExplainSchema = schema_of(
    "Explain",
    {
        **IN_BODY,
        "document_id": _id("document whose best chunk is explained"),
        "chunk_id": _id("chunk to explain"),
    },
    "The body of a search, and optionally a document or chunk to explain.",
)
record_schema(Explanation, weights=functools.partial(Record, UsedWeightsSchema))
