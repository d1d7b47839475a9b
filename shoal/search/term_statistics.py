"""Term statistics: how many chunks contain each term of a query, and the term coverage of a chunk.

Scores are relative to the best match of a query; term coverage is absolute. It is the share of the query's
terms that a chunk contains, each weighted by its inverse document frequency as in BM25 (Robertson and
Zaragoza, 2009). Rare terms weigh more than common ones, and terms in no chunk weigh most.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.index.lexical import idf
from shoal.index.matching import Matches
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import Term


@dataclass(frozen=True)
class TermStatistics:
    """`counts`: how many of the library's `n_chunks` contain each term, in the order of the query."""

    n_chunks: int
    counts: Mapping[Term, int]

    @property
    def missing(self) -> tuple[Term, ...]:
        """The terms in no chunk."""
        return tuple(term for term, count in self.counts.items() if not count)

    @functools.cached_property
    def weights(self) -> Mapping[Term, float]:
        """The share of each term in the query, adding up to 1."""
        idfs = {term: idf(self.n_chunks, count) for term, count in self.counts.items()}
        total = math.fsum(idfs.values())
        return {term: idf / total for term, idf in idfs.items()}

    def term_coverage(
        self, library: LibraryIndex, matches: Mapping[Term, Matches], chunk_ids: Sequence[int]
    ) -> dict[int, float]:
        """Return the term coverage of each chunk over title, headings and text, 0..1; empty for a query
        without terms."""
        if not self.counts or not chunk_ids:
            return {}
        coverage = np.zeros(len(chunk_ids))
        places = library.index.places_of(chunk_ids)
        for term, weight in self.weights.items():
            coverage += weight * matches[term].are_in(places)
        # Rounding errors may lift sums slightly above 1.
        return dict(zip(chunk_ids, np.minimum(coverage.round(6), 1.0).tolist(), strict=True))


NO_STATISTICS = TermStatistics(0, {})


def find_term_statistics(
    library: LibraryIndex, matches: Mapping[Term, Matches], parts: Collection[Term] = ()
) -> TermStatistics:
    """Count the chunks that contain each term, in any inflection. `parts` of identifiers do not count beside
    these."""
    counts = {term: found.n_chunks for term, found in matches.items() if term not in parts}
    return TermStatistics(library.n_chunks, counts) if counts else NO_STATISTICS
