"""Schemas of the similarity of two texts."""

from __future__ import annotations

from marshmallow import fields

from shoal.notes.similarity import DUPLICATE, MAX_CHARS
from shoal_api.schemas.common import Record, Records, Schema

LIMIT = f"1 to {MAX_CHARS:,} characters"


class TextPairSchema(Schema):
    """Two texts. The result is the same in the other order."""

    a = fields.String(required=True, metadata={"description": f"a text of {LIMIT}"})
    b = fields.String(required=True, metadata={"description": f"the other text, of {LIMIT}"})


class SimilarityPartSchema(Schema):
    name = fields.String(
        required=True,
        metadata={
            "description": "`profile`: cosine of the profiles; `words`: share of the terms of either "
            "text that "
            "the other matches; `missing`: weight of the heaviest term that one text lacks; `exchanged`: the "
            "same where each text has a term of its own; `vectors`, with an encoder: cosine of both vectors, "
            "0 at the mean of unrelated texts"
        },
    )
    value = fields.Float(required=True, metadata={"description": "the measure, 0 to 1"})
    contribution = fields.Float(required=True, metadata={"description": "what it adds to the log-odds"})


class SignsSchema(Schema):
    """Signs of a contradiction, each 0 if there is none."""

    negations = fields.Float(
        required=True, metadata={"description": "difference of the numbers of negations, at most 2"}
    )
    moved = fields.Float(
        required=True, metadata={"description": "how far the negations concern different words, 0 to 1"}
    )
    antonyms = fields.Float(
        required=True, metadata={"description": "words whose opposite is in the other text, at most 2"}
    )
    numbers = fields.Float(
        required=True, metadata={"description": "1 if each text has a number that the other lacks"}
    )
    contrasts = fields.Float(
        required=True,
        metadata={"description": "how far the sides of a contrast or comparison are exchanged, 0 to 1"},
    )
    exchanges = fields.Float(
        required=True, metadata={"description": "how far two words have exchanged their places, 0 to 1"}
    )


class SimilaritySchema(Schema):
    """How similar two texts are, and why."""

    value = fields.Float(
        required=True,
        metadata={
            "description": f"probability that the texts are about the same, 0 to 1; from {DUPLICATE} on they "
            "are duplicates, unless `is_opposite`"
        },
    )
    is_opposite = fields.Boolean(
        required=True,
        metadata={"description": "whether there are signs that the texts contradict each other"},
    )
    is_duplicate = fields.Boolean(
        required=True, metadata={"description": f"`value` is at least {DUPLICATE}, and not `is_opposite`"}
    )
    parts = Records(SimilarityPartSchema, required=True, metadata={"description": "measures behind `value`"})
    signs = Record(SignsSchema, required=True, metadata={"description": "signs behind `is_opposite`"})
