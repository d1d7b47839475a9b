"""Whitened vectors have equal variance in all directions; shrinkage keeps noise small."""

import numpy as np
import pytest

from lagoon.build.word_vectors import fit_whitening


@pytest.fixture
def stretched() -> np.ndarray:
    rng = np.random.default_rng(2)
    return (rng.normal(size=(4000, 4)) * [10.0, 3.0, 1.0, 0.01] + 5.0).astype(np.float32)


def test_without_shrinkage_all_directions_have_equal_variance(stretched: np.ndarray) -> None:
    whiten = fit_whitening(stretched, stretched.mean(axis=0), shrinkage=0.0)
    covariance = np.cov(((stretched - whiten.middle) @ whiten.matrix).T)
    assert covariance == pytest.approx(np.eye(4), abs=0.05)


def test_with_shrinkage_directions_of_noise_stay_small(stretched: np.ndarray) -> None:
    whiten = fit_whitening(stretched, stretched.mean(axis=0), shrinkage=0.1)
    deviations = ((stretched - whiten.middle) @ whiten.matrix).std(axis=0)
    assert deviations[3] < 0.01 < 0.5 < deviations[0]


def test_results_are_unit_vectors_and_the_middle_maps_to_zero(stretched: np.ndarray) -> None:
    whiten = fit_whitening(stretched, stretched.mean(axis=0), shrinkage=0.1)
    assert np.linalg.norm(whiten(stretched), axis=1) == pytest.approx(1.0, abs=1e-5)
    assert whiten(whiten.middle[None, :]).tolist() == [[0.0] * 4]
