"""Search, batches, explanation, verification, facets and similarity: whole responses, or line by line."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.declared.notes import DEFAULT_OWNER
from shoal.declared.operations.searches import OtherSearchOperations as Others
from shoal.declared.operations.searches import SearchOperations as Searches
from shoal.errors import FilterError, QueryError, ShoalError
from shoal.models.notes import NoteHit, UnitResponse
from shoal.models.search import (
    UNITS,
    BatchAnswer,
    BatchResponse,
    DocumentResult,
    Expand,
    FusedResult,
    SearchResponse,
    SearchResult,
)
from shoal.search.answer_texts import SelectedFields
from shoal_api import access, service
from shoal_api.openapi import Blueprint
from shoal_api.problems import field_problem, for_error, unexpected_problem
from shoal_api.schemas.examples import SEARCH_EXAMPLES
from shoal_api.schemas.search import (
    DEFAULTS,
    DOCUMENT,
    FILTERS_FIELD,
    FINDERS,
    NOTE_HIT,
    NOTE_HIT_FIELDS,
    RESULT,
    RESULT_FIELDS,
    SEARCHES,
    BatchResponseSchema,
    SearchResponseSchema,
    address_filters,
)
from shoal_api.service import engine, library
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


blueprint = Blueprint("search", __name__, description="Ranked, cited, explained results")
facets_blueprint = Blueprint("facets", __name__, description="Counts by the values of a field")
similarity = Blueprint("similarity", __name__, description="How similar two short texts are")


@blueprint.serves(
    Others.search,
    special={"filters": FILTERS_FIELD},
    named="Search",
    examples=SEARCH_EXAMPLES,
)
def search(query: dict[str, Any], data: dict[str, Any]) -> Any:
    data["owner"] = access.named_owner(query, data)
    return as_requested(_search(data.pop("query"), data))


@blueprint.serves(Others.search_by_address, examples=SEARCH_EXAMPLES)
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


blueprint.serves_all(library, suggest=(Searches.suggest, "suggest"))


@blueprint.serves(Searches.explain, special={"filters": FILTERS_FIELD}, named="Explain")
def explain(data: dict[str, Any]) -> Any:
    query = data.pop("query")
    explanation = engine().explain(query, **data)
    return dataclasses.replace(explanation, trace_id=trace_id())


@blueprint.serves(Searches.verify)
def verify(data: dict[str, Any]) -> Any:
    return engine().verify(trace_id=trace_id(), **data)


def _search(query: str, options: dict[str, Any]) -> dict[str, Any]:
    """Search passages, or passages and notes. Raises a 422 problem for an owner without the unit `note`."""
    units, owner = tuple(options.pop("units")), options.pop("owner", None)
    has_notes = units != UNITS[:1]
    known = RESULT_FIELDS | NOTE_HIT_FIELDS if has_notes else RESULT_FIELDS
    selected = SelectedFields(options.pop("include", None), options.pop("exclude", None), known)
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


@facets_blueprint.serves(Others.facets_by_address)
def facets_by_address(data: dict[str, Any]) -> dict[str, Any]:
    data["filters"] = address_filters(data)
    try:
        return _facets(data)
    except FilterError:
        raise
    except QueryError as error:
        raise QueryError(error.field.removeprefix("filters."), str(error)) from None


@facets_blueprint.serves(Searches.facets, special={"filters": FILTERS_FIELD}, named="Facets")
def facets(data: dict[str, Any]) -> dict[str, Any]:
    return _facets(data)


def _facets(data: dict[str, Any]) -> dict[str, Any]:
    counted = engine().facets(data.pop("facets"), **data)
    service.current().metrics.observe_facets(counted.took_ms / 1000)
    members = {field.name: getattr(counted, field.name) for field in dataclasses.fields(counted)}
    return {**members, "trace_id": trace_id()}


similarity.serves_all(library, compare_texts=(Searches.similarity, "similarity"))


batches = Blueprint("search_batch", __name__, description="Several searches in one snapshot of the library")


class _CanceledError(Exception):
    """The client has gone."""


@batches.serves(Others.search_many, special={"searches": SEARCHES}, named="Batch")
def search_batch(data: dict[str, Any]) -> Any:
    batch = _Batch(data)
    service.current().metrics.observe_batch(len(batch.searches))
    return _stream(batch) if wants_lines() else batch.whole(batch.runner()())


class _Batch:
    """The arguments of a batch, and its answers as JSON values."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.is_fused = bool(data["fused"])
        self._selected = SelectedFields(data.pop("include"), data.pop("exclude"), RESULT_FIELDS)
        self._wants_prompt = bool(data["prompt"])
        self._bad: dict[int, ShoalError] = {}
        self._selections: dict[int, SelectedFields] = {}
        self.searches = [self._taken(*each) for each in enumerate(data.pop("searches"))]
        self._data = data

    def runner(self, on_answer: Callable[[BatchAnswer], None] | None = None) -> Callable[[], BatchResponse]:
        """Return a function that runs the searches, in any thread."""
        return functools.partial(
            service.current().engine.search_many,
            self.searches,
            trace_id=trace_id(),
            on_answer=on_answer,
            **self._data,
        )

    def whole(self, response: BatchResponse) -> dict[str, Any]:
        """Return the members of the response."""
        members = {"answers": [self.answer(each) for each in response.answers], **self.end(response)}
        if response.fused is not None:
            members["fused"] = [self.fused(each) for each in response.fused]
        return members

    def answer(self, answer: BatchAnswer) -> dict[str, Any]:
        """Return the answer to one search. Its results are left out if they are to be fused."""
        error = self._bad.get(answer.index, answer.error)
        members = {"index": answer.index, "query": answer.query, "answer": None, "problem": None}
        if error is not None or answer.response is None:
            problem = unexpected_problem() if error is None else for_error(error)
            return {**members, "problem": problem.body()}
        selected = self._selections.get(answer.index, self._selected)
        values = represent(answer.response, self._options(answer.index), selected)
        if self.is_fused:
            values["results"] = []
        return {**members, "answer": SearchResponseSchema().dump(values)}

    def fused(self, each: FusedResult) -> dict[str, Any]:
        """Return a fused result."""
        best = max(each.found_by, key=lambda finder: finder.part)
        return {
            "fused_score": each.fused_score,
            "found_by": FINDERS.members(each.found_by),
            "result": self._selected.of(result_members(each.result, self._options(best.search))),
        }

    def end(self, response: BatchResponse) -> dict[str, Any]:
        """Return what is known after the last search."""
        end: dict[str, Any] = {
            "trace_id": trace_id(),
            "took_ms": round(response.took_ms, 3),
            "warnings": response.warnings,
            "tokens": response.tokens,
        }
        if self._wants_prompt:
            end["prompt"] = response.prompt
        return end

    def _taken(self, index: int, search: Any) -> Any:
        """Return a search without the arguments of this surface."""
        if not isinstance(search, Mapping) or not {"include", "exclude"} & search.keys():
            return search
        arguments = dict(search)
        names = arguments.pop("include", None), arguments.pop("exclude", None)
        try:
            self._selections[index] = SelectedFields(*names, RESULT_FIELDS)
        except QueryError as error:
            self._bad[index] = error
        return arguments

    def _options(self, index: int) -> dict[str, Any]:
        search = self.searches[index]
        return {**DEFAULTS, **(search if isinstance(search, Mapping) else {})}


def _stream(batch: _Batch) -> Response:
    """Answer line by line. The searches run in a thread, so that a slow client holds no snapshot."""
    waiting: queue.SimpleQueue[BatchAnswer | BatchResponse | BaseException] = queue.SimpleQueue()
    is_canceled = threading.Event()

    def give(answer: BatchAnswer) -> None:
        if is_canceled.is_set():
            raise _CanceledError
        waiting.put(answer)

    run = batch.runner(give)

    def work() -> None:
        try:
            waiting.put(run())
        except _CanceledError:
            pass
        except BaseException as error:
            waiting.put(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="batch", daemon=True).start()
    first = waiting.get()
    if isinstance(first, BaseException):
        raise first
    response = lines_response(_lines(batch, first, waiting))
    response.call_on_close(is_canceled.set)
    return response


def _lines(
    batch: _Batch,
    item: BatchAnswer | BatchResponse | BaseException,
    waiting: queue.SimpleQueue[BatchAnswer | BatchResponse | BaseException],
) -> Iterator[dict[str, Any]]:
    yield {"head": {"n_searches": len(batch.searches), "trace_id": trace_id()}}
    while isinstance(item, BatchAnswer):
        yield {"answer": batch.answer(item)}
        item = waiting.get()
    if isinstance(item, BatchResponse):
        for each in item.fused or ():
            yield {"fused": batch.fused(each)}
        schema = BatchResponseSchema(exclude=("answers", "fused"))
        yield {"end": schema.dump(batch.end(item))}
        return
    problem = for_error(item) if isinstance(item, ShoalError) else unexpected_problem(item)
    yield {"end": {"warnings": [], "problem": problem.body()}}
