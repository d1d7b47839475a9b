"""Searches from request to response: analyze the query, rank, build the results, rerank the first."""

from __future__ import annotations

import dataclasses
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from shoal.declared.filters import SearchFilters
from shoal.declared.search import LIKELY
from shoal.errors import QueryError
from shoal.facets.counting import find_facets
from shoal.filters.evaluation import FilterState
from shoal.filters.parsing import ReefNames
from shoal.filters.warnings import find_filter_warnings
from shoal.models.notes import NoteHit
from shoal.models.queries import ExcludedTerm
from shoal.models.search import (
    Expand,
    Facet,
    FoldedResult,
    GroupBy,
    LibraryFacets,
    SearchMode,
    SearchResponse,
    SearchResult,
)
from shoal.scorer import Scorer
from shoal.search.answer_texts import answer_texts
from shoal.search.audit import AuditLog, complete_entry, make_entry, rerank_entry
from shoal.search.filters import CompiledFilters, compile_filters, facet_counter
from shoal.search.folding import select
from shoal.search.library_index import LibraryIndex, LibraryIndexes, LibraryView
from shoal.search.matched_terms import format_term
from shoal.search.nearest_sentences import NO_TIME, mark_nearest_sentences
from shoal.search.ordering import Families, Sorting, find_added_scores
from shoal.search.query_analysis import (
    IN_NO_PASSAGE,
    AnalyzedQuery,
    absent_warnings,
    analyze_query,
    first_queries,
    join_terms,
    lacking_warning,
)
from shoal.search.query_vectors import EmbeddedQuery, embed_query, embedded_query_text
from shoal.search.ranking import Ranked, Ranking, rank
from shoal.search.relevance import RANKED_BY_VECTORS, is_relevant_enough
from shoal.search.request import (
    CHANGED,
    CHANGED_WITHOUT_ANCHOR,
    RawScores,
    SearchRequest,
    cursor_after,
    state_of,
)
from shoal.search.results import (
    DocumentParts,
    build_results,
    further_passages,
    make_parts,
    parts_queries,
    results_queries,
)
from shoal.search.signals import find_matches
from shoal.settings import Settings
from shoal.storage import field_values
from shoal.storage.database import Database, Query, Snapshot

if TYPE_CHECKING:
    from shoal.facets.requests import FacetRequest
    from shoal.filters.tree import Node
    from shoal.search.query_vectors import QueryVectors
    from shoal.search.reranking import Reranker, Reranking, StoredVectors

Inspected = TypeVar("Inspected")

PASSED_OVER = "the first result is passed over: the next page begins after it"


@dataclass(frozen=True)
class PreparedSearch:
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
class RankedSearch:
    """A search that has ranked one state of the library."""

    prepared: PreparedSearch
    view: LibraryView
    analyzed_query: AnalyzedQuery
    ranking: Ranking

    @property
    def request(self) -> SearchRequest:
        """The request of the search."""
        return self.prepared.request

    @property
    def filters(self) -> CompiledFilters:
        """The filters with the conditions of the query."""
        return _with_query(self.prepared.filters, self.analyzed_query, self.request)

    def results(self, ranked: Sequence[Ranked]) -> list[SearchResult]:
        """Return some ranked chunks as results."""
        return build_results(self.view, ranked, self.analyzed_query, self.request)

    def explained(self, chunk: Ranked) -> SearchResult:
        """Return a chunk as a result with its scores; without reasons if nothing found it."""
        request = dataclasses.replace(self.request, include_scores=True, context=0, expand=Expand.none)
        (result,) = build_results(self.view, [chunk], self.analyzed_query, request)
        is_found = chunk.is_pinned or self.ranking.matches(chunk.chunk_id)
        return result if is_found else dataclasses.replace(result, why="", reasons=())

    def with_warnings(self) -> RankedSearch:
        """Add the warnings of filters, of the order and of words that are left out or missing."""
        request, ranking, view, query = self.request, self.ranking, self.view, self.analyzed_query
        filters = self.prepared.filters
        query = query.warned(filter_warnings(view, filters, request, is_met=ranking.n_results > 0))
        query = query.warned(order_warnings(ranking))
        return dataclasses.replace(self, analyzed_query=with_word_warnings(view, query, filters, ranking))


@dataclass(frozen=True)
class ResultPage:
    """What a snapshot gave for a search.

    search    the ranked search, with all its warnings so far; its snapshot has ended
    results   of `ranked`, the results from rank `first + 1` by the blend
    has_more  whether results follow them
    state     of the library, for the cursor of the next page
    stored    the vectors of the results to rerank
    folded    near-duplicates by the id of the chunk that they are folded under
    """

    search: RankedSearch
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


@dataclass(frozen=True)
class Searcher:
    """What the searches of a library share, and the steps that all of them take.

    `prepare` comes before a snapshot is opened, `open` opens one, and `rank` ranks what is in it. Then a
    search reads a page and finishes it without the snapshot, and explanations, saved searches and searches
    with notes read what they need.

    database           that searches read
    index              of the library in it
    get_query_vectors  returns the vectors of queries, if documents are embedded
    get_audit          returns the audit log, if there is one
    get_reranker       returns what reranks; called for requests that do
    """

    database: Database
    scorer: Scorer
    settings: Settings
    index: LibraryIndexes
    get_query_vectors: Callable[[], QueryVectors | None] = lambda: None
    get_audit: Callable[[], AuditLog | None] = lambda: None
    get_reranker: Callable[[], Reranker | None] = lambda: None

    def reranker_for(self, request: SearchRequest) -> Reranker | None:
        """Return what reranks the results of a request; None if it does not rerank."""
        return self.get_reranker() if request.rerank else None

    def compile_filters(self, request: SearchRequest) -> CompiledFilters:
        """Compile the filters of a request, those of its boosts included. Raises QueryError."""
        threshold = self.settings.label_threshold
        return compile_filters(request.filters, self.scorer, threshold, request.filter, request.boosts)

    def prepare(self, request: SearchRequest, filters: CompiledFilters | None = None) -> PreparedSearch:
        """Compile the filters, unless given, and embed the query.

        Raises QueryError for a filter on a reef or island that does not exist, and for mode `dense` without
        vectors, and EncoderError if the encoder fails in this mode.
        """
        started = time.perf_counter()
        filters = self.compile_filters(request) if filters is None else filters
        embedded = embed_query(self.get_query_vectors(), self.settings, request)
        return PreparedSearch(request, filters, embedded, started)

    def view(self, snapshot: Snapshot, library: LibraryIndex | None = None) -> LibraryView:
        """Return the view of a snapshot. `library`: its index, if it is open already."""
        library = self.index.of(snapshot) if library is None else library
        return LibraryView(snapshot, library, self.scorer, self.settings)

    @contextmanager
    def open(self, searches: Iterable[PreparedSearch]) -> Iterator[LibraryView]:
        """Open a snapshot for some searches. Raises StorageError."""

        def queries() -> Iterator[Query]:
            for search in searches:
                yield from self._first_queries(search)

        with self.index.searching(self.database, queries) as (snapshot, library):
            yield self.view(snapshot, library)

    def _first_queries(self, search: PreparedSearch) -> Iterator[Query]:
        """Yield what `rank` reads first."""
        request = search.request
        yield from first_queries(self.scorer, self.settings, request)
        if search.filters.names is not None or request.facets or request.sort or request.decay:
            yield Query(field_values.REVISION)

    def rank(self, view: LibraryView, search: PreparedSearch) -> RankedSearch:
        """Analyze the query and rank a state of the library."""
        analyzed_query = analyze_query(view, search.request, search.embedded)
        ranking = rank_for(view, analyzed_query, search.filters, search.request)
        return RankedSearch(search, view, analyzed_query, ranking)

    def search(self, request: SearchRequest, trace_id: str | None = None) -> SearchResponse:
        """Run a search and write it to the audit log. Raises as `prepare`, and StorageError."""
        return self.search_and_inspect(request, lambda _: None, trace_id=trace_id)[0]

    def search_and_inspect(
        self,
        request: SearchRequest,
        inspect: Callable[[RankedSearch], Inspected],
        *,
        trace_id: str | None = None,
        with_sentences: bool = True,
    ) -> tuple[SearchResponse, Inspected]:
        """Run a search like `search`, and return the response with what `inspect` returns.

        `inspect` gets the ranked search while its snapshot is open; its time is not part of `took_ms`.
        Without `with_sentences`, no nearest sentences are looked for.
        """
        prepared = self.prepare(request)
        with self.open([prepared]) as view:
            page = self.read_page(view, prepared)
            inspected = inspect(page.search)
        # The snapshot has ended: a model may take seconds.
        return self.finish(page, trace_id, with_sentences=with_sentences), inspected

    def facets(
        self, requests: Sequence[FacetRequest], filters: SearchFilters, tree: Node | None
    ) -> LibraryFacets:
        """Count facets of all passages that meet the filters. Raises QueryError without facets."""
        if not requests:
            raise QueryError("facets", "is empty; name at least one field, such as tags")
        started = time.perf_counter()
        threshold = self.settings.label_threshold
        compiled = compile_filters(filters, self.scorer, threshold, tree)
        names = ReefNames.of(self.scorer, threshold)
        with self.index.searching(self.database, lambda: [Query(field_values.REVISION)]) as (
            snapshot,
            library,
        ):
            is_found = np.ones(len(library), dtype=np.bool_)
            is_result = compiled.met_by(snapshot, library) if compiled else is_found
            counter = facet_counter(snapshot, library, compiled, names, is_found, is_result)
            facets, warnings = find_facets(counter, requests)
            n_documents, n_chunks = counter.all.n_documents, counter.all.n_chunks
            state = FilterState(snapshot, library.index, library.fields, names)
            of_filters = find_filter_warnings(state, filters, tree, is_met=n_chunks > 0)
        all_warnings = tuple(dict.fromkeys((*of_filters, *warnings)))
        return LibraryFacets(facets, n_documents, n_chunks, milliseconds_since(started), all_warnings)

    def read_page(self, view: LibraryView, prepared: PreparedSearch) -> ResultPage:
        """Rank a state of the library, and read the results of the page."""
        request = prepared.request
        first = 0 if prepared.n_reranked else request.start
        last = max(request.start + request.top_k, prepared.n_reranked)
        search = self.rank(view, prepared).with_warnings()
        ranking, query = search.ranking, search.analyzed_query
        folded: Mapping[int, tuple[FoldedResult, ...]] = {}
        state = state_of(view.library.revision, query.synonyms, query.pins)
        if request.has_plain_pages:
            ranked, of_page = ranked_page(ranking, request, state, first, last)
            query = query.warned(of_page)
        else:
            selection = select(view.snapshot, ranking, request, last + 1)
            ranked, folded = list(selection.ranked[first:]), selection.folded
        ranked, has_more = ranked[: last - first], len(ranked) > last - first
        parts_of_documents = None
        if request.is_grouped:
            others, n_matches = further_passages(ranking, ranked, request.passages_per_document)
            of_documents = parts_queries(view, n_matches)
            view.snapshot.prefetch(itertools.chain(results_queries([*ranked, *others]), of_documents))
            built = search.results([*ranked, *others])
            results, further_results = built[: len(ranked)], built[len(ranked) :]
            parts_of_documents = make_parts(view, results, further_results, n_matches, ranking.order.families)
        else:
            results = search.results(ranked)
        if request.fold_similar:
            results = [dataclasses.replace(each, folded=folded.get(each.chunk_id, ())) for each in results]
        facets = None
        if request.facets:
            facets, warnings = facets_of_ranking(search)
            query = query.warned(warning for warning in warnings if warning not in query.warnings)
        search = dataclasses.replace(search, analyzed_query=query)
        audit, reranker = self.get_audit(), self.reranker_for(request)
        return ResultPage(
            search=search,
            ranked=ranked,
            results=results,
            first=first,
            has_more=has_more,
            state=state,
            entry=make_entry(audit.level, view, request, query, ranking) if audit else None,
            took_ms=milliseconds_since(prepared.started),
            facets=facets,
            stored=reranker.stored_vectors(view.snapshot, _to_rerank(results, prepared))
            if reranker
            else None,
            folded=folded,
            parts_of_documents=parts_of_documents,
            total=ranking.n_results,
            total_documents=ranking.n_documents if request.is_grouped else None,
        )

    def finish(
        self, found: ResultPage, trace_id: str | None = None, *, with_sentences: bool = True
    ) -> SearchResponse:
        """Return the response to a search, reranked if requested. Needs no snapshot."""
        request, embedded = found.search.request, found.search.prepared.embedded
        analyzed_query, ranked, took_ms = found.search.analyzed_query, found.ranked, found.took_ms
        # Pinned results stay first.
        n_pinned = count_pinned(found.results)
        to_rerank = _to_rerank(found.results, found.search.prepared)
        reranking = self.rerank(request, analyzed_query, to_rerank, found.stored)
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
            analyzed_query = analyzed_query.warned(lacking_warnings(analyzed_query, first_page))
            analyzed_query = analyzed_query.warned(
                relevance_warnings(analyzed_query, first_page, request.mode)
            )
        page = [
            (result, chunk)
            for result, chunk in whole_page
            if is_relevant_enough(result.relevance, request.min_relevance, is_pinned=result.pinned)
        ]
        results, chunks = [result for result, _ in page], [chunk for _, chunk in page]
        warnings = [*analyzed_query.warnings, *(reranking.warnings if reranking else ())]
        query_vectors = self.get_query_vectors() if with_sentences else None
        if query_vectors and embedded.vector and request.include_scores:
            sentences_started = time.perf_counter()
            results, is_complete = mark_nearest_sentences(query_vectors, embedded.vector, results)
            warnings += [] if is_complete else [NO_TIME]
            took_ms = round(took_ms + milliseconds_since(sentences_started), 3)
        texts = answer_texts(results, request.text, max_tokens=request.max_tokens, with_prompt=request.prompt)
        n_read = len(whole_page)
        if len(texts.results) < len(results):
            # The next page begins with the first result that did not fit, or after it if it had the whole
            # budget.
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
        audit = self.get_audit()
        if audit and found.entry:
            audit.write(
                complete_entry(
                    found.entry, response, chunks, rerank_entry(reranking, ranked[n_pinned:]), found.folded
                )
            )
        return response

    def rerank(
        self,
        request: SearchRequest,
        analyzed_query: AnalyzedQuery,
        results: Sequence[SearchResult],
        stored: StoredVectors | None,
    ) -> Reranking | None:
        """Rerank the first results of a blend; None if there are none, or if the request does not rerank.

        The model reads the query without excluded words and `title:`. `stored`: the vectors that the library
        has of the results.
        """
        reranker = self.reranker_for(request)
        if reranker is None or not results:
            return None
        return reranker.rerank(embedded_query_text(analyzed_query.parsed) or request.query, results, stored)


def ranked_page(
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


def _next_cursor(found: ResultPage, end: int) -> str:
    """The cursor of the page after the first `end` results."""
    request = found.search.request
    before = [chunk.chunk_id for chunk in found.ranked[: end - found.first]]
    earlier = [] if request.cursor is None or found.first == 0 else request.cursor.anchors[::-1]
    last = found.search.ranking.raw_scores_of(before[-1]) if before else RawScores()
    return cursor_after(request, found.state, end, found.total, last, [*earlier, *before]).text()


def count_pinned(results: Sequence[SearchResult]) -> int:
    """Count the pinned results, which come before all others."""
    return sum(result.pinned for result in results)


def _to_rerank(results: Sequence[SearchResult], prepared: PreparedSearch) -> Sequence[SearchResult]:
    """The results that a model reads: pinned ones stay first."""
    return results[count_pinned(results) : prepared.n_reranked]


def filter_warnings(
    view: LibraryView, filters: CompiledFilters, request: SearchRequest, *, is_met: bool = False
) -> list[str]:
    """Return the warnings of filters that no document can meet. `is_met`: some chunk meets all filters."""
    if filters.names is None:
        return []
    state = filters.state(view.snapshot, view.library)
    return list(find_filter_warnings(state, request.filters, request.filter, is_met=is_met))


def facets_of_ranking(search: RankedSearch) -> tuple[tuple[Facet, ...], list[str]]:
    """Count the facets of everything that a search ranks, on all pages. Return them with their warnings."""
    view, query, request, ranking = search.view, search.analyzed_query, search.request, search.ranking
    counter = facet_counter(
        view.snapshot,
        view.library,
        search.filters,
        ReefNames.of(view.scorer, view.settings.label_threshold),
        ranking.is_found,
        ranking.order.is_result,
        query.matches,
    )
    return find_facets(counter, request.facets)


def order_warnings(ranking: Ranking) -> tuple[str, ...]:
    """Return a warning for each sort key, decay and boost that has no effect."""
    warnings = () if ranking.added is None else ranking.added.warnings
    return warnings if ranking.sorting is None else (*warnings, *ranking.sorting.warnings())


def relevance_warnings(
    analyzed_query: AnalyzedQuery, results: Sequence[SearchResult | NoteHit], mode: SearchMode
) -> tuple[str, ...]:
    """Return a warning if none of the results is likely to be relevant. It names missing terms, unless
    another warning does.

    Of results that vectors alone have ranked, a low relevance says nothing, and the warning says so.

    Passages that wait for a rescore have no part for topics in their relevance, so nothing follows from it.
    """
    is_unknown = analyzed_query.other_data is not None
    if not results or is_unknown or any(result.relevance >= LIKELY for result in results):
        return ()
    if mode is SearchMode.dense:
        return (RANKED_BY_VECTORS,)
    missing = analyzed_query.term_statistics.missing
    is_named = any("passage of this library" in warning for warning in analyzed_query.warnings)
    terms = f"; {IN_NO_PASSAGE}: {join_terms(missing)}" if missing and not is_named else ""
    by_meaning = any("dense" in result.provenance for result in results)
    judged = "judged by words and reefs, " if by_meaning else ""
    return (f"{judged}nothing here seems to answer this{terms}",)


def with_word_warnings(
    view: LibraryView, analyzed_query: AnalyzedQuery, filters: CompiledFilters, ranking: Ranking
) -> AnalyzedQuery:
    """Add what the query excluded, and warnings of it and of identifiers in no passage."""
    parsed, must = analyzed_query.parsed, analyzed_query.must_match
    if not parsed.excluded and not must.absent:
        return analyzed_query
    snapshot, library = view.snapshot, view.library
    is_met = filters.met_by(snapshot, library) if filters else None
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
    warned = analyzed_query.warned([*absent_warnings(snapshot, library, must, is_met), *left_out])
    return dataclasses.replace(warned, excluded=excluded)


def lacking_warnings(analyzed_query: AnalyzedQuery, results: Sequence[SearchResult]) -> list[str]:
    """Return a warning of what the first result lacks, unless the whole library does."""
    absent = {format_term(term) for term in analyzed_query.must_match.absent}
    lacking = [name for name in results[0].lacking if name not in absent] if results else []
    return [lacking_warning(lacking)] if lacking else []


def rank_for(
    view: LibraryView,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    request: SearchRequest,
) -> Ranking:
    """Rank the library for a search, independent of the requested page."""
    snapshot, library = view.snapshot, view.library
    filters = _with_query(compiled_filters, analyzed_query, request)
    added = find_added_scores(
        snapshot, library.index, library.fields, compiled_filters.names, request.decay, request.boosts
    )
    sorting = Sorting(snapshot, library.index, library.fields, request.sort) if request.sort else None
    ranking = rank(
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
    if request.group_by is GroupBy.parent:
        order = dataclasses.replace(ranking.order, families=Families.read(snapshot, library))
        ranking = dataclasses.replace(ranking, order=order)
    return ranking


def _with_query(
    filters: CompiledFilters, analyzed_query: AnalyzedQuery, request: SearchRequest
) -> CompiledFilters:
    """Add the conditions of the query."""
    with_required = request.mode is not SearchMode.reef
    return filters.and_of_query(analyzed_query.parsed, with_required=with_required)


def milliseconds_since(started: float) -> float:
    """Return the milliseconds since a `time.perf_counter()`, to the microsecond."""
    return round((time.perf_counter() - started) * 1000, 3)
