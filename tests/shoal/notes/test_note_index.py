"""The index of notes equals a model in plain Python after any sequence of updates."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from note_model import CHECKSUM, TAGS, WORDS, ModelNote, bm25_scores, model_notes, overlap

from shoal import Engine
from shoal.errors import DamagedDatabaseError
from shoal.notes import note_index
from shoal.notes.index_cache import NoteIndexes
from shoal.notes.note_index import NoteIndex, TermNumbers
from shoal.notes.note_query import QueryTerm
from shoal.notes.note_rows import NoteRows
from shoal.notes.ranking import bm25

updates = st.lists(st.lists(model_notes(st.integers(1, 12)), min_size=1, max_size=6), max_size=8)


def check_equals(index: NoteIndex, notes: dict[int, ModelNote]) -> None:
    active = {note.id: note for note in notes.values() if note.is_active}
    ids = index.note_ids.tolist()
    places = {note_id: index.place_of(note_id) for note_id in range(15)}
    assert {note_id for note_id, place in places.items() if place is not None} == set(active)
    assert all(ids[place] == note_id for note_id, place in places.items() if place is not None)
    assert index.totals == (
        len(active),
        sum(len(note.text) for note in active.values()),
        sum(len(note.title) for note in active.values()),
    )
    for word in WORDS:
        found = index.occurrences(word)
        assert len(set(found.places.tolist())) == len(found.places)
        counted = {
            ids[place]: counts for place, *counts in zip(*(column.tolist() for column in found), strict=True)
        }
        assert counted == {
            note.id: [note.text.count(word), note.title.count(word), len(note.text), len(note.title)]
            for note in active.values()
            if word in (*note.text, *note.title)
        }
    query_z = {0: 1.5, 2: 0.25, 3: 7.0}
    overlaps = index.overlaps(query_z).tolist()
    expected = {note.id: overlap(note, query_z) for note in active.values()}
    assert {note_id: overlaps[places[note_id]] for note_id in active} == expected
    assert sum(overlaps) == sum(expected.values()), "hidden notes have no overlap"
    by_tag = {tag: n for tag, n in index.notes_by_tag.items() if n}
    assert by_tag == {tag: n for tag in TAGS if (n := sum(tag in note.tags for note in active.values()))}
    terms = [QueryTerm(word, word, frequency) for frequency, word in enumerate(WORDS, 1)]
    scores = bm25(index, terms).tolist()
    model = bm25_scores(list(active.values()), terms)
    assert {note_id: scores[places[note_id]] for note_id in active} == pytest.approx(model, abs=2)
    assert sum(scores) == sum(scores[places[note_id]] for note_id in active)


@given(batches=updates, small_block=st.sampled_from([0, 4, 256]))
@settings(max_examples=examples(50))
def test_index_equals_model_after_every_update(batches: list[list[ModelNote]], small_block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(note_index, "SMALL_BLOCK", small_block)
        patch.setattr(note_index, "BATCH", 4)
        notes: dict[int, ModelNote] = {}
        index = NoteIndex.empty(TermNumbers())
        older: list[tuple[NoteIndex, dict[int, ModelNote]]] = []
        for change, batch in enumerate(batches, 1):
            older.append((index, dict(notes)))
            notes |= {note.id: note for note in batch}
            index = index.updated([note.row() for note in batch], change, CHECKSUM)
            check_equals(index, notes)
        # An index is a value: later updates do not change it.
        for former, former_notes in older:
            check_equals(former, former_notes)


@pytest.mark.parametrize("words", [b"", b"ash", b"ash\nbirch\n", b"ash\n birch", b"ash\nbirch\tcedar"])
def test_damaged_words_are_an_error(words: bytes) -> None:
    row = ModelNote(1, text=("ash",)).row()._replace(words=words)
    with pytest.raises(DamagedDatabaseError):
        NoteIndex.empty(TermNumbers()).updated([row], 1, CHECKSUM)


def test_blocks_stay_few() -> None:
    index = NoteIndex.empty(TermNumbers())
    for note_id in range(1, 1_200):
        index = index.updated([ModelNote(note_id, text=("ash",)).row()], note_id, CHECKSUM)
    assert index.n_active == 1_199
    assert len(index.parts) <= 8
    sizes = [len(part) for part in index.parts]
    assert all(former > 2 * later for former, later in itertools.pairwise(sizes))


def test_equal_profiles_overlap_equally_wherever_they_are() -> None:
    index = NoteIndex.empty(TermNumbers())
    for note_id in range(1, 9):
        index = index.updated([ModelNote(note_id, z_scores={1: 300, 2: 77}).row()], note_id, CHECKSUM)
    assert len(set(index.overlaps({1: 0.3, 2: 4.1}).tolist())) == 1


# The cache


def index_of(cache: NoteIndexes, engine: Engine, owner: str = "a") -> NoteIndex:
    with engine.database.snapshot() as snapshot:
        return cache.of(NoteRows(snapshot, owner), engine.scorer.data_checksum)


def active_ids(engine: Engine, owner: str = "a") -> set[int]:
    return {note.id for note in engine.notes.of(owner).list(limit=1000).notes}


def live_ids(index: NoteIndex) -> set[int]:
    return {int(note_id) for note_id in index.note_ids if index.place_of(int(note_id)) is not None}


def test_index_follows_every_change_of_any_process(engine: Engine) -> None:
    cache = NoteIndexes(1 << 30)
    notes = engine.notes.of("a")
    stored = [notes.add(f"Lava and ash number {number}.").note.id for number in range(6)]
    changes = [
        lambda: notes.deprecate(stored[0]),
        lambda: notes.update(stored[1], text="Rain of the monsoon."),
        notes.purge,
        lambda: notes.restore(stored[2]),
        lambda: notes.deprecate(stored[3]),
        lambda: notes.restore(stored[3]),
        lambda: (notes.deprecate(stored[5]), notes.purge()),
        lambda: (notes.deprecate(stored[4]), notes.purge(), notes.add("A new one about the jury.")),
        lambda: notes.categorize(stored[1], add=["x"]),
    ]
    for change in changes:
        change()
        index = index_of(cache, engine)
        assert live_ids(index) == active_ids(engine)
    assert index_of(cache, engine) is index, "nothing changed"
    assert index.place_of(stored[1]) is not None
    assert len(index.occurrences("monsoon").places) == 1


def test_older_snapshot_gets_its_own_state(engine: Engine) -> None:
    cache = NoteIndexes(1 << 30)
    notes = engine.notes.of("a")
    first = notes.add("Lava and ash.").note.id
    with engine.database.snapshot() as older:
        rows = NoteRows(older, "a")
        assert rows.state().n_active == 1
        second = notes.add("Rain and wind.").note.id
        newer = index_of(cache, engine)
        assert live_ids(newer) == {first, second}
        assert live_ids(cache.of(rows, engine.scorer.data_checksum)) == {first}
    assert index_of(cache, engine) is newer


def test_least_recently_used_owners_are_evicted(engine: Engine) -> None:
    for owner in "abcdef":
        engine.notes.of(owner).add("Lava and ash.")
    one = index_of(NoteIndexes(0), engine).n_bytes
    cache = NoteIndexes(int(3.5 * one))
    for owner in "abcabdaeaf":
        index_of(cache, engine, owner)
    kept = index_of(cache, engine, "a")
    assert len(cache) == 3
    assert index_of(cache, engine, "a") is kept


def test_growth_of_an_index_evicts_others(engine: Engine) -> None:
    for owner in "ab":
        engine.notes.of(owner).add("Lava and ash.")
    cache = NoteIndexes(3 * index_of(NoteIndexes(0), engine).n_bytes)
    for owner in "aab":
        index_of(cache, engine, owner)
    assert len(cache) == 2
    engine.notes.of("b").add_many({"text": f"Rain and wind {number}."} for number in range(50))
    kept = index_of(cache, engine, "b")
    assert len(cache) == 1
    assert index_of(cache, engine, "b") is kept


def test_owners_without_notes_take_no_memory(engine: Engine) -> None:
    cache = NoteIndexes(1 << 30)
    for number in range(50):
        assert len(index_of(cache, engine, f"nobody {number}")) == 0
    assert len(cache) == 0


def test_hidden_notes_do_not_fill_the_index() -> None:
    index = NoteIndex.empty(TermNumbers())
    notes = [ModelNote(note_id, text=("ash",), z_scores={1: 5}) for note_id in range(1, 1_001)]
    index = index.updated([note.row() for note in notes], 1, CHECKSUM)
    for change, note in enumerate(notes[:990], 2):
        index = index.updated([dataclasses.replace(note, is_active=False).row()], change, CHECKSUM)
        assert len(index) <= 2 * index.n_active
    assert [note_id for note_id in range(1, 1_001) if index.place_of(note_id) is not None] == [
        *range(991, 1_001)
    ]


def test_former_values_do_not_fill_the_index(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_index, "SPARE_VALUES", 10)
    cache = NoteIndexes(1 << 30)
    notes = engine.notes.of("a")
    note = notes.add("Lava and ash.").note
    for number in range(30):
        notes.feedback(note.id, applicable=bool(number % 2), tag_scores={"go": number / 100})
        assert index_of(cache, engine).facets.n_values <= 10 + len(note_index.FACETS) + 1
