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
from shoal.search.filter_warnings import find_doubts
from shoal.search.filters import Conditions, make_conditions
from shoal.search.query_analysis import Understood, understand
from shoal.search.ranking import Ranking, rank
from shoal.search.request import SearchRequest
from shoal.search.results import cite
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot

Also = TypeVar("Also")


def answer(
    database: Database,
    scorer: Any,
    settings: Settings,
    request: SearchRequest,
    kept: postings.KeptPostings,
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
    kept: postings.KeptPostings,
    also: Callable[[Snapshot, Understood], Also],
    *,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
) -> tuple[SearchResponse, Also]:
    """As `answer`, and what `also` has to say of the query as it was understood, in the state that was searched. The
    time that this takes is not part of the search's."""
    started = time.perf_counter()
    conditions = make_conditions(request.filters, scorer)
    with database.snapshot() as snapshot:
        understood = understand(snapshot, scorer, settings, request)
        ranking = rank_for(snapshot, understood, conditions, request, kept, scorer.n_reefs)
        is_met = bool(ranking.order.is_result.any())
        understood = with_doubts(snapshot, understood, request, is_met=is_met)
        last = request.offset + request.top_k
        ranked = ranking.first(last, request.max_per_document)[request.offset :]
        results = cite(snapshot, ranked, understood, request, scorer.data_checksum)
        entry = (
            entry_of(audit.level, snapshot, scorer, settings, request, understood, ranking, ranked)
            if audit
            else None
        )
        took_ms = milliseconds_since(started)
        said = also(snapshot, understood)
    response = SearchResponse(
        results=results,
        query_info=understood.info,
        trace_id=trace_id or uuid.uuid4().hex,
        took_ms=took_ms,
        warnings=understood.warnings,
        weights=understood.weights._asdict(),
    )
    if audit and entry:
        audit.write(finished(entry, response))
    return response, said


def with_doubts(
    snapshot: Snapshot, understood: Understood, request: SearchRequest, *, is_met: bool = False
) -> Understood:
    """With warnings of filters that nothing meets; `is_met` says that something meets them all."""
    doubts = find_doubts(snapshot, request.filters, is_met=is_met)
    return dataclasses.replace(understood, warnings=(*understood.warnings, *doubts))


def rank_for(
    snapshot: Snapshot,
    understood: Understood,
    conditions: Conditions,
    request: SearchRequest,
    kept: postings.KeptPostings,
    n_reefs: int,
) -> Ranking:
    """The ranking of a search, whatever page of it was asked for."""
    with_required = request.mode is not SearchMode.reef
    return rank(
        snapshot,
        understood,
        conditions.and_of_query(understood.parsed, with_required=with_required),
        kept.of(snapshot, n_reefs),
        mode=request.mode,
        fusion=request.fusion,
    )


def milliseconds_since(started: float) -> float:
    """Since a `time.perf_counter()`, to the microsecond."""
    return round((time.perf_counter() - started) * 1000, 3)
