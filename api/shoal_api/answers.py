"""Responses to searches as JSON values, whole or line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.models.notes import NoteHit, UnitResponse
from shoal.models.search import DocumentResult, Expand, SearchResponse, SearchResult
from shoal.search.selected_fields import SelectedFields
from shoal_api import service
from shoal_api.schemas.results import DOCUMENT, NOTE_HIT, RESULT, SearchResponseSchema
from shoal_api.trace import trace_id

LINES = "application/x-ndjson"
AT_THE_END = ("warnings", "next_cursor", "has_more", "tokens", "prompt", "took_ms")
"""Members of a response that its last line has."""
OF_PASSAGES = ("rerank", "facets", "total_documents", "now", "next_cursor", "has_more", "tokens")
"""Members of a response without notes."""


def represent(
    response: SearchResponse | UnitResponse, options: Mapping[str, Any], selected: SelectedFields
) -> dict[str, Any]:
    """Return the members of a response, and count the search. `options`: the arguments of the search."""
    metrics = service.current().metrics
    metrics.observe_search(str(options["mode"]), response.took_ms / 1000, response.query_info.near_words)
    metrics.observe_features(response.query_info, options)
    members = {
        "results": [selected.of(result_members(result, options)) for result in response.results],
        "total": response.total,
        "query_info": response.query_info,
        "weights": response.weights,
        "trace_id": trace_id(),
        "took_ms": round(response.took_ms, 3),
        "warnings": response.warnings,
    }
    if not isinstance(response, SearchResponse):
        return members
    metrics.observe_rerank(response.rerank)
    members |= {name: getattr(response, name) for name in OF_PASSAGES}
    if response.documents is not None:
        members["documents"] = [_document(document, options, selected) for document in response.documents]
    if options.get("prompt"):
        members["prompt"] = response.prompt
    return members


def _document(
    document: DocumentResult, options: Mapping[str, Any], selected: SelectedFields
) -> dict[str, Any]:
    values: dict[str, Any] = DOCUMENT.members(document)
    values["passages"] = [selected.of(result_members(passage, options)) for passage in document.passages]
    return values


def result_members(result: SearchResult | NoteHit, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with its requested optional fields only."""
    if isinstance(result, NoteHit):
        hit: dict[str, Any] = NOTE_HIT.members(result)
        return hit
    values: dict[str, Any] = RESULT.members(result)
    if not options["include_scores"]:
        del values["nearest_sentence"]
    if not options["context"]:
        del values["before"], values["after"]
    if options["expand"] == Expand.none:
        del values["evidence"]
    return values


def as_requested(members: dict[str, Any]) -> dict[str, Any] | Response:
    """Return a response as it is, or as lines if the request prefers them."""
    if not wants_lines():
        return members
    values = SearchResponseSchema().dump(members)
    return lines_response(_lines_of(values))


def wants_lines() -> bool:
    """Whether the request prefers NDJSON to JSON."""
    return flask.request.accept_mimetypes.best_match(["application/json", LINES]) == LINES


def lines_response(values: Iterable[Mapping[str, Any]]) -> Response:
    """Return a response that sends each value as a line as soon as there is one."""
    dumps = flask.current_app.json.dumps
    lines = (dumps(value, indent=None) + "\n" for value in values)
    response = Response(flask.stream_with_context(lines), content_type=LINES)
    # Otherwise nginx buffers lines until it has a page of them.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _lines_of(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    end = {name: values[name] for name in AT_THE_END if name in values}
    own_lines = {"result": values["results"], "document": values.get("documents", ())}
    head = {
        name: value for name, value in values.items() if name not in (*AT_THE_END, "results", "documents")
    }
    yield {"head": head}
    for name, results in own_lines.items():
        for result in results:
            yield {name: result}
    yield {"end": {"n_results": sum(map(len, own_lines.values())), **end}}
