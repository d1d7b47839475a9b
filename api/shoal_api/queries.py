"""The query log."""

from __future__ import annotations

from typing import Any

from werkzeug.wrappers import Response

from shoal.query_log.query_log import QueryLog
from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.schemas.queries import (
    ClearedSchema,
    ClickedQueryListSchema,
    ClickSchema,
    FrequentQueryListSchema,
    FrequentQuerySchema,
    JudgedQuerySchema,
    LoggedQueriesQuerySchema,
    LoggedQueryListSchema,
)

Json = dict[str, Any]

blueprint = Blueprint(
    "queries",
    __name__,
    url_prefix=f"{API}/queries",
    description="What was searched for and opened (`SHOAL_QUERY_LOG`); reading it needs the right `admin`",
)


def _queries() -> QueryLog:
    return service.current().engine.queries


@blueprint.get("")
@blueprint.parameters(LoggedQueriesQuerySchema)
@blueprint.responds(200, LoggedQueryListSchema)
def list_queries(query: Json) -> Any:
    """List logged queries, newest first"""
    return _queries().list(**query)


@blueprint.delete("")
@blueprint.responds(200, ClearedSchema)
def clear_queries() -> Json:
    """Delete all logged queries and clicks"""
    return {"n_deleted": _queries().clear()}


@blueprint.get("/frequent")
@blueprint.parameters(FrequentQuerySchema)
@blueprint.responds(200, FrequentQueryListSchema)
def list_frequent_queries(query: Json) -> Any:
    """List the most frequent queries"""
    return _queries().frequent(**query)


@blueprint.get("/judged")
@blueprint.parameters(JudgedQuerySchema)
@blueprint.responds(200, ClickedQueryListSchema)
def list_judged_queries(query: Json) -> Any:
    """List judged queries made from clicks

    One line of JSON for each is what `shoal evaluate` reads.
    """
    return _queries().judged(**query)


@blueprint.post("/<string(minlength=1, maxlength=64):trace_id>/clicks")
@blueprint.body(ClickSchema)
@blueprint.responds(204)
@blueprint.fails(404)
def report_click(data: Json, trace_id: str) -> Response:
    """Report that a result of a search was opened

    `trace_id` is that of the response to the search. A key that may read is enough.
    """
    _queries().click(trace_id, **data)
    return Response(status=204)
