"""Explanations."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal_api.schemas.common import MAX_ID, Records, Schema, between
from shoal_api.schemas.search import (
    TERM_COVERAGE,
    CompanionSchema,
    MatchedTermSchema,
    QueryInfoSchema,
    QueryReefSchema,
    ScoresSchema,
    SearchSchema,
    SharedReefSchema,
    UsedWeightsSchema,
)
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
    contribution = fields.Float(required=True, metadata={"description": "what the word adds to the reef"})


class WordSchema(Schema):
    text = fields.String(required=True, metadata={"description": "the word as it was typed"})
    start_char = fields.Integer(
        required=True, metadata={"description": "where it begins in the query, in code points"}
    )
    end_char = fields.Integer(required=True, metadata={"description": "where it ends, exclusive"})
    status = fields.String(
        required=True,
        validate=validate.OneOf(["known", "learned", "unknown", "stop", "number"]),
        metadata={"description": "what it is to the topic model; `stop`: too common to say anything"},
    )
    word = fields.String(
        required=True, allow_none=True, metadata={"description": "the form it was found under"}
    )
    reefs = Records(
        WordReefSchema, required=True, metadata={"description": "what it adds to, strongest first"}
    )
    learned = fields.Nested(
        LearnedWordSchema,
        required=True,
        allow_none=True,
        metadata={"description": "what is known of a learned word; null for others"},
    )
    n_chunks = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "chunks that hold it, in any inflection; null for stop words"},
    )
    suggestions = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "what may have been meant, for a word that nobody knows"},
    )


class KeptOutSchema(Schema):
    reason = fields.String(
        required=True,
        metadata={
            "description": "no match, no shared reef, other data, filter, phrase, title, excluded, max_per_document or "
            "top_k"
        },
    )
    message = fields.String(required=True, metadata={"description": "the reason in words"})


class TargetSchema(Schema):
    """What became of the chunk or document asked about."""

    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    chunk_id = fields.Integer(required=True)
    rank = fields.Integer(required=True, allow_none=True, metadata={"description": "from 1"})
    score = fields.Float(
        required=True, metadata={"description": "what it would be ordered by; 0 without a match"}
    )
    n_shared_reefs = fields.Integer(required=True)
    shared_reefs = Records(SharedReefSchema, required=True)
    kept_out = Records(
        KeptOutSchema,
        required=True,
        metadata={"description": "why it is not among the results; empty if it is"},
    )
    scores = fields.Nested(ScoresSchema, required=True)
    matched_terms = fields.List(fields.Nested(MatchedTermSchema), required=True)
    would_rank = fields.Integer(
        required=True,
        allow_none=True,
        metadata={
            "description": "its rank in the same search without filters, phrases and exclusions if one of them kept it out, or without "
            "the limit of its document"
        },
    )
    term_coverage = fields.Float(required=True, allow_none=True, metadata={"description": TERM_COVERAGE})


class ExplanationSchema(Schema):
    query = fields.String(required=True, metadata={"description": "as it was sent"})
    mode = fields.String(required=True, metadata={"description": "which signals rank"})
    weights = fields.Nested(UsedWeightsSchema, required=True)
    terms = fields.List(
        fields.String(), required=True, metadata={"description": "what ranks by spelling: words and phrases"}
    )
    required = fields.List(
        fields.String(),
        required=True,
        metadata={
            "description": "phrases and title words that a result must hold; not asked for in mode `reef`"
        },
    )
    excluded = fields.List(fields.String(), required=True, metadata={"description": "what no result holds"})
    words = fields.List(
        fields.Nested(WordSchema), required=True, metadata={"description": "word by word, in their order"}
    )
    query_info = fields.Nested(QueryInfoSchema, required=True)
    reefs = Records(
        QueryReefSchema,
        required=True,
        metadata={
            "description": "the whole profile that takes part in the search, of which `query_info` has the first; "
            "strongest first"
        },
    )
    feedback = Records(
        CompanionSchema, required=True, metadata={"description": "as in `query_info`, closest first"}
    )
    warnings = fields.List(fields.String(), required=True)
    target = fields.Nested(
        TargetSchema, required=True, allow_none=True, metadata={"description": "with an id asked about"}
    )
    trace_id = fields.String(required=True)
    took_ms = fields.Float(required=True)
