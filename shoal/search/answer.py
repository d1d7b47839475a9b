"""One search from request to answer: understand, rank, cite."""

from __future__ import annotations

import time
import uuid
from typing import Any

from shoal.models import SearchResponse
from shoal.search import postings, reef
from shoal.search.citation import cite
from shoal.search.conditions import Conditions, make_conditions
from shoal.search.profile import QueryProfile, make_profile
from shoal.search.reef import any_other_data, count_other_data
from shoal.search.request import SearchRequest
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot
from shoal.vocabularies import scorer_for


def answer(
    database: Database, scorer: Any, settings: Settings, request: SearchRequest, kept: postings.KeptPostings
) -> SearchResponse:
    """Run a search, with the postings that this process keeps.

    Raises QueryError for a filter that names a reef or island that there isn't.
    """
    started = time.perf_counter()
    conditions = make_conditions(request.filters, scorer)
    with database.snapshot() as snapshot:
        knowing = scorer_for(request.query, snapshot, scorer)
        profile = make_profile(request.query, knowing, reefs_per_query=settings.reefs_per_query)
        conditions, warnings = comparable(snapshot, conditions, profile, scorer)
        ranked = _rank(snapshot, profile, conditions, request, kept.of(snapshot, scorer.n_reefs))
        results = cite(snapshot, ranked[request.offset :], profile.reefs, request)
    return SearchResponse(
        results=results,
        query_info=profile.info,
        trace_id=uuid.uuid4().hex,
        took_ms=milliseconds_since(started),
        warnings=warnings,
    )


def _rank(
    snapshot: Snapshot,
    profile: QueryProfile,
    conditions: Conditions,
    request: SearchRequest,
    kept: postings.Postings | None,
) -> list[reef.Ranked]:
    if not profile.reefs:
        return []
    n, most = request.offset + request.top_k, request.max_per_document
    if kept is None:
        return reef.rank(snapshot, profile.reefs, conditions, n=n, max_per_document=most)
    return postings.rank(snapshot, kept, profile.reefs, conditions, n=n, max_per_document=most)


def comparable(
    snapshot: Snapshot, conditions: Conditions, profile: QueryProfile, scorer: Any
) -> tuple[Conditions, tuple[str, ...]]:
    """The conditions and warnings of a search, which leaves out chunks scored with other data than the query."""
    if not any_other_data(snapshot, scorer.data_checksum):
        return conditions, profile.warnings
    n = count_other_data(snapshot, scorer.data_checksum)
    left_out = f"{n:,} {'chunk was' if n == 1 else 'chunks were'} scored with other lagoon data and left out"
    return conditions.and_current_data(scorer.data_checksum), (*profile.warnings, left_out)


def milliseconds_since(started: float) -> float:
    """Since a `time.perf_counter()`, to the microsecond."""
    return round((time.perf_counter() - started) * 1000, 3)
