"""The state of the service and the hierarchy of reefs."""

from __future__ import annotations

from marshmallow import fields

from shoal_api.schemas.common import Schema


class StatusSchema(Schema):
    """Counts, versions and sizes."""

    status = fields.String(required=True)
    n_documents = fields.Integer(required=True)
    n_chunks = fields.Integer(required=True)
    n_stale_chunks = fields.Integer(required=True)
    n_custom_words = fields.Integer(required=True)
    content_bytes = fields.Integer(required=True, metadata={"description": "of all documents, UTF-8"})
    vocabulary_version = fields.Integer(required=True)
    lagoon_version = fields.String(required=True)
    lagoon_n_reefs = fields.Integer(required=True)
    lagoon_checksum = fields.String(required=True)
    jobs = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "how many, by status"},
    )
    workers = fields.Integer(required=True, metadata={"description": "that gave a sign of life lately"})
    schema = fields.String(required=True, metadata={"description": "of the database"})
    db_path = fields.String(required=True)
    db_bytes = fields.Integer(required=True)
    postings = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "kept in memory for searches: of how many chunks, and the bytes they take"},
    )


class HealthSchema(Schema):
    status = fields.String(required=True)


class ReadySchema(Schema):
    status = fields.String(required=True)
    checks = fields.Dict(keys=fields.String(), values=fields.String(), required=True)
