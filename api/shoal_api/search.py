"""Search, explanation and verification."""

from __future__ import annotations

import dataclasses
from typing import Any

from shoal.errors import QueryError
from shoal.models import SearchResponse, SearchResult
from shoal.note_models import NoteHit, UnitResponse
from shoal.notes.unit_search import UNITS
from shoal.search.request import Expand
from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.problems import field_problem
from shoal_api.schemas.examples import SEARCH_EXAMPLES
from shoal_api.schemas.explain import ExplainSchema, ExplanationSchema
from shoal_api.schemas.filters import address_filters
from shoal_api.schemas.grounding import VerificationSchema, VerifySchema
from shoal_api.schemas.notes import DEFAULT_OWNER
from shoal_api.schemas.search import NOTE_HIT, RESULT, SearchQuerySchema, SearchResponseSchema, SearchSchema
from shoal_api.trace import trace_id

blueprint = Blueprint("search", __name__, url_prefix=API, description="Ranked, cited, explained results")


@blueprint.post("/search")
@blueprint.body(SearchSchema)
@blueprint.responds(200, SearchResponseSchema, examples=SEARCH_EXAMPLES)
@blueprint.fails(400, 413, 415, 503)
def search(data: dict[str, Any]) -> dict[str, Any]:
    """Search"""
    return _search(data.pop("query"), data)


@blueprint.get("/search")
@blueprint.parameters(SearchQuerySchema)
@blueprint.responds(200, SearchResponseSchema, examples=SEARCH_EXAMPLES)
@blueprint.fails(503)
def search_by_address(data: dict[str, Any]) -> dict[str, Any]:
    """Search by query parameters"""
    query = data.pop("q")
    data["filters"] = address_filters(data)
    try:
        return _search(query, data)
    except QueryError as error:
        # The engine uses the field names of the body; as query parameters, filters are flat and the query is
        # `q`.
        field = error.field.removeprefix("filters.")
        raise QueryError("q" if field == "query" else field, str(error)) from None


@blueprint.post("/explain")
@blueprint.body(ExplainSchema)
@blueprint.responds(200, ExplanationSchema)
@blueprint.fails(400, 404, 413, 415, 503)
def explain(data: dict[str, Any]) -> Any:
    """Explain how a query is analyzed, and where a document or chunk ranks and why"""
    query = data.pop("query")
    explanation = service.current().engine.explain(query, **data)
    return dataclasses.replace(explanation, trace_id=trace_id())


@blueprint.post("/verify")
@blueprint.body(VerifySchema)
@blueprint.responds(200, VerificationSchema)
@blueprint.fails(400, 413, 415, 503)
def verify(data: dict[str, Any]) -> Any:
    """Verify that every claim of a text is supported by the passages that it cites"""
    return service.current().engine.verify(trace_id=trace_id(), **data)


def _search(query: str, options: dict[str, Any]) -> dict[str, Any]:
    """Search passages, or passages and notes. Raises a 422 problem for an owner without the unit `note`."""
    units, owner = tuple(options.pop("units")), options.pop("owner", None)
    engine = service.current().engine
    response: SearchResponse | UnitResponse
    if units == UNITS[:1]:
        if owner is not None:
            raise field_problem("owner", "is only for `units` with `note`")
        response = engine.search(query, trace_id=trace_id(), **options)
    else:
        response = engine.search_units(
            query,
            units=units,
            owner=DEFAULT_OWNER if owner is None else owner,
            trace_id=trace_id(),
            **options,
        )
    return _represent(response, options)


def _represent(response: SearchResponse | UnitResponse, options: dict[str, Any]) -> dict[str, Any]:
    service.current().metrics.observe_search(str(options["mode"]), response.took_ms / 1000)
    return {
        "results": [_result(result, options) for result in response.results],
        "query_info": response.query_info,
        "weights": response.weights,
        "trace_id": trace_id(),
        "took_ms": round(response.took_ms, 3),
        "warnings": response.warnings,
    }


def _result(result: SearchResult | NoteHit, options: dict[str, Any]) -> dict[str, Any]:
    """Return a result with its requested optional fields only."""
    values: dict[str, Any]
    if isinstance(result, NoteHit):
        values = NOTE_HIT.members(result)
        if not options["include_scores"]:
            del values["shared_reefs"]
        return values
    values = RESULT.members(result)
    if not options["include_scores"]:
        del values["shared_reefs"], values["matched_terms"]
    if not options["context"]:
        del values["before"], values["after"]
    if options["expand"] == Expand.none:
        del values["evidence"]
    return values
