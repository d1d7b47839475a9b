"""Support of associations from running text."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lagoon.build.counting import support_levels

# Words 0 and 1 show reef 0, words 2 and 3 show reef 1. Word 4 has both reefs alike; word 5 never occurs.
BM25 = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0], [2.0, 2.0], [2.0, 1.0]])


def levels(windows: list[list[int]]) -> dict[tuple[int, int], int]:
    counts = np.zeros((len(windows), len(BM25)), dtype=np.int64)
    for row, words in enumerate(windows):
        for word in words:
            counts[row, word] += 1
    bm25 = sparse.csr_matrix(BM25)
    moments = np.array([[0.5, 0.5], [1.0, 1.0]])
    values = support_levels(bm25, bm25, sparse.csr_matrix(counts), moments, np.array([0.0, 0.5]))
    entries = bm25.tocoo()
    return dict(
        zip(zip(entries.row.tolist(), entries.col.tolist(), strict=True), values.tolist(), strict=True)
    )


WINDOWS = [[0, 1, 4], [0, 1, 4], [0, 1]] * 20 + [[2, 3]] * 60


def test_reef_of_the_words_around_has_more_support() -> None:
    found = levels(WINDOWS)
    assert found[4, 0] > found[4, 1]


def test_weaker_association_of_a_word_has_less_support() -> None:
    found = levels(WINDOWS)
    assert found[5, 0] > found[5, 1] > 0


def test_word_does_not_support_itself() -> None:
    alone = levels([[0]] * 40 + [[2, 3]] * 40)
    together = levels([[0, 1]] * 40 + [[2, 3]] * 40)
    assert together[0, 0] > alone[0, 0]
