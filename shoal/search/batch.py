"""Several searches in one snapshot of the library, perhaps fused into one ranking.

A bad search has its error as answer, and the others are answered. Equal filters are compiled and evaluated
once. Models run before and after the snapshot.

Scores of different queries cannot be compared, ranks can. A result of the fused ranking has the sum of
(k + 1) / (k + rank) over the searches that found it, divided by the number of searches (reciprocal rank
fusion: Cormack, Clarke and Büttcher, SIGIR 2009). 1 is the first result of every search.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.declared.arguments import Flag, check_names
from shoal.declared.search import OF_RANKING
from shoal.errors import QueryError, ReadTimeoutError, ShoalError
from shoal.models.search import (
    MAX_RESULTS,
    MAX_SEARCHES,
    BatchAnswer,
    BatchResponse,
    FoundBy,
    FusedResult,
    SearchResponse,
    SearchResult,
    TextMode,
)
from shoal.search.answer_texts import answer_texts
from shoal.search.filters import CompiledFilters
from shoal.search.library_index import LibraryView
from shoal.search.ordering import BestFirst, DocumentLimit, per_document
from shoal.search.request import (
    BEST_FIRST,
    SearchRequest,
    check_argument,
    check_texts,
    make_request,
    unknown_argument,
)
from shoal.search.searcher import PreparedSearch, ResultPage, Searcher, milliseconds_since
from shoal.search.signals import RRF_K
from shoal.settings import Settings

OnAnswer = Callable[[BatchAnswer], None]


class BatchRequest(NamedTuple):
    """A validated batch. `searches`: a request or its error, with the query as it was given.

    The other fields are of the fused ranking.
    """

    searches: tuple[tuple[str, SearchRequest | ShoalError], ...]
    fused: bool
    top_k: int
    max_per_document: int | None
    text: TextMode
    max_tokens: int | None
    prompt: bool


def make_batch_request(
    searches: object,
    *,
    settings: Settings,
    fused: object = False,
    **of_ranking: object,
) -> BatchRequest:
    """Validate a batch. `of_ranking`: arguments of the fused ranking. Raises QueryError for an invalid
    argument of the batch itself."""
    check_names("search_many", of_ranking, OF_RANKING)
    is_fused = Flag().check("fused", fused)
    of_ranking = {name: of_ranking.get(name, each.default) for name, each in OF_RANKING.items()}
    batch = BatchRequest(
        searches=_searches(searches, settings),
        fused=is_fused,
        **{name: check_argument(name, value, settings) for name, value in of_ranking.items()},
    )
    check_texts(batch.text, batch.max_tokens, prompt=batch.prompt)
    if not is_fused and (batch.max_tokens is not None or batch.prompt or batch.text is not TextMode.full):
        raise QueryError(
            "fused", "must be true for text, max_tokens and prompt of a batch; or give them to its searches"
        )
    if is_fused:
        _check_passages(batch)
    return batch


def answer_batch(
    searcher: Searcher, batch: BatchRequest, on_answer: OnAnswer, trace_id: str | None = None
) -> BatchResponse:
    """Run a batch. `on_answer` gets each answer as soon as it is complete."""
    started = time.perf_counter()
    run = _BatchRun(searcher, batch, on_answer, trace_id or uuid.uuid4().hex)
    prepared = run.prepare()
    if prepared:
        run.search(prepared)
    run.finish_waiting()
    answers = [run.answers[index] for index in range(len(batch.searches))]
    if batch.fused:
        return _fused(batch, answers, run.trace_id, started)
    return BatchResponse(answers, run.trace_id, milliseconds_since(started))


class _BatchRun:
    """A batch while it runs. `answers`: those that are complete, by the index of their search."""

    def __init__(self, searcher: Searcher, batch: BatchRequest, on_answer: OnAnswer, trace_id: str) -> None:
        self.trace_id = trace_id
        self.answers: dict[int, BatchAnswer] = {}
        self._searcher, self._batch, self._on_answer = searcher, batch, on_answer
        self._waiting: list[tuple[int, ResultPage]] = []

    def prepare(self) -> list[tuple[int, PreparedSearch]]:
        """Prepare the searches without an error; the others are answered."""
        compiled: dict[str, CompiledFilters] = {}
        prepared = []
        for index, (_, request) in enumerate(self._batch.searches):
            if isinstance(request, ShoalError):
                self._add(index, request)
                continue
            try:
                key = repr((request.filters, request.filter, request.boosts))
                if key not in compiled:
                    compiled[key] = dataclasses.replace(self._searcher.compile_filters(request), shared={})
                prepared.append((index, self._searcher.prepare(request, compiled[key])))
            except ShoalError as error:
                self._add(index, error)
        return prepared

    def search(self, prepared: Sequence[tuple[int, PreparedSearch]]) -> None:
        """Run the searches in one snapshot. Those that a model reads wait for its end; those for
        which its time does not suffice are answered with the error."""
        left = dict(prepared)
        try:
            with self._searcher.open([each for _, each in prepared]) as view:
                for index, each in prepared:
                    self._search_one(view, index, each)
                    del left[index]
        except ReadTimeoutError as error:
            for index in left:
                self._add(index, error)

    def finish_waiting(self) -> None:
        """Complete the searches whose results a model reads. The snapshot has ended: it may take seconds."""
        for index, page in self._waiting:
            self._complete(index, page)

    def _search_one(self, view: LibraryView, index: int, prepared: PreparedSearch) -> None:
        begun = dataclasses.replace(prepared, started=time.perf_counter())
        try:
            page = self._searcher.read_page(view, begun)
        except ReadTimeoutError:
            raise
        except ShoalError as error:
            self._add(index, error)
            return
        if begun.n_reranked or (self._searcher.get_query_vectors() and begun.request.include_scores):
            self._waiting.append((index, page))
        else:
            self._complete(index, page)

    def _complete(self, index: int, page: ResultPage) -> None:
        try:
            response = self._searcher.finish(page, self.trace_id)
        except ShoalError as error:
            self._add(index, error)
        else:
            self._add(index, response)

    def _add(self, index: int, outcome: SearchResponse | ShoalError) -> None:
        query = self._batch.searches[index][0]
        if isinstance(outcome, ShoalError):
            answer = BatchAnswer(index, query, None, outcome)
        else:
            answer = BatchAnswer(index, query, outcome)
        self.answers[index] = answer
        self._on_answer(answer)


def _fused(
    batch: BatchRequest, answers: Sequence[BatchAnswer], trace_id: str, started: float
) -> BatchResponse:
    limit = BEST_FIRST if batch.max_per_document is None else batch.max_per_document or None
    fused = fuse(answers, batch.top_k, limit)
    texts = answer_texts(
        [each.result for each in fused],
        batch.text,
        max_tokens=batch.max_tokens,
        with_prompt=batch.prompt,
    )
    n_failed = sum(answer.error is not None for answer in answers)
    failed = (f"{n_failed} of {len(answers)} searches failed, and are not in the fused ranking",)
    return BatchResponse(
        [
            dataclasses.replace(answer, response=dataclasses.replace(answer.response, results=()))
            if answer.response
            else answer
            for answer in answers
        ],
        trace_id,
        milliseconds_since(started),
        fused=tuple(
            FusedResult(each.fused_score, each.found_by, result)
            for each, result in zip(fused, texts.results, strict=False)
        ),
        tokens=texts.tokens,
        prompt=texts.prompt,
        warnings=(*(failed if n_failed else ()), *texts.warnings),
    )


def _check_passages(batch: BatchRequest) -> None:
    """Raise QueryError for a search without passages to fuse, or without the texts that the batch needs."""
    needs_texts = batch.prompt or batch.max_tokens is not None
    for index, (_, request) in enumerate(batch.searches):
        if isinstance(request, ShoalError):
            continue
        if request.is_grouped:
            raise QueryError(
                "searches",
                f"are fused by their passages, and number {index + 1} has group_by {request.group_by}: leave "
                "it out",
            )
        if needs_texts and request.text is TextMode.none:
            raise QueryError(
                "searches",
                f"give a prompt or a token budget texts, and number {index + 1} has text none: leave it out",
            )


def _searches(given: object, settings: Settings) -> tuple[tuple[str, SearchRequest | ShoalError], ...]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise QueryError("searches", "must be a list of searches")
    searches: list[tuple[str, SearchRequest | ShoalError]] = []
    n_results = 0
    for number, each in enumerate(given):
        if number >= MAX_SEARCHES:
            raise QueryError("searches", f"must have at most {MAX_SEARCHES} items")
        query, request = _search(each, settings)
        searches.append((query, request))
        n_results += 0 if isinstance(request, ShoalError) else request.top_k
    if not searches:
        raise QueryError("searches", "must have at least one item")
    if n_results > MAX_RESULTS:
        raise QueryError(
            "searches", f"ask for {n_results:,} results together; the limit is {MAX_RESULTS:,}: lower top_k"
        )
    return tuple(searches)


def _search(given: object, settings: Settings) -> tuple[str, SearchRequest | ShoalError]:
    """Return the query of a search, and its request or what is wrong with it."""
    if isinstance(given, str):
        given = {"query": given}
    if not isinstance(given, Mapping):
        return "", QueryError("query", "is missing: a search is an object with a query, or a text")
    arguments: dict[str, Any] = dict(given)
    query = arguments.pop("query", None)
    shown = query[: settings.max_query_chars] if isinstance(query, str) else ""
    unknown = unknown_argument(arguments)
    if unknown is not None:
        return shown, unknown
    try:
        return shown, make_request(query, settings=settings, **arguments)
    except ShoalError as error:
        return shown, error


def fuse(answers: Sequence[BatchAnswer], top_k: int, limit: DocumentLimit) -> list[FusedResult]:
    """Return the best `top_k` results of all searches. `limit`: per document, as in a search.

    A search contributes the results that it returned. Equal scores are in the order of their chunk ids.
    """
    responses = [(answer, answer.response) for answer in answers if answer.response is not None]
    found_by: dict[int, list[FoundBy]] = {}
    results: dict[int, SearchResult] = {}
    for answer, response in responses:
        for rank, result in enumerate(response.results, start=1):
            part = (RRF_K + 1) / (RRF_K + rank) / len(responses)
            finder = FoundBy(answer.index, answer.query, rank, result.match_score, part)
            finders = found_by.setdefault(result.chunk_id, [])
            if all(part > other.part for other in finders):
                results[result.chunk_id] = result
            finders.append(finder)
    fused = [
        FusedResult(sum(finder.part for finder in finders), tuple(finders), results[chunk_id])
        for chunk_id, finders in found_by.items()
    ]
    fused.sort(key=lambda each: (-each.fused_score, each.result.chunk_id))
    n_best = per_document(limit, len(fused))
    chosen: list[FusedResult] = []
    further: list[FusedResult] = []
    of_document: Counter[int] = Counter()
    for each in fused:
        is_further = of_document[each.result.document_id] >= n_best
        of_document[each.result.document_id] += 1
        result = dataclasses.replace(each.result, further=is_further)
        (further if is_further else chosen).append(dataclasses.replace(each, result=result))
    return [*chosen, *(further if isinstance(limit, BestFirst) else ())][:top_k]
