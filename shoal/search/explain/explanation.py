"""Explanations of a search: the query word by word, and the rank of a document or chunk."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.errors import NotFoundError, QueryError
from shoal.models import (
    FeedbackChunk,
    MatchedTerm,
    QueryInfo,
    QueryReef,
    RelevancePart,
    Scores,
    SearchMode,
    SearchResponse,
    SharedReef,
)
from shoal.scorer import Scorer
from shoal.search.audit import AuditLog
from shoal.search.explain.query_words import Word, explain_words
from shoal.search.filters import EXCLUDED, TITLE, CompiledFilters, compile_filters
from shoal.search.highlights import read_words
from shoal.search.lexical_ranking import find_matches
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.matched_terms import format_term
from shoal.search.query_analysis import AnalyzedQuery, analyze_query
from shoal.search.query_language import Term
from shoal.search.ranking import Ranked, Ranking
from shoal.search.relevance import describe, find_evidence, relevance
from shoal.search.request import SearchRequest
from shoal.search.results import (
    find_shared_reefs,
    matched_terms,
    name_words,
    reef_part,
    scored_text,
    scores_of,
    title_and_headings,
)
from shoal.search.searching import answer_and_inspect, milliseconds_since, rank_for, with_filter_warnings
from shoal.settings import Settings
from shoal.storage.chunk_queries import profiles_of
from shoal.storage.database import Database, Snapshot
from shoal.storage.document_queries import tags_of

CHUNK_OF = "SELECT id, document_id FROM chunks WHERE id = :chunk_id"
CHECKSUM_OF = "SELECT data_checksum FROM chunks WHERE id = :chunk_id"
CHUNK_TEXTS = """
    SELECT c.document_id, d.title, s.path AS section_path, c.text
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id
    WHERE c.id = :chunk_id
"""
FIRST_CHUNK_OF = (
    "SELECT id, document_id FROM chunks WHERE document_id = :document_id ORDER BY chunk_index LIMIT 1"
)
MEETS = "SELECT 1 FROM chunks c WHERE c.id = :chunk_id AND {condition}"


@dataclass(frozen=True, slots=True)
class KeptOut:
    """Why a chunk is not among the results.

    `reason` is `no match` (of words, or of words and reefs), `no shared reef`, `other data`, `filter`,
    `phrase`, `title`, `excluded`, `max_per_document`, `top_k` or `min_relevance`; `message` is the same in
    words.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Target:
    """The chunk that an explanation is about, or the best chunk of the document that it is about.

    `rank` is its rank among all results, from 1, independent of the requested page; None if it is no result.
    `would_rank` is its rank without what kept it out: in the same search without filters, phrases and
    exclusions, or without the limit per document; None without a match. `score` is 0.0 without a match;
    `scores`, `matched_terms`, `term_coverage` and `relevance` are as in a result; `relevance_parts` are what
    each piece of evidence adds to the log odds of `relevance`.
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
    relevance: float
    relevance_parts: tuple[RelevancePart, ...]
    term_coverage: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The analysis of a query.

    `reefs` is the whole profile used for ranking, strongest first, including `feedback`; `query_info` has its
    first reefs. `terms` are the words and phrases of the lexical signal, `required` those that a result must
    contain, `excluded` those that no result contains. `weights` are those of the signals, adding up to 1.
    """

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
    scorer: Scorer,
    settings: Settings,
    request: SearchRequest,
    index_cache: IndexCache,
    *,
    document_id: int | None = None,
    chunk_id: int | None = None,
) -> Explanation:
    """Explain a search and, if given, the rank of a document or chunk.

    Raises NotFoundError if the document or chunk does not exist, and QueryError if the chunk is not part of
    the document or a filter names a reef or island that does not exist.
    """
    started = time.perf_counter()
    compiled_filters = compile_filters(request.filters, scorer, settings.label_threshold)
    index_cache.prepare()
    with database.snapshot() as snapshot:
        library = index_cache.of(snapshot)
        analyzed_query = with_filter_warnings(
            snapshot, analyze_query(snapshot, library, scorer, settings, request), request
        )
        words = explain_words(analyzed_query.parsed.about, analyzed_query.scorer, snapshot, library)
        target = None
        if document_id is not None or chunk_id is not None:
            ranking = rank_for(snapshot, library, analyzed_query, compiled_filters, request)
            chunk = _select_chunk(snapshot, ranking, document_id, chunk_id)
            all_filters = compiled_filters.and_of_query(
                analyzed_query.parsed, with_required=request.mode is not SearchMode.reef
            )
            target = _explain_chunk(
                snapshot,
                analyzed_query,
                ranking,
                all_filters,
                request,
                chunk,
                scorer,
                settings.label_threshold,
            )
    return _explanation(request, analyzed_query, words, target, uuid.uuid4().hex, milliseconds_since(started))


def search_and_explain(
    database: Database,
    scorer: Scorer,
    settings: Settings,
    request: SearchRequest,
    index_cache: IndexCache,
    *,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
) -> tuple[SearchResponse, Explanation]:
    """Run a search and explain its query, which is analyzed once for both. Raises QueryError."""
    started = time.perf_counter()

    def inspect(
        snapshot: Snapshot, library: LibraryIndex, analyzed_query: AnalyzedQuery
    ) -> tuple[AnalyzedQuery, tuple[Word, ...]]:
        words = explain_words(analyzed_query.parsed.about, analyzed_query.scorer, snapshot, library)
        return analyzed_query, words

    response, (analyzed_query, words) = answer_and_inspect(
        database, scorer, settings, request, index_cache, inspect, trace_id=trace_id, audit=audit
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
        terms=tuple(map(format_term, analyzed_query.parsed.terms)),
        required=tuple(map(format_term, analyzed_query.parsed.required)),
        excluded=tuple(map(format_term, analyzed_query.parsed.excluded)),
        words=words,
        query_info=analyzed_query.info,
        reefs=analyzed_query.reefs,
        feedback=() if analyzed_query.feedback is None else analyzed_query.feedback.feedback_chunks,
        warnings=analyzed_query.warnings,
        target=target,
        trace_id=trace_id,
        took_ms=took_ms,
    )


def _select_chunk(
    snapshot: Snapshot, ranking: Ranking, document_id: int | None, chunk_id: int | None
) -> Ranked:
    """The given chunk, or the chunk of the given document that matches the query best."""
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
    best = ranking.best_of(row["document_id"])
    return ranking.of(row["id"] if best is None else best, row["document_id"])


def _explain_chunk(
    snapshot: Snapshot,
    analyzed_query: AnalyzedQuery,
    ranking: Ranking,
    compiled_filters: CompiledFilters,
    request: SearchRequest,
    chunk: Ranked,
    scorer: Scorer,
    label_threshold: float,
) -> Target:
    kept_out = _kept_out(snapshot, ranking.library, analyzed_query, compiled_filters, request.mode, chunk)
    if kept_out:
        rank, would_rank = None, _unfiltered_rank(ranking, request, chunk)
    else:
        rank, kept_out = _rank(ranking, request, chunk)
        would_rank = ranking.rank_of(chunk.chunk_id, None) if rank is None else rank
    parts = {chunk.chunk_id: reef_part(chunk, request.mode, analyzed_query)}
    stored = profiles_of(snapshot, [chunk.chunk_id]).scored_with(scorer.data_checksum)
    shared = find_shared_reefs(stored, parts, analyzed_query, label_threshold)
    row = snapshot.first(CHUNK_TEXTS, {"chunk_id": chunk.chunk_id})
    texts = dict.fromkeys(shared, scored_text(row))
    shared = name_words(snapshot, shared, texts, analyzed_query, scorer)
    (terms,) = matched_terms(snapshot, analyzed_query, [row], tags_of(snapshot, [chunk.document_id]))
    coverage = analyzed_query.term_statistics.term_coverage(
        ranking.library, analyzed_query.matches, [chunk.chunk_id]
    )
    words = read_words([row["text"]]), read_words([title_and_headings(row)])
    (evidence,) = find_evidence(stored, analyzed_query, [chunk.chunk_id], coverage, *words)
    probability = relevance(evidence)
    if probability < request.min_relevance:
        message = f"its relevance is {probability:.2f}, and {request.min_relevance:g} was required"
        kept_out = [*kept_out, KeptOut("min_relevance", message)]
    return Target(
        document_id=chunk.document_id,
        document_title=row["title"],
        chunk_id=chunk.chunk_id,
        rank=rank,
        score=chunk.score,
        n_shared_reefs=len(shared.get(chunk.chunk_id, ())),
        shared_reefs=shared.get(chunk.chunk_id, ()),
        kept_out=tuple(kept_out),
        scores=scores_of(chunk, request.mode, terms, analyzed_query),
        matched_terms=terms,
        would_rank=would_rank,
        relevance=probability,
        relevance_parts=describe(evidence, analyzed_query.term_statistics.missing),
        term_coverage=coverage.get(chunk.chunk_id),
    )


def _unfiltered_rank(ranking: Ranking, request: SearchRequest, chunk: Ranked) -> int | None:
    """The rank without filters, phrases and exclusions; and without the limit per document, if that keeps the
    chunk out."""
    if chunk.score <= 0:
        return None
    limited = ranking.rank_of(chunk.chunk_id, request.max_per_document, filtered=False)
    return ranking.rank_of(chunk.chunk_id, None, filtered=False) if limited is None else limited


def _kept_out(
    snapshot: Snapshot,
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    mode: SearchMode,
    chunk: Ranked,
) -> list[KeptOut]:
    """The reasons why a chunk is not ranked at all."""
    reasons = []
    is_match = bool(chunk.n_shared) if mode is SearchMode.reef else chunk.score > 0
    if not is_match and _is_of_other_data(snapshot, analyzed_query, chunk):
        reasons.append(KeptOut("other data", "it was scored with other lagoon data than the query"))
    elif not is_match and mode is SearchMode.reef:
        reasons.append(KeptOut("no shared reef", "it has no reef in common with the query"))
    elif not is_match:
        what = "no word" if mode is SearchMode.lexical else "neither word nor reef"
        reasons.append(KeptOut("no match", f"it has {what} in common with the query"))
    for name, condition in compiled_filters.by_filter.items():
        parameters = {**compiled_filters.parameters, "chunk_id": chunk.chunk_id}
        if not snapshot.first(MEETS.format(condition=condition), parameters):
            reasons.append(KeptOut("filter", f"it does not meet the filter {name}"))
    for name, terms in compiled_filters.required.items():
        missing = _terms_of(library, terms, chunk.chunk_id, are_held=False)
        if missing:
            where = "its title" if name == TITLE else "it"
            reasons.append(KeptOut(name, f"{where} does not contain what the query requires: {missing}"))
    excluded = _terms_of(library, compiled_filters.excluded, chunk.chunk_id, are_held=True)
    if excluded:
        reasons.append(KeptOut(EXCLUDED, f"it contains what the query excludes: {excluded}"))
    return reasons


def _is_of_other_data(snapshot: Snapshot, analyzed_query: AnalyzedQuery, chunk: Ranked) -> bool:
    if analyzed_query.other_data is None:
        return False
    return bool(snapshot.value(CHECKSUM_OF, {"chunk_id": chunk.chunk_id}) != analyzed_query.other_data)


def _terms_of(library: LibraryIndex, terms: Sequence[Term], chunk_id: int, *, are_held: bool) -> str:
    """Those of the terms that a chunk contains, or those that it does not contain, joined by commas."""
    places = library.index.places_of([chunk_id])
    return ", ".join(
        format_term(term)
        for term, found in find_matches(library, terms).items()
        if bool(found.are_in(places)[0]) == are_held
    )


def _rank(ranking: Ranking, request: SearchRequest, chunk: Ranked) -> tuple[int | None, list[KeptOut]]:
    """The rank of an eligible chunk, and why it is not within the requested page and those before it."""
    limit = request.max_per_document
    rank = ranking.rank_of(chunk.chunk_id, limit)
    if rank is None:
        message = (
            f"{limit} better passages of the same document come before it, and a document may have no more"
        )
        return None, [KeptOut("max_per_document", message)]
    last = request.offset + request.top_k
    if rank > last:
        return rank, [KeptOut("top_k", f"it has rank {rank:,}; only the first {last:,} were requested")]
    return rank, []
