"""One search from request to response: analyze the query, rank, build the results, rerank the first."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from shoal.models.facets import Facet
from shoal.models.query_info import ExcludedTerm
from shoal.models.search import FoldedResult, SearchMode, SearchResponse, SearchResult
from shoal.scorer import Scorer
from shoal.search.added_scores import find_added_scores
from shoal.search.answering.budget import answer_texts
from shoal.search.audit import AuditLog, complete_entry, make_entry, rerank_entry
from shoal.search.cursors import CHANGED, CHANGED_WITHOUT_ANCHOR, RawScores, cursor_after, state_of
from shoal.search.document_results import DocumentParts, further_passages, make_parts, parts_queries
from shoal.search.embedded_query import EmbeddedQuery, embed_query, embedded_query_text
from shoal.search.facets.answering import facets_of_ranking
from shoal.search.filter_warnings import find_filter_warnings
from shoal.search.filtering.reef_names import ReefNames
from shoal.search.filters import CompiledFilters, compile_filters
from shoal.search.folding import select
from shoal.search.lexical_ranking import find_matches
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.matched_terms import format_term
from shoal.search.must_match import absent_warnings, lacking_warning
from shoal.search.nearest_sentences import NO_TIME, mark_nearest_sentences
from shoal.search.query_analysis import (
    IN_NO_PASSAGE,
    AnalyzedQuery,
    analyze_query,
    first_queries,
    join_terms,
)
from shoal.search.ranking import Ranked, Ranking, rank
from shoal.search.relevance import LIKELY, RANKED_BY_VECTORS, is_relevant_enough
from shoal.search.request import GroupBy, SearchRequest
from shoal.search.results import build_results, results_queries
from shoal.search.sorting import Sorting
from shoal.settings import Settings
from shoal.storage import field_values
from shoal.storage.database import Database, Query, Snapshot

if TYPE_CHECKING:
    from shoal.search.query_vectors import QueryVectors
    from shoal.search.reranking import Reranker, Reranking
    from shoal.search.similarities import StoredVectors

Inspected = TypeVar("Inspected")

PASSED_OVER = "the first result is passed over: the next page begins after it"


def answer(
    database: Database,
    scorer: Scorer,
    settings: Settings,
    request: SearchRequest,
    index_cache: IndexCache,
    *,
    query_vectors: QueryVectors | None = None,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
    reranker: Reranker | None = None,
) -> SearchResponse:
    """Run a search and write it to the audit log, if there is one.

    `reranker` is needed if the request reranks. Raises QueryError for a filter on a reef or island that does
    not exist, or for mode `dense` without `query_vectors`, and EncoderError if the encoder fails in this
    mode.
    """
    response, _ = answer_and_inspect(
        database,
        scorer,
        settings,
        request,
        index_cache,
        lambda *_: None,
        query_vectors=query_vectors,
        trace_id=trace_id,
        audit=audit,
        reranker=reranker,
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
    query_vectors: QueryVectors | None = None,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
    reranker: Reranker | None = None,
    with_sentences: bool = True,
) -> tuple[SearchResponse, Inspected]:
    """Run a search like `answer`, and return the response with what `inspect` returns.

    `inspect` gets the snapshot that was searched, its index and the analyzed query; its time is not part of
    `took_ms`. Without `with_sentences`, no nearest sentences are looked for.
    """
    prepared = prepare(scorer, settings, request, query_vectors)
    queries = functools.partial(search_queries, scorer, settings, prepared)
    with index_cache.searching(database, queries) as (snapshot, library):
        found = find(snapshot, library, scorer, settings, prepared, audit, reranker)
        inspected = inspect(snapshot, found.ranking.library, found.analyzed_query)
    # The snapshot has ended: a model may take seconds.
    of_sentences = query_vectors if with_sentences else None
    response = finish(found, query_vectors=of_sentences, trace_id=trace_id, audit=audit, reranker=reranker)
    return response, inspected


def search_queries(scorer: Scorer, settings: Settings, prepared: Prepared) -> Iterator[Query]:
    """Yield what `find` reads first."""
    request = prepared.request
    yield from first_queries(scorer, settings, request)
    if prepared.filters.names is not None or request.facets or request.sort or request.decay:
        yield Query(field_values.REVISION)


@dataclass(frozen=True)
class Prepared:
    """A search before a snapshot is opened. `started`: of `time.perf_counter`."""

    request: SearchRequest
    filters: CompiledFilters
    embedded: EmbeddedQuery
    started: float

    @property
    def n_reranked(self) -> int:
        """Results to rerank. Pages below them are those of the blend."""
        return self.request.rerank if self.request.start < self.request.rerank else 0


@dataclass(frozen=True)
class Found:
    """What a snapshot gave for a search.

    results   of `ranked`, the results from rank `first + 1` by the blend
    has_more  whether results follow them
    state     of the library, for the cursor of the next page
    stored    the vectors of the results to rerank
    folded    near-duplicates by the id of the chunk that they are folded under
    total     as in the response, like `total_documents`
    """

    prepared: Prepared
    ranking: Ranking
    analyzed_query: AnalyzedQuery
    ranked: Sequence[Ranked]
    results: Sequence[SearchResult]
    first: int
    has_more: bool
    state: int
    entry: dict[str, Any] | None
    took_ms: float
    facets: tuple[Facet, ...] | None = None
    stored: StoredVectors | None = None
    folded: Mapping[int, tuple[FoldedResult, ...]] = field(default_factory=dict)
    parts_of_documents: DocumentParts | None = None
    total: int = 0
    total_documents: int | None = None


def prepare(
    scorer: Scorer,
    settings: Settings,
    request: SearchRequest,
    query_vectors: QueryVectors | None,
    compiled_filters: CompiledFilters | None = None,
) -> Prepared:
    """Compile the filters, unless given, and embed the query. Raises QueryError and EncoderError."""
    started = time.perf_counter()
    if compiled_filters is None:
        compiled_filters = compile_filters(
            request.filters, scorer, settings.label_threshold, request.filter, request.boosts
        )
    return Prepared(request, compiled_filters, embed_query(query_vectors, settings, request), started)


def find(
    snapshot: Snapshot,
    library: LibraryIndex,
    scorer: Scorer,
    settings: Settings,
    prepared: Prepared,
    audit: AuditLog | None = None,
    reranker: Reranker | None = None,
) -> Found:
    """Rank the library of a snapshot, and read the results of the page."""
    request, compiled_filters = prepared.request, prepared.filters
    first = 0 if prepared.n_reranked else request.start
    last = max(request.start + request.top_k, prepared.n_reranked)
    analyzed_query = analyze_query(snapshot, library, scorer, settings, request, prepared.embedded)
    ranking = rank_for(snapshot, library, analyzed_query, compiled_filters, request)
    total = ranking.n_results
    analyzed_query = with_filter_warnings(
        snapshot, library, analyzed_query, compiled_filters, request, is_met=total > 0
    )
    analyzed_query = with_order_warnings(analyzed_query, ranking)
    analyzed_query = with_word_warnings(snapshot, library, analyzed_query, compiled_filters, ranking)
    folded: Mapping[int, tuple[FoldedResult, ...]] = {}
    warnings: tuple[str, ...] = ()
    state = state_of(library.revision, analyzed_query.synonyms, analyzed_query.pins)
    if request.has_plain_pages:
        ranked, warnings = read_page(ranking, request, state, first, last)
    else:
        selection = select(snapshot, ranking, request, last + 1)
        ranked, folded = list(selection.ranked[first:]), selection.folded
    analyzed_query = dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, *warnings))
    ranked, has_more = ranked[: last - first], len(ranked) > last - first
    build = functools.partial(
        build_results,
        snapshot,
        library,
        analyzed_query=analyzed_query,
        request=request,
        scorer=scorer,
        label_threshold=settings.label_threshold,
    )
    others: list[Ranked] = []
    n_matches: Mapping[int, int] = {}
    if request.group_by is GroupBy.document:
        others, n_matches = further_passages(ranking, ranked, request.passages_per_document)
        of_documents = parts_queries(library, n_matches, settings.label_threshold)
        snapshot.prefetch(itertools.chain(results_queries([*ranked, *others]), of_documents))
    built = build([*ranked, *others])
    results, further_results = built[: len(ranked)], built[len(ranked) :]
    if request.fold_similar:
        results = [dataclasses.replace(each, folded=folded.get(each.chunk_id, ())) for each in results]
    parts_of_documents = None
    if request.group_by is GroupBy.document:
        parts_of_documents = make_parts(
            snapshot, library, further_results, n_matches, settings.label_threshold
        )
    facets = None
    if request.facets:
        facets, analyzed_query = with_facets(
            snapshot, library, ranking, analyzed_query, compiled_filters, scorer, settings, request
        )
    entry = (
        make_entry(audit.level, snapshot, scorer, settings, request, analyzed_query, ranking)
        if audit
        else None
    )
    stored = None
    if reranker:
        to_rerank = results[count_pinned(results) : prepared.n_reranked]
        stored = reranker.stored_vectors(snapshot, to_rerank)
    return Found(
        prepared,
        ranking,
        analyzed_query,
        ranked,
        results,
        first,
        has_more,
        state,
        entry,
        milliseconds_since(prepared.started),
        facets,
        stored,
        folded,
        parts_of_documents,
        total,
        ranking.n_documents if request.group_by is GroupBy.document else None,
    )


def finish(
    found: Found,
    *,
    query_vectors: QueryVectors | None = None,
    trace_id: str | None = None,
    audit: AuditLog | None = None,
    reranker: Reranker | None = None,
) -> SearchResponse:
    """Return the response to a search, reranked if requested. Needs no snapshot."""
    request, embedded = found.prepared.request, found.prepared.embedded
    analyzed_query, ranked, took_ms = found.analyzed_query, found.ranked, found.took_ms
    # Pinned results stay first.
    n_pinned = count_pinned(found.results)
    to_rerank = found.results[n_pinned : found.prepared.n_reranked]
    reranking = rerank_results(reranker, request, analyzed_query, to_rerank, found.stored)
    in_order = list(zip(found.results, ranked, strict=True))
    if reranking is not None:
        took_ms = round(took_ms + reranking.info.ms, 3)
        rest = in_order[n_pinned:]
        in_order = [
            *in_order[:n_pinned],
            *(
                (dataclasses.replace(rest[number][0], rerank=parts), rest[number][1])
                for number, parts in reranking.in_order()
            ),
            *rest[reranking.n :],
        ]
    whole_page = in_order[request.start - found.first :][: request.top_k]
    if request.start == 0:
        first_page = [result for result, _ in whole_page]
        analyzed_query = with_lacking_warning(analyzed_query, first_page)
        analyzed_query = with_relevance_warning(analyzed_query, first_page, request.mode)
    page = [
        (result, chunk)
        for result, chunk in whole_page
        if is_relevant_enough(result.relevance, request.min_relevance, is_pinned=result.pinned)
    ]
    results, chunks = [result for result, _ in page], [chunk for _, chunk in page]
    warnings = [*analyzed_query.warnings, *(reranking.warnings if reranking else ())]
    if query_vectors and embedded.vector and request.include_scores:
        sentences_started = time.perf_counter()
        results, is_complete = mark_nearest_sentences(query_vectors, embedded.vector, results)
        warnings += [] if is_complete else [NO_TIME]
        took_ms = round(took_ms + milliseconds_since(sentences_started), 3)
    texts = answer_texts(
        results, request.text, max_tokens=request.max_tokens, with_prompt=request.with_prompt
    )
    n_read = len(whole_page)
    if len(texts.results) < len(results):
        # The next page begins with the first result that did not fit, or after it if it had the whole budget.
        last = chunks[max(1, len(texts.results)) - 1]
        n_read = next(i for i, (_, chunk) in enumerate(whole_page, 1) if chunk is last)
        chunks = chunks[: len(texts.results)]
    end = request.start + n_read
    has_more = found.has_more or end < found.first + len(found.ranked)
    next_cursor = _next_cursor(found, end) if has_more and request.has_plain_pages else None
    warnings += texts.warnings
    if next_cursor and results and not texts.results:
        warnings.append(PASSED_OVER)
    results, documents = texts.results, None
    if found.parts_of_documents is not None:
        parts = found.parts_of_documents
        results, documents = [], [parts.document(each, request.min_relevance) for each in results]
    response = SearchResponse(
        results=results,
        query_info=analyzed_query.info,
        trace_id=trace_id or uuid.uuid4().hex,
        took_ms=took_ms,
        warnings=tuple(warnings),
        weights=analyzed_query.weights._asdict(),
        rerank=reranking.info if reranking else None,
        facets=found.facets,
        now=request.decay.moment if request.decay else None,
        documents=documents,
        next_cursor=next_cursor,
        has_more=has_more,
        tokens=texts.tokens,
        prompt=texts.prompt,
        total=found.total,
        total_documents=found.total_documents,
    )
    if audit and found.entry:
        audit.write(
            complete_entry(
                found.entry, response, chunks, rerank_entry(reranking, ranked[n_pinned:]), found.folded
            )
        )
    return response


def read_page(
    ranking: Ranking, request: SearchRequest, state: int, first: int, last: int
) -> tuple[list[Ranked], tuple[str, ...]]:
    """Return the results from rank `first + 1` to one after `last`, and what to warn of."""
    cursor = request.cursor
    limit = request.limit_per_document
    is_changed = cursor is not None and cursor.state != state
    if cursor is not None and first > 0:
        for chunk_id in cursor.anchors:
            page = ranking.first_after(chunk_id, last - first + 1, limit)
            if page is not None:
                return page, (CHANGED,) if is_changed else ()
    if is_changed and cursor is not None and first > 0:
        start = ranking.start_after(cursor.last, first - max(0, cursor.total - ranking.n_results))
        return ranking.first(start + last - first + 1, limit)[start:], (CHANGED_WITHOUT_ANCHOR,)
    return ranking.first(last + 1, limit)[first:], ()


def _next_cursor(found: Found, end: int) -> str:
    """The cursor of the page after the first `end` results."""
    request = found.prepared.request
    before = [chunk.chunk_id for chunk in found.ranked[: end - found.first]]
    earlier = [] if request.cursor is None or found.first == 0 else request.cursor.anchors[::-1]
    last = found.ranking.raw_scores_of(before[-1]) if before else RawScores()
    return cursor_after(request, found.state, end, found.total, last, [*earlier, *before]).text()


def count_pinned(results: Sequence[SearchResult]) -> int:
    """Count the pinned results, which come before all others."""
    return sum(result.pinned for result in results)


def rerank_results(
    reranker: Reranker | None,
    request: SearchRequest,
    analyzed_query: AnalyzedQuery,
    results: Sequence[SearchResult],
    stored: StoredVectors | None,
) -> Reranking | None:
    """Rerank the first results of a blend; None if there are none or no `reranker`. `stored`: the vectors
    that the library has of them.

    The model reads the query without excluded words and `title:`.
    """
    if reranker is None or not results:
        return None
    return reranker.rerank(embedded_query_text(analyzed_query.parsed) or request.query, results, stored)


def with_filter_warnings(
    snapshot: Snapshot,
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    request: SearchRequest,
    *,
    is_met: bool = False,
) -> AnalyzedQuery:
    """Add the filter warnings. `is_met`: some chunk meets all filters."""
    if compiled_filters.names is None:
        return analyzed_query
    state = compiled_filters.state(snapshot, library)
    warnings = find_filter_warnings(state, request.filters, request.filter, is_met=is_met)
    return dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, *warnings))


def with_facets(
    snapshot: Snapshot,
    library: LibraryIndex,
    ranking: Ranking,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    scorer: Scorer,
    settings: Settings,
    request: SearchRequest,
) -> tuple[tuple[Facet, ...], AnalyzedQuery]:
    """Return the facets of a ranking, and the query with their warnings."""
    filters = _with_query(compiled_filters, analyzed_query, request)
    names = ReefNames.of(scorer, settings.label_threshold)
    facets, warnings = facets_of_ranking(
        snapshot, library, ranking, filters, analyzed_query, names, request.facets
    )
    known = analyzed_query.warnings
    added = tuple(warning for warning in warnings if warning not in known)
    return facets, dataclasses.replace(analyzed_query, warnings=(*known, *added))


def with_order_warnings(analyzed_query: AnalyzedQuery, ranking: Ranking) -> AnalyzedQuery:
    """Add a warning for each sort key, decay and boost that has no effect."""
    warnings = () if ranking.added is None else ranking.added.warnings
    if ranking.sorting is not None:
        warnings += ranking.sorting.warnings()
    return dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, *warnings))


def with_relevance_warning(
    analyzed_query: AnalyzedQuery, results: Sequence[SearchResult], mode: SearchMode
) -> AnalyzedQuery:
    """Add a warning if none of the results is likely to be relevant. It names missing terms, unless another
    warning does.

    Of results that vectors alone have ranked, a low relevance says nothing, and the warning says so.

    Passages that wait for a rescore have no part for topics in their relevance, so nothing follows from it.
    """
    is_unknown = analyzed_query.other_data is not None
    if not results or is_unknown or any(result.relevance >= LIKELY for result in results):
        return analyzed_query
    if mode is SearchMode.dense:
        return dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, RANKED_BY_VECTORS))
    missing = analyzed_query.term_statistics.missing
    is_named = any("passage of this library" in warning for warning in analyzed_query.warnings)
    terms = f"; {IN_NO_PASSAGE}: {join_terms(missing)}" if missing and not is_named else ""
    by_meaning = any("dense" in result.provenance for result in results)
    judged = "judged by words and reefs, " if by_meaning else ""
    warning = f"{judged}nothing here seems to answer this{terms}"
    return dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, warning))


def with_word_warnings(
    snapshot: Snapshot,
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    ranking: Ranking,
) -> AnalyzedQuery:
    """Add what the query excluded, and warnings of it and of identifiers in no passage."""
    parsed, must = analyzed_query.parsed, analyzed_query.must_match
    if not parsed.excluded and not must.absent:
        return analyzed_query
    is_met = compiled_filters.met_by(snapshot, library) if compiled_filters else None
    may_be = ranking.is_match if is_met is None else ranking.is_match & is_met
    excluded = tuple(
        ExcludedTerm(format_term(term), int(np.count_nonzero(may_be & found.mask())))
        for term, found in find_matches(library, parsed.excluded).items()
    )
    left_out = [
        f"left out {each.n_removed:,} {'passage' if each.n_removed == 1 else 'passages'} with {each.term}"
        for each in excluded
        if each.n_removed
    ]
    warnings = (*analyzed_query.warnings, *absent_warnings(snapshot, library, must, is_met), *left_out)
    return dataclasses.replace(analyzed_query, excluded=excluded, warnings=warnings)


def with_lacking_warning(analyzed_query: AnalyzedQuery, results: Sequence[SearchResult]) -> AnalyzedQuery:
    """Add a warning of what the first result lacks, unless the whole library does."""
    absent = {format_term(term) for term in analyzed_query.must_match.absent}
    lacking = [name for name in results[0].lacking if name not in absent] if results else []
    if not lacking:
        return analyzed_query
    return dataclasses.replace(analyzed_query, warnings=(*analyzed_query.warnings, lacking_warning(lacking)))


def rank_for(
    snapshot: Snapshot,
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    request: SearchRequest,
) -> Ranking:
    """Rank the library for a search, independent of the requested page."""
    filters = _with_query(compiled_filters, analyzed_query, request)
    added = find_added_scores(
        snapshot, library.index, library.fields, compiled_filters.names, request.decay, request.boosts
    )
    sorting = Sorting(snapshot, library.index, library.fields, request.sort) if request.sort else None
    return rank(
        snapshot,
        library,
        analyzed_query,
        filters,
        mode=request.mode,
        fusion=request.fusion,
        added=added,
        sorting=sorting,
        shortlist_size=request.shortlist,
    )


def _with_query(
    filters: CompiledFilters, analyzed_query: AnalyzedQuery, request: SearchRequest
) -> CompiledFilters:
    """Add the conditions of the query."""
    with_required = request.mode is not SearchMode.reef
    return filters.and_of_query(analyzed_query.parsed, with_required=with_required)


def milliseconds_since(started: float) -> float:
    """Return the milliseconds since a `time.perf_counter()`, to the microsecond."""
    return round((time.perf_counter() - started) * 1000, 3)
