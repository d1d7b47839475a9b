"""What is remembered, forgotten and answered, with the packaged data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lagoon
from shoal import Engine
from shoal.errors import NoteError
from shoal.models.notes import AddedNote
from shoal.notes.notes import OwnerNotes

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


@pytest.mark.parametrize("text", ["Ann is allergic to peanuts.", "Ann likes tea.", "Use tabs."])
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


def test_forgotten_memory_is_not_learned_again(notes: OwnerNotes, engine: Engine) -> None:
    first = remembered(notes, "Ann moved from Leeds to the old town of Bath.")
    assert isinstance(first, AddedNote)
    notes.forget(first.note.id)
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
