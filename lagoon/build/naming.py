"""Typical words of reefs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lagoon.build.clustering import Floats, Ints
from lagoon.stems import stem

N_TYPICAL = 12
_CANDIDATES = 60


def commonness(document_frequencies: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Weight of a word's frequency in the choice of typical words: grows with the logarithm of the frequency
    up to 200 windows, because more frequent words are too general."""
    return np.asarray(np.log1p(np.minimum(document_frequencies, 200)) ** 0.75)


def typical_words(
    words: Sequence[str],
    vectors: Floats,
    centroids: Floats,
    strongest: Ints,
    document_frequencies: npt.NDArray[np.integer],
    size: int = N_TYPICAL,
) -> list[tuple[str, ...]]:
    """Up to ``size`` words for each reef, most typical first: near its centroid and common.

    Args:
        words: n normal forms.
        vectors: (n, d), unit rows.
        centroids: (n_reefs, d), unit rows.
        strongest: (n,) strongest reef of each word; a word can be typical of this reef only.
        document_frequencies: (n,) number of windows of running text with the word.
    """
    weights = commonness(document_frequencies)
    lists = []
    for reef in range(len(centroids)):
        members = np.flatnonzero(strongest == reef)
        scores = (vectors[members] @ centroids[reef]) * weights[members]
        best = members[np.argsort(-scores, kind="stable")][:_CANDIDATES]
        lists.append(tuple(distinct_stems([words[word] for word in best], stem)[:size]))
    return lists


def distinct_stems(words: Sequence[str], stem_of: Callable[[str], str]) -> list[str]:
    """Drop words that share a stem with an earlier word ("seal", "seals", "seal hunt")."""
    seen: set[str] = set()
    kept = []
    for word in words:
        stems = {stem_of(part) for part in word.split()}
        if not stems & seen:
            kept.append(word)
        seen |= stems
    return kept
