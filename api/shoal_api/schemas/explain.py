"""Schemas of explanations."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal_api.schemas.arguments import schema_of
from shoal_api.schemas.common import MAX_ID, Records, Schema, between
from shoal_api.schemas.query_info import FeedbackChunkSchema, QueryInfoSchema, QueryReefSchema
from shoal_api.schemas.scores import (
    RELEVANCE,
    TERM_COVERAGE,
    MatchedTermSchema,
    NearestSentenceSchema,
    RerankInfoSchema,
    RerankPartsSchema,
    ScoresSchema,
    SharedReefSchema,
    UsedWeightsSchema,
)
from shoal_api.schemas.search import IN_BODY
from shoal_api.schemas.vocabulary import LearnedWordSchema


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


class WordReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    contribution = fields.Float(
        required=True, metadata={"description": "contribution of the word to the reef"}
    )


class WordSchema(Schema):
    text = fields.String(required=True, metadata={"description": "the word as it was typed"})
    start_char = fields.Integer(
        required=True, metadata={"description": "where it begins in the query, in code points"}
    )
    end_char = fields.Integer(required=True, metadata={"description": "where it ends, exclusive"})
    status = fields.String(
        required=True,
        validate=validate.OneOf(["known", "learned", "unknown", "stop", "number"]),
        metadata={"description": "status in the topic model; `stop`: too common to carry meaning"},
    )
    word = fields.String(
        required=True, allow_none=True, metadata={"description": "form under which the topic model knows it"}
    )
    reefs = Records(WordReefSchema, required=True, metadata={"description": "its reefs, strongest first"})
    learned = fields.Nested(
        LearnedWordSchema,
        required=True,
        allow_none=True,
        metadata={"description": "details of a learned word; null for others"},
    )
    n_chunks = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "number of chunks that hold it, in any inflection; null for stop words"},
    )
    suggestions = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "similar words of the library, for a word that is unknown"},
    )
    searched_as = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "the word that takes its place in the search, if any"},
    )


class KeptOutSchema(Schema):
    reason = fields.String(
        required=True,
        metadata={
            "description": "no match, no shared reef, other data, filter, phrase, title, excluded, "
            "max_per_document, top_k or min_relevance"
        },
    )
    message = fields.String(required=True, metadata={"description": "the reason in words"})


class RelevancePartSchema(Schema):
    """What one piece of evidence adds to the log odds of a relevance."""

    name = fields.String(
        required=True,
        metadata={"description": "start, term_coverage, adjacent_terms or reef_similarity"},
    )
    value = fields.Float(required=True, metadata={"description": "0 to 1; 1 for `start`"})
    contribution = fields.Float(
        required=True, metadata={"description": "the contributions add up to ln(relevance / (1 - relevance))"}
    )
    description = fields.String(required=True, metadata={"description": "the value in words"})


class NearWordPartSchema(Schema):
    """What a near word of the query adds to a chunk."""

    typed = fields.String(required=True, metadata={"description": "the word of the query"})
    word = fields.String(required=True, metadata={"description": "the word of the library"})
    lexical_raw = fields.Float(
        required=True,
        metadata={"description": "its part of `lexical_raw`, without pairs of neighbouring words"},
    )


class TargetSchema(Schema):
    """Rank and score of the requested chunk or document."""

    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    chunk_id = fields.Integer(required=True)
    rank = fields.Integer(required=True, allow_none=True, metadata={"description": "from 1"})
    score = fields.Float(
        required=True, metadata={"description": "score by which it is ranked; 0 without a match"}
    )
    n_shared_reefs = fields.Integer(required=True)
    shared_reefs = Records(SharedReefSchema, required=True)
    kept_out = Records(
        KeptOutSchema,
        required=True,
        metadata={"description": "reasons why it is not among the results; empty if it is"},
    )
    scores = fields.Nested(ScoresSchema, required=True)
    matched_terms = fields.List(fields.Nested(MatchedTermSchema), required=True)
    would_rank = fields.Integer(
        required=True,
        allow_none=True,
        metadata={
            "description": "its rank in the same search without filters, phrases and exclusions if one of "
            "them kept it out, or without the limit per document"
        },
    )
    relevance = fields.Float(required=True, metadata={"description": RELEVANCE})
    relevance_parts = Records(
        RelevancePartSchema,
        required=True,
        metadata={"description": "what each piece of evidence adds to the log odds of `relevance`"},
    )
    term_coverage = fields.Float(required=True, allow_none=True, metadata={"description": TERM_COVERAGE})
    rerank = fields.Nested(
        RerankPartsSchema,
        required=True,
        allow_none=True,
        metadata={"description": "what reranking did to it; `rank` is that afterwards. Null without"},
    )
    nearest_sentence = fields.Nested(
        NearestSentenceSchema,
        required=True,
        allow_none=True,
        metadata={"description": "if the dense signal was used and the chunk has a vector"},
    )
    near_words = Records(
        NearWordPartSchema,
        required=True,
        metadata={"description": "what words that were not typed add to its BM25"},
    )
    sort_values = fields.List(
        fields.Raw(), required=True, allow_none=True, metadata={"description": "null without `sort`"}
    )
    pinned_by = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "the pin that put it first, whatever its score; null if none did"},
    )


class ExplanationSchema(Schema):
    query = fields.String(required=True, metadata={"description": "as it was sent"})
    mode = fields.String(required=True, metadata={"description": "which signals rank"})
    weights = fields.Nested(UsedWeightsSchema, required=True)
    terms = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words and phrases used by the lexical signal"},
    )
    required = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "phrases and title words that a result must hold; ignored in mode `reef`"},
    )
    excluded = fields.List(
        fields.String(), required=True, metadata={"description": "words and phrases that no result may hold"}
    )
    words = fields.List(
        fields.Nested(WordSchema), required=True, metadata={"description": "the words of the query, in order"}
    )
    query_info = fields.Nested(QueryInfoSchema, required=True)
    reefs = Records(
        QueryReefSchema,
        required=True,
        metadata={
            "description": "the whole profile used for ranking, strongest first; `query_info` holds its "
            "beginning"
        },
    )
    feedback = Records(
        FeedbackChunkSchema, required=True, metadata={"description": "as in `query_info`, closest first"}
    )
    warnings = fields.List(fields.String(), required=True)
    target = fields.Nested(
        TargetSchema,
        required=True,
        allow_none=True,
        metadata={"description": "the chunk to explain, if requested"},
    )
    trace_id = fields.String(required=True)
    took_ms = fields.Float(required=True)
    rerank = fields.Nested(
        RerankInfoSchema,
        required=True,
        allow_none=True,
        metadata={"description": "what reranked the results before the target's rank was found; else null"},
    )
