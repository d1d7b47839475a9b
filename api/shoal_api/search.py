"""Search, explanation and verification."""

from __future__ import annotations

import dataclasses
from typing import Any

from shoal.errors import QueryError
from shoal.models import SearchResponse, SearchResult
from shoal.search.request import Expand
from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.schemas.examples import SEARCH_EXAMPLES
from shoal_api.schemas.explain import ExplainSchema, ExplanationSchema
from shoal_api.schemas.filters import address_filters
from shoal_api.schemas.grounding import VerificationSchema, VerifySchema
from shoal_api.schemas.search import RESULT, SearchQuerySchema, SearchResponseSchema, SearchSchema
from shoal_api.trace import trace_id

blueprint = Blueprint("search", __name__, url_prefix=API, description="Ranked, cited, explained results")


@blueprint.post("/search")
@blueprint.body(SearchSchema)
@blueprint.responds(200, SearchResponseSchema, examples=SEARCH_EXAMPLES)
@blueprint.fails(400, 413, 415, 503)
def search(data: dict[str, Any]) -> dict[str, Any]:
    """Search"""
    query = data.pop("query")
    return _represent(service.current().engine.search(query, trace_id=trace_id(), **data), data)


@blueprint.get("/search")
@blueprint.parameters(SearchQuerySchema)
@blueprint.responds(200, SearchResponseSchema, examples=SEARCH_EXAMPLES)
@blueprint.fails(503)
def search_by_address(data: dict[str, Any]) -> dict[str, Any]:
    """Search by query parameters"""
    query = data.pop("q")
    data["filters"] = address_filters(data)
    try:
        return _represent(service.current().engine.search(query, trace_id=trace_id(), **data), data)
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


def _represent(response: SearchResponse, options: dict[str, Any]) -> dict[str, Any]:
    service.current().metrics.observe_search(str(options["mode"]), response.took_ms / 1000)
    return {
        "results": [_result(result, options) for result in response.results],
        "query_info": response.query_info,
        "weights": response.weights,
        "trace_id": trace_id(),
        "took_ms": round(response.took_ms, 3),
        "warnings": response.warnings,
    }


def _result(result: SearchResult, options: dict[str, Any]) -> dict[str, Any]:
    """Return a result with its requested optional fields only."""
    values: dict[str, Any] = RESULT.members(result)
    if not options["include_scores"]:
        del values["shared_reefs"], values["matched_terms"]
    if not options["context"]:
        del values["before"], values["after"]
    if options["expand"] == Expand.none:
        del values["evidence"]
    return values
