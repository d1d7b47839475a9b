"""Components of vectors that reflect spelling are removed; components of meaning remain."""

import numpy as np
import pytest

from lagoon.build.clustering import spherical_kmeans, unit_rows
from lagoon.build.word_vectors import largest_prefix_shares, spelling_directions, without


@pytest.fixture
def vocabulary() -> tuple[np.ndarray, list[str], np.ndarray]:
    """Words of six prefixes and three meanings; spelling has more weight than meaning."""
    rng = np.random.default_rng(4)
    beginnings = ["ab", "cd", "ef", "gh", "ij", "kl"]
    spelling = 2.0 * np.eye(6, 20)
    meaning = np.eye(3, 20, k=10)
    rows = [(b, m) for b in range(6) for m in range(3) for _ in range(20)]
    vectors = np.array([spelling[b] + meaning[m] for b, m in rows]) + 0.05 * rng.normal(size=(360, 20))
    return unit_rows(vectors), [f"{beginnings[b]}{i}" for i, (b, _) in enumerate(rows)], np.array(rows)[:, 1]


def test_words_cluster_by_meaning_once_spelling_is_removed(vocabulary) -> None:
    vectors, words, meanings = vocabulary
    directions = spelling_directions(vectors, words, 5)
    labels = spherical_kmeans(without(vectors, directions), 3, seed=0, restarts=3).labels
    assert len(set(zip(labels.tolist(), meanings.tolist(), strict=True))) == 3
    before = spherical_kmeans(vectors, 3, seed=0, restarts=3).labels
    assert max(largest_prefix_shares(words, labels, 3)) < max(largest_prefix_shares(words, before, 3))


def test_directions_are_orthonormal_and_removed_completely(vocabulary) -> None:
    vectors, words, _ = vocabulary
    directions = spelling_directions(vectors, words, 5)
    assert directions @ directions.T == pytest.approx(np.eye(len(directions)), abs=1e-5)
    assert np.abs(without(vectors, directions) @ directions.T).max() < 1e-5


def test_the_number_of_directions_is_limited_by_the_prefixes(vocabulary) -> None:
    vectors, words, _ = vocabulary
    assert len(spelling_directions(vectors, words, 50)) == 5


def test_rare_prefixes_are_ignored(vocabulary) -> None:
    vectors, words, _ = vocabulary
    odd = unit_rows(np.eye(1, 20, k=19)).repeat(5, axis=0)
    directions = spelling_directions(np.vstack([vectors, odd]), [*words, *(f"zz{i}" for i in range(5))], 5)
    assert np.abs(directions[:, 19]).max() < 0.1


def test_share_of_the_most_common_first_letter() -> None:
    words = ["ant", "apple", "bee", "cow"]
    assert largest_prefix_shares(words, np.array([0, 0, 0, 1]), 3) == pytest.approx([2 / 3, 1.0, 0.0])
