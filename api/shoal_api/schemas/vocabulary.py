"""Schemas of learned words."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal_api.schemas.common import PageSchema, Records, Schema

MAX_CHARS = 512


class VocabularyQuerySchema(PageSchema):
    q = fields.String(
        validate=validate.Length(max=MAX_CHARS),
        metadata={"description": "only words that contain this, ignoring case and accents"},
    )


class AssociationSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(
        required=True, allow_none=True, metadata={"description": "null for a reef of other lagoon data"}
    )
    strength = fields.Float(
        required=True, metadata={"description": "relative to the word's strongest reef, which has 1"}
    )


class WordUserSchema(Schema):
    document_id = fields.Integer(required=True)
    title = fields.String(required=True, metadata={"description": "title of the document"})
    n_chunks = fields.Integer(required=True, metadata={"description": "number of chunks that hold the word"})
    n_occurrences = fields.Integer(
        required=True, allow_none=True, metadata={"description": "null where observations are not kept"}
    )


class WordEvidenceSchema(Schema):
    """Evidence for a word, its plurals included."""

    n_occurrences = fields.Integer(required=True, metadata={"description": "number of occurrences"})
    n_documents = fields.Integer(required=True, metadata={"description": "number of documents that use it"})
    documents = Records(
        WordUserSchema,
        required=True,
        metadata={"description": "the three documents that use it in most chunks"},
    )


class LearnedWordSchema(Schema):
    word = fields.String(required=True, metadata={"description": "the words of a compound joined by spaces"})
    is_compound = fields.Boolean(required=True, metadata={"description": "whether it has several words"})
    n_occurrences = fields.Integer(
        required=True, metadata={"description": "number of occurrences when it was learned"}
    )
    n_documents = fields.Integer(
        required=True, metadata={"description": "number of documents it was learned from"}
    )
    specificity = fields.Integer(
        required=True, metadata={"description": "-2 (in many reefs) to 2 (in few reefs)"}
    )
    from_version = fields.Integer(
        required=True, metadata={"description": "vocabulary version that last changed it"}
    )
    reefs = Records(AssociationSchema, required=True, metadata={"description": "strongest first"})
    evidence = fields.Nested(
        WordEvidenceSchema,
        required=True,
        metadata={"description": "the evidence stored now"},
    )


class VocabularySchema(Schema):
    words = fields.List(
        fields.Nested(LearnedWordSchema),
        required=True,
        metadata={"description": "a page of words, most frequent first"},
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})
    vocabulary_version = fields.Integer(required=True)
    warnings = fields.List(fields.String(), required=True)
