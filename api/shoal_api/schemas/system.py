"""Schemas of the service's state and the hierarchy of reefs."""

from __future__ import annotations

from marshmallow import fields

from shoal_api.schemas.common import Schema
from shoal_api.schemas.scores import UsedWeightsSchema


class EncoderSchema(Schema):
    """The encoder that made the vectors of a library."""

    name = fields.String(required=True, metadata={"description": "name of the model"})
    revision = fields.String(
        required=True, metadata={"description": "changes with the weights, the prefixes and the tokens read"}
    )
    dimension = fields.Integer(required=True, metadata={"description": "numbers of a vector"})


class StatusSchema(Schema):
    """Counts, versions and sizes."""

    status = fields.String(required=True, metadata={"description": "`ok`"})
    n_documents = fields.Integer(required=True, metadata={"description": "number of documents"})
    n_chunks = fields.Integer(required=True, metadata={"description": "number of chunks"})
    n_notes = fields.Integer(required=True, metadata={"description": "number of active notes"})
    n_stale_chunks = fields.Integer(
        required=True,
        metadata={"description": "chunks that contain a changed word or were scored with other data"},
    )
    n_embedded_chunks = fields.Integer(required=True, metadata={"description": "chunks that have a vector"})
    n_chunks_to_embed = fields.Integer(
        required=True,
        metadata={"description": "chunks that lack a vector; 0 if the library is not embedded"},
    )
    encoder = fields.Nested(
        EncoderSchema,
        required=True,
        allow_none=True,
        metadata={"description": "the encoder of the vectors; null without vectors"},
    )
    n_custom_words = fields.Integer(required=True, metadata={"description": "number of learned words"})
    content_bytes = fields.Integer(required=True, metadata={"description": "size of all documents in UTF-8"})
    vocabulary_version = fields.Integer(required=True)
    lagoon_version = fields.String(
        required=True, metadata={"description": "version of the topic model's data"}
    )
    lagoon_n_reefs = fields.Integer(required=True, metadata={"description": "number of its reefs"})
    lagoon_checksum = fields.String(required=True, metadata={"description": "checksum of its data"})
    jobs = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "number of jobs by status"},
    )
    workers = fields.Integer(
        required=True, metadata={"description": "worker processes with a recent heartbeat"}
    )
    schema = fields.String(required=True, metadata={"description": "revision of the database schema"})
    db_path = fields.String(
        metadata={
            "description": "file of the database, or the address of its server; for the right `admin` alone"
        }
    )
    db_bytes = fields.Integer(
        required=True, metadata={"description": "size of the database, with all of its files"}
    )
    index_bytes = fields.Integer(
        required=True, metadata={"description": "size of the files of the search index"}
    )
    presets = fields.Dict(
        keys=fields.String(),
        values=fields.Nested(UsedWeightsSchema),
        required=True,
        metadata={"description": "weights of each preset of a search, by name"},
    )


class HealthSchema(Schema):
    status = fields.String(required=True, metadata={"description": "`ok`"})


class LagSchema(Schema):
    documents_behind = fields.Integer(
        required=True, metadata={"description": "documents whose newest state is in no segment of the index"}
    )
    seconds_behind = fields.Float(
        required=True, metadata={"description": "seconds since the oldest of these changes"}
    )


class CollectionLagSchema(LagSchema):
    name = fields.String(required=True, metadata={"description": "name of the collection"})


class IndexLagSchema(LagSchema):
    collections_behind = fields.Integer(
        required=True, metadata={"description": "open collections other than `main` that are behind"}
    )
    collections = fields.List(
        fields.Nested(CollectionLagSchema),
        metadata={
            "description": "up to ten of them, furthest behind first; only without keys, or for a key that "
            "may read all collections"
        },
    )


class ReadySchema(Schema):
    status = fields.String(required=True, metadata={"description": "`ready`"})
    checks = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        required=True,
        metadata={"description": "`ok` or `failed` for `database`, `scorer`, `broker` and `index`"},
    )
    warnings = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "failed checks that do not make the service unready, such as `broker`"},
    )
    index = fields.Nested(
        IndexLagSchema,
        metadata={
            "description": "how far the index of this machine is behind the library `main`, and the others; "
            "only where each machine has an index of its own"
        },
    )


class ArchipelagoSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the archipelago, 0 to 3"})
    name = fields.String(required=True, metadata={"description": "its name"})


class IslandSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the island"})
    name = fields.String(required=True, metadata={"description": "its name"})
    archipelago_id = fields.Integer(required=True, metadata={"description": "id of its archipelago"})


class ReefSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the reef"})
    name = fields.String(required=True, metadata={"description": "its name"})
    island_id = fields.Integer(required=True, metadata={"description": "id of its island"})
    typical_words = fields.List(
        fields.String(), required=True, metadata={"description": "its most typical words, strongest first"}
    )
    n_chunks = fields.Integer(
        required=True, metadata={"description": "number of chunks whose first label it is"}
    )


class ReefsSchema(Schema):
    """The hierarchy of reefs on islands in archipelagos."""

    archipelagos = fields.List(
        fields.Nested(ArchipelagoSchema), required=True, metadata={"description": "the four archipelagos"}
    )
    islands = fields.List(fields.Nested(IslandSchema), required=True, metadata={"description": "by id"})
    reefs = fields.List(fields.Nested(ReefSchema), required=True, metadata={"description": "by id"})
