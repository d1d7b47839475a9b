from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.word_contexts import ContextOptions, WordContext, adapt, max_informative_chunks, sample

N_REEFS = 60
AVERAGE = np.full(N_REEFS, 0.03)
OPTIONS = ContextOptions()


def chunks_about(*reefs: int) -> np.ndarray:
    mean = AVERAGE.copy()
    mean[list(reefs)] += 0.5
    return mean


def query_about(*reefs: int) -> np.ndarray:
    z = np.full(N_REEFS, -0.5)
    z[list(reefs)] = 4.0
    return z


def test_a_query_moves_towards_the_contexts_of_its_words() -> None:
    adapted = adapt(query_about(1), [WordContext("wing", 3, chunks_about(7))], AVERAGE, 1000, OPTIONS)
    assert set(np.flatnonzero(adapted.profile)) == {1, 7}
    assert adapted.profile[1] == pytest.approx(4.0)
    assert adapted.profile[7] == pytest.approx(4.0)
    assert np.array_equal(np.flatnonzero(adapted.feedback[0]), [7])


def test_the_feedback_has_its_share_of_the_length_of_the_query() -> None:
    words = [WordContext("wing", 3, chunks_about(7)), WordContext("lift", 40, chunks_about(8, 9))]
    for share in (0.5, 2.0):
        adapted = adapt(query_about(1, 2), words, AVERAGE, 1000, ContextOptions(share=share))
        own = np.linalg.norm([4.0, 4.0])
        assert np.linalg.norm(adapted.feedback.sum(axis=0)) == pytest.approx(share * own)


def test_rare_words_lead() -> None:
    words = [WordContext("rare", 1, chunks_about(7)), WordContext("common", 45, chunks_about(8))]
    profile = adapt(query_about(), words, AVERAGE, 1000, OPTIONS).profile
    assert profile[7] > 1.5 * profile[8] > 0


def test_common_words_are_ignored() -> None:
    query = query_about(1)
    too_common = WordContext("said", 51, chunks_about(7))
    unknown = WordContext("zorblax", 0, np.zeros(N_REEFS))
    alike = WordContext("even", 3, AVERAGE)
    adapted = adapt(query, [too_common, unknown, alike], AVERAGE, 1000, OPTIONS)
    assert np.array_equal(adapted.profile, np.maximum(query, 0))
    assert not adapted.feedback.any()


def test_a_query_of_unknown_words_gets_the_topic_of_their_contexts() -> None:
    adapted = adapt(query_about(), [WordContext("zorblax", 2, chunks_about(5))], AVERAGE, 1000, OPTIONS)
    assert np.array_equal(np.flatnonzero(adapted.profile), [5])


def test_only_the_strongest_reefs_are_kept() -> None:
    word = WordContext("wing", 3, chunks_about(*range(20, 40)))
    adapted = adapt(query_about(*range(10)), [word], AVERAGE, 1000, ContextOptions(max_reefs=12))
    assert np.count_nonzero(adapted.profile) == 12
    assert (adapted.profile[:10] > 0).all()


def test_a_query_without_words_is_unchanged() -> None:
    query = query_about(1, 2)
    assert np.array_equal(adapt(query, [], AVERAGE, 1000, OPTIONS).profile, np.maximum(query, 0))


def test_a_sample_is_spread_over_the_library() -> None:
    assert sample(range(25), OPTIONS) == list(range(25))
    chosen = sample(range(1000), OPTIONS)
    assert 20 <= len(chosen) <= OPTIONS.sample
    assert chosen[-1] > 900
    assert len({b - a for a, b in itertools.pairwise(chosen)}) == 1


def test_in_a_small_library_no_word_is_too_common() -> None:
    assert max_informative_chunks(30, OPTIONS) == 20
    assert max_informative_chunks(100_000, OPTIONS) == 5000
