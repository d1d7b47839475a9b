"""Reasons among the shared reefs of a result."""

from __future__ import annotations

import pytest

from shoal.models.scores import SharedReef
from shoal.search.why import describe_nearest, largest_words, order_reasons, reason_probability


def test_reason_needs_the_passage_and_the_query() -> None:
    assert reason_probability(0.99, 0.0) == 0.0
    assert reason_probability(0.0, 0.99) == 0.0
    assert reason_probability(0.9, 0.9) > 0.8


@pytest.mark.parametrize(("low", "high"), [((0.3, 0.6), (0.6, 0.6)), ((0.6, 0.3), (0.6, 0.6))])
def test_reason_is_more_probable_with_either_probability(
    low: tuple[float, float], high: tuple[float, float]
) -> None:
    assert 0 < reason_probability(*low) < reason_probability(*high) < 1


def reef(reef_id: int, probability: float) -> SharedReef:
    return SharedReef(
        reef_id, f"reef {reef_id}", 1.0, 1.0, probability=probability, is_reason=probability >= 0.5
    )


def test_reasons_come_first_and_the_background_keeps_its_order() -> None:
    shared = [reef(0, 0.1), reef(1, 0.6), reef(2, 0.2), reef(3, 0.9), reef(4, 0.5)]
    assert [each.reef_id for each in order_reasons(shared)] == [3, 1, 4, 0, 2]


def test_small_contributions_are_not_named() -> None:
    pairs = [("tide", 8.0), ("moon", 4.0), ("sea", 1.9), ("ship", 1.8)]
    assert largest_words({7: pairs}) == {7: ("tide", "moon")}


@pytest.mark.parametrize("sentence", ['"Could it be seen?', "“Could it be seen?”", "Could it  be\nseen?"])
def test_a_quoted_sentence_has_one_pair_of_quotation_marks(sentence: str) -> None:
    assert describe_nearest(sentence, 0.4) == "its sentence “Could it be seen?” is near in meaning (0.40)"
