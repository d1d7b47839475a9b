"""The summary of a retrieval lists likely results and counts the others."""

from __future__ import annotations

import pytest

from shoal.models.search import Retrieved
from shoal.search.retrieval import summary_of


@pytest.mark.parametrize(
    ("similarities", "lines"),
    [
        ([0.9, 0.3, 0.2, 0.1], ["1. 0.9", "2. 0.3", "and 2 weaker results, less than 25% relevant"]),
        ([0.9, 0.1], ["1. 0.9", "and 1 weaker result, less than 25% relevant"]),
        ([0.1, 0.9], ["1. 0.1", "2. 0.9"]),
        ([0.2, 0.1], ["1. 0.2", "2. 0.1"]),
        ([], []),
    ],
)
def test_results_that_hardly_answer_are_counted_after_likely_ones(
    similarities: list[float], lines: list[str]
) -> None:
    retrieved = [Retrieved("text", {}, similarity) for similarity in similarities]
    assert summary_of(retrieved, lambda item: f"{item.similarity}").splitlines() == lines
