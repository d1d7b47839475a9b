"""Schemas of search filters, in a JSON body and as query parameters."""

from __future__ import annotations

from typing import Any

from marshmallow import fields

from shoal.declared.filters import FILTERS
from shoal_api.schemas.arguments import address_fields, body_fields, schema_of
from shoal_api.schemas.common import BoundedList

FiltersSchema = schema_of(
    "Filters", body_fields(FILTERS), "Filters that every result passes; null means no filter."
)
IN_ADDRESS = {
    **address_fields(FILTERS),
    "tag": BoundedList(
        fields.String(),
        metadata={
            "description": "a single tag, for tags that contain commas; repeat the parameter for several"
        },
    ),
}
"""Filters as query parameters."""


def address_filters(data: dict[str, Any]) -> dict[str, Any]:
    """Remove the filters from loaded query parameters and return them."""
    given = {name: data.pop(name) for name in IN_ADDRESS if name in data}
    single = given.pop("tag", [])
    if single:
        given["tags"] = [*given.get("tags", []), *single]
    return given
