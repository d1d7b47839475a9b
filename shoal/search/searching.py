"""One search from request to response: analyze the query, rank, build the results."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Sequence
from itertools import compress
from typing import TypeVar

from shoal.models import SearchMode, SearchResponse, SearchResult
from shoal.scorer import Scorer
from shoal.search.audit import AuditLog, complete_entry, make_entry
from shoal.search.filter_warnings import find_filter_warnings
from shoal.search.filters import CompiledFilters, compile_filters
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.query_analysis import IN_NO_PASSAGE, AnalyzedQuery, analyze_query, join_terms
from shoal.search.ranking import Ranking, rank
from shoal.search.relevance import LIKELY
from shoal.search.request import SearchRequest
from shoal.search.results import build_results
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot

Inspected = TypeVar("Inspected")


def answer(
    database: Database,
    scorer: Scorer,
    settings: Settings,
    request: SearchRequest,
    index_cache: IndexCache,
    *,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
) -> SearchResponse:
    """Run a search and write it to the audit log, if there is one.

    Raises QueryError for a filter on a reef or island that does not exist.
    """
    response, _ = answer_and_inspect(
        database, scorer, settings, request, index_cache, lambda *_: None, trace_id=trace_id, audit=audit
    )
    return response


def answer_and_inspect(
    database: Database,
    scorer: Scorer,
    settings: Settings,
    request: SearchRequest,
    index_cache: IndexCache,
    inspect: Callable[[Snapshot, LibraryIndex, AnalyzedQuery], Inspected],
    *,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
) -> tuple[SearchResponse, Inspected]:
    """Run a search like `answer`, and return the response with what `inspect` returns.

    `inspect` gets the snapshot that was searched, its index and the analyzed query; its time is not part of
    `took_ms`.
    """
    started = time.perf_counter()
    compiled_filters = compile_filters(request.filters, scorer, settings.label_threshold)
    index_cache.prepare()
    with database.snapshot() as snapshot:
        library = index_cache.of(snapshot)
        analyzed_query = analyze_query(snapshot, library, scorer, settings, request)
        ranking = rank_for(snapshot, library, analyzed_query, compiled_filters, request)
        is_met = bool(ranking.order.is_result.any())
        analyzed_query = with_filter_warnings(snapshot, analyzed_query, request, is_met=is_met)
        last = request.offset + request.top_k
        ranked = ranking.first(last, request.max_per_document)[request.offset :]
        results = build_results(
            snapshot, library, ranked, analyzed_query, request, scorer, settings.label_threshold
        )
        if request.offset == 0:
            analyzed_query = with_relevance_warning(analyzed_query, results)
        is_kept = [result.relevance >= request.min_relevance for result in results]
        results, ranked = list(compress(results, is_kept)), list(compress(ranked, is_kept))
        entry = (
            make_entry(audit.level, snapshot, scorer, settings, request, analyzed_query, ranking, ranked)
            if audit
            else None
        )
        took_ms = milliseconds_since(started)
        inspected = inspect(snapshot, library, analyzed_query)
    response = SearchResponse(
        results=results,
        query_info=analyzed_query.info,
        trace_id=trace_id or uuid.uuid4().hex,
        took_ms=took_ms,
        warnings=analyzed_query.warnings,
        weights=analyzed_query.weights._asdict(),
    )
    if audit and entry:
        audit.write(complete_entry(entry, response))
    return response, inspected


def with_filter_warnings(
    snapshot: Snapshot, analyzed_query: AnalyzedQuery, request: SearchRequest, *, is_met: bool = False
) -> AnalyzedQuery:
    """Add the filter warnings. `is_met`: some chunk meets all filters."""
    warnings = find_filter_warnings(snapshot, request.filters, is_met=is_met)
    return dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, *warnings))


def with_relevance_warning(analyzed_query: AnalyzedQuery, results: Sequence[SearchResult]) -> AnalyzedQuery:
    """Add a warning if none of the results is likely to be relevant. It names missing terms, unless another
    warning does.

    Passages that wait for a rescore have no part for topics in their relevance, so nothing follows from it.
    """
    is_unknown = analyzed_query.other_data is not None
    if not results or is_unknown or any(result.relevance >= LIKELY for result in results):
        return analyzed_query
    missing = analyzed_query.term_statistics.missing
    is_named = any("passage of this library" in warning for warning in analyzed_query.warnings)
    terms = f"; {IN_NO_PASSAGE}: {join_terms(missing)}" if missing and not is_named else ""
    warning = f"nothing here seems to answer this{terms}"
    return dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, warning))


def rank_for(
    snapshot: Snapshot,
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    request: SearchRequest,
) -> Ranking:
    """Rank the library for a search, independent of the requested page."""
    with_required = request.mode is not SearchMode.reef
    return rank(
        snapshot,
        library,
        analyzed_query,
        compiled_filters.and_of_query(analyzed_query.parsed, with_required=with_required),
        mode=request.mode,
        fusion=request.fusion,
    )


def milliseconds_since(started: float) -> float:
    """Return the milliseconds since a `time.perf_counter()`, to the microsecond."""
    return round((time.perf_counter() - started) * 1000, 3)
