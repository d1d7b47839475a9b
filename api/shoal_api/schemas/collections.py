"""Schemas of collections."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.collections.names import MAX_NAME_CHARS, PATTERN
from shoal_api.schemas.common import Moment, PageSchema, Schema

NAME = f"1 to {MAX_NAME_CHARS} characters: a to z, 0 to 9, `-` and `_`, first a letter or digit"


def _name(description: str) -> fields.String:
    return fields.String(
        required=True,
        validate=validate.Regexp(rf"\A{PATTERN}\Z", error=f"must be {NAME.replace('`', '')}"),
        metadata={"description": description},
    )


class CollectionQuerySchema(PageSchema):
    pass


class NewCollectionSchema(Schema):
    """A new, empty collection."""

    name = _name(f"its name, {NAME}")


class CollectionChangeSchema(Schema):
    """The new name of a collection."""

    name = _name(f"the new name, {NAME}")


class SwapSchema(Schema):
    """Two collections that exchange their names."""

    first = _name("the name of one collection")
    second = _name("the name of the other")


class CollectionSchema(Schema):
    id = fields.String(required=True, metadata={"description": "never changes, also if the name does"})
    name = fields.String(required=True, metadata={"description": "the name that URLs have"})
    created_at = Moment(
        required=True, allow_none=True, metadata={"description": "when it was created; null for `main`"}
    )


class CollectionListSchema(Schema):
    collections = fields.List(
        fields.Nested(CollectionSchema),
        required=True,
        metadata={"description": "a page of collections: `main` first, the others by name"},
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class CollectionDetailsSchema(CollectionSchema):
    n_documents = fields.Integer(required=True, metadata={"description": "number of documents"})
    n_chunks = fields.Integer(required=True, metadata={"description": "number of chunks"})
    content_bytes = fields.Integer(required=True, metadata={"description": "size of all documents in UTF-8"})
    database_bytes = fields.Integer(required=True, metadata={"description": "size of the database on disk"})
    jobs = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "number of jobs by status"},
    )


class SwappedSchema(Schema):
    collections = fields.List(
        fields.Nested(CollectionSchema),
        required=True,
        metadata={"description": "the two collections with their names after the swap, as they were given"},
    )
