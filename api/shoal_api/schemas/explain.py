"""Explanations."""

from __future__ import annotations

from marshmallow import fields

from shoal_api.schemas.common import MAX_ID, Records, Schema, between
from shoal_api.schemas.search import QueryInfoSchema, QueryReefSchema, SearchSchema, SharedReefSchema
from shoal_api.schemas.vocabulary import LearnedWordSchema


class ExplainSchema(SearchSchema):
    """A search, and optionally what to find in it."""

    document_id = fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        validate=between(1, MAX_ID),
        metadata={"description": "its best chunk is explained"},
    )
    chunk_id = fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        validate=between(1, MAX_ID),
        metadata={"description": "this chunk is explained"},
    )


class WordReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    contribution = fields.Float(required=True)


class WordSchema(Schema):
    text = fields.String(required=True)
    start_char = fields.Integer(required=True)
    end_char = fields.Integer(required=True)
    status = fields.String(required=True, metadata={"description": "known, learned, unknown, stop or number"})
    word = fields.String(
        required=True, allow_none=True, metadata={"description": "the form it was found under"}
    )
    reefs = Records(WordReefSchema, required=True)
    learned = fields.Nested(
        LearnedWordSchema,
        required=True,
        allow_none=True,
        metadata={"description": "what is known of a learned word; null for others"},
    )


class KeptOutSchema(Schema):
    reason = fields.String(
        required=True,
        metadata={"description": "no shared reef, filter, other data, max_per_document or top_k"},
    )
    message = fields.String(required=True)


class TargetSchema(Schema):
    """What became of the chunk or document asked about."""

    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    chunk_id = fields.Integer(required=True)
    rank = fields.Integer(required=True, allow_none=True, metadata={"description": "from 1"})
    score = fields.Float(required=True)
    n_shared_reefs = fields.Integer(required=True)
    shared_reefs = Records(SharedReefSchema, required=True)
    kept_out = Records(KeptOutSchema, required=True)


class ExplanationSchema(Schema):
    query = fields.String(required=True)
    words = fields.List(fields.Nested(WordSchema), required=True)
    query_info = fields.Nested(QueryInfoSchema, required=True)
    reefs = Records(QueryReefSchema, required=True, metadata={"description": "strongest first"})
    warnings = fields.List(fields.String(), required=True)
    target = fields.Nested(
        TargetSchema, required=True, allow_none=True, metadata={"description": "with an id asked about"}
    )
    trace_id = fields.String(required=True)
    took_ms = fields.Float(required=True)
