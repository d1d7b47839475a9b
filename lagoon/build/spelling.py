"""Remove components of word vectors that reflect only spelling.

An encoder that reads word pieces places rare words near others that begin with the same piece: "hydrogen,
    hypha,
heave". Without a correction, one reef in four collects words by their first letters and has no meaning. The
mean vectors of words with the same beginning span a small space; the components in its strongest directions
are removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from lagoon.build.clustering import Floats, unit_rows

PREFIX_LETTERS = 2
SMALLEST_GROUP = 30
"""Prefixes with fewer words are ignored: the mean of few words reflects their meaning."""


def spelling_directions(vectors: Floats, words: Sequence[str], n_directions: int) -> Floats:
    """Strongest principal directions of the mean vectors of words with the same prefix.

    Args:
        vectors: (n, d), one row for each word.
        words: n normal forms.
        n_directions: Maximum number of directions.

    Returns:
        (at most n_directions, d), orthonormal rows.
    """
    prefixes = np.array([word[:PREFIX_LETTERS] for word in words])
    _, group, sizes = np.unique(prefixes, return_inverse=True, return_counts=True)
    member = sparse.csr_matrix((np.ones(len(words), np.float32), (group, np.arange(len(words)))))
    large = sizes >= SMALLEST_GROUP
    means = (member @ vectors)[large] / sizes[large, None]
    means = means - np.average(means, axis=0, weights=sizes[large])
    _, _, directions = np.linalg.svd(means * np.sqrt(sizes[large])[:, None], full_matrices=False)
    # n centred group means span at most n - 1 dimensions.
    return np.asarray(directions[: min(n_directions, int(large.sum()) - 1)], dtype=np.float32)


def without(vectors: Floats, directions: Floats) -> Floats:
    """Components of the vectors orthogonal to the directions, scaled to unit length."""
    return unit_rows(vectors - (vectors @ directions.T) @ directions)


def largest_prefix_shares(words: Sequence[str], labels: np.ndarray, n_groups: int) -> list[float]:
    """Share of words, by group, that begin with the most common first letter of the group.

    About 0.12 if spelling has no influence; above 0.5, the group is defined by spelling.
    """
    shares = []
    for group in range(n_groups):
        letters = [words[index][0] for index in np.flatnonzero(labels == group).tolist()]
        shares.append(max(map(letters.count, set(letters))) / len(letters) if letters else 0.0)
    return shares
