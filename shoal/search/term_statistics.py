"""How many passages of the library hold each term of a query, and how much of the query a passage holds.

Scores are relative to the best that a query finds. This is the sign that is not: the share of the query's terms that stand
in a passage, each weighed by its inverse document frequency as in BM25 (Robertson and Zaragoza, 2009), so that a rare word
says more than a common one, and a word that stands nowhere says most, and is held by none.
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
COUNT_HOLDING = "SELECT COUNT(*) FROM chunk_fts WHERE chunk_fts MATCH :expression"
HOLDING = "SELECT group_concat(rowid) FROM chunk_fts WHERE chunk_fts MATCH :expression"
HOLDING_AMONG = HOLDING + " AND rowid IN ({ids})"

LOOKED_UP = 100
"""To look up one chunk costs as much as to read about this many of those that hold a term."""


@dataclass(frozen=True)
class TermStatistics:
    """`counts`: how many of the library's `n_chunks` hold each term, in the order of the query."""

    n_chunks: int
    counts: Mapping[Term, int]

    @property
    def missing(self) -> tuple[Term, ...]:
        """The terms that no passage holds."""
        return tuple(term for term, count in self.counts.items() if not count)

    @property
    def standing(self) -> tuple[Term, ...]:
        """The terms that some passage holds."""
        return tuple(term for term, count in self.counts.items() if count)

    @functools.cached_property
    def weights(self) -> Mapping[Term, float]:
        """How much of the query each term is, adding up to 1."""
        found = {term: self._rarity(count) for term, count in self.counts.items()}
        total = math.fsum(found.values())
        return {term: weight / total for term, weight in found.items()}

    def held(self, snapshot: Snapshot, chunk_ids: Sequence[int]) -> dict[int, float]:
        """How much of the query each of the chunks holds in title, headings or text, 0..1; nothing for a query without
        terms."""
        if not self.counts or not chunk_ids:
            return {}
        wanted = np.array(chunk_ids, dtype=np.int64)
        found = np.zeros(len(wanted))
        for term, count in self.counts.items():
            if count:
                holding = _holding(snapshot, term, count, chunk_ids)
                found[_are_among(wanted, holding)] += self.weights[term]
        # Sums of shares may be a hair above 1.
        return dict(zip(chunk_ids, np.minimum(found.round(6), 1.0).tolist(), strict=True))

    def _rarity(self, count: int) -> float:
        return math.log1p((self.n_chunks - count + 0.5) / (count + 0.5))


NO_SPREAD = TermStatistics(0, {})


def find_term_statistics(snapshot: Snapshot, terms: Sequence[Term]) -> TermStatistics:
    """The spread of some terms, each in any inflection."""
    if not terms:
        return NO_SPREAD
    counts = {term: snapshot.value(COUNT_HOLDING, {"expression": expression(term)}) for term in terms}
    return TermStatistics(snapshot.value(N_CHUNKS), counts)


def _are_among(wanted: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(wanted), dtype=np.bool_)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    found: NDArray[np.bool_] = ascending[places] == wanted
    return found


def _holding(snapshot: Snapshot, term: Term, count: int, chunk_ids: Sequence[int]) -> NDArray[np.int64]:
    """Chunks that hold a term, ascending, at least those of these that do."""
    asked = {"expression": expression(term)}
    if count <= LOOKED_UP * len(chunk_ids):
        return packed_columns(snapshot, HOLDING, asked)[0]
    ids, parameters = listed("id", chunk_ids)
    return packed_columns(snapshot, HOLDING_AMONG.format(ids=ids), {**asked, **parameters})[0]
