"""The quantised table of word vectors, and the background of running text."""

import math

import numpy as np
import pytest
from scipy import sparse

from lagoon.build.clustering import unit_rows
from lagoon.build.counting import (
    contribution_moments,
    dispersion,
    document_frequencies,
    rarity,
    repetition_mass,
)
from lagoon.build.reefs import association_strengths, build_table


def test_the_second_reef_is_chosen_by_the_remainder() -> None:
    # Two reefs are nearly equal. The second of them has the second best cosine, but adds no information.
    centroids = unit_rows(np.array([[1.0, 0.0, 0.0], [0.98, 0.199, 0.0], [0.0, 0.0, 1.0]]))
    vector = unit_rows(np.array([[0.9, 0.0, 0.436]]))
    assert np.argsort(-(vector @ centroids.T))[0].tolist() == [0, 1, 2]
    associations_found = association_strengths(
        vector, centroids, np.array([2]), power=1.0, clear=0.1
    ).toarray()[0]
    assert associations_found == pytest.approx([1.0, 0.0, 0.436 / 0.9], abs=1e-3)


def test_shares_are_the_components_for_orthogonal_reefs() -> None:
    vectors = unit_rows(np.array([[0.8, 0.6, -0.2]]))
    associations_found = association_strengths(
        vectors, np.eye(3, dtype=np.float32), np.array([3]), power=1.0, clear=0.1
    )
    assert associations_found.toarray()[0] == pytest.approx([1.0, 0.75, 0.0], abs=1e-6)


def test_a_power_below_one_raises_the_small_shares() -> None:
    vectors = unit_rows(np.array([[0.8, 0.2]]))
    associations_found = association_strengths(
        vectors, np.eye(2, dtype=np.float32), np.array([2]), power=0.5, clear=0.1
    )
    assert associations_found.toarray()[0] == pytest.approx([1.0, 0.5], abs=1e-6)


def test_a_word_between_all_reefs_counts_less() -> None:
    vectors = unit_rows(np.array([[0.3, 0.15, 0.0, 0.94], [0.9, 0.45, 0.0, 0.1]]))
    centroids = np.eye(3, 4, dtype=np.float32)
    associations_found = association_strengths(
        vectors, centroids, np.array([2, 2]), power=1.0, clear=0.6
    ).toarray()
    assert associations_found[1] == pytest.approx([1.0, 0.5, 0.0], abs=1e-3)
    assert associations_found[0] == pytest.approx(associations_found[1] * vectors[0, 0] / 0.6, abs=1e-3)


def test_a_word_has_at_most_its_number_of_steps() -> None:
    vectors = unit_rows(np.array([[0.2, 0.5, 0.9], [0.2, 0.5, 0.9]]))
    associations_found = association_strengths(
        vectors, np.eye(3, dtype=np.float32), np.array([2, 1]), power=1.0, clear=0.1
    )
    assert associations_found.indices.tolist() == [1, 2, 2]


def test_a_zero_vector_has_no_reef() -> None:
    associations_found = association_strengths(
        np.zeros((1, 3), np.float32), np.eye(3, dtype=np.float32), np.array([3]), power=1.0, clear=0.1
    )
    assert associations_found.nnz == 0


def test_bm25_follows_the_definition() -> None:
    associations = sparse.csr_matrix(np.array([[1.0, 0.25], [0.0, 0.5], [0.0, 1.0]]))
    table = build_table(associations)
    idf = math.log((2 - 2 + 0.5) / (2 + 0.5) + 1)
    expected = idf * 0.25 * 2.2 / (0.25 + 1.2 * (1 - 0.75 + 0.75 * 3 / 2))
    assert table.matrix(2).toarray()[0, 1] == pytest.approx(expected, abs=1 / 8192)
    assert table.idf_q[0] == round(idf * 51)
    assert table.reef_words.tolist() == [1, 3]


def test_a_reef_without_words_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"without words: \[1\]"):
        build_table(sparse.csr_matrix(np.array([[1.0, 0.0]])))


def test_a_word_without_reefs_has_neither_idf_nor_entries() -> None:
    table = build_table(sparse.csr_matrix(np.array([[1.0, 0.5], [0.0, 0.0]])))
    assert table.idf_q[1] == 0
    assert table.starts.tolist() == [0, 2, 2]


def test_rare_words_weigh_more_and_unseen_words_stay_below_the_format_limit() -> None:
    counts = sparse.csr_matrix(np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [5.0, 0.0, 0.0]]))
    weights = rarity(document_frequencies(counts), 3)
    assert weights[0] < weights[1] < weights[2]
    assert rarity(np.array([0]), 4_000_000)[0] < 16


def test_background_equals_the_moments_of_words_drawn_from_running_text() -> None:
    rng = np.random.default_rng(0)
    contributions = rng.uniform(size=(20, 4))
    mass = rng.uniform(size=20)
    draws = contributions[rng.choice(20, size=200_000, p=mass / mass.sum())]
    moments = contribution_moments(sparse.csr_matrix(contributions), mass)
    assert moments[0] == pytest.approx(draws.mean(axis=0), abs=0.01)
    assert moments[1] == pytest.approx(draws.var(axis=0), abs=0.01)


def test_repetition_counts_logarithmically() -> None:
    counts = sparse.csr_matrix(np.array([[1.0, 4.0], [1.0, 0.0]]))
    assert repetition_mass(counts) == pytest.approx([2.0, 1 + math.log(4)])


def test_a_reef_without_running_text_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"reefs \[1\]"):
        contribution_moments(sparse.csr_matrix(np.array([[1.0, 0.0], [2.0, 0.0]])), np.ones(2))


TOPICS, WORDS_OF_TOPIC = 8, 300


def windows_of_topics(boost: float, sizes: tuple[int, ...]) -> list[sparse.csr_matrix]:
    """Windows of random words; every window prefers the words of one topic by the factor `boost`."""
    rng = np.random.default_rng(0)
    topic_of = np.repeat(np.arange(TOPICS), WORDS_OF_TOPIC)
    samples = []
    for size in sizes:
        shares = np.where(topic_of == rng.integers(TOPICS, size=(600, 1)), boost, 1.0)
        rows = [rng.multinomial(size, row / row.sum()) for row in shares]
        samples.append(sparse.csr_matrix(np.array(rows, dtype=np.float64)))
    return samples


@pytest.mark.parametrize(("boost", "least", "most"), [(1.0, 0.8, 1.3), (2.0, 2.0, 8.0), (5.0, 8.0, 40.0)])
def test_with_dispersion_two_deviations_are_as_rare_as_in_a_normal_distribution(
    boost: float, least: float, most: float
) -> None:
    rng = np.random.default_rng(1)
    table = rng.uniform(size=(TOPICS * WORDS_OF_TOPIC, TOPICS))
    table[rng.random(table.shape) < 0.7] = 0.0
    table += np.repeat(np.eye(TOPICS), WORDS_OF_TOPIC, axis=0)
    contributions = sparse.csr_matrix(table)
    samples = windows_of_topics(boost, (10, 30, 90, 270))
    moments = contribution_moments(contributions, np.ones(len(table)))
    rate, exponent = dispersion(samples, contributions, moments)
    assert least < 1 + rate * 200**exponent < most
    for counts in samples:
        mass = counts.copy()
        mass.data = 1 + np.log(mass.data)
        m1, m2 = np.asarray(mass.sum(axis=1)), np.asarray(mass.multiply(mass).sum(axis=1))
        count_variance = m2 * (1 + rate * (m1 - 1) ** exponent)
        z = (mass.toarray() @ table - m1 * moments[0]) / np.sqrt(count_variance * moments[1])
        assert 0.02 < (np.abs(z) > 2).mean() < 0.08


def test_dispersion_needs_several_lengths() -> None:
    window = sparse.csr_matrix(np.ones((3, 2)))
    with pytest.raises(ValueError, match="too short"):
        dispersion([window, window[:0]], sparse.csr_matrix(np.eye(2)), np.ones((2, 2)))
