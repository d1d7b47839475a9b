"""Filters: what every result of a search has to meet, in a body and in an address."""

from __future__ import annotations

from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.models import DocFormat, SearchFilters, TagsMatch
from shoal.search.request import MAX_METADATA, N_ARCHIPELAGOS
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
)

FORMATS = [each.value for each in DocFormat]

ABOUT_FILTERS: dict[str, str] = {
    "tags": "only chunks of documents with these tags",
    "tags_match": "whether a document needs `all` of the tags or `any` of them",
    "min_confidence": "least `confidence` of a chunk: the z-score of its strongest reef less that of the second, "
    "so how clear its one subject is: above 3 high, below 1 low; 0 upwards",
    "min_coverage": "least `coverage` of a chunk: the share of its words that the topic model knows, 0 to 1",
    "reef_ids": "only chunks whose strongest reef is one of these (`GET /api/v1/reefs` lists them)",
    "island_ids": "only chunks whose strongest reef is on one of these islands",
    "archipelago": "only chunks that score highest in this one of the four archipelagos",
    "document_ids": "only chunks of these documents",
    "created_after": "only chunks of documents stored at this moment (ISO 8601) or later",
    "created_before": "only chunks of documents stored before this moment (ISO 8601)",
    "format": "only chunks of documents in this format",
    "source_path": "only chunks of documents with exactly this source path, or one of these",
    "metadata": "only chunks of documents whose metadata have these values under these keys, at their top level and of "
    'the same type: 1 is 1.0, but neither "1" nor true; null is a null that is there. Texts, numbers, true, false and '
    f"null can be compared; at most {MAX_METADATA} keys",
}
"""What a filter lets through."""


class OneOrMany(BoundedList):
    """A list, or its only element by itself."""

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
    """Conditions that every result meets; null is no condition."""

    tags = BoundedList(
        fields.String(), allow_none=True, load_default=None, metadata={"description": ABOUT_FILTERS["tags"]}
    )
    tags_match = fields.String(
        validate=validate.OneOf([match.value for match in TagsMatch]),
        metadata={"description": ABOUT_FILTERS["tags_match"] + "; default: " + TagsMatch.all.value},
    )
    min_confidence = StrictFloat(
        allow_none=True, load_default=None, metadata={"description": ABOUT_FILTERS["min_confidence"]}
    )
    min_coverage = StrictFloat(
        allow_none=True, load_default=None, metadata={"description": ABOUT_FILTERS["min_coverage"]}
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
    document_ids = _ids(description=ABOUT_FILTERS["document_ids"] + "; [] allows nothing")
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
            "description": ABOUT_FILTERS["source_path"] + "; [] allows nothing",
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

    @ma.post_load
    def _as_filters(self, data: dict[str, Any], **_: Any) -> SearchFilters:
        return filters(data)


def filters(data: dict[str, Any]) -> SearchFilters:
    """The filters that loaded data describes; what is absent is no condition."""
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
    """An object of JSON, written out as a parameter: `metadata={"language":"de"}`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            return strict_json.parse_object(text.encode())
        except strict_json.MalformedJSONError as error:
            raise ma.ValidationError(str(error)) from None


def _listed(name: str) -> dict[str, str]:
    return {"description": f"{ABOUT_FILTERS[name]}; several separated by commas, or the parameter repeated"}


class AddressFiltersSchema(Schema):
    """Filters as parameters of an address."""

    tags = CommaList(fields.String(), metadata=_listed("tags"))
    tags_match = fields.String(
        validate=validate.OneOf([match.value for match in TagsMatch]),
        metadata={"description": ABOUT_FILTERS["tags_match"] + "; default: " + TagsMatch.all.value},
    )
    min_confidence = fields.Float(metadata={"description": ABOUT_FILTERS["min_confidence"]})
    min_coverage = fields.Float(metadata={"description": ABOUT_FILTERS["min_coverage"]})
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
            "description": "as `tags`, each written out by itself and the parameter repeated: for tags with commas"
        },
    )
    source_path = BoundedList(
        fields.String(), metadata={"description": ABOUT_FILTERS["source_path"] + ", the parameter repeated"}
    )
    metadata = JSONObject(
        metadata={"description": ABOUT_FILTERS["metadata"] + '. An object of JSON: `{"language":"de"}`'}
    )


def address_filters(data: dict[str, Any]) -> SearchFilters:
    """The filters of an address; they are taken out of its loaded data."""
    given = {name: data.pop(name) for name in AddressFiltersSchema().fields if name in data}
    single = given.pop("tag", [])
    if single:
        given["tags"] = [*given.get("tags", []), *single]
    return filters(given)
