"""Search, explanation, verification, facets and similarity."""

from __future__ import annotations

import dataclasses
from typing import Any

from shoal.declared.notes import DEFAULT_OWNER
from shoal.declared.operations.searches import OtherSearchOperations as Others
from shoal.declared.operations.searches import SearchOperations as Searches
from shoal.errors import FilterError, QueryError
from shoal.models.notes import UnitResponse
from shoal.models.search import SearchResponse
from shoal.notes.unit_search import UNITS
from shoal.search.selected_fields import SelectedFields
from shoal_api import access, service
from shoal_api.answers import as_requested, represent
from shoal_api.openapi import Blueprint
from shoal_api.problems import field_problem
from shoal_api.schemas.examples import SEARCH_EXAMPLES
from shoal_api.schemas.explain import ExplainSchema
from shoal_api.schemas.facets import FacetsQuerySchema, FacetsSchema
from shoal_api.schemas.filters import address_filters
from shoal_api.schemas.grounding import STATEMENTS
from shoal_api.schemas.notes import OwnerQuerySchema
from shoal_api.schemas.results import NOTE_HIT_FIELDS, RESULT_FIELDS
from shoal_api.schemas.search import SearchQuerySchema, SearchSchema
from shoal_api.service import engine
from shoal_api.trace import trace_id

blueprint = Blueprint("search", __name__, description="Ranked, cited, explained results")
facets_blueprint = Blueprint("facets", __name__, description="Counts by the values of a field")
similarity = Blueprint("similarity", __name__, description="How similar two short texts are")


@blueprint.serves(Others.search, query=OwnerQuerySchema, body=SearchSchema, examples=SEARCH_EXAMPLES)
def search(query: dict[str, Any], data: dict[str, Any]) -> Any:
    data["owner"] = access.named_owner(query, data)
    return as_requested(_search(data.pop("query"), data))


@blueprint.serves(Others.search_by_address, query=SearchQuerySchema, examples=SEARCH_EXAMPLES)
def search_by_address(data: dict[str, Any]) -> Any:
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


@blueprint.serves(Searches.suggest)
def suggest(query: dict[str, Any]) -> Any:
    return engine().suggest(**query)


@blueprint.serves(Others.explain, body=ExplainSchema)
def explain(data: dict[str, Any]) -> Any:
    query = data.pop("query")
    explanation = engine().explain(query, **data)
    return dataclasses.replace(explanation, trace_id=trace_id())


@blueprint.serves(Searches.verify, special={"statements": STATEMENTS})
def verify(data: dict[str, Any]) -> Any:
    return engine().verify(trace_id=trace_id(), **data)


def _search(query: str, options: dict[str, Any]) -> dict[str, Any]:
    """Search passages, or passages and notes. Raises a 422 problem for an owner without the unit `note`."""
    units, owner = tuple(options.pop("units")), options.pop("owner", None)
    has_notes = units != UNITS[:1]
    known = RESULT_FIELDS | NOTE_HIT_FIELDS if has_notes else RESULT_FIELDS
    selected = SelectedFields(options.pop("include"), options.pop("exclude"), known)
    library = engine()
    response: SearchResponse | UnitResponse
    if not has_notes:
        if owner is not None:
            raise field_problem("owner", "is only for `units` with `note`")
        response = library.search(query, trace_id=trace_id(), **options)
    else:
        response = library.search_units(
            query,
            units=units,
            owner=access.owner_of(owner, DEFAULT_OWNER),
            trace_id=trace_id(),
            **options,
        )
    return represent(response, options, selected)


@facets_blueprint.serves(Others.facets_by_address, query=FacetsQuerySchema)
def facets_by_address(data: dict[str, Any]) -> dict[str, Any]:
    data["filters"] = address_filters(data)
    try:
        return _facets(data)
    except FilterError:
        raise
    except QueryError as error:
        raise QueryError(error.field.removeprefix("filters."), str(error)) from None


@facets_blueprint.serves(Others.facets, body=FacetsSchema)
def facets(data: dict[str, Any]) -> dict[str, Any]:
    return _facets(data)


def _facets(data: dict[str, Any]) -> dict[str, Any]:
    counted = engine().facets(data.pop("facets"), **data)
    service.current().metrics.observe_facets(counted.took_ms / 1000)
    members = {field.name: getattr(counted, field.name) for field in dataclasses.fields(counted)}
    return {**members, "trace_id": trace_id()}


@similarity.serves(Searches.similarity)
def compare_texts(data: dict[str, Any]) -> Any:
    return engine().similarity(**data)
