"""One search from request to answer: understand, rank, cite."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from shoal.models import SearchMode, SearchResponse
from shoal.search import postings
from shoal.search.audit import AuditLog, entry_of, finished
from shoal.search.filter_warnings import find_filter_warnings
from shoal.search.filters import CompiledFilters, compile_filters
from shoal.search.query_analysis import AnalyzedQuery, analyze_query
from shoal.search.ranking import Ranking, rank
from shoal.search.request import SearchRequest
from shoal.search.results import build_results
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot

Also = TypeVar("Also")


def answer(
    database: Database,
    scorer: Any,
    settings: Settings,
    request: SearchRequest,
    kept: postings.PostingsCache,
    *,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
) -> SearchResponse:
    """Run a search, with the postings that this process keeps, and note it in the audit log if there is one.

    Raises QueryError for a filter that names a reef or island that there isn't.
    """
    response, _ = answer_and(
        database, scorer, settings, request, kept, lambda *_: None, trace_id=trace_id, audit=audit
    )
    return response


def answer_and(
    database: Database,
    scorer: Any,
    settings: Settings,
    request: SearchRequest,
    kept: postings.PostingsCache,
    also: Callable[[Snapshot, AnalyzedQuery], Also],
    *,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
) -> tuple[SearchResponse, Also]:
    """As `answer`, and what `also` has to say of the query as it was understood, in the state that was searched. The
    time that this takes is not part of the search's."""
    started = time.perf_counter()
    compiled_filters = compile_filters(request.filters, scorer)
    with database.snapshot() as snapshot:
        analyzed_query = analyze_query(snapshot, scorer, settings, request)
        ranking = rank_for(snapshot, analyzed_query, compiled_filters, request, kept, scorer.n_reefs)
        is_met = bool(ranking.order.is_result.any())
        analyzed_query = with_filter_warnings(snapshot, analyzed_query, request, is_met=is_met)
        last = request.offset + request.top_k
        ranked = ranking.first(last, request.max_per_document)[request.offset :]
        results = build_results(snapshot, ranked, analyzed_query, request, scorer.data_checksum)
        entry = (
            entry_of(audit.level, snapshot, scorer, settings, request, analyzed_query, ranking, ranked)
            if audit
            else None
        )
        took_ms = milliseconds_since(started)
        said = also(snapshot, analyzed_query)
    response = SearchResponse(
        results=results,
        query_info=analyzed_query.info,
        trace_id=trace_id or uuid.uuid4().hex,
        took_ms=took_ms,
        warnings=analyzed_query.warnings,
        weights=analyzed_query.weights._asdict(),
    )
    if audit and entry:
        audit.write(finished(entry, response))
    return response, said


def with_filter_warnings(
    snapshot: Snapshot, analyzed_query: AnalyzedQuery, request: SearchRequest, *, is_met: bool = False
) -> AnalyzedQuery:
    """With warnings of filters that nothing meets; `is_met` says that something meets them all."""
    doubts = find_filter_warnings(snapshot, request.filters, is_met=is_met)
    return dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, *doubts))


def rank_for(
    snapshot: Snapshot,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    request: SearchRequest,
    kept: postings.PostingsCache,
    n_reefs: int,
) -> Ranking:
    """The ranking of a search, whatever page of it was asked for."""
    with_required = request.mode is not SearchMode.reef
    return rank(
        snapshot,
        analyzed_query,
        compiled_filters.and_of_query(analyzed_query.parsed, with_required=with_required),
        kept.of(snapshot, n_reefs),
        mode=request.mode,
        fusion=request.fusion,
    )


def milliseconds_since(started: float) -> float:
    """Since a `time.perf_counter()`, to the microsecond."""
    return round((time.perf_counter() - started) * 1000, 3)
