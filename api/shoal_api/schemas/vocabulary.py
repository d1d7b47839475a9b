"""Learned words."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal_api.schemas.common import PageSchema, Records, Schema

MAX_CHARS = 512


class VocabularyQuerySchema(PageSchema):
    q = fields.String(
        validate=validate.Length(max=MAX_CHARS),
        metadata={"description": "only words that hold this, however it is spelt"},
    )


class AssociationSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(
        required=True, allow_none=True, metadata={"description": "null for a reef of other lagoon data"}
    )
    strength = fields.Float(required=True, metadata={"description": "1 for the word's strongest reef"})


class WordUserSchema(Schema):
    document_id = fields.Integer(required=True)
    title = fields.String(required=True, metadata={"description": "title of the document"})
    n_chunks = fields.Integer(required=True, metadata={"description": "chunks that hold the word"})
    n_occurrences = fields.Integer(
        required=True, allow_none=True, metadata={"description": "null where observations are not kept"}
    )


class WordEvidenceSchema(Schema):
    """What the word was learned from, its plurals included."""

    n_occurrences = fields.Integer(required=True, metadata={"description": "how often it was met"})
    n_documents = fields.Integer(required=True, metadata={"description": "documents that use it"})
    documents = Records(
        WordUserSchema, required=True, metadata={"description": "the three that use it in most chunks"}
    )


class LearnedWordSchema(Schema):
    word = fields.String(required=True, metadata={"description": "the words of a compound joined by spaces"})
    is_compound = fields.Boolean(required=True, metadata={"description": "whether it is of several words"})
    n_occurrences = fields.Integer(
        required=True, metadata={"description": "how often it was met when it was learned"}
    )
    n_documents = fields.Integer(required=True, metadata={"description": "documents it was learned from"})
    specificity = fields.Integer(
        required=True, metadata={"description": "-2 (at home in many reefs) to 2 (in few)"}
    )
    from_version = fields.Integer(
        required=True, metadata={"description": "version of the vocabulary since which it is as it is"}
    )
    reefs = Records(AssociationSchema, required=True, metadata={"description": "strongest first"})
    evidence = fields.Nested(
        WordEvidenceSchema,
        required=True,
        metadata={"description": "what it was learned from, as it is stored now"},
    )


class VocabularySchema(Schema):
    words = fields.List(
        fields.Nested(LearnedWordSchema),
        required=True,
        metadata={"description": "a page of them, those met most often first"},
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})
    vocabulary_version = fields.Integer(required=True)
    warnings = fields.List(fields.String(), required=True)
