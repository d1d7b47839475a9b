"""Typical words are near the centroid, common, and have distinct stems."""

import numpy as np

from lagoon.build.clustering import commonness, distinct_stems, typical_words, unit_rows


def test_common_words_are_preferred_among_equally_near_words() -> None:
    near = np.array([0.8, 0.8, 0.8])
    scores = near * commonness(np.array([0, 10, 1000]))
    assert scores[0] < scores[1] < scores[2]


def test_words_of_one_stem_are_listed_once() -> None:
    words = ["whale", "whales", "seal", "seal hunt", "otter"]
    assert distinct_stems(words, lambda word: word.rstrip("s")) == ["whale", "seal", "otter"]


def test_a_word_is_typical_of_its_strongest_reef_only() -> None:
    words = ["whale", "seal", "otter", "ship", "sail"]
    vectors = unit_rows(np.array([[1, 0.0], [1, 0.2], [1, 0.4], [0, 1], [0.3, 1]]))
    lists = typical_words(
        words, vectors, np.eye(2, dtype=np.float32), np.array([0, 0, 1, 1, 1]), np.full(5, 50), size=2
    )
    assert lists == [("whale", "seal"), ("ship", "sail")]
