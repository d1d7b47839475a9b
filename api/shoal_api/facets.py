"""Facets of the library."""

from __future__ import annotations

import dataclasses
from typing import Any

from shoal.errors import FilterError, QueryError
from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.schemas.facets import FacetsQuerySchema, FacetsSchema, LibraryFacetsSchema
from shoal_api.schemas.filters import address_filters
from shoal_api.trace import trace_id

blueprint = Blueprint("facets", __name__, url_prefix=API, description="Counts by the values of a field")


@blueprint.get("/facets")
@blueprint.parameters(FacetsQuerySchema)
@blueprint.responds(200, LibraryFacetsSchema)
@blueprint.fails(503)
def facets_by_address(data: dict[str, Any]) -> dict[str, Any]:
    """Count the documents and passages of the library by the values of fields"""
    data["filters"] = address_filters(data)
    try:
        return _facets(data)
    except FilterError:
        raise
    except QueryError as error:
        raise QueryError(error.field.removeprefix("filters."), str(error)) from None


@blueprint.post("/facets")
@blueprint.body(FacetsSchema)
@blueprint.responds(200, LibraryFacetsSchema)
@blueprint.fails(503)
def facets(data: dict[str, Any]) -> dict[str, Any]:
    """Count by the values of fields, with filters too long for an address"""
    return _facets(data)


def _facets(data: dict[str, Any]) -> dict[str, Any]:
    counted = service.current().engine.facets(data.pop("facets"), **data)
    service.current().metrics.observe_facets(counted.took_ms / 1000)
    members = {field.name: getattr(counted, field.name) for field in dataclasses.fields(counted)}
    return {**members, "trace_id": trace_id()}
