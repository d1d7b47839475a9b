"""Schemas of suggestions."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.models.queries import Suggestions
from shoal.search.suggesting import MAX_QUERY_CHARS, MAX_SUGGESTIONS, SUGGESTIONS
from shoal_api.schemas.common import Schema
from shoal_api.schemas.records import record_schema


class SuggestQuerySchema(Schema):
    q = fields.String(
        required=True,
        validate=validate.Length(max=MAX_QUERY_CHARS),
        metadata={"description": f"the beginning of a query, up to {MAX_QUERY_CHARS} characters"},
    )
    limit = fields.Integer(
        load_default=SUGGESTIONS,
        validate=validate.Range(1, MAX_SUGGESTIONS),
        metadata={"description": f"most suggestions to return, 1 to {MAX_SUGGESTIONS}"},
    )


SuggestionsSchema = record_schema(Suggestions)
