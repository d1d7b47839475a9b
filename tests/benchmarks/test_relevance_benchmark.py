"""The measures of benchmarks/relevance.py, on values whose results are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.relevance import Results, auc, ece, fit, left_out

ONES = np.ones(4)


def test_auc_counts_pairs_and_halves_ties() -> None:
    positive = np.array([True, True, False, False])
    assert auc(np.array([0.9, 0.8, 0.2, 0.1]), positive, ONES) == 1.0
    assert auc(np.array([0.9, 0.1, 0.2, 0.1]), positive, ONES) == pytest.approx(0.625)
    assert auc(ONES, positive, ONES) == 0.5


def test_calibration_error_is_the_weighted_distance_of_the_bins() -> None:
    p = np.array([0.25, 0.25, 0.75, 0.75])
    assert ece(p, np.array([0.0, 0.5, 1.0, 0.5]), ONES) == 0.0
    assert ece(p, np.array([False, False, True, True]), ONES) == pytest.approx(0.25)
    assert ece(p, np.array([False, False, True, True]), np.array([1.0, 1.0, 0.0, 0.0])) == pytest.approx(0.25)


def test_fit_finds_the_coefficients_that_made_the_data() -> None:
    random = np.random.default_rng(3)
    values = random.random((40_000, 2))
    p = 1 / (1 + np.exp(-(-2.0 + 3.0 * values[:, 0] + 1.0 * values[:, 1])))
    relevant = random.random(len(p)) < p
    assert fit(values, relevant, np.ones(len(p)) / len(p)) == pytest.approx([-2.0, 3.0, 1.0], abs=0.15)


def _results(library: list[str], queries_of: list[str]) -> Results:
    random = np.random.default_rng(5)
    n = len(library)
    return Results(
        random.random((n, 4)),
        np.zeros(n, dtype=np.int64),
        random.random(n) < 0.4,
        np.array(library),
        np.array(queries_of),
    )


def test_half_of_the_weight_is_on_queries_with_an_answer() -> None:
    results = _results(["a", "a", "a", "b", "b"], ["a", "a", "b", "b", "a"])
    weights = results.weights()
    assert weights.sum() == pytest.approx(1.0)
    assert weights[results.answered].sum() == pytest.approx(0.5)
    assert weights.tolist() == pytest.approx([0.125, 0.125, 0.25, 0.25, 0.25])


def test_a_collection_left_out_does_not_change_its_own_probabilities() -> None:
    pairs = [(library, query) for library in "abc" for query in "abc" for _ in range(30)]
    results = _results([library for library, _ in pairs], [query for _, query in pairs])
    before = left_out(results, (0, 1))
    relevant = results.relevant.copy()
    relevant[results.library == "a"] = ~relevant[results.library == "a"]
    flipped = Results(results.values, results.rank, relevant, results.library, results.queries_of)
    after = left_out(flipped, (0, 1))
    assert (after[results.library == "a"] == before[results.library == "a"]).all()
    assert (after[results.library == "b"] != before[results.library == "b"]).any()
