"""Why a search finds what it finds: the query word by word, and what became of one document or chunk."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.errors import NotFoundError, QueryError
from shoal.models import (
    FeedbackChunk,
    MatchedTerm,
    QueryInfo,
    QueryReef,
    Scores,
    SearchMode,
    SearchResponse,
    SharedReef,
)
from shoal.search.audit import AuditLog
from shoal.search.explain.query_words import Word, explain_words
from shoal.search.filters import EXCLUDED, PHRASE, TITLE, CompiledFilters, compile_filters
from shoal.search.lexical_ranking import expression
from shoal.search.matched_terms import spelt
from shoal.search.postings import PostingsCache
from shoal.search.query_analysis import AnalyzedQuery, analyze_query
from shoal.search.query_language import ParsedQuery, Term
from shoal.search.ranking import Ranked, Ranking, chunks_of
from shoal.search.request import SearchRequest
from shoal.search.results import find_shared_reefs, matched_terms, reef_part, scores_of
from shoal.search.searching import answer_and, milliseconds_since, rank_for, with_filter_warnings
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot
from shoal.storage.document_queries import tags_of

CHUNK_OF = "SELECT id, document_id FROM chunks WHERE id = :chunk_id"
CHECKSUM_OF = "SELECT data_checksum FROM chunks WHERE id = :chunk_id"
CITABLE = """
    SELECT c.document_id, d.title, s.path AS section_path, c.text
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id
    WHERE c.id = :chunk_id
"""
FIRST_CHUNK_OF = (
    "SELECT id, document_id FROM chunks WHERE document_id = :document_id ORDER BY chunk_index LIMIT 1"
)
MEETS = "SELECT 1 FROM chunks c WHERE c.id = :chunk_id AND {condition}"
HOLDS = "SELECT 1 FROM chunk_fts WHERE rowid = :chunk_id AND chunk_fts MATCH :expression"


@dataclass(frozen=True, slots=True)
class KeptOut:
    """A reason why a chunk is not among the results: `no match` (by words, or by words and reefs), `no shared reef`,
    `other data`, `filter`, `phrase`, `title`, `excluded`, `max_per_document` or `top_k`; `message` says it in words."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Target:
    """What became of one chunk: the one asked about, or the best one of the document asked about.

    `rank` is its place among the results, from 1, whatever page was asked for; None if it is in none. `would_rank` is
    the place it would have without what kept it out: in the same search without filters, phrases and exclusions, or with
    any number of passages of a document; None without a match. `score` is 0.0 without a match, `scores` its parts;
    `matched_terms` says which words it holds, and where, `term_coverage` how much of the query these are, as in a result.
    """

    document_id: int
    document_title: str
    chunk_id: int
    rank: int | None
    score: float
    n_shared_reefs: int
    shared_reefs: tuple[SharedReef, ...]
    kept_out: tuple[KeptOut, ...]
    scores: Scores
    matched_terms: tuple[MatchedTerm, ...]
    would_rank: int | None
    term_coverage: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query was understood. `reefs` is the whole profile that takes part in a search, strongest first, of which
    `query_info` has the first: what its words say, and what the `feedback` is about that it keeps in this library. `terms`
    are the words and phrases that rank by spelling, `required` those that a result must hold, `excluded` those that no
    result holds; `weights` is what each signal counts, adding up to 1."""

    query: str
    mode: str
    weights: Mapping[str, float]
    terms: tuple[str, ...]
    required: tuple[str, ...]
    excluded: tuple[str, ...]
    words: tuple[Word, ...]
    query_info: QueryInfo
    reefs: tuple[QueryReef, ...]
    feedback: tuple[FeedbackChunk, ...]
    warnings: tuple[str, ...]
    target: Target | None
    trace_id: str
    took_ms: float


def explain(
    database: Database,
    scorer: Any,
    settings: Settings,
    request: SearchRequest,
    kept: PostingsCache,
    *,
    document_id: int | None = None,
    chunk_id: int | None = None,
) -> Explanation:
    """Explain a search, and its effect on a document or chunk.

    Raises NotFoundError where there is no such document or chunk, QueryError if both are given and don't belong
    together, or a filter names a reef or island that there isn't.
    """
    started = time.perf_counter()
    compiled_filters = compile_filters(request.filters, scorer)
    with database.snapshot() as snapshot:
        analyzed_query = with_filter_warnings(
            snapshot, analyze_query(snapshot, scorer, settings, request), request
        )
        words = explain_words(analyzed_query.parsed.about, analyzed_query.scorer, snapshot)
        target = None
        if document_id is not None or chunk_id is not None:
            ranking = rank_for(snapshot, analyzed_query, compiled_filters, request, kept, scorer.n_reefs)
            aimed = _select_target(snapshot, ranking, document_id, chunk_id)
            demands = compiled_filters.and_of_query(
                analyzed_query.parsed, with_required=request.mode is not SearchMode.reef
            )
            target = _target(snapshot, analyzed_query, ranking, demands, request, aimed, scorer.data_checksum)
    return _explanation(request, analyzed_query, words, target, uuid.uuid4().hex, milliseconds_since(started))


def search_and_explain(
    database: Database,
    scorer: Any,
    settings: Settings,
    request: SearchRequest,
    kept: PostingsCache,
    *,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
) -> tuple[SearchResponse, Explanation]:
    """A search and how its query was understood, which is done once for both. Raises QueryError as a search does."""
    started = time.perf_counter()

    def look(snapshot: Snapshot, analyzed_query: AnalyzedQuery) -> tuple[AnalyzedQuery, tuple[Word, ...]]:
        return analyzed_query, explain_words(analyzed_query.parsed.about, analyzed_query.scorer, snapshot)

    response, (analyzed_query, words) = answer_and(
        database, scorer, settings, request, kept, look, trace_id=trace_id, audit=audit
    )
    took_ms = milliseconds_since(started)
    return response, _explanation(request, analyzed_query, words, None, response.trace_id, took_ms)


def _explanation(
    request: SearchRequest,
    analyzed_query: AnalyzedQuery,
    words: tuple[Word, ...],
    target: Target | None,
    trace_id: str,
    took_ms: float,
) -> Explanation:
    return Explanation(
        query=request.query,
        mode=request.mode.value,
        weights=analyzed_query.weights._asdict(),
        terms=tuple(map(spelt, analyzed_query.parsed.terms)),
        required=tuple(map(spelt, analyzed_query.parsed.required)),
        excluded=tuple(map(spelt, analyzed_query.parsed.excluded)),
        words=words,
        query_info=analyzed_query.info,
        reefs=analyzed_query.reefs,
        feedback=() if analyzed_query.feedback is None else analyzed_query.feedback.feedback_chunks,
        warnings=analyzed_query.warnings,
        target=target,
        trace_id=trace_id,
        took_ms=took_ms,
    )


def _select_target(
    snapshot: Snapshot, ranking: Ranking, document_id: int | None, chunk_id: int | None
) -> Ranked:
    """The chunk asked about, or the one of the document that matches the query best."""
    if chunk_id is not None:
        row = snapshot.first(CHUNK_OF, {"chunk_id": chunk_id})
        if row is None:
            raise NotFoundError(f"there is no chunk {chunk_id}")
        if document_id not in (None, row["document_id"]):
            raise QueryError("chunk_id", f"chunk {chunk_id} is not part of document {document_id}")
        return ranking.of(chunk_id, row["document_id"])
    row = snapshot.first(FIRST_CHUNK_OF, {"document_id": document_id})
    if row is None:
        raise NotFoundError(f"there is no document {document_id}")
    chunks = chunks_of(snapshot, row["document_id"])
    # A chunk that no filter keeps out says more than a better one that is.
    results = np.intersect1d(chunks, ranking.chunk_ids[ranking.order.is_result])
    best = ranking.best_of(results if len(results) else chunks)
    return ranking.of(row["id"] if best is None else best, row["document_id"])


def _target(
    snapshot: Snapshot,
    analyzed_query: AnalyzedQuery,
    ranking: Ranking,
    compiled_filters: CompiledFilters,
    request: SearchRequest,
    aimed: Ranked,
    data_checksum: str,
) -> Target:
    kept_out = _kept_out(snapshot, analyzed_query, compiled_filters, request.mode, aimed)
    if kept_out:
        rank, would_rank = None, _unfiltered_rank(ranking, request, aimed)
    else:
        rank, kept_out = _place(ranking, request, aimed)
        would_rank = ranking.rank_of(aimed.chunk_id, None) if rank is None else rank
    part = {aimed.chunk_id: reef_part(aimed, request.mode, analyzed_query)}
    shared = find_shared_reefs(snapshot, part, analyzed_query.reefs, data_checksum)
    cited = snapshot.first(CITABLE, {"chunk_id": aimed.chunk_id})
    (terms,) = matched_terms(snapshot, analyzed_query, [cited], tags_of(snapshot, [aimed.document_id]))
    return Target(
        document_id=aimed.document_id,
        document_title=cited["title"],
        chunk_id=aimed.chunk_id,
        rank=rank,
        score=aimed.score,
        n_shared_reefs=len(shared.get(aimed.chunk_id, ())),
        shared_reefs=shared.get(aimed.chunk_id, ()),
        kept_out=tuple(kept_out),
        scores=scores_of(aimed, request.mode),
        matched_terms=terms,
        would_rank=would_rank,
        term_coverage=analyzed_query.term_statistics.held(snapshot, [aimed.chunk_id]).get(aimed.chunk_id),
    )


def _unfiltered_rank(ranking: Ranking, request: SearchRequest, aimed: Ranked) -> int | None:
    """The place in the same search without filters, phrases and exclusions; of all passages if its document has better
    ones than the limit lets through."""
    if aimed.score <= 0:
        return None
    limited = ranking.rank_of(aimed.chunk_id, request.max_per_document, filtered=False)
    return ranking.rank_of(aimed.chunk_id, None, filtered=False) if limited is None else limited


def _kept_out(
    snapshot: Snapshot,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    mode: SearchMode,
    aimed: Ranked,
) -> list[KeptOut]:
    """What keeps a chunk from being ranked at all."""
    reasons = []
    matches = bool(aimed.n_shared) if mode is SearchMode.reef else aimed.score > 0
    if not matches and _is_of_other_data(snapshot, analyzed_query, aimed):
        reasons.append(KeptOut("other data", "it was scored with other lagoon data than the query"))
    elif not matches and mode is SearchMode.reef:
        reasons.append(KeptOut("no shared reef", "it has no reef in common with the query"))
    elif not matches:
        what = "no word" if mode is SearchMode.lexical else "neither word nor reef"
        reasons.append(KeptOut("no match", f"it has {what} in common with the query"))
    for name, condition in compiled_filters.by_filter.items():
        asked = {**compiled_filters.parameters, "chunk_id": aimed.chunk_id}
        if not snapshot.first(MEETS.format(condition=condition), asked):
            reasons.append(_not_met(snapshot, name, analyzed_query.parsed, aimed.chunk_id))
    return reasons


def _is_of_other_data(snapshot: Snapshot, analyzed_query: AnalyzedQuery, aimed: Ranked) -> bool:
    if analyzed_query.other_data is None:
        return False
    return bool(snapshot.value(CHECKSUM_OF, {"chunk_id": aimed.chunk_id}) != analyzed_query.other_data)


def _not_met(snapshot: Snapshot, name: str, parsed: ParsedQuery, chunk_id: int) -> KeptOut:
    def held(term: Term) -> bool:
        asked = {"chunk_id": chunk_id, "expression": expression(term)}
        return snapshot.first(HOLDS, asked) is not None

    if name == EXCLUDED:
        terms = [spelt(term) for term in parsed.excluded if held(term)]
        return KeptOut(name, f"it holds what the query leaves out: {', '.join(terms)}")
    if name in (PHRASE, TITLE):
        terms = [
            spelt(term) for term in parsed.required if term.in_title == (name == TITLE) and not held(term)
        ]
        where = "its title" if name == TITLE else "it"
        return KeptOut(name, f"{where} does not hold what the query demands: {', '.join(terms)}")
    return KeptOut("filter", f"it does not meet the filter {name}")


def _place(ranking: Ranking, request: SearchRequest, aimed: Ranked) -> tuple[int | None, list[KeptOut]]:
    """The place of an eligible chunk among the results, and what keeps it from the page asked for."""
    most = request.max_per_document
    rank = ranking.rank_of(aimed.chunk_id, most)
    if rank is None:
        message = f"{most} better passages of the same document come before it, and a document may have no more"
        return None, [KeptOut("max_per_document", message)]
    last = request.offset + request.top_k
    if rank > last:
        return rank, [KeptOut("top_k", f"it is number {rank:,}; only the first {last:,} were asked for")]
    return rank, []
