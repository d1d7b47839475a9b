"""The rules of merges, as values: validation of judgements, the survivor, the merge table of 002, undo."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.declared.notes import MAX_MERGED
from shoal.errors import NoteError
from shoal.models.notes import TagRelevance
from shoal.notes import drafts, relevance
from shoal.notes.merging import (
    AGENT,
    ENDPOINT,
    PERSON,
    NoteState,
    by_precedence,
    checked_judgements,
    merged,
    unmerged,
)
from shoal.notes.pinning import Pin
from shoal.notes.prerequisites import Prerequisites
from shoal.settings import Settings

NAMES = st.sampled_from(["a", "b", "c", "d"])
SETS = st.frozensets(NAMES)
COUNTS = st.dictionaries(NAMES, st.integers(1, 9))
GATES = st.lists(NAMES, unique=True).map(lambda names: tuple(sorted(names)))
RELEVANCE = st.builds(TagRelevance, st.floats(-1, 1), st.integers(0, 9), st.integers(0, 9))
PINS = st.none() | st.builds(Pin, st.sampled_from(["person", "tags", "relevance"]), GATES)
TEXTS = st.sampled_from(["Lava cools.", "Rain falls.", "Wind blows."])
STATES = st.builds(
    NoteState,
    id=st.integers(1, 99),
    text=TEXTS,
    verified=st.booleans(),
    is_compared=st.booleans(),
    occurrence_count=st.integers(1, 9),
    times_matched=st.integers(0, 9),
    last_matched=st.none() | st.sampled_from(["2026-01-01", "2026-02-01"]),
    prerequisites=st.builds(Prerequisites, GATES, GATES, GATES, GATES),
    pin=PINS,
    tags=SETS,
    categories=SETS,
    sessions=SETS,
    repo_matches=COUNTS,
    tag_set_matches=COUNTS,
    relevance=st.dictionaries(NAMES, RELEVANCE),
)
GROUPS = st.lists(STATES, min_size=2, max_size=5, unique_by=lambda note: note.id)
DECIDERS = st.sampled_from([PERSON, AGENT, ENDPOINT])


def total(counts: list[Any]) -> dict[str, int]:
    return dict(sum((Counter(each) for each in counts), Counter[str]()))


@given(GROUPS, DECIDERS, st.randoms())
def test_order_of_the_notes_does_not_matter(notes: list[NoteState], by: str, random: Any) -> None:
    shuffled = list(notes)
    random.shuffle(shuffled)
    one, other = merged(notes, "Lava cools.", by), merged(shuffled, "Lava cools.", by)
    assert dataclasses.replace(one, relevance={}) == dataclasses.replace(other, relevance={})
    for tag, value in one.relevance.items():
        assert other.relevance[tag] == pytest.approx(value)


@given(GROUPS)
def test_survivor_is_confirmed_then_compared_then_frequent_then_oldest(notes: list[NoteState]) -> None:
    survivor = by_precedence(notes)[0]
    for note in notes:
        better = (note.verified, note.is_compared, note.occurrence_count, -note.id)
        assert better <= (
            survivor.verified,
            survivor.is_compared,
            survivor.occurrence_count,
            -survivor.id,
        )


@given(GROUPS, TEXTS, DECIDERS)
def test_merge_table(notes: list[NoteState], text: str, by: str) -> None:
    after = merged(notes, text, by)
    assert (after.id, after.text, after.is_compared) == (by_precedence(notes)[0].id, text, False)
    assert after.occurrence_count == sum(note.occurrence_count for note in notes)
    assert after.times_matched == sum(note.times_matched for note in notes)
    assert after.repo_matches == total([note.repo_matches for note in notes])
    assert after.tag_set_matches == total([note.tag_set_matches for note in notes])
    for name in "abcd":
        assert (name in after.tags) == all(name in note.tags for note in notes)
        assert (name in after.categories) == any(name in note.categories for note in notes)
        assert (name in after.sessions) == any(name in note.sessions for note in notes)
        servers = [note.prerequisites.mcp_servers for note in notes]
        assert (name in after.prerequisites.mcp_servers) == all(name in each for each in servers)
        repos = [note.prerequisites.repos for note in notes]
        assert (name in after.prerequisites.repos) == (all(repos) and any(name in each for each in repos))


@given(GROUPS)
def test_relevance_is_averaged_by_evidence_and_counters_are_added(notes: list[NoteState]) -> None:
    after = merged(notes, "x", PERSON).relevance
    for tag in {tag for note in notes for tag in note.relevance}:
        entries = [note.relevance[tag] for note in notes if tag in note.relevance]
        assert after[tag].n_positive == sum(entry.n_positive for entry in entries)
        assert after[tag].n_negative == sum(entry.n_negative for entry in entries)
        n_evals = sum(entry.n_evals for entry in entries)
        if n_evals:
            expected = math.fsum(entry.score * entry.n_evals for entry in entries) / n_evals
            assert after[tag].score == pytest.approx(expected, abs=1e-9)
        assert -1 <= after[tag].score <= 1


@given(GROUPS, TEXTS, DECIDERS)
def test_pin_of_a_person_is_never_lost(notes: list[NoteState], text: str, by: str) -> None:
    pin = merged(notes, text, by).pin
    pins = [note.pin for note in notes if note.pin]
    assert (pin is None) == (not pins)
    assert pin is None or pin in pins
    if any(each.by == "person" for each in pins):
        assert pin is not None
        assert pin.by == "person"


@given(GROUPS, DECIDERS)
def test_words_that_nobody_confirmed_are_not_verified(notes: list[NoteState], by: str) -> None:
    assert merged(notes, "Words of a model.", by).verified == (by == PERSON)
    for text in {note.text for note in notes}:
        confirmed = any(note.verified and note.text == text for note in notes)
        n_sessions = len(frozenset().union(*(note.sessions for note in notes)))
        assert merged(notes, text, ENDPOINT).verified == (confirmed or n_sessions > 1)


@given(GROUPS, TEXTS, DECIDERS)
def test_undo_gives_the_survivor_as_it_was(notes: list[NoteState], text: str, by: str) -> None:
    before, after = by_precedence(notes)[0], merged(notes, text, by)
    assert unmerged(before, after, after, [], Settings()) == before


@given(GROUPS, COUNTS, COUNTS, SETS, st.dictionaries(NAMES, st.floats(-1, 1)), st.integers(0, 5))
def test_undo_keeps_what_came_since(
    notes: list[NoteState],
    repos: dict[str, int],
    tag_sets: dict[str, int],
    sessions: frozenset[str],
    scores: dict[str, float],
    n: int,
) -> None:
    settings = Settings()
    before, after = by_precedence(notes)[0], merged(notes, "x", PERSON)
    now = dataclasses.replace(
        after,
        occurrence_count=after.occurrence_count + n,
        times_matched=after.times_matched + n,
        repo_matches=total([after.repo_matches, repos]),
        tag_set_matches=total([after.tag_set_matches, tag_sets]),
        sessions=after.sessions | sessions,
        tags=after.tags | {"new"},
        pin=Pin("person", ("new",)),
        relevance={**after.relevance, **relevance.judged(after.relevance, scores, settings)},
    )
    undone = unmerged(before, after, now, [scores] if scores else [], settings)
    assert undone.occurrence_count == before.occurrence_count + n
    assert undone.times_matched == before.times_matched + n
    assert undone.repo_matches == total([before.repo_matches, repos])
    assert undone.tag_set_matches == total([before.tag_set_matches, tag_sets])
    assert undone.sessions == before.sessions | (sessions - after.sessions)
    assert undone.tags == before.tags | {"new"}
    assert undone.pin == Pin("person", ("new",))
    assert undone.categories == before.categories
    expected = {**before.relevance, **relevance.judged(before.relevance, scores, settings)}
    assert undone.relevance == expected


def test_merge_beyond_a_limit_is_refused() -> None:
    def note(number: int) -> NoteState:
        state = NoteState(
            number, "x", False, False, 1, 0, None, Prerequisites(), None, frozenset(), frozenset(),
            frozenset(), {}, {}, {},
        )  # fmt: skip
        return dataclasses.replace(
            state, categories=frozenset(f"c{number}-{n}" for n in range(drafts.MAX_CATEGORIES))
        )

    with pytest.raises(NoteError, match="categories"):
        merged([note(1), note(2)], "x", PERSON)


# Judgements


def answer(*groups: dict[str, Any], no_match_ids: list[Any] | None = None) -> dict[str, Any]:
    return {"groups": list(groups), "no_match_ids": no_match_ids or []}


def group(ids: list[Any], **changes: Any) -> dict[str, Any]:
    return {"ids": ids, "canonical_text": "x", "confidence": 0.9, "reason": "same", **changes}


def check(value: object) -> Any:
    return checked_judgements(value, known={1, 2, 3, 4, *range(100, 130)}, asked=(1, 2))


def test_valid_answer_is_taken_as_it_is() -> None:
    judgements = check(answer(group([3, 1], reason=" same\nlesson "), no_match_ids=[2, 4]))
    assert judgements.groups == ((((1, 3), "x", 0.9, "same lesson")),)
    assert judgements.no_match_ids == (2, 4)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be an object"),
        ([], "must be an object"),
        ({"groups": []}, "must be an object"),
        ({**answer(no_match_ids=[1, 2]), "more": 1}, "nothing else"),
        ({"groups": {}, "no_match_ids": [1, 2]}, "must be a list"),
        ({"groups": [], "no_match_ids": 1}, "must be a list"),
        (answer(group([1, 5]), no_match_ids=[2]), "'5' is not the id"),
        (answer(group(["1", 2])), "is not the id"),
        (answer(group([True, 2])), "is not the id"),
        (answer(group([1.0, 2])), "is not the id"),
        (answer(group([[1], 2])), "is not the id"),
        (answer(group([1, 1]), no_match_ids=[2]), "note 1 is there twice"),
        (answer(group([1, 3]), group([2, 3])), "note 3 is there twice"),
        (answer(group([1, 3]), no_match_ids=[1, 2]), "note 1 is there twice"),
        (answer(group([1]), no_match_ids=[2]), "2 to 20 ids, not 1"),
        (answer(group([1, 2, *range(100, 100 + MAX_MERGED)])), "not 22"),
        (answer(group([1, 3])), "missing: 2"),
        (answer(), "missing: 1, 2"),
        (answer(group([1, 2], confidence=1.01)), "from 0 to 1"),
        (answer(group([1, 2], confidence=-0.1)), "from 0 to 1"),
        (answer(group([1, 2], confidence=math.nan)), "from 0 to 1"),
        (answer(group([1, 2], confidence="0.9")), "from 0 to 1"),
        (answer(group([1, 2], confidence=True)), "from 0 to 1"),
        (answer(group([1, 2], canonical_text=" ")), "is empty"),
        (answer(group([1, 2], canonical_text=7)), "must be a text"),
        (answer(group([1, 2], canonical_text="x" * 20_001)), "the limit is"),
        (answer(group([1, 2], reason=None)), "must be a text"),
        (answer({"ids": [1, 2]}), "must be objects with"),
        (answer(group([1, 2], delete=True)), "nothing else"),
    ],
)
def test_invalid_answer_is_refused(value: object, message: str) -> None:
    with pytest.raises(NoteError, match=message):
        check(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda children: (
            st.lists(children, max_size=3)
            | st.dictionaries(st.sampled_from(["groups", "no_match_ids", "ids"]), children, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_any_json_is_valid_or_refused(value: object) -> None:
    try:
        judgements = check(value)
    except NoteError:
        return
    seen = [note_id for each in judgements.groups for note_id in each.note_ids] + list(
        judgements.no_match_ids
    )
    assert len(set(seen)) == len(seen)
    assert {1, 2} <= set(seen)
