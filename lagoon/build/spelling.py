"""Take out of word vectors what only says how the words are spelled.

An encoder that reads word pieces places rare words beside others that begin with the same piece:
"hydrogen, hypha, heave". Without a remedy, one reef in four gathers words by their first letters and
means nothing. The mean vectors of all words with the same beginning span a small space; what lies in
its strongest directions is removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from lagoon.build.clustering import Floats, unit_rows

PREFIX_LETTERS = 2
SMALLEST_GROUP = 30
"""Beginnings with fewer words are left out: the mean of a few words says what they mean."""


def spelling_directions(vectors: Floats, words: Sequence[str], n_directions: int) -> Floats:
    """Strongest principal directions between the mean vectors of words with the same beginning.

    Args:
        vectors: (n, d), one row a word.
        words: n normal forms.
        n_directions: At most this many are returned.

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
    # As many groups span one dimension less than their number.
    return np.asarray(directions[: min(n_directions, int(large.sum()) - 1)], dtype=np.float32)


def without(vectors: Floats, directions: Floats) -> Floats:
    """The vectors' parts orthogonal to the directions, made unit length again."""
    return unit_rows(vectors - (vectors @ directions.T) @ directions)


def largest_prefix_shares(words: Sequence[str], labels: np.ndarray, n_groups: int) -> list[float]:
    """By group, the share of words that begin with the group's commonest first letter.

    About 0.12 where spelling plays no role; above 0.5 the group is a drawer of a card index.
    """
    shares = []
    for group in range(n_groups):
        letters = [words[index][0] for index in np.flatnonzero(labels == group).tolist()]
        shares.append(max(map(letters.count, set(letters))) / len(letters) if letters else 0.0)
    return shares
