"""The state of the service and the hierarchy of reefs."""

from __future__ import annotations

from marshmallow import fields

from shoal_api.schemas.common import Schema


class StatusSchema(Schema):
    """Counts, versions and sizes."""

    status = fields.String(required=True, metadata={"description": "`ok`"})
    n_documents = fields.Integer(required=True, metadata={"description": "documents that are stored"})
    n_chunks = fields.Integer(required=True, metadata={"description": "chunks of all documents"})
    n_stale_chunks = fields.Integer(
        required=True,
        metadata={"description": "chunks that were scored with older words or data than there are now"},
    )
    n_custom_words = fields.Integer(
        required=True, metadata={"description": "words that were learned from the documents"}
    )
    content_bytes = fields.Integer(required=True, metadata={"description": "of all documents, UTF-8"})
    vocabulary_version = fields.Integer(required=True)
    lagoon_version = fields.String(required=True, metadata={"description": "of the topic model's data"})
    lagoon_n_reefs = fields.Integer(required=True, metadata={"description": "how many reefs it has"})
    lagoon_checksum = fields.String(required=True, metadata={"description": "of its data"})
    jobs = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "how many, by status"},
    )
    workers = fields.Integer(required=True, metadata={"description": "that gave a sign of life lately"})
    schema = fields.String(required=True, metadata={"description": "of the database"})
    db_bytes = fields.Integer(
        required=True, metadata={"description": "of the database, with all of its files"}
    )
    postings = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "kept in memory for searches: of how many chunks, and the bytes they take"},
    )


class HealthSchema(Schema):
    status = fields.String(required=True, metadata={"description": "`ok`"})


class ReadySchema(Schema):
    status = fields.String(required=True, metadata={"description": "`ready`"})
    checks = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        required=True,
        metadata={"description": "`ok` or `failed` for `database`, `scorer` and `broker`"},
    )
    warnings = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "failed checks that do not make the service unready, such as `broker`"},
    )


class ArchipelagoSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the archipelago, 0 to 3"})
    name = fields.String(required=True, metadata={"description": "its name"})


class IslandSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the island"})
    name = fields.String(required=True, metadata={"description": "its name"})
    archipelago_id = fields.Integer(required=True, metadata={"description": "the archipelago that it is in"})


class ReefSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the reef"})
    name = fields.String(required=True, metadata={"description": "its name"})
    island_id = fields.Integer(required=True, metadata={"description": "the island that it is on"})
    typical_words = fields.List(
        fields.String(), required=True, metadata={"description": "words that say most of it, strongest first"}
    )
    n_chunks = fields.Integer(
        required=True, metadata={"description": "chunks of the library whose strongest reef it is"}
    )


class ReefsSchema(Schema):
    """The hierarchy of meanings: reefs on islands in archipelagos."""

    archipelagos = fields.List(
        fields.Nested(ArchipelagoSchema), required=True, metadata={"description": "the four of them"}
    )
    islands = fields.List(fields.Nested(IslandSchema), required=True, metadata={"description": "by id"})
    reefs = fields.List(fields.Nested(ReefSchema), required=True, metadata={"description": "by id"})
