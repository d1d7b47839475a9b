"""Schemas of the similarity of two texts."""

from __future__ import annotations

from marshmallow import fields

from shoal.models.similarity import Similarity
from shoal.notes.similarity import MAX_CHARS
from shoal_api.schemas.common import Schema
from shoal_api.schemas.records import record_schema

LIMIT = f"1 to {MAX_CHARS:,} characters"


class TextPairSchema(Schema):
    """Two texts. The result is the same in the other order."""

    a = fields.String(required=True, metadata={"description": f"a text of {LIMIT}"})
    b = fields.String(required=True, metadata={"description": f"the other text, of {LIMIT}"})


SimilaritySchema = record_schema(Similarity)
