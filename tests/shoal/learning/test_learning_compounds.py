from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shoal.learning import EvidenceRow, Kind
from shoal.learning.candidates import PartCounts, cohesion, independence

Observe = Callable[[str], list[EvidenceRow]]


def compounds(rows: list[EvidenceRow]) -> dict[str, EvidenceRow]:
    return {row.word: row for row in rows if row.kind == Kind.compound}


def test_sequences_a_document_repeats_are_candidates(observe: Observe) -> None:
    candidates = compounds(
        observe("The zorblax engine runs. A ship has a zorblax engine. The quimble engine is new.")
    )
    assert set(candidates) == {"zorblax engine"}
    assert candidates["zorblax engine"].n_occurrences == 2
    counts = PartCounts(*candidates["zorblax engine"].parts)
    assert counts == PartCounts(tokens=15, head=2, last=3, first=2, tail=3)


def test_three_words_are_counted_with_both_their_pairs(observe: Observe) -> None:
    candidates = compounds(
        observe("Royal zorblax engine here. Royal zorblax engine there. Zorblax engine too, royal tree.")
    )
    assert set(candidates) == {"royal zorblax", "zorblax engine", "royal zorblax engine"}
    assert PartCounts(*candidates["royal zorblax engine"].parts) == PartCounts(
        13, head=2, last=3, first=3, tail=3
    )


@pytest.mark.parametrize(
    "content",
    [
        "The zorblax, engine. The zorblax, engine.",  # punctuation between
        "A ship zorblax. Engine runs. A ship has zorblax. Engine runs.",  # not in one sentence
        "The zorblax of engines. The zorblax of engines.",  # a stop word between
        "The zorblax's engine. The zorblax's engine.",  # a genitive
        "The steam engine. The steam engine.",  # known words only
        "The zorblax 1234. The zorblax 1234.",  # a long number
        "The zorblax engine.",  # once
        "The zorblax href runs. A zorblax href ran.",  # a token that is no word
    ],
)
def test_other_adjacent_words_are_not_a_compound(observe: Observe, content: str) -> None:
    assert not {word for word in compounds(observe(content)) if "zorblax" in word}


def test_hyphens_short_numbers_and_a_last_genitive_belong_to_a_compound(observe: Observe) -> None:
    candidates = compounds(
        observe("The zorblax-engine runs. A zorblax engine's ship. Quimble 19 came; quimble-19 went.")
    )
    assert set(candidates) == {"zorblax engine", "quimble 19"}


def test_parts_of_known_compounds_are_not_candidates(observe: Observe) -> None:
    candidates = compounds(observe("The zorblax heart attack. The zorblax heart attack."))
    assert "zorblax heart" not in candidates


def test_independence_is_0_by_chance_and_1_for_words_always_together() -> None:
    n = np.array([10, 1, 10])
    value = independence(n, np.array([10, 10, 100]), np.array([10, 10, 100]), np.array([1000, 100, 10]))
    assert value[0] == pytest.approx(1.0)
    assert value[1] == pytest.approx(0.0)
    assert value[2] == 1.0  # nothing but the pair: no chance to be apart


def test_cohesion_is_that_of_the_weakest_split() -> None:
    parts = np.array(
        [PartCounts(1000, head=10, last=10, first=10, tail=10), PartCounts(1000, 10, 500, 10, 10)]
    )
    whole, loose = cohesion(np.array([10, 10]), parts)
    assert whole == pytest.approx(1.0)
    assert loose < 0.2
