"""Affinity raises notes of the same stack and lowers those of another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.notes.affinity import NEUTRAL, affinity, factor, similarity_of_share, tag_weight, tag_weights

TAGS = st.frozensets(st.sampled_from("abcdefgh"), max_size=6)


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [(0.65, 0.3), (0.80, 1.0), (0.95, 1.7), (0.725, 0.65), (0.875, 1.35), (0.0, 0.3), (1.0, 1.7)],
)
def test_factor_follows_the_curve_of_the_document(similarity: float, expected: float) -> None:
    assert factor(similarity) == pytest.approx(expected)


@given(st.floats(-10, 10), st.floats(-10, 10))
def test_factor_never_falls_and_stays_between_its_ends(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert 0.3 <= factor(low) <= factor(high) <= 1.7


@given(st.floats(0.65, 0.80), st.floats(0, 1))
def test_factor_is_linear_between_the_ends(start: float, share: float) -> None:
    end = 0.95
    between = start + share * (end - start)
    assert factor(between) == pytest.approx(factor(start) + share * (factor(end) - factor(start)))


def test_factors_of_an_array_equal_those_of_its_numbers() -> None:
    shares = np.linspace(0, 1, 21)
    factors = factor(similarity_of_share(shares))
    assert factors.tolist() == [factor(similarity_of_share(float(share))) for share in shares]


@given(TAGS, TAGS)
def test_affinity_is_neutral_without_tags_on_either_side(
    note: frozenset[str], environment: frozenset[str]
) -> None:
    if not note or not environment:
        assert affinity(note, environment) == NEUTRAL
        assert NEUTRAL.factor == 1.0


@given(TAGS.filter(bool), TAGS.filter(bool), st.sampled_from("abcdefgh"))
def test_a_tag_more_in_the_environment_never_lowers_a_note(
    note: frozenset[str], environment: frozenset[str], tag: str
) -> None:
    assert affinity(note, environment | {tag}).factor >= affinity(note, environment).factor


@given(TAGS.filter(bool), TAGS.filter(bool))
def test_ends_of_the_curve_are_no_tag_and_every_tag_shared(
    note: frozenset[str], environment: frozenset[str]
) -> None:
    result = affinity(note, environment)
    assert result.shared_tags == tuple(sorted(note & environment))
    assert (result.factor == pytest.approx(0.3)) == (not note & environment)
    assert (result.factor == pytest.approx(1.7)) == (note <= environment)


def test_half_of_the_tags_is_neutral() -> None:
    assert affinity(["react", "django"], ["react", "frontend"]).factor == pytest.approx(1.0)


def test_a_tag_of_every_note_says_less_than_a_rare_one() -> None:
    weight = tag_weights(200, {"github": 200, "react": 10, "django": 10})
    assert affinity(["github", "django"], ["github", "react"], weight).factor < 0.65
    assert affinity(["github", "react"], ["react"], weight).factor > 1.4


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_weight_of_a_tag_falls_with_the_notes_that_have_it(n_notes: int, a: int, b: int) -> None:
    low, high = sorted((a, b))
    assert tag_weight(n_notes, low) >= tag_weight(n_notes, high) > 0
