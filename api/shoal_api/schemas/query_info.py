"""Schemas of the analyzed query."""

from __future__ import annotations

from marshmallow import fields

from shoal_api.schemas.common import Records, Schema
from shoal_api.schemas.pins import UsedPinSchema


class QueryReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    z_score = fields.Float(required=True, metadata={"description": "z-score in the profile used for ranking"})
    own_z = fields.Float(
        required=True,
        metadata={
            "description": "the part from the query's own words; the rest comes from pseudo-relevance "
            "feedback"
        },
    )


class FeedbackChunkSchema(Schema):
    """A chunk that matches the query's words best, so that its profile is added to the query's
    (pseudo-relevance feedback)."""

    chunk_id = fields.Integer(required=True)
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    share = fields.Float(
        required=True, metadata={"description": "its share of the feedback; the shares sum to 1"}
    )


class NearWordSchema(Schema):
    """A word of the library that is searched for in place of a word of the query, or beside it."""

    typed = fields.String(required=True, metadata={"description": "the word of the query"})
    word = fields.String(required=True, metadata={"description": "the word of the library"})
    kind = fields.String(
        required=True,
        metadata={"description": "`typo`: the typed word stands nowhere; `prefix`: it begins the word"},
    )
    edits = fields.Integer(
        required=True, metadata={"description": "letters added, deleted, replaced, and neighbours swapped"}
    )
    weight = fields.Float(
        required=True, metadata={"description": "factor of the BM25 of the word, 0 to 1; of a typed word 1"}
    )
    n_chunks = fields.Integer(required=True, metadata={"description": "chunks that contain the word"})
    replaces = fields.Boolean(
        required=True,
        metadata={"description": "whether it takes the place of the typed word, or only adds to the score"},
    )


class UsedSynonymSchema(Schema):
    """A synonym that was searched for besides words of the query."""

    typed = fields.String(required=True, metadata={"description": "these words"})
    synonym = fields.String(required=True, metadata={"description": "the word or phrase"})
    synonym_id = fields.Integer(required=True, metadata={"description": "the entry that says so"})
    n_chunks = fields.Integer(required=True, metadata={"description": "number of chunks that hold it"})


class ExcludedTermSchema(Schema):
    """A word or phrase that the query excludes."""

    term = fields.String(required=True, metadata={"description": "as typed, without the minus"})
    n_removed = fields.Integer(
        required=True,
        metadata={"description": "passages that the query finds and the filters leave, and that have it"},
    )


class QueryInfoSchema(Schema):
    """The analyzed query: the profile used for ranking."""

    top_reef = fields.String(
        required=True,
        allow_none=True,
        metadata={
            "description": "name of the strongest reef; null without any word that the topic model knows"
        },
    )
    confidence = fields.Float(
        required=True,
        metadata={"description": "z-score of the first of `top_reefs` minus that of the second"},
    )
    coverage = fields.Float(required=True)
    top_reefs = Records(
        QueryReefSchema,
        required=True,
        metadata={"description": "the ten strongest reefs; their `z_score` is `query_z` in `shared_reefs`"},
    )
    unknown_words = fields.List(
        fields.String(), required=True, metadata={"description": "words that the topic model does not know"}
    )
    missing_terms = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words and phrases of the query that no chunk of the library holds"},
    )
    near_words = Records(
        NearWordSchema,
        required=True,
        metadata={"description": "words of the library that typing errors or the last word were taken for"},
    )
    feedback = Records(
        FeedbackChunkSchema,
        required=True,
        metadata={
            "description": "chunks used for pseudo-relevance feedback: the best matches of the query's "
            "words, whose profiles are added to the query's, best first"
        },
    )
    synonyms = Records(
        UsedSynonymSchema,
        required=True,
        metadata={
            "description": "words and phrases that were searched for as synonyms of words of the query"
        },
    )
    excluded = Records(
        ExcludedTermSchema,
        required=True,
        metadata={"description": "words and phrases that a minus left out"},
    )
    pins = Records(
        UsedPinSchema,
        required=True,
        metadata={"description": "pins that apply to the results, first those that come first"},
    )
