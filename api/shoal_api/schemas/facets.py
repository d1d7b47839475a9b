"""Schemas of facets."""

from __future__ import annotations

from marshmallow import fields

from shoal.search.facets.requests import DEFAULT_VALUES, MAX_FACETS, MAX_VALUES
from shoal_api.schemas.common import (
    BoundedList,
    CommaList,
    Records,
    Schema,
    stated,
)
from shoal_api.schemas.filters import ABOUT_FILTER, AddressFiltersSchema, FiltersSchema, filter_in_body

ABOUT_FACETS = (
    "fields whose values are counted, such as `tags`, `author.name` or, for a histogram, `created:month` and "
    f"`price:10`; at most {MAX_FACETS}"
)
ABOUT_LIMIT = f"most values of a facet; default {DEFAULT_VALUES}, of a histogram {MAX_VALUES:,}"


def facets_in_body(**arguments: bool) -> BoundedList:
    """Return the field of facets, each a text or an object; the library checks them."""
    return BoundedList(
        fields.Raw(metadata={"type": ["string", "object"]}),
        max_items=MAX_FACETS,
        metadata={
            "description": ABOUT_FACETS + ', or objects such as `{"field": "price", "interval": 10, '
            '"limit": 50}`'
        },
        **arguments,
    )


def facets_in_address(**arguments: bool) -> CommaList:
    """Return the parameter of facets."""
    return CommaList(
        fields.String(), metadata={"description": f"{ABOUT_FACETS}; comma-separated"}, **arguments
    )


def facet_limit(*, strict: bool) -> fields.Integer:
    """Return the field of the limit, which the library checks."""
    return fields.Integer(strict=strict, metadata=stated(1, MAX_VALUES, ABOUT_LIMIT))


class FacetsSchema(Schema):
    """Facets of the library, or of what meets the filters."""

    facets = facets_in_body(required=True)
    facet_limit = facet_limit(strict=True)
    filters = fields.Nested(
        FiltersSchema,
        allow_none=True,
        load_default=None,
        metadata={"description": "filters that every passage passes that is counted"},
    )
    filter = filter_in_body()


class FacetsQuerySchema(AddressFiltersSchema):
    """Facets as query parameters, with the filters beside them."""

    facets = facets_in_address(required=True)
    facet_limit = facet_limit(strict=False)
    filter = fields.String(metadata={"description": ABOUT_FILTER})


class FacetValueSchema(Schema):
    """A value of a field, or an interval."""

    value = fields.Raw(
        required=True,
        metadata={
            "type": ["string", "number", "boolean", "null"],
            "description": "as it is stored; of an interval its begin: a number, or a date such as `2026-01`",
        },
    )
    name = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "of a reef, island or archipelago, whose `value` is its id; else null"},
    )
    count = fields.Integer(required=True, metadata={"description": "documents with a result that has it"})
    n_chunks = fields.Integer(required=True, metadata={"description": "results that have it"})
    filter = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "the condition for `filter` that selects it; null if none can"},
    )
    is_selected = fields.Boolean(
        required=True, metadata={"description": "whether `filter` selects it already"}
    )


class FacetSchema(Schema):
    """The values of a field, most frequent first, equal ones in their order; intervals in ascending order."""

    field = fields.String(required=True, metadata={"description": "as a filter names it"})
    interval = fields.Raw(
        required=True,
        metadata={
            "type": ["string", "number", "null"],
            "description": "of a histogram: `day`, `week`, `month`, `year` or a number",
        },
    )
    values = Records(
        FacetValueSchema, required=True, metadata={"description": "at most as many as the limit"}
    )
    n_values = fields.Integer(
        required=True, metadata={"description": "different values, with those that are not listed"}
    )
    n_other = fields.Integer(
        required=True, metadata={"description": "sum of the counts of values that are not listed"}
    )
    n_missing = fields.Integer(required=True, metadata={"description": "documents without a value"})
    n_documents = fields.Integer(
        required=True,
        metadata={"description": "documents counted: those that meet all filters but those on this field"},
    )
    n_chunks = fields.Integer(required=True, metadata={"description": "their results"})


class LibraryFacetsSchema(Schema):
    facets = Records(FacetSchema, required=True, metadata={"description": "in the order of the request"})
    n_documents = fields.Integer(
        required=True, metadata={"description": "documents with a passage that meets all filters"}
    )
    n_chunks = fields.Integer(required=True, metadata={"description": "passages that meet all filters"})
    took_ms = fields.Float(required=True)
    warnings = fields.List(fields.String(), required=True)
    trace_id = fields.String(required=True)
