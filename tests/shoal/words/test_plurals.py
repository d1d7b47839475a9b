"""Irregular plurals meet their singular."""

from __future__ import annotations

import pytest

from shoal.words.analysis import stems_of
from shoal.words.terms import PAIRS, other_numbers


@pytest.mark.parametrize(
    ("form", "others"),
    [
        ("shelf", ["shelves"]),
        ("shelves", ["shelf"]),
        ("shelfs", ["shelves"]),
        ("analyses", ["analysis"]),
        ("cat", []),
    ],
)
def test_numbers_of_a_noun(form: str, others: list[str]) -> None:
    assert list(other_numbers(form)) == others


def test_table_has_only_pairs_that_stems_do_not_join() -> None:
    assert [pair for pair in PAIRS if len(set(stems_of(pair))) < 2] == []
