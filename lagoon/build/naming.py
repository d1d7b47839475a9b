"""Words that say best what a reef is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lagoon.build.clustering import Floats, Ints
from lagoon.stems import stem

N_TYPICAL = 12
_CANDIDATES = 60


def commonness(document_frequencies: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Factor by which a word suits a list of typical words: grows with the logarithm of its frequency, and stops
    there: beyond some 200 windows words become too general to say anything."""
    return np.asarray(np.log1p(np.minimum(document_frequencies, 200)) ** 0.75)


def typical_words(
    words: Sequence[str],
    vectors: Floats,
    centroids: Floats,
    strongest: Ints,
    document_frequencies: npt.NDArray[np.integer],
    size: int = N_TYPICAL,
) -> list[tuple[str, ...]]:
    """For each reef up to ``size`` words, the most typical first: near to its centroid and common.

    Args:
        words: n normal forms.
        vectors: (n, d), unit rows.
        centroids: (n_reefs, d), unit rows.
        strongest: (n,) the reef each word is strongest in; it can be typical of this one only.
        document_frequencies: (n,) windows of running text with the word.
    """
    suits = commonness(document_frequencies)
    lists = []
    for reef in range(len(centroids)):
        members = np.flatnonzero(strongest == reef)
        scores = (vectors[members] @ centroids[reef]) * suits[members]
        best = members[np.argsort(-scores, kind="stable")][:_CANDIDATES]
        lists.append(tuple(distinct_stems([words[word] for word in best], stem)[:size]))
    return lists


def distinct_stems(words: Sequence[str], stem_of: Callable[[str], str]) -> list[str]:
    """The words without those that share a stem with an earlier one ("seal", "seals", "seal hunt")."""
    seen: set[str] = set()
    kept = []
    for word in words:
        stems = {stem_of(part) for part in word.split()}
        if not stems & seen:
            kept.append(word)
        seen |= stems
    return kept
