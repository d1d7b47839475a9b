"""The ranking of a whole library for one query, with every part of every score.

Each signal scores every chunk it matches. Filters come afterwards: they decide which chunks are results and
change no score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.models import SearchMode
from shoal.search.field_boost import field_boosts
from shoal.search.filters import CompiledFilters
from shoal.search.fusion import Weights, blend, parts
from shoal.search.lexical_ranking import UNIT, score_chunks
from shoal.search.library_index import LibraryIndex
from shoal.search.ordering import Order
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.reef_ranking import UNIT as OVERLAP_UNIT
from shoal.search.reef_ranking import other_data, overlaps
from shoal.search.request import Fusion
from shoal.storage.database import Snapshot

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


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
    """The scores of all chunks of a library; every array has one element per place of its index.

    lexical_raw  BM25 in units of `lexical_ranking.UNIT`
    reef_raw     overlap in units of `reef_ranking.UNIT`
    n_shared     reefs in common with the query
    lexical, reef, field_boost, final   0..1; final is 0 unless signals were blended
    is_found     whether the chunk is a result without filters
    order        the results and their order; a field boost alone makes no result
    """

    library: LibraryIndex
    mode: SearchMode
    weights: Weights
    lexical_raw: Ints
    reef_raw: Ints
    n_shared: NDArray[np.uint8]
    lexical: Doubles
    reef: Doubles
    field_boost: Doubles
    final: Doubles
    is_found: NDArray[np.bool_]
    order: Order

    def first(self, n: int, max_per_document: int | None) -> list[Ranked]:
        """Return the first results, best first, at most `max_per_document` per document; equal scores by
        chunk id."""
        return [self._ranked(place) for place in self.order.first(n, max_per_document).tolist()]

    def of(self, chunk_id: int, document_id: int) -> Ranked:
        """Return one chunk, whether a result or not; all scores are 0 if no signal matched it."""
        place = self.library.place_of(chunk_id)
        if place is None:
            return Ranked(chunk_id, document_id, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
        return self._ranked(place)

    def rank_of(self, chunk_id: int, max_per_document: int | None, *, filtered: bool = True) -> int | None:
        """Return the rank of a chunk among the results, from 1.

        Without `filtered`, the rank is that of the same search without filters, phrases and exclusions. None
        if no signal matched the chunk, or if `max_per_document` better chunks of its document come before it.
        """
        place = self.library.place_of(chunk_id)
        if place is None or not self._is_match(place):
            return None
        return self.order.rank(place, max_per_document, among=None if filtered else self.is_found)

    def best_of(self, document_id: int) -> int | None:
        """Return the best chunk of a document, results before others; None if no signal matched any."""
        places = self.library.places_of_document(document_id)
        places = places[[self._is_match(place) for place in places.tolist()]]
        if not len(places):
            return None
        results = places[self.order.is_result[places]]
        among = results if len(results) else places
        return int(self.library.chunk_ids[among[np.argmax(self.order.keys[among])]])

    def _is_match(self, place: int) -> bool:
        return bool(self.lexical_raw[place] > 0 or self.n_shared[place] > 0 or self.order.keys[place] > 0)

    def _ranked(self, place: int) -> Ranked:
        lexical_raw = int(self.lexical_raw[place]) / UNIT
        reef_raw = int(self.reef_raw[place]) / OVERLAP_UNIT
        final = float(self.final[place])
        score = {SearchMode.lexical: lexical_raw, SearchMode.reef: reef_raw, SearchMode.hybrid: final}
        return Ranked(
            int(self.library.chunk_ids[place]),
            int(self.library.document_ids[place]),
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
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    *,
    mode: SearchMode,
    fusion: Fusion,
) -> Ranking:
    """Rank a library, given its index."""
    n = len(library)
    nothing, weights = np.zeros(n), analyzed_query.weights
    lexical_raw = reef_raw = np.zeros(n, dtype=np.int64)
    n_shared = np.zeros(n, dtype=np.uint8)
    if mode is not SearchMode.lexical and analyzed_query.reefs:
        reef_raw, n_shared = overlaps(library, analyzed_query.reefs)
        if analyzed_query.other_data is not None:
            # Their reefs cannot be compared with the query's.
            is_comparable = ~np.isin(library.chunk_ids, other_data(snapshot, analyzed_query.other_data))
            reef_raw, n_shared = reef_raw * is_comparable, n_shared * is_comparable
    if mode is not SearchMode.reef:
        scores = analyzed_query.lexical_scores
        lexical_raw = (
            score_chunks(library, analyzed_query.parsed, analyzed_query.matches) if scores is None else scores
        )
    lexical, reefs = parts(lexical_raw, fusion), parts(reef_raw, fusion)
    field_boost = final = nothing
    if mode is SearchMode.lexical:
        keys = lexical_raw.astype(np.float64)
    elif mode is SearchMode.reef:
        keys = reef_raw.astype(np.float64)
    else:
        if weights.field_boost:
            field_boost = field_boosts(snapshot, library, analyzed_query.matches)
        keys = final = blend(lexical, reefs, field_boost, weights)
    # A field boost alone makes no result.
    is_found = n_shared > 0 if mode is SearchMode.reef else (keys > 0) & ((lexical_raw > 0) | (n_shared > 0))
    is_result = is_found
    if compiled_filters:
        is_result = is_found & compiled_filters.met_by(snapshot, library)
    order = Order(library.chunk_ids, library.document_ids, keys, is_result)
    return Ranking(
        library,
        mode,
        weights,
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
