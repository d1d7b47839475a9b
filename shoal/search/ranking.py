"""The ranking of a whole library for one query, with every part of every score.

Each signal scores every chunk it matches. Filters come afterwards: they decide which chunks are results and
change no score. The reef signal reads postings in memory or all profiles, with equal numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.models import QueryReef, SearchMode
from shoal.search import postings, reef_ranking
from shoal.search.field_boost import field_boosts
from shoal.search.filters import CompiledFilters
from shoal.search.fusion import Weights, blend, parts
from shoal.search.lexical_ranking import NO_MATCHES, UNIT, match_scores
from shoal.search.ordering import DocumentsOf, Order
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.reef_ranking import NO_OVERLAPS, Overlaps
from shoal.search.request import Fusion
from shoal.storage.database import IDS_PER_STATEMENT, Snapshot, listed
from shoal.storage.profiles import MILLIONTHS

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

DOCUMENTS_OF = "SELECT id, document_id FROM chunks WHERE id IN ({ids})"
CHUNKS_OF = "SELECT id FROM chunks WHERE document_id = :document_id ORDER BY id"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A chunk in a ranking.

    `score` is the sort key: the final score in a hybrid search, else the raw score of the signal. `lexical`,
    `reef` and `field_boost` are normalized scores, 0..1; `lexical_raw` is BM25, `reef_raw` the overlap. A
    signal that is not used or does not match the chunk has 0.
    """

    chunk_id: int
    document_id: int
    score: float
    lexical: float
    reef: float
    field_boost: float
    lexical_raw: float
    reef_raw: float
    n_shared: int


@dataclass(frozen=True)
class Ranking:
    """All chunks that a signal matched, by ascending id; every array has one element per chunk.

    lexical_raw  BM25 in units of `lexical_ranking.UNIT`
    reef_raw     overlap in millionths of millionths
    n_shared     reefs in common with the query
    lexical, reef, field_boost, final   0..1; final is 0 unless signals were blended
    is_found     whether the chunk is a result without filters
    order        the results and their order; a field boost alone makes no result
    """

    mode: SearchMode
    weights: Weights
    chunk_ids: Ints
    lexical_raw: Ints
    reef_raw: Ints
    n_shared: Ints
    lexical: Doubles
    reef: Doubles
    field_boost: Doubles
    final: Doubles
    is_found: NDArray[np.bool_]
    order: Order

    def first(self, n: int, max_per_document: int | None) -> list[Ranked]:
        """Return the first results, best first, at most `max_per_document` per document; equal scores by
        chunk id."""
        places = self.order.first(n, max_per_document)
        documents = self.order.documents_of(self.chunk_ids[places])
        return [
            self._ranked(place, document)
            for place, document in zip(places.tolist(), documents.tolist(), strict=True)
        ]

    def of(self, chunk_id: int, document_id: int) -> Ranked:
        """Return one chunk, whether a result or not; all scores are 0 if no signal matched it."""
        place = self._place(chunk_id)
        if place is None:
            return Ranked(chunk_id, document_id, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
        return self._ranked(place, document_id)

    def rank_of(self, chunk_id: int, max_per_document: int | None, *, filtered: bool = True) -> int | None:
        """Return the rank of a chunk among the results, from 1.

        Without `filtered`, the rank is that of the same search without filters, phrases and exclusions. None
        if no signal matched the chunk, or if `max_per_document` better chunks of its document come before it.
        """
        place = self._place(chunk_id)
        if place is None:
            return None
        return self.order.rank(place, max_per_document, among=None if filtered else self.is_found)

    def best_of(self, chunk_ids: Ints) -> int | None:
        """Return the best of these chunks, whether results or not; None if no signal matched any."""
        places = np.flatnonzero(np.isin(self.chunk_ids, chunk_ids))
        if not len(places):
            return None
        return int(self.chunk_ids[places[np.argmax(self.order.keys[places])]])

    def _place(self, chunk_id: int) -> int | None:
        place = int(np.searchsorted(self.chunk_ids, chunk_id))
        return place if place < len(self.chunk_ids) and self.chunk_ids[place] == chunk_id else None

    def _ranked(self, place: int, document_id: int) -> Ranked:
        lexical_raw = int(self.lexical_raw[place]) / UNIT
        reef_raw = int(self.reef_raw[place]) / MILLIONTHS**2
        final = float(self.final[place])
        score = {SearchMode.lexical: lexical_raw, SearchMode.reef: reef_raw, SearchMode.hybrid: final}
        return Ranked(
            int(self.chunk_ids[place]),
            document_id,
            score[self.mode],
            float(self.lexical[place]),
            float(self.reef[place]),
            float(self.field_boost[place]),
            lexical_raw,
            reef_raw,
            int(self.n_shared[place]),
        )


def rank(
    snapshot: Snapshot,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    loaded: postings.Postings | None,
    *,
    mode: SearchMode,
    fusion: Fusion,
) -> Ranking:
    """Rank a library. `loaded` holds its postings in memory; if None, the profiles are read."""
    by_reefs, by_words = NO_OVERLAPS, NO_MATCHES
    if mode is not SearchMode.lexical and analyzed_query.reefs:
        by_reefs = _comparable_overlaps(snapshot, analyzed_query, loaded)
    if mode is not SearchMode.reef:
        matches = analyzed_query.matches
        by_words = (
            match_scores(snapshot, analyzed_query.term_statistics.present) if matches is None else matches
        )
    chunk_ids = _union(by_reefs.chunk_ids, by_words.chunk_ids)
    lexical_raw, reef_raw, n_shared = (np.zeros(len(chunk_ids), dtype=np.int64) for _ in range(3))
    lexical_raw[np.searchsorted(chunk_ids, by_words.chunk_ids)] = by_words.scores
    if chunk_ids is by_reefs.chunk_ids:
        reef_raw, n_shared = by_reefs.overlaps, by_reefs.n_shared
    else:
        places = np.searchsorted(chunk_ids, by_reefs.chunk_ids)
        reef_raw[places], n_shared[places] = by_reefs.overlaps, by_reefs.n_shared
    lexical, reefs = parts(lexical_raw, fusion), parts(reef_raw, fusion)
    field_boost, final = np.zeros(len(chunk_ids)), np.zeros(len(chunk_ids))
    weights = analyzed_query.weights
    if mode is SearchMode.lexical:
        keys = lexical_raw.astype(np.float64)
    elif mode is SearchMode.reef:
        keys = reef_raw.astype(np.float64)
    else:
        if weights.field_boost:
            field_boost = field_boosts(snapshot, analyzed_query.term_statistics, chunk_ids)
        keys = final = blend(lexical, reefs, field_boost, weights)
    is_found = (n_shared if mode is SearchMode.reef else keys) > 0
    is_result = is_found & compiled_filters.met_by(snapshot, chunk_ids) if compiled_filters else is_found
    order = Order(chunk_ids, keys, is_result, documents_lookup(snapshot, loaded))
    return Ranking(
        mode,
        weights,
        chunk_ids,
        lexical_raw,
        reef_raw,
        n_shared,
        lexical,
        reefs,
        field_boost,
        final,
        is_found,
        order,
    )


def reef_overlaps(
    snapshot: Snapshot, reefs: Sequence[QueryReef], loaded: postings.Postings | None
) -> Overlaps:
    """Return the overlaps with a profile, from postings in memory or from all profiles; chunks that share no
    reef may be included."""
    return reef_ranking.overlaps(snapshot, reefs) if loaded is None else postings.overlaps(loaded, reefs)


def documents_lookup(snapshot: Snapshot, loaded: postings.Postings | None) -> DocumentsOf:
    """Return a function that maps chunk ids to document ids, in memory or in SQL."""
    return _documents_in_sql(snapshot) if loaded is None else loaded.documents_of


def chunks_of(snapshot: Snapshot, document_id: int) -> Ints:
    """Return the ids of a document's chunks."""
    return np.array(
        [row[0] for row in snapshot.rows(CHUNKS_OF, {"document_id": document_id})], dtype=np.int64
    )


def _comparable_overlaps(
    snapshot: Snapshot, analyzed_query: AnalyzedQuery, loaded: postings.Postings | None
) -> Overlaps:
    """The overlaps without chunks of other lagoon data, whose reefs cannot be compared with the query's."""
    overlaps = reef_overlaps(snapshot, analyzed_query.reefs, loaded)
    if analyzed_query.other_data is None:
        return overlaps
    comparable = ~np.isin(overlaps.chunk_ids, reef_ranking.other_data(snapshot, analyzed_query.other_data))
    return Overlaps(*(array[comparable] for array in overlaps))


def _union(first: Ints, second: Ints) -> Ints:
    """The ids in either array, ascending; `first` itself if it has all of them."""
    if not len(second) or not len(first):
        return first if len(first) else second
    places = np.searchsorted(first, second)
    missing = second[(places == len(first)) | (first[np.minimum(places, len(first) - 1)] != second)]
    return np.union1d(first, missing) if len(missing) else first


def _documents_in_sql(snapshot: Snapshot) -> DocumentsOf:
    def documents_of(chunk_ids: Ints) -> Ints:
        document_ids: dict[int, int] = {}
        ids = chunk_ids.tolist()
        for start in range(0, len(ids), IDS_PER_STATEMENT):
            names, parameters = listed("id", ids[start : start + IDS_PER_STATEMENT])
            document_ids.update(snapshot.tuples(DOCUMENTS_OF.format(ids=names), parameters))
        return np.array([document_ids[chunk_id] for chunk_id in ids], dtype=np.int64)

    return documents_of
