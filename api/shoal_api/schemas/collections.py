"""Schemas of collections."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.models.responses import Collection, CollectionDetails, CollectionPage, SwappedCollections
from shoal.support.collection_names import MAX_NAME_CHARS, PATTERN
from shoal_api.schemas.common import PageSchema, Schema
from shoal_api.schemas.records import record_schema

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


CollectionSchema = record_schema(Collection)
CollectionListSchema = record_schema(CollectionPage, "CollectionList")
CollectionDetailsSchema = record_schema(CollectionDetails)
SwappedSchema = record_schema(SwappedCollections, "Swapped")
