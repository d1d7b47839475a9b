"""Pins: what comes first for a query, or is hidden from its results."""

from __future__ import annotations

from typing import Any

from werkzeug.wrappers import Response

from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API, ID
from shoal_api.schemas.pins import NewPinSchema, PinListSchema, PinQuerySchema, QueryPinSchema

Json = dict[str, Any]

blueprint = Blueprint("pins", __name__, url_prefix=API, description="What comes first for a query")

CONFLICT = "Another pin is for these words; the message names it"


@blueprint.get("/pins")
@blueprint.parameters(PinQuerySchema)
@blueprint.responds(200, PinListSchema)
def list_pins(query: Json) -> Any:
    """List the pins of the library"""
    return service.current().engine.pins.list(**query)


@blueprint.post("/pins")
@blueprint.body(NewPinSchema)
@blueprint.responds(201, QueryPinSchema, description="Stored; searches use it from now on")
@blueprint.conflicts(CONFLICT)
def add_pin(data: Json) -> Any:
    """Put documents or passages first for a query, or hide them from its results"""
    return service.current().engine.pins.add(**data)


@blueprint.get(f"/pins/<{ID}:pin_id>")
@blueprint.responds(200, QueryPinSchema)
@blueprint.fails(404)
def get_pin(pin_id: int) -> Any:
    """Show a pin"""
    return service.current().engine.pins.get(pin_id)


@blueprint.put(f"/pins/<{ID}:pin_id>")
@blueprint.body(NewPinSchema)
@blueprint.responds(200, QueryPinSchema)
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def replace_pin(data: Json, pin_id: int) -> Any:
    """Replace a pin"""
    return service.current().engine.pins.replace(pin_id, **data)


@blueprint.delete(f"/pins/<{ID}:pin_id>")
@blueprint.responds(204)
@blueprint.fails(404)
def delete_pin(pin_id: int) -> Response:
    """Delete a pin"""
    service.current().engine.pins.delete(pin_id)
    return Response(status=204)
