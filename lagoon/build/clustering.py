"""Spherical k-means with k-means++ seeds: the same seed gives the same centroids.

Follows Dhillon & Modha (2001), "Concept decompositions for large sparse text data using clustering", with the
seeding of Arthur & Vassilvitskii (2007) on cosine distance. An empty cluster gets a point with the lowest
cosine to its own centroid. Typical words name the clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagoon.tokens import stem

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.intp]

_BLOCK = 16384
"""Rows multiplied with the centroids at once: 16,384 x 207 float32 is 13 MB."""


@dataclass(frozen=True, slots=True)
class Clustering:
    """Centroids (k, d) of unit length, the cluster of every point, and the mean cosine of points to their
    centroid."""

    centroids: Floats
    labels: Ints
    cohesion: float


def unit_rows(matrix: npt.NDArray[np.floating]) -> Floats:
    """Rows scaled to length 1; rows of zeros stay zero."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled = np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
    return np.asarray(scaled, dtype=np.float32)


def spherical_kmeans(
    points: Floats,
    k: int,
    *,
    seed: int,
    weights: npt.NDArray[np.float32] | None = None,
    restarts: int = 1,
    max_iterations: int = 60,
) -> Clustering:
    """Cluster unit vectors by cosine; returns the run of greatest cohesion of ``restarts`` runs.

    Args:
        points: (n, d), unit rows, n >= k.
        weights: (n,) weight of a point in its centroid; all 1 if None.
        seed: Restart i uses seed + i.

    Raises:
        ValueError: if there are fewer points than clusters.
    """
    if len(points) < k:
        raise ValueError(f"{len(points)} points cannot make {k} clusters")
    mass = np.ones(len(points), dtype=np.float32) if weights is None else weights.astype(np.float32)
    best: Clustering | None = None
    for restart in range(restarts):
        run = _single_run(points, mass, k, seed + restart, max_iterations)
        if best is None or run.cohesion > best.cohesion:
            best = run
    assert best is not None, "restarts must be at least 1"
    return best


def _single_run(
    points: Floats, mass: npt.NDArray[np.float32], k: int, seed: int, max_iterations: int
) -> Clustering:
    centroids = _plus_plus_seeds(points, mass, k, np.random.default_rng(seed))
    labels, cosines = nearest(points, centroids)
    for _ in range(max_iterations):
        centroids = _centroids(points, mass, labels, cosines, k)
        previous = labels
        labels, cosines = nearest(points, centroids)
        # When fewer than 0.05 % of the points change their cluster, the centroids are stable.
        if np.count_nonzero(labels != previous) <= len(points) // 2000:
            break
    cohesion = float(np.average(cosines, weights=mass))
    return Clustering(centroids, labels, cohesion)


def _plus_plus_seeds(
    points: Floats, mass: npt.NDArray[np.float32], k: int, rng: np.random.Generator
) -> Floats:
    """k points, each drawn with probability proportional to its squared distance to the points drawn
    before."""
    chosen = [int(rng.choice(len(points), p=mass / mass.sum(dtype=np.float64)))]
    distance = np.maximum(0.0, 1.0 - points @ points[chosen[0]]).astype(np.float64)
    for _ in range(1, k):
        odds = distance**2 * mass
        total = odds.sum()
        if total <= 0:  # fewer distinct points than clusters: draw any
            odds, total = np.ones(len(points)), float(len(points))
        chosen.append(int(rng.choice(len(points), p=odds / total)))
        np.minimum(distance, np.maximum(0.0, 1.0 - points @ points[chosen[-1]]), out=distance)
    return points[chosen].copy()


def anchored_centroids(
    points: Floats,
    anchors: Sequence[Ints],
    *,
    pull: float,
    rounds: int,
    weights: npt.NDArray[np.float32] | None = None,
) -> Clustering:
    """Run spherical k-means with centroids that stay near given anchors.

    Cluster r begins at the mean direction of its anchors. In each round its centroid becomes ``pull`` times
    that direction plus ``1 - pull`` times the mean direction of its members. So a cluster adapts to the
    points but keeps its given meaning. Deterministic.

    Args:
        points: (n, d), unit rows.
        anchors: for each cluster, the indices of its anchors among ``points``.
        pull: 0 (plain k-means from these starts) to 1 (centroids do not move).
        rounds: Number of rounds of assigning points and moving centroids.
        weights: (n,) weight of a point in its centroid; all 1 if None.

    Raises:
        ValueError: if a cluster has no anchor.
    """
    missing = [number for number, members in enumerate(anchors) if len(members) == 0]
    if missing:
        raise ValueError(f"clusters without anchors: {missing}")
    mass = np.ones(len(points), dtype=np.float32) if weights is None else weights.astype(np.float32)
    starts = unit_rows(np.stack([points[members].mean(axis=0) for members in anchors]))
    centroids = starts
    labels, cosines = nearest(points, centroids)
    for _ in range(rounds):
        middles = _centroids(points, mass, labels, cosines, len(starts))
        centroids = unit_rows(pull * starts + (1.0 - pull) * middles)
        labels, cosines = nearest(points, centroids)
    return Clustering(centroids, labels, float(np.average(cosines, weights=mass)))


def nearest(points: Floats, centroids: Floats) -> tuple[Ints, Floats]:
    """Nearest centroid of every point, and its cosine; ties go to the lower index."""
    labels = np.empty(len(points), dtype=np.intp)
    cosines = np.empty(len(points), dtype=np.float32)
    for first in range(0, len(points), _BLOCK):
        products = points[first : first + _BLOCK] @ centroids.T
        best = products.argmax(axis=1)
        labels[first : first + _BLOCK] = best
        cosines[first : first + _BLOCK] = products[np.arange(len(best)), best]
    return labels, cosines


def _centroids(
    points: Floats, mass: npt.NDArray[np.float32], labels: Ints, cosines: Floats, k: int
) -> Floats:
    sizes = np.bincount(labels, minlength=k)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        labels = labels.copy()
        worst = np.argsort(cosines, kind="stable")
        donors = [point for point in worst if sizes[labels[point]] > 1][: len(empty)]
        labels[donors] = empty[: len(donors)]
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(k))
    sums = np.add.reduceat(points[order] * mass[order, None], starts, axis=0)
    return unit_rows(sums)


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
