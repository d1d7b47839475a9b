"""Facets of the results of a search, and of a library."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from shoal.errors import QueryError
from shoal.models.facets import Facet, LibraryFacets
from shoal.models.search import SearchFilters
from shoal.scorer import Scorer
from shoal.search.facets.counting import FacetCounter, find_facets
from shoal.search.facets.requests import FacetRequest
from shoal.search.filter_warnings import find_filter_warnings
from shoal.search.filtering.evaluation import FilterState
from shoal.search.filtering.reef_names import ReefNames
from shoal.search.filtering.tree import Node
from shoal.search.filters import CompiledFilters, compile_filters
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.ranking import Ranking
from shoal.settings import Settings
from shoal.storage import field_values
from shoal.storage.database import Database, Query, Snapshot

Found = tuple[tuple[Facet, ...], list[str]]
"""Facets and warnings."""


def facets_of_ranking(
    snapshot: Snapshot,
    library: LibraryIndex,
    ranking: Ranking,
    filters: CompiledFilters,
    analyzed_query: AnalyzedQuery,
    names: ReefNames,
    requests: Sequence[FacetRequest],
) -> Found:
    """Count facets of everything that a search ranks, on all pages. `filters` include those of the query."""
    order = ranking.order
    counter = FacetCounter(
        snapshot, library, filters, names, ranking.is_found, order.is_result, analyzed_query
    )
    return find_facets(counter, requests)


def facets_of_library(
    database: Database,
    scorer: Scorer,
    settings: Settings,
    index_cache: IndexCache,
    requests: Sequence[FacetRequest],
    filters: SearchFilters,
    tree: Node | None,
) -> LibraryFacets:
    """Count facets of all passages that meet the filters. Raises QueryError without facets."""
    if not requests:
        raise QueryError("facets", "is empty; name at least one field, such as tags")
    started = time.perf_counter()
    compiled = compile_filters(filters, scorer, settings.label_threshold, tree)
    names = ReefNames.of(scorer, settings.label_threshold)
    with index_cache.searching(database, lambda: [Query(field_values.REVISION)]) as (snapshot, library):
        is_found = np.ones(len(library), dtype=np.bool_)
        is_result = compiled.met_by(snapshot, library) if compiled else is_found
        counter = FacetCounter(snapshot, library, compiled, names, is_found, is_result)
        facets, warnings = find_facets(counter, requests)
        is_met = counter.all.n_chunks > 0
        state = FilterState(snapshot, library.index, library.fields, names)
        of_filters = find_filter_warnings(state, filters, tree, is_met=is_met)
        n_documents, n_chunks = counter.all.n_documents, counter.all.n_chunks
    took_ms = round((time.perf_counter() - started) * 1000, 3)
    return LibraryFacets(
        facets, n_documents, n_chunks, took_ms, tuple(dict.fromkeys((*of_filters, *warnings)))
    )
