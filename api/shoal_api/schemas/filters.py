"""Schemas of search filters, in a JSON body and as query parameters."""

from __future__ import annotations

from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.models.documents import DocFormat
from shoal.models.search import SearchFilters, TagsMatch
from shoal.search.request import MAX_METADATA, N_ARCHIPELAGOS
from shoal.search.value_checks import FILE_TYPES
from shoal_api import strict_json
from shoal_api.schemas.common import (
    MAX_ID,
    AddressMoment,
    BoundedList,
    CommaList,
    Moment,
    Schema,
    StrictFloat,
    between,
    stated,
)

FORMATS = [doc_format.value for doc_format in DocFormat]

ABOUT_FILTERS: dict[str, str] = {
    "tags": "only chunks of documents with these tags",
    "tags_match": "whether a document needs `all` of the tags or `any` of them",
    "min_confidence": "lowest `confidence` of a chunk, from 0: the z-score of its strongest reef minus that "
    "of the second, a measure of how clearly it has one topic (above 3 high, below 1 low)",
    "min_coverage": "lowest `coverage` of a chunk: the share of its words that the topic model knows, 0 to 1",
    "reef_ids": "only chunks whose first label is one of these (`GET /api/v1/reefs` lists them)",
    "island_ids": "only chunks whose first label is on one of these islands",
    "archipelago": "only chunks that score highest in this archipelago, 0 to 3",
    "document_ids": "only chunks of these documents",
    "created_after": "only chunks of documents stored at this time (ISO 8601) or later",
    "created_before": "only chunks of documents stored before this time (ISO 8601)",
    "format": "only chunks of documents in this format",
    "source_path": "only chunks of documents with exactly this source path, or one of these",
    "metadata": "only chunks of documents with these values under these top-level keys of their metadata. "
    "Values can be "
    'strings, numbers, booleans and null, and types must match: 1 equals 1.0, but not "1" or true; null '
    "matches only a "
    f"key that is present. At most {MAX_METADATA} keys",
    "name_contains": "only chunks of documents with this text in their title or source path, in any case",
    "file_type": f"only chunks of documents of this type: one of {', '.join(FILE_TYPES)}, or a suffix of the "
    "source path, such as `.py`",
}
"""Description of each filter."""


class OneOrMany(BoundedList):
    """A list, or a single element without the list."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        return super()._deserialize([value] if isinstance(value, str) else value, attr, data, **kwargs)


def _ids(**metadata: Any) -> BoundedList:
    return BoundedList(
        fields.Integer(strict=True, validate=between(0, MAX_ID)),
        allow_none=True,
        load_default=None,
        metadata=metadata,
    )


class FiltersSchema(Schema):
    """Filters that every result passes; null means no filter."""

    tags = BoundedList(
        fields.String(), allow_none=True, load_default=None, metadata={"description": ABOUT_FILTERS["tags"]}
    )
    tags_match = fields.String(
        validate=validate.OneOf([match.value for match in TagsMatch]),
        metadata={"description": ABOUT_FILTERS["tags_match"] + "; default: " + TagsMatch.all.value},
    )
    min_confidence = StrictFloat(
        allow_none=True, load_default=None, metadata=stated(0, None, ABOUT_FILTERS["min_confidence"])
    )
    min_coverage = StrictFloat(
        allow_none=True, load_default=None, metadata=stated(0, 1, ABOUT_FILTERS["min_coverage"])
    )
    reef_ids = _ids(description=ABOUT_FILTERS["reef_ids"])
    island_ids = _ids(description=ABOUT_FILTERS["island_ids"])
    archipelago = fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        validate=between(0, N_ARCHIPELAGOS - 1),
        metadata={"description": ABOUT_FILTERS["archipelago"]},
    )
    document_ids = _ids(description=ABOUT_FILTERS["document_ids"] + "; [] matches nothing")
    format = fields.String(
        allow_none=True,
        load_default=None,
        validate=validate.OneOf(FORMATS),
        metadata={"description": ABOUT_FILTERS["format"]},
    )
    created_after = Moment(
        allow_none=True, load_default=None, metadata={"description": ABOUT_FILTERS["created_after"]}
    )
    created_before = Moment(
        allow_none=True, load_default=None, metadata={"description": ABOUT_FILTERS["created_before"]}
    )
    source_path = OneOrMany(
        fields.String(),
        allow_none=True,
        load_default=None,
        metadata={
            "type": ["string", "array", "null"],
            "description": ABOUT_FILTERS["source_path"] + "; [] matches nothing",
        },
    )
    metadata = fields.Dict(
        keys=fields.String(),
        allow_none=True,
        load_default=None,
        metadata={
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
            "maxProperties": MAX_METADATA,
            "description": ABOUT_FILTERS["metadata"],
        },
    )
    name_contains = fields.String(
        allow_none=True, load_default=None, metadata={"description": ABOUT_FILTERS["name_contains"]}
    )
    file_type = fields.String(
        allow_none=True, load_default=None, metadata={"description": ABOUT_FILTERS["file_type"]}
    )

    @ma.post_load
    def _as_filters(self, data: dict[str, Any], **_: Any) -> SearchFilters:
        return filters(data)


def filters(data: dict[str, Any]) -> SearchFilters:
    """Return the filters in loaded data; absent values mean no filter."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in data.items()
        if value is not None
    }
    if "tags_match" in values:
        values["tags_match"] = TagsMatch(values["tags_match"])
    if "format" in values:
        values["format"] = DocFormat(values["format"])
    return SearchFilters(**values)


class JSONObject(fields.String):
    """A JSON object as a query parameter: `metadata={"language":"de"}`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            return strict_json.parse_object(text.encode())
        except strict_json.MalformedJSONError as error:
            raise ma.ValidationError(str(error)) from None


def _listed(name: str) -> dict[str, str]:
    return {"description": f"{ABOUT_FILTERS[name]}; comma-separated, or with the parameter repeated"}


class AddressFiltersSchema(Schema):
    """Filters as query parameters."""

    tags = CommaList(fields.String(), metadata=_listed("tags"))
    tags_match = fields.String(
        validate=validate.OneOf([match.value for match in TagsMatch]),
        metadata={"description": ABOUT_FILTERS["tags_match"] + "; default: " + TagsMatch.all.value},
    )
    min_confidence = fields.Float(metadata=stated(0, None, ABOUT_FILTERS["min_confidence"]))
    min_coverage = fields.Float(metadata=stated(0, 1, ABOUT_FILTERS["min_coverage"]))
    document_ids = CommaList(fields.Integer(validate=between(0, MAX_ID)), metadata=_listed("document_ids"))
    reef_ids = CommaList(fields.Integer(validate=between(0, MAX_ID)), metadata=_listed("reef_ids"))
    island_ids = CommaList(fields.Integer(validate=between(0, MAX_ID)), metadata=_listed("island_ids"))
    archipelago = fields.Integer(
        validate=between(0, N_ARCHIPELAGOS - 1), metadata={"description": ABOUT_FILTERS["archipelago"]}
    )
    format = fields.String(
        validate=validate.OneOf(FORMATS), metadata={"description": ABOUT_FILTERS["format"]}
    )
    created_after = AddressMoment(metadata={"description": ABOUT_FILTERS["created_after"]})
    created_before = AddressMoment(metadata={"description": ABOUT_FILTERS["created_before"]})
    tag = BoundedList(
        fields.String(),
        metadata={
            "description": "a single tag, for tags that contain commas; repeat the parameter for several"
        },
    )
    source_path = BoundedList(
        fields.String(), metadata={"description": ABOUT_FILTERS["source_path"] + " (repeat the parameter)"}
    )
    metadata = JSONObject(
        metadata={"description": ABOUT_FILTERS["metadata"] + '. As a JSON object: `{"language":"de"}`'}
    )
    name_contains = fields.String(metadata={"description": ABOUT_FILTERS["name_contains"]})
    file_type = fields.String(metadata={"description": ABOUT_FILTERS["file_type"]})


def address_filters(data: dict[str, Any]) -> SearchFilters:
    """Remove the filters from loaded query parameters and return them."""
    given = {name: data.pop(name) for name in AddressFiltersSchema().fields if name in data}
    single = given.pop("tag", [])
    if single:
        given["tags"] = [*given.get("tags", []), *single]
    return filters(given)
