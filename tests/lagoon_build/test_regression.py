"""The regression recovers word vectors from texts that are weighted means of them."""

import numpy as np
import pytest
from scipy import sparse

from lagoon.build.word_vectors import fit_word_vectors, mean_rows


@pytest.fixture
def problem() -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(30, 5)).astype(np.float32)
    counts = sparse.csr_matrix(rng.integers(0, 3, size=(400, 30)).astype(np.float64))
    design = mean_rows(counts, rng.uniform(0.5, 3.0, size=30))
    return design, truth, np.asarray(design @ truth)


def test_rows_become_weighted_means_and_empty_rows_stay_empty() -> None:
    counts = sparse.csr_matrix(np.array([[1.0, 2.0], [0.0, 0.0]]))
    rows = mean_rows(counts, np.array([2.0, 1.0])).toarray()
    assert rows == pytest.approx(np.array([[0.5, 0.5], [0.0, 0.0]]))


def test_word_vectors_are_recovered_when_texts_are_exact_means(problem) -> None:
    design, truth, target = problem
    fit = fit_word_vectors(design, target, ridge=1e-6, max_iterations=300, tolerance=1e-7)
    assert fit.unexplained < 1e-5
    assert np.abs(fit.vectors - truth).max() < 0.05


def test_solution_satisfies_the_normal_equations(problem) -> None:
    design, _, target = problem
    noisy = (target + np.random.default_rng(1).normal(size=target.shape)).astype(np.float32)
    fit = fit_word_vectors(design, noisy, ridge=0.5, max_iterations=200, tolerance=1e-7)
    dense = design.toarray().astype(np.float64)
    exact = np.linalg.solve(dense.T @ dense + 0.5 * np.eye(30), dense.T @ noisy)
    assert fit.vectors == pytest.approx(exact, abs=1e-3)


def test_a_strong_ridge_keeps_the_prior(problem) -> None:
    design, truth, target = problem
    prior = (truth + 1.0).astype(np.float32)
    fit = fit_word_vectors(design, target, ridge=1e6, prior=prior)
    assert fit.vectors == pytest.approx(prior, abs=1e-3)


def test_a_word_without_text_keeps_its_prior() -> None:
    design = mean_rows(sparse.csr_matrix(np.array([[1.0, 0.0]])), np.ones(2))
    prior = np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32)
    target = np.array([[1.0, 2.0]], dtype=np.float32)
    fit = fit_word_vectors(design, target, ridge=1e-6, prior=prior)
    assert fit.vectors == pytest.approx(np.array([[1.0, 2.0], [3.0, 4.0]]), abs=1e-4)
