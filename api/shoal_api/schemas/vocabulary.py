"""Schemas of learned words."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.models.vocabulary import WordPage
from shoal_api.schemas.common import PageSchema
from shoal_api.schemas.records import record_schema

MAX_CHARS = 512


class VocabularyQuerySchema(PageSchema):
    q = fields.String(
        validate=validate.Length(max=MAX_CHARS),
        metadata={"description": "only words that contain this, ignoring case and accents"},
    )


VocabularySchema = record_schema(WordPage, "Vocabulary")
