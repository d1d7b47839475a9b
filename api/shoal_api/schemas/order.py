"""Schemas of what ordering results adds to them."""

from __future__ import annotations

from marshmallow import fields

from shoal_api.schemas.common import Schema


class FoldedSchema(Schema):
    """A near-duplicate that is folded under a result."""

    chunk_id = fields.Integer(required=True)
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    similarity = fields.Float(
        required=True,
        metadata={"description": "share of all runs of five words of both texts that are in both, 0 to 1"},
    )


class DocumentReefSchema(Schema):
    """What a document is about."""

    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    n_chunks = fields.Integer(
        required=True, metadata={"description": "passages of the document whose first label it is"}
    )


class BoostPartSchema(Schema):
    """What a boost adds to the score of a result."""

    filter = fields.String(required=True, metadata={"description": "the filter as an expression"})
    weight = fields.Float(required=True, metadata={"description": "that of the request"})
    value = fields.Float(
        required=True, metadata={"description": "the weight if the result meets the filter, else 0"}
    )
