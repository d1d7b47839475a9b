"""Term statistics: how many chunks contain each term of a query, and the term coverage of a chunk.

Scores are relative to the best match of a query; term coverage is absolute. It is the share of the query's
terms that a chunk contains, each weighted by its inverse document frequency as in BM25 (Robertson and
Zaragoza, 2009). Rare terms weigh more than common ones, and terms in no chunk weigh most.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.search.lexical_ranking import expression
from shoal.search.query_language import Term
from shoal.storage.database import Snapshot, listed
from shoal.storage.packed_columns import packed_columns

N_CHUNKS = "SELECT COUNT(*) FROM chunks"
COUNT_WITH_TERM = "SELECT COUNT(*) FROM chunk_fts WHERE chunk_fts MATCH :expression"
WITH_TERM = "SELECT group_concat(rowid) FROM chunk_fts WHERE chunk_fts MATCH :expression"
WITH_TERM_AMONG = WITH_TERM + " AND rowid IN ({ids})"

READS_PER_LOOKUP = 100
"""Looking up one chunk costs as much as reading about this many chunks of a term."""


@dataclass(frozen=True)
class TermStatistics:
    """`counts`: how many of the library's `n_chunks` contain each term, in the order of the query."""

    n_chunks: int
    counts: Mapping[Term, int]

    @property
    def missing(self) -> tuple[Term, ...]:
        """The terms in no chunk."""
        return tuple(term for term, count in self.counts.items() if not count)

    @property
    def present(self) -> tuple[Term, ...]:
        """The terms in at least one chunk."""
        return tuple(term for term, count in self.counts.items() if count)

    @functools.cached_property
    def weights(self) -> Mapping[Term, float]:
        """The share of each term in the query, adding up to 1."""
        idfs = {term: self._idf(count) for term, count in self.counts.items()}
        total = math.fsum(idfs.values())
        return {term: idf / total for term, idf in idfs.items()}

    def term_coverage(self, snapshot: Snapshot, chunk_ids: Sequence[int]) -> dict[int, float]:
        """Return the term coverage of each chunk over title, headings and text, 0..1; empty for a query
        without terms."""
        if not self.counts or not chunk_ids:
            return {}
        ids = np.array(chunk_ids, dtype=np.int64)
        coverage = np.zeros(len(ids))
        for term, count in self.counts.items():
            if count:
                chunks_with_term = _chunks_with_term(snapshot, term, count, chunk_ids)
                coverage[_are_among(ids, chunks_with_term)] += self.weights[term]
        # Rounding errors may lift sums slightly above 1.
        return dict(zip(chunk_ids, np.minimum(coverage.round(6), 1.0).tolist(), strict=True))

    def _idf(self, count: int) -> float:
        return math.log1p((self.n_chunks - count + 0.5) / (count + 0.5))


NO_STATISTICS = TermStatistics(0, {})


def find_term_statistics(snapshot: Snapshot, terms: Sequence[Term]) -> TermStatistics:
    """Count the chunks that contain each term, in any inflection."""
    if not terms:
        return NO_STATISTICS
    counts = {term: snapshot.value(COUNT_WITH_TERM, {"expression": expression(term)}) for term in terms}
    return TermStatistics(snapshot.value(N_CHUNKS), counts)


def _are_among(ids: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(ids), dtype=np.bool_)
    places = np.minimum(np.searchsorted(ascending, ids), len(ascending) - 1)
    is_among: NDArray[np.bool_] = ascending[places] == ids
    return is_among


def _chunks_with_term(
    snapshot: Snapshot, term: Term, count: int, chunk_ids: Sequence[int]
) -> NDArray[np.int64]:
    """The chunks that contain a term, ascending: all of them, or those among `chunk_ids` if that is
    cheaper."""
    term_parameters = {"expression": expression(term)}
    if count <= READS_PER_LOOKUP * len(chunk_ids):
        return packed_columns(snapshot, WITH_TERM, term_parameters)[0]
    ids, parameters = listed("id", chunk_ids)
    return packed_columns(snapshot, WITH_TERM_AMONG.format(ids=ids), {**term_parameters, **parameters})[0]
