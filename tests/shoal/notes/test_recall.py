"""What is remembered, forgotten and answered, with the packaged data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lagoon
from shoal import Engine
from shoal.errors import NoteError, NotFoundError, QueryError
from shoal.models.notes import AddedNote
from shoal.notes.notes import OwnerNotes
from shoal.settings import Settings

LAVA = "Lava of a volcano cools to basalt and ash."


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "shoal.db", scorer=lagoon.load()) as engine:
        yield engine


@pytest.fixture
def notes(engine: Engine) -> OwnerNotes:
    return engine.notes.of("ann")


def remembered(notes: OwnerNotes, text: str) -> AddedNote | NoteError:
    [result] = notes.remember([{"content": text, "topic": "Ann", "confidence": 0.95}])
    return result


@pytest.mark.parametrize(
    "text", ["Ann is allergic to peanuts.", "Ann likes tea.", "Use tabs.", "I am single."]
)
def test_short_text_that_says_something_is_remembered(notes: OwnerNotes, text: str) -> None:
    assert isinstance(remembered(notes, text), AddedNote)


@pytest.mark.parametrize(
    "text", ["Too short.", "That is what they said, and it was so for all of them.", "tea " * 20]
)
def test_text_without_two_words_of_meaning_is_refused(notes: OwnerNotes, text: str) -> None:
    result = remembered(notes, text)
    assert isinstance(result, NoteError)
    assert "says too little" in str(result)


def test_opposite_of_a_memory_is_another_memory(notes: OwnerNotes) -> None:
    for text in ("Ann is allergic to peanuts.", "Ann is not allergic to peanuts."):
        result = remembered(notes, text)
        assert isinstance(result, AddedNote)
        assert not result.is_duplicate


def test_what_was_deprecated_as_forgotten_is_not_learned_again(notes: OwnerNotes, engine: Engine) -> None:
    first = remembered(notes, "Ann moved from Leeds to the old town of Bath.")
    assert isinstance(first, AddedNote)
    notes.deprecate(first.note.id, reason="forgotten")
    for text in (first.note.text, "Ann moved to the old town of Bath from Leeds."):
        again = remembered(notes, text)
        assert isinstance(again, NoteError)
        assert f"note {first.note.id}" in str(again)
    assert isinstance(remembered(notes, "Ann never moved from Leeds to the old town of Bath."), AddedNote)
    assert isinstance(remembered(engine.notes.of("other"), first.note.text), AddedNote)
    notes.restore(first.note.id)
    assert isinstance(remembered(notes, first.note.text), AddedNote)


@pytest.mark.parametrize("query", ["python optimization", "recall python performance tips"])
def test_default_of_recall_answers_the_examples(notes: OwnerNotes, query: str) -> None:
    notes.add("Python list comprehensions are faster than loops")
    notes.add(LAVA)
    found = notes.recall(query)
    assert [item.content for item in found.results] == ["Python list comprehensions are faster than loops"]
    assert found.nearest is None


def test_recall_without_an_answer_names_the_nearest_note(notes: OwnerNotes) -> None:
    assert notes.recall("lava").nearest is None
    note = notes.add(LAVA).note
    found = notes.recall("When did the volcano society elect its treasurer?")
    assert (found.count, found.results) == (0, ())
    assert found.nearest is not None
    assert found.nearest.metadata["note_id"] == note.id
    assert "Nothing here answers this; the nearest is " in found.response
    assert f"{LAVA} (note {note.id}, similarity " in found.response


TURNS = (
    ("Ann", "I bought a red bicycle yesterday.", "2025-03-12T10:00:00Z"),
    ("Bob", "What did it cost?", "2025-03-12T10:01:00Z"),
    ("Ann", "Two hundred pounds, with a basket.", "2025-03-12T10:02:00Z"),
    ("Bob", "My bicycle has a flat tyre.", "2025-03-12T10:03:00Z"),
)


def say(notes: OwnerNotes, session_id: str = "march") -> list[int]:
    """Remember the turns; return their ids."""
    items = [
        {"speaker": speaker, "content": text, "said_at": said_at, "session_id": session_id}
        for speaker, text, said_at in TURNS
    ]
    added = notes.remember(items)
    assert all(isinstance(each, AddedNote) for each in added)
    return [each.note.id for each in added if isinstance(each, AddedNote)]


def test_turn_is_cited_with_its_day_and_those_around_it(notes: OwnerNotes) -> None:
    ids = say(notes)
    found = notes.recall("What bicycle did Ann buy?")
    first = found.results[0]
    assert (first.content, first.kind, first.metadata["note_id"]) == (TURNS[0][1], "turn", ids[0])
    assert (first.said_at[:10], first.session_id) == ("2025-03-12", "march")
    assert first.event is not None
    assert (first.event.first_day, first.event.words) == ("2025-03-11", "yesterday")
    assert [turn.note_id for turn in first.context] == [ids[1]]
    assert f"turn {ids[0]}" in found.response
    assert "yesterday is 2025-03-11" in found.response
    assert f"[{ids[1]}] Bob: What did it cost?" in found.response
    assert notes.recall("bicycle", context_turns=0).results[0].context == ()


def test_same_turn_is_stored_once_and_another_of_its_words_again(notes: OwnerNotes) -> None:
    ids = say(notes)
    assert say(notes) == ids
    assert not set(say(notes, "april")) & set(ids)
    assert notes.add(TURNS[0][1]).note.kind == "lesson"


def test_turns_are_of_one_owner_and_not_among_lessons(notes: OwnerNotes, engine: Engine) -> None:
    say(notes)
    other = engine.notes.of("other")
    assert other.recall("What bicycle did Ann buy?", threshold=0.0).results == ()
    assert notes.search("bicycle").results == ()
    assert len(notes.search("bicycle", kind="turn", top_k=50).results) >= 2


def test_answer_keeps_within_its_characters(notes: OwnerNotes) -> None:
    say(notes)
    for max_chars in (40, 80, 200):
        found = notes.recall("bicycle", threshold=0.0, max_chars=max_chars)
        assert found.count
        shown = sum(len(each.content) for each in found.results)
        assert shown <= max_chars or found.count == 1


def test_question_that_names_another_speaker_is_not_answered(notes: OwnerNotes) -> None:
    say(notes)
    right = notes.recall("What did Ann buy, a red bicycle?", threshold=0.0).similarities[0]
    wrong = notes.recall("What did Bob buy, a red bicycle?", threshold=0.0).similarities
    assert max(wrong) < right


@pytest.mark.parametrize("others", [(), ("Good morning.", "The train to Porto was late.")])
def test_name_of_a_speaker_is_no_evidence(notes: OwnerNotes, others: tuple[str, ...]) -> None:
    said = ("My sister Eva plays the cello.", "The dentist said that I need a crown.", "I moved to Lisbon.")
    turns = [*(("Ann", text) for text in said), *(("Bob", text) for text in others)]
    notes.remember([{"speaker": name, "content": text, "session_id": "may"} for name, text in turns])
    assert notes.recall("What is Ann allergic to?").count == 0
    assert notes.recall("Who is Ann's dentist?").results[0].content == said[1]


def test_what_another_speaker_said_of_themselves_is_no_answer(notes: OwnerNotes) -> None:
    said = (
        ("Ann", "I am allergic to peanuts, so I bring my own cake."),
        ("Bob", "Good to know, I will leave the nuts out."),
        ("Bob", "The train to Porto was late again."),
    )
    notes.remember([{"speaker": name, "content": text, "session_id": "may"} for name, text in said])
    found = notes.recall("What is Bob allergic to?")
    assert found.count == 0
    assert found.nearest is not None
    assert found.nearest.similarity < 0.3
    [first, *_] = notes.recall("What is Ann allergic to?").results
    assert first.content == said[0][1]


@pytest.mark.parametrize(
    ("limits", "n"),
    [
        ({"on": "2025-03-11"}, 1),
        ({"after": "2025-03-12"}, 3),
        ({"before": "2025-03-12"}, 1),
        ({"after": "2025-03-13"}, 0),
    ],
)
def test_days_limit_what_is_recalled(notes: OwnerNotes, limits: dict[str, str], n: int) -> None:
    say(notes)
    question = "bicycle cost pounds tyre"
    assert notes.recall(question, threshold=0.0, top_k=50, **limits).count == n  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [{"on": "never"}, {"on": "2025-01-01", "after": "2025-01-01"}])
def test_bad_days_are_refused(notes: OwnerNotes, limits: dict[str, str]) -> None:
    with pytest.raises(QueryError, match=r"day|combined"):
        notes.recall("bicycle", **limits)  # type: ignore[arg-type]


def move(notes: OwnerNotes) -> tuple[int, int]:
    """Remember where Ann lives, and that she moved."""
    ids = []
    for text, said_at in (
        ("Ann lives in Leeds.", "2025-01-04"),
        ("Ann moved to Bath in March.", "2025-04-02"),
    ):
        [added] = notes.remember([{"content": text, "topic": "home", "confidence": 0.9, "said_at": said_at}])
        assert isinstance(added, AddedNote)
        ids.append(added.note.id)
    return ids[0], ids[1]


def test_valid_fact_comes_with_the_one_that_it_replaced(notes: OwnerNotes) -> None:
    old, new = move(notes)
    [first] = notes.recall("Where does Ann live? In Leeds?").results
    assert first.metadata["note_id"] == new
    assert first.valid_from == "2025-03-01"
    assert [(each.id, each.valid_to) for each in first.replaced] == [(old, "2025-03-01")]
    [before] = notes.recall("Where does Ann live?", valid_at="2025-02-01").results
    assert before.metadata["note_id"] == old
    assert notes.get(old).superseded_by == new
    assert notes.get(old).is_active


def test_replaced_fact_holds_again_when_it_is_said_again(notes: OwnerNotes) -> None:
    _, new = move(notes)
    [again] = notes.remember([{"content": "Ann lives in Leeds.", "topic": "home", "confidence": 0.9}])
    assert isinstance(again, AddedNote)
    assert not again.is_duplicate
    assert [each.id for each in again.similar if each.is_superseded] == [new]
    assert notes.recall("Where does Ann live?").results[0].metadata["note_id"] == again.note.id


@pytest.mark.parametrize(("setting", "change"), [("propose", "relation"), ("off", None)])
def test_setting_says_what_becomes_of_a_change(tmp_path: Path, setting: str, change: str | None) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/shoal.db", note_changes=setting)
    with Engine(settings=settings, scorer=lagoon.load()) as engine:
        notes = engine.notes.of("ann")
        notes.add("Ann lives in Leeds.")
        added = notes.add("Ann moved to Bath.")
        assert [(each.change, each.is_superseded) for each in added.similar] == (
            [(change, False)] if change else []
        )
        named = notes.add("Ann's home is the town of Bath.", supersedes=added.note.id)
        assert notes.get(added.note.id).superseded_by == named.note.id
        with pytest.raises(NoteError, match="replaced already"):
            notes.add("Ann is in York.", supersedes=added.note.id)
        with pytest.raises(NotFoundError):
            engine.notes.of("other").add("Ann is in York.", supersedes=named.note.id)


def test_question_of_the_one_who_asks_is_answered_by_what_is_said_of_him(engine: Engine) -> None:
    """Two notes that match equally; the newer one is about somebody else."""
    notes = engine.notes.of("me")
    notes.add("I drive a van to the quarry.", said_at="2025-01-01")
    notes.add("Sam drives a van to the quarry.", said_at="2026-06-01")
    for query, first in (("Who drives a van?", "Sam"), ("Which van do I drive?", "I")):
        content = notes.recall(query, threshold=0.0).results[0].content
        assert content.split()[0] == first
