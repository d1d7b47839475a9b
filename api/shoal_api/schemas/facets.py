"""Schemas of facets."""

from __future__ import annotations

from marshmallow import fields

from shoal.declared.search import named
from shoal.models.facets import LibraryFacets
from shoal_api.schemas.arguments import address_fields, body_fields, schema_of
from shoal_api.schemas.filters import IN_ADDRESS, FiltersSchema
from shoal_api.schemas.records import record_schema

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
    {**IN_ADDRESS, **address_fields({**OF_FACETS, **named("filter")}, "facets")},
    "Facets as query parameters, with the filters beside them.",
)
record_schema(LibraryFacets, trace_id=fields.String)
