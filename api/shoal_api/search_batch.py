"""Batches of searches. As lines, each answer is sent as soon as its search ends."""

from __future__ import annotations

import contextvars
import functools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from werkzeug.wrappers import Response

from shoal.declared.operations.searches import OtherSearchOperations
from shoal.errors import QueryError, ShoalError
from shoal.models.batches import BatchAnswer, BatchResponse, FusedResult
from shoal.search.selected_fields import SelectedFields
from shoal_api import service
from shoal_api.answers import lines_response, represent, result_members, wants_lines
from shoal_api.openapi import Blueprint
from shoal_api.problems import for_error, unexpected_problem
from shoal_api.schemas.batches import FINDERS, BatchResponseSchema, BatchSchema
from shoal_api.schemas.results import RESULT_FIELDS, SearchResponseSchema
from shoal_api.schemas.search import DEFAULTS
from shoal_api.trace import trace_id

blueprint = Blueprint("search_batch", __name__, description="Several searches in one snapshot of the library")


class _CanceledError(Exception):
    """The client has gone."""


@blueprint.serves(OtherSearchOperations.search_many, body=BatchSchema)
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
