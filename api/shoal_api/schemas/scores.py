"""Schemas of the scores of a result and the evidence for them."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.models.scores import RerankFallback
from shoal_api.schemas.common import Record, Records, Schema
from shoal_api.schemas.order import BoostPartSchema

RELEVANCE = (
    "calibrated probability that it answers the query, 0 to 1, from its words and reefs. Comparable between "
    "queries, and the same in every mode"
)
TERM_COVERAGE = (
    "share of the query's words and phrases that it holds in text, headings or title, weighted by their "
    "rarity in the library, 0 to 1. Comparable between queries, unlike `match_score`. Null for a query of "
    "common words only"
)


class FieldBoostPartsSchema(Schema):
    """What each field adds to `field_boost`. A term counts once, for the first field that has it."""

    title = fields.Float(required=True, metadata={"description": "words in the title"})
    heading_path = fields.Float(required=True, metadata={"description": "words in the headings"})
    tag_overlap = fields.Float(required=True, metadata={"description": "words that are tags"})


class ScoresSchema(Schema):
    """Score of each signal; null for an unused signal."""

    lexical = fields.Float(
        required=True, allow_none=True, metadata={"description": "0 to 1; null in mode `reef`"}
    )
    reef = fields.Float(
        required=True, allow_none=True, metadata={"description": "0 to 1; null in mode `lexical`"}
    )
    field_boost = fields.Float(
        required=True,
        metadata={"description": "0 to 1: share of the query's terms in title, headings and tags"},
    )
    final = fields.Float(
        required=True, metadata={"description": "score by which results are ranked, as `match_score`"}
    )
    lexical_raw = fields.Float(
        required=True, allow_none=True, metadata={"description": "null in mode `reef`"}
    )
    reef_raw = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "overlap of the profiles; null in mode `lexical`"},
    )
    field_boost_parts = Record(
        FieldBoostPartsSchema,
        required=True,
        allow_none=True,
        metadata={"description": "the parts of `field_boost`; null without `include_scores`"},
    )
    dense = fields.Float(
        required=True,
        allow_none=True,
        metadata={
            "description": "0 to 1; of a chunk without a vector, estimated from its other scores; null if no "
            "vectors are used"
        },
    )
    dense_raw = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "cosine of the vectors of query and chunk; null for a chunk without one"},
    )
    decay = fields.Float(
        required=True, allow_none=True, metadata={"description": "added by `decay`; null without"}
    )
    exact_name = fields.Float(
        required=True,
        metadata={"description": "added because the title, a heading or the file name is the query; else 0"},
    )
    identifiers = fields.Float(
        required=True,
        metadata={
            "description": "added because the passage has all identifiers and numbers of the query; else 0"
        },
    )
    boosts = Records(
        BoostPartSchema,
        required=True,
        allow_none=True,
        metadata={"description": "added by `boosts`, in their order; null without"},
    )


class SharedReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    chunk_z = fields.Float(
        required=True, metadata={"description": "how far the reef stands out in the chunk"}
    )
    query_z = fields.Float(required=True, metadata={"description": "how far it stands out in the query"})
    share = fields.Float(
        required=True, metadata={"description": "its share of `match_score`; 0 in mode `lexical`"}
    )
    probability = fields.Float(
        required=True,
        metadata={"description": "that a person would accept the reef as a reason, 0..1"},
    )
    is_reason = fields.Boolean(
        required=True,
        metadata={"description": "whether it is a reason; the others are background"},
    )
    query_words = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words of the query that show the reef, of a reason; else empty"},
    )
    passage_words = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words of the passage that show the reef, of a reason; else empty"},
    )


class MatchedTermSchema(Schema):
    """A word, phrase or `title:` term of the query that a chunk holds."""

    term = fields.String(required=True, metadata={"description": "as it was typed"})
    places = fields.List(
        fields.String(),
        required=True,
        metadata={
            "description": "`title`, `headings`, `text`, `tag`; all but `text` count for `field_boost`"
        },
    )
    same_stem = fields.String(
        required=True,
        allow_none=True,
        metadata={
            "description": "other words that match by their stem alone, such as `experience` for "
            "`experiments`; null if a form of the term itself matches"
        },
    )
    synonyms = fields.List(
        fields.String(), required=True, metadata={"description": "synonyms of the term that the chunk holds"}
    )


class UsedWeightsSchema(Schema):
    """Weight of each signal. They sum to 1, or are all 0 if the query has nothing to search for."""

    lexical = fields.Float(required=True, metadata={"description": "words, by BM25"})
    reef = fields.Float(required=True, metadata={"description": "shared reefs"})
    field_boost = fields.Float(required=True, metadata={"description": "words in title, headings and tags"})
    dense = fields.Float(required=True, metadata={"description": "nearness in meaning, by vectors"})


class NearestSentenceSchema(Schema):
    """The sentence of a chunk that is nearest to the query."""

    start = fields.Integer(required=True, metadata={"description": "in `text` of the chunk, in code points"})
    end = fields.Integer(required=True, metadata={"description": "exclusive"})
    similarity = fields.Float(required=True, metadata={"description": "cosine of both vectors"})
    description = fields.String(required=True, metadata={"description": "the same in words"})


class RerankPartsSchema(Schema):
    """What reranking did to a result."""

    blend_rank = fields.Integer(required=True, metadata={"description": "its rank by `match_score`, from 1"})
    similarity = fields.Float(
        required=True,
        metadata={
            "description": "cosine similarity of query and passage by the encoder, 0 to 1; with a "
            "cross-encoder, its score"
        },
    )
    score = fields.Float(
        required=True,
        metadata={"description": "orders the reranked results, 0 to 1; the sum of both parts"},
    )
    blend_part = fields.Float(
        required=True,
        metadata={"description": "half of `match_score` relative to the best of the reranked results"},
    )
    similarity_part = fields.Float(
        required=True,
        metadata={"description": "half of `similarity` relative to the largest of them"},
    )


class RerankInfoSchema(Schema):
    """What reranked the first results."""

    name = fields.String(
        required=True, metadata={"description": "of the encoder or cross-encoder; empty after a fallback"}
    )
    revision = fields.String(required=True, metadata={"description": "of the model; empty after a fallback"})
    n = fields.Integer(required=True, metadata={"description": "results that it read, counted from rank 1"})
    ms = fields.Float(required=True, metadata={"description": "milliseconds"})
    fallback = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf([fallback.value for fallback in RerankFallback]),
        metadata={"description": "why the results kept the order of the blend; null if they were reranked"},
    )
