"""Search, explanation and verification."""

from __future__ import annotations

import dataclasses
from typing import Any

from shoal.errors import FilterError, QueryError
from shoal.models.notes import UnitResponse
from shoal.models.search import SearchResponse
from shoal.notes.unit_search import UNITS
from shoal.search.selected_fields import SelectedFields
from shoal_api import access, service
from shoal_api.answers import as_requested, represent
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.problems import field_problem
from shoal_api.schemas.examples import SEARCH_EXAMPLES
from shoal_api.schemas.explain import ExplainSchema, ExplanationSchema
from shoal_api.schemas.filters import address_filters
from shoal_api.schemas.grounding import VerificationSchema, VerifySchema
from shoal_api.schemas.notes import DEFAULT_OWNER, OwnerQuerySchema
from shoal_api.schemas.results import NOTE_HIT_FIELDS, RESULT_FIELDS, SearchResponseSchema
from shoal_api.schemas.search import SearchQuerySchema, SearchSchema
from shoal_api.schemas.suggest import SuggestionsSchema, SuggestQuerySchema
from shoal_api.trace import trace_id

blueprint = Blueprint("search", __name__, url_prefix=API, description="Ranked, cited, explained results")


@blueprint.post("/search")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(SearchSchema)
@blueprint.responds(200, SearchResponseSchema, examples=SEARCH_EXAMPLES)
@blueprint.fails(503)
def search(query: dict[str, Any], data: dict[str, Any]) -> Any:
    """Search

    With `Accept: application/x-ndjson`, the response is lines: `{"head": …}`, a `{"result": …}` for each
    result, or with `group_by` document a `{"document": …}` for each document, and `{"end": …}` with the
    warnings.
    """
    data["owner"] = access.named_owner(query, data)
    return as_requested(_search(data.pop("query"), data))


@blueprint.get("/search")
@blueprint.parameters(SearchQuerySchema)
@blueprint.responds(200, SearchResponseSchema, examples=SEARCH_EXAMPLES)
@blueprint.fails(503)
def search_by_address(data: dict[str, Any]) -> Any:
    """Search by query parameters"""
    query = data.pop("q")
    data["filters"] = address_filters(data)
    try:
        return as_requested(_search(query, data))
    except FilterError:
        raise
    except QueryError as error:
        # The engine uses the field names of the body; as query parameters, filters are flat and the query is
        # `q`.
        field = error.field.removeprefix("filters.")
        raise QueryError("q" if field == "query" else field, str(error)) from None


@blueprint.get("/suggest")
@blueprint.parameters(SuggestQuerySchema)
@blueprint.responds(200, SuggestionsSchema)
@blueprint.fails(503)
def suggest(data: dict[str, Any]) -> Any:
    """Suggest queries while one is typed"""
    return service.current().engine.suggest(data["q"], limit=data["limit"])


@blueprint.post("/explain")
@blueprint.body(ExplainSchema)
@blueprint.responds(200, ExplanationSchema)
@blueprint.fails(404, 503)
def explain(data: dict[str, Any]) -> Any:
    """Explain how a query is analyzed, and where a document or chunk ranks and why

    The body is that of a search. What only shapes its results, such as `facets` and `text`, has no effect.
    """
    query = data.pop("query")
    explanation = service.current().engine.explain(query, **data)
    return dataclasses.replace(explanation, trace_id=trace_id())


@blueprint.post("/verify")
@blueprint.body(VerifySchema)
@blueprint.responds(200, VerificationSchema)
@blueprint.fails(503)
def verify(data: dict[str, Any]) -> Any:
    """Verify that every claim of a text is supported by the passages that it cites"""
    return service.current().engine.verify(trace_id=trace_id(), **data)


def _search(query: str, options: dict[str, Any]) -> dict[str, Any]:
    """Search passages, or passages and notes. Raises a 422 problem for an owner without the unit `note`."""
    units, owner = tuple(options.pop("units")), options.pop("owner", None)
    has_notes = units != UNITS[:1]
    known = RESULT_FIELDS | NOTE_HIT_FIELDS if has_notes else RESULT_FIELDS
    selected = SelectedFields(options.pop("include"), options.pop("exclude"), known)
    engine = service.current().engine
    response: SearchResponse | UnitResponse
    if not has_notes:
        if owner is not None:
            raise field_problem("owner", "is only for `units` with `note`")
        response = engine.search(query, trace_id=trace_id(), **options)
    else:
        response = engine.search_units(
            query,
            units=units,
            owner=access.owner_of(owner, DEFAULT_OWNER),
            trace_id=trace_id(),
            **options,
        )
    return represent(response, options, selected)
