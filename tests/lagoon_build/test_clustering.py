"""Spherical k-means is repeatable, recovers clusters, and never leaves one empty."""

import numpy as np
import pytest

from lagoon.build.clustering import anchored_centroids, nearest, spherical_kmeans, unit_rows


def bundles(n_bundles: int = 6, size: int = 40, dimensions: int = 16) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    middles = rng.normal(size=(n_bundles, dimensions))
    points = np.repeat(middles, size, axis=0) + 0.15 * rng.normal(size=(n_bundles * size, dimensions))
    return unit_rows(points), np.repeat(np.arange(n_bundles), size)


def test_the_same_seed_gives_the_same_clusters_bit_for_bit() -> None:
    points = unit_rows(np.random.default_rng(0).normal(size=(600, 12)))
    first = spherical_kmeans(points, 20, seed=5, restarts=3)
    second = spherical_kmeans(points, 20, seed=5, restarts=3)
    assert np.array_equal(first.labels, second.labels)
    assert np.array_equal(first.centroids, second.centroids)


def test_another_seed_gives_other_clusters() -> None:
    points = unit_rows(np.random.default_rng(0).normal(size=(600, 12)))
    first, second = (spherical_kmeans(points, 20, seed=seed) for seed in (5, 6))
    assert not np.array_equal(first.labels, second.labels)


def test_well_separated_clusters_are_recovered() -> None:
    points, truth = bundles()
    labels = spherical_kmeans(points, 6, seed=0, restarts=5).labels
    assert len({(int(a), int(b)) for a, b in zip(truth, labels, strict=True)}) == 6


def test_centroids_have_length_one_and_no_cluster_is_empty() -> None:
    points, _ = bundles(size=3)
    result = spherical_kmeans(points, 17, seed=1)
    assert np.linalg.norm(result.centroids, axis=1) == pytest.approx(np.ones(17), abs=1e-5)
    assert set(nearest(points, result.centroids)[0]) == set(range(17))


def test_more_restarts_never_lower_cohesion() -> None:
    points = unit_rows(np.random.default_rng(2).normal(size=(300, 8)))
    assert (
        spherical_kmeans(points, 15, seed=1, restarts=6).cohesion
        >= spherical_kmeans(points, 15, seed=1).cohesion
    )


def test_heavy_points_attract_the_centroid() -> None:
    points = unit_rows(np.array([[1.0, 0.0], [0.0, 1.0]]))
    centroid = spherical_kmeans(points, 1, seed=0, weights=np.array([9.0, 1.0], dtype=np.float32)).centroids[
        0
    ]
    assert centroid[0] > 0.95


def test_fewer_points_than_clusters_are_rejected() -> None:
    with pytest.raises(ValueError, match="cannot make"):
        spherical_kmeans(unit_rows(np.eye(3)), 4, seed=0)


def test_anchored_clusters_keep_the_order_and_meaning_of_their_anchors() -> None:
    points, truth = bundles()
    anchors = [np.flatnonzero(truth == bundle)[:3] for bundle in (4, 0, 5, 2, 1, 3)]
    clustering = anchored_centroids(points, anchors, pull=0.3, rounds=8)
    assert [truth[members[0]] for members in anchors] == [4, 0, 5, 2, 1, 3]
    assert all(
        (truth[clustering.labels == number] == truth[rows[0]]).all() for number, rows in enumerate(anchors)
    )


def test_a_full_pull_leaves_centroids_at_their_anchors() -> None:
    points, truth = bundles()
    anchors = [np.flatnonzero(truth == bundle)[:3] for bundle in range(6)]
    starts = unit_rows(np.stack([points[rows].mean(axis=0) for rows in anchors]))
    assert anchored_centroids(points, anchors, pull=1.0, rounds=5).centroids == pytest.approx(
        starts, abs=1e-6
    )
    assert np.abs(anchored_centroids(points, anchors, pull=0.0, rounds=5).centroids - starts).max() > 0.01


def test_a_cluster_without_anchors_is_rejected() -> None:
    points, _ = bundles()
    with pytest.raises(ValueError, match=r"without anchors: \[1\]"):
        anchored_centroids(points, [np.array([0]), np.array([], dtype=np.intp)], pull=0.5, rounds=1)
