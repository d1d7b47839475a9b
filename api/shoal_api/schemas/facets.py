"""Schemas of facets."""

from __future__ import annotations

from marshmallow import fields

from shoal.declared.search import named
from shoal_api.schemas.arguments import address_fields, body_fields, schema_of
from shoal_api.schemas.common import Records, Schema
from shoal_api.schemas.filters import AddressFiltersSchema, FiltersSchema

OF_FACETS = named("facets", "facet_limit")

FacetsSchema = schema_of(
    "Facets",
    {
        **body_fields({**OF_FACETS, **named("filters", "filter")}, "facets"),
        "filters": fields.Nested(
            FiltersSchema,
            allow_none=True,
            load_default=None,
            metadata={"description": "filters that every passage passes that is counted"},
        ),
    },
    "Facets of the library, or of what meets the filters.",
)
FacetsQuerySchema = schema_of(
    "FacetsQuery",
    {**AddressFiltersSchema().declared_fields, **address_fields({**OF_FACETS, **named("filter")}, "facets")},
    "Facets as query parameters, with the filters beside them.",
)


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
