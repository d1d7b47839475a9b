"""Feedback moves the relevance of a note by tag, and evidence decides what follows from it."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidFieldError
from shoal.models.notes import TagRelevance
from shoal.notes.relevance import (
    Relevance,
    boost,
    feedback_scores,
    is_filtered,
    judged,
    merge,
    relevance_in,
)
from shoal.settings import Settings

SETTINGS = Settings()
SCORES = st.floats(-1, 1)
TAGS = st.sampled_from("abcd")
ENTRIES = st.builds(TagRelevance, SCORES, st.integers(0, 9), st.integers(0, 9))
RELEVANCE = st.dictionaries(TAGS, ENTRIES, max_size=4)


@given(st.lists(SCORES, max_size=20), st.floats(0.01, 1))
def test_score_is_the_exponential_moving_average_of_the_judgements(
    judgements: list[float], smoothing: float
) -> None:
    settings = dataclasses.replace(SETTINGS, note_relevance_smoothing=smoothing)
    relevance: dict[str, TagRelevance] = {}
    for score in judgements:
        relevance |= judged(relevance, {"a": score}, settings)
    if not judgements:
        assert relevance == {}
        return
    # The sum that the recursion stands for: a judgement counts (1 - smoothing) ** its age.
    expected = sum(
        smoothing * (1 - smoothing) ** age * score for age, score in enumerate(reversed(judgements))
    )
    assert relevance["a"].score == pytest.approx(expected, abs=1e-9)
    assert -1 <= relevance["a"].score <= 1
    assert relevance["a"].n_positive == sum(score > 0 for score in judgements)
    assert relevance["a"].n_negative == sum(score < 0 for score in judgements)


@given(RELEVANCE, st.dictionaries(TAGS, SCORES))
def test_a_judgement_changes_only_its_tags(
    relevance: dict[str, TagRelevance], scores: dict[str, float]
) -> None:
    assert judged(relevance, scores, SETTINGS).keys() == scores.keys()


@given(RELEVANCE, st.frozensets(TAGS))
def test_average_is_weighted_by_evidence(relevance: dict[str, TagRelevance], tags: frozenset[str]) -> None:
    average, n_evals = relevance_in(relevance, tags)
    judgements = [
        relevance[tag].score for tag in tags & relevance.keys() for _ in range(relevance[tag].n_evals)
    ]
    assert average == pytest.approx(sum(judgements) / len(judgements) if judgements else 0)
    assert n_evals == max((relevance[tag].n_evals for tag in tags & relevance.keys()), default=0)


@given(st.floats(-1, 1), st.integers(0, 10))
def test_a_note_is_filtered_below_the_limit_with_three_judgements(average: float, n_evals: int) -> None:
    assert is_filtered(Relevance(average, n_evals), SETTINGS) == (n_evals >= 3 and average < -0.1)


def test_one_feedback_on_many_tags_does_not_filter() -> None:
    relevance = judged({}, feedback_scores(False, None, ["a", "b", "c", "d"]), SETTINGS)
    assert not is_filtered(relevance_in(relevance, "abcd"), SETTINGS)


def test_third_rejection_filters_the_note_there_and_nowhere_else() -> None:
    relevance: dict[str, TagRelevance] = {}
    filtered = []
    for _ in range(3):
        relevance |= judged(relevance, feedback_scores(False, None, ["backend", "python"]), SETTINGS)
        filtered.append(is_filtered(relevance_in(relevance, ["python", "docker"]), SETTINGS))
    assert filtered == [False, False, True]
    assert not is_filtered(relevance_in(relevance, ["frontend", "react"]), SETTINGS)


def test_boost_is_a_hundredth_of_the_average() -> None:
    assert boost(Relevance(0.5, 1), SETTINGS) == pytest.approx(0.005)
    assert boost(Relevance(-1.0, 9), SETTINGS) == pytest.approx(-0.01)


@given(st.lists(RELEVANCE, max_size=4), st.randoms())
def test_merging_averages_scores_by_evidence_and_adds_counts(notes, random) -> None:  # type: ignore[no-untyped-def]
    merged = merge(notes)
    assert merged.keys() == set().union(*notes)
    for tag, entry in merged.items():
        parts = [note[tag] for note in notes if tag in note]
        assert entry.n_positive == sum(part.n_positive for part in parts)
        assert entry.n_negative == sum(part.n_negative for part in parts)
        if entry.n_evals:
            weighted = sum(part.score * part.n_evals for part in parts) / entry.n_evals
            assert entry.score == pytest.approx(weighted, abs=1e-9)
        assert (
            min(part.score for part in parts) - 1e-9
            <= entry.score
            <= max(part.score for part in parts) + 1e-9
        )
    random.shuffle(notes)
    shuffled = merge(notes)
    assert list(shuffled) == list(merged)
    assert all(shuffled[tag].score == pytest.approx(merged[tag].score, abs=1e-12) for tag in merged)


def test_feedback_without_scores_judges_all_tags_of_the_environment() -> None:
    assert feedback_scores(True, None, ["b", "a", "b"]) == {"a": 1.0, "b": 1.0}
    assert feedback_scores(False, {}, ["a"]) == {"a": -1.0}
    assert feedback_scores(False, {"x": 0.5}, ["a"]) == {"x": 0.5}
    assert feedback_scores(True, {"x": 7, "y": -7.5}, []) == {"x": 1.0, "y": -1.0}


@pytest.mark.parametrize("score", [math.nan, math.inf, "1", None, True, [1]])
def test_a_score_that_is_no_number_is_refused(score: object) -> None:
    with pytest.raises(InvalidFieldError, match="'x' must have a number between -1 and 1"):
        feedback_scores(True, {"x": score}, [])


@pytest.mark.parametrize("tag", ["", "  ", "a\nb", "x" * 101, 7])
def test_a_tag_that_no_environment_can_have_is_refused(tag) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidFieldError, match="tag_scores"):
        feedback_scores(True, {tag: 1}, [])


def test_scores_for_too_many_tags_are_refused() -> None:
    with pytest.raises(InvalidFieldError, match="the limit is 50"):
        feedback_scores(True, {str(i): 1 for i in range(51)}, [])
