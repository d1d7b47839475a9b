"""Merges of stored notes: what they write, undo, conflicts, processes that die, two at once, isolation."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from faults import DONE, KILLED, killed_at

from shoal import Engine
from shoal.errors import NoteError, NoteStateError, NotFoundError
from shoal.models.notes import NoteMerge
from shoal.notes import merge_rows
from shoal.notes.merge_rows import CHILDREN
from shoal.notes.notes import OwnerNotes
from shoal.settings import Settings

LAVA = "Lava of a volcano cools to basalt."
SAME = "The lava of volcanoes cools and becomes basalt."
THIRD = "Basalt is what the lava of a volcano cools to."
RAIN = "Rain and storm of the monsoon season fall on the coast."
TABLES = ("notes", "shown_notes", *CHILDREN, "hook_events", "note_feedback")
CHANGING = {"change_number", "updated_at"}


@pytest.fixture
def notes(engine: Engine) -> OwnerNotes:
    return engine.notes.of("me")


def contents(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """All rows of notes and of what sessions saw, without numbers and times of changes."""
    found: dict[str, list[dict[str, Any]]] = {}
    with engine.database.snapshot() as snapshot:
        for table in TABLES:
            rows = map(dict, snapshot.rows(f"SELECT * FROM {table}"))
            kept = [{name: row[name] for name in row if name not in CHANGING} for row in rows]
            found[table] = sorted(kept, key=repr)
    return found


def rich_notes(notes: OwnerNotes) -> list[int]:
    """Three notes that say the same, with evidence of every kind, and another."""
    first = notes.add(
        LAVA, tags=["go", "web"], categories=["earth"], session_id="s1", prerequisites={"repos": ["x"]}
    ).note.id
    second = notes.add(
        SAME, tags=["web"], categories=["earth/hot"], session_id="s2", prerequisites={"repos": ["y"]}
    ).note.id
    third = notes.add(THIRD, tags=["web", "css"], session_id="s1").note.id
    other = notes.add(RAIN).note.id
    notes.pin(second, tags=["css"])
    where = {"repo": "shop", "tags": ["web"]}
    notes.record_shown("t1", [first, second, other], event="prompt", environment=where)
    notes.record_shown("t2", [second, third], event="tool-use", environment={"tags": ["css"]})
    notes.record_shown("t3", [other], event="prompt")
    notes.feedback(first, applicable=True, environment=where)
    notes.feedback(second, applicable=False, tag_scores={"web": -0.5})
    return [first, second, third]


def merge_all(notes: OwnerNotes, ids: list[int]) -> NoteMerge:
    return notes.merge(ids, canonical_text="Lava cools to basalt.", reason="same lesson")


# Merging


def test_merge_writes_the_whole_table(engine: Engine, notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    before = {note_id: notes.get(note_id) for note_id in ids}
    done = merge_all(notes, ids)
    survivor = notes.get(ids[0])
    assert (done.survivor_id, done.absorbed_ids, done.decided_by) == (ids[0], (ids[1], ids[2]), "person")
    assert (survivor.text, survivor.is_active, survivor.verified) == ("Lava cools to basalt.", True, True)
    assert (survivor.occurrence_count, survivor.times_matched) == (3, 4)
    assert (survivor.tags, survivor.categories) == (("web",), ("earth", "earth/hot"))
    assert survivor.sessions == ("s1", "s2")
    assert survivor.prerequisites["repos"] == (), "a note without the gate opens it"
    assert (survivor.pinned_by, survivor.pin_tags) == ("person", ("css",))
    assert survivor.repo_matches == {"shop": 2}
    assert dict(survivor.tag_set_matches) == {("web",): 2, ("css",): 2}
    assert survivor.tag_relevance["web"].n_evals == 2
    for note_id in ids[1:]:
        absorbed = notes.get(note_id)
        assert (absorbed.merged_into, absorbed.is_active) == (ids[0], False)
        assert absorbed.text == before[note_id].text
    rows = contents(engine)
    assert {(row["id"], row["dedup_verified"]) for row in rows["notes"] if row["id"] in ids} == {
        (ids[0], 0),
        (ids[1], 1),
        (ids[2], 1),
    }
    assert notes.merges().merges == (done,)
    assert notes.merges(note_id=ids[2]).total == 1
    assert [entry.action for entry in notes.history(ids[1])][-1] == "merged"


def test_sessions_were_shown_the_survivor_after_a_merge(engine: Engine, notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    merge_all(notes, ids)
    rows = contents(engine)
    shown = {(row["session_id"], row["note_id"]) for row in rows["shown_notes"]}
    assert shown == {("t1", ids[0]), ("t1", 4), ("t2", ids[0]), ("t3", 4)}
    events = {row["session_id"]: row["note_ids"] for row in rows["hook_events"]}
    assert events == {"t1": f"[{ids[0]},4]", "t2": f"[{ids[0]}]", "t3": "[4]"}
    assert notes.search("lava", session_id="t2").results == ()


def test_searches_find_the_survivor_alone(notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    merge_all(notes, ids)
    assert [result.note.id for result in notes.search("basalt of a volcano").results] == [ids[0]]


def test_absorbed_texts_that_come_again_count_as_new(notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    merge_all(notes, ids)
    assert not notes.add(SAME).is_duplicate


def test_survivor_keeps_its_text_without_a_canonical_one(notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    assert notes.merge(ids).canonical_text == LAVA


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"note_ids": [1]}, "2 to 20 ids"),
        ({"note_ids": list(range(1, 30))}, "2 to 20 ids"),
        ({"note_ids": [1, 1]}, "twice"),
        ({"note_ids": ["1", "2"]}, "whole numbers"),
        ({"note_ids": "12"}, "must be a list"),
        ({"note_ids": [1, 2], "canonical_text": " "}, "canonical_text: is empty"),
        ({"note_ids": [1, 2], "confidence": 2}, "from 0 to 1"),
        ({"note_ids": [1, 2], "decided_by": "endpoint"}, "decided_by"),
    ],
)
def test_invalid_merges_are_refused(notes: OwnerNotes, arguments: Any, message: str) -> None:
    rich_notes(notes)
    with pytest.raises(NoteError, match=message):
        notes.merge(**arguments)
    assert notes.merges().total == 0


def test_deprecated_notes_and_taken_texts_are_refused(notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    with pytest.raises(NoteStateError, match="note 4 is active and has this text"):
        notes.merge(ids, canonical_text=RAIN)
    notes.deprecate(ids[2])
    with pytest.raises(NoteStateError, match="is deprecated; restore it first"):
        notes.merge(ids)
    with pytest.raises(NotFoundError):
        notes.merge([ids[0], 99])


def test_notes_that_may_contradict_are_merged_only_with_a_text(notes: OwnerNotes) -> None:
    first = notes.add("Use the volcano map, not the season map.").note.id
    second = notes.add("Use the season map, not the volcano map.").note.id
    with pytest.raises(NoteError, match="may contradict each other; give the text that holds"):
        notes.merge([first, second])
    assert notes.merge([first, second], canonical_text="Use both maps.").survivor_id == first


# Undo


def test_undo_restores_every_row(engine: Engine, notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    before = contents(engine)
    done = merge_all(notes, ids)
    assert contents(engine) != before
    assert notes.undo_merge(done.id).undone_at is not None
    assert contents(engine) == before
    assert {result.note.id for result in notes.search("basalt of a volcano").results} == set(ids)
    [rejected] = notes.proposals(status="rejected").proposals
    assert rejected.note_ids == tuple(ids)
    with pytest.raises(NoteStateError, match="undone already"):
        notes.undo_merge(done.id)


def test_undo_keeps_what_came_since(engine: Engine, notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    done = merge_all(notes, ids)
    notes.record_shown("t9", [ids[0]], event="prompt", environment={"repo": "new", "tags": ["web"]})
    notes.add("Lava cools to basalt.", session_id="s9")
    notes.categorize(ids[0], add=["kept"])
    notes.feedback(ids[0], applicable=True, tag_scores={"rust": 1.0})
    notes.undo_merge(done.id)
    survivor = notes.get(ids[0])
    assert (survivor.occurrence_count, survivor.times_matched) == (2, 2)
    assert survivor.repo_matches == {"shop": 1, "new": 1}
    assert survivor.sessions == ("s1", "s9")
    assert survivor.categories == ("earth", "kept")
    assert set(survivor.tag_relevance) == {"web", "rust"}
    assert notes.shown("t9") == [ids[0]]


def edit(notes: OwnerNotes, ids: list[int]) -> None:
    notes.update(ids[0], text="Other words about lava.")


def restore(notes: OwnerNotes, ids: list[int]) -> None:
    notes.restore(ids[1])


def purge(notes: OwnerNotes, ids: list[int]) -> None:
    notes.purge()


def merge_again(notes: OwnerNotes, ids: list[int]) -> None:
    notes.merge([ids[0], 4], canonical_text="Lava and rain.")


def take_text(notes: OwnerNotes, ids: list[int]) -> None:
    notes.add(SAME)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit, "the text of note 1 was changed since the merge; restore the absorbed notes"),
        (restore, "note 2 was restored since"),
        (purge, "was purged"),
        (merge_again, "merge 2 came after merge 1 and has notes of it; undo it first"),
        (take_text, "note 5 is active and has the text of note 2"),
    ],
)
def test_undo_is_refused_after_changes_that_it_would_lose(
    engine: Engine, notes: OwnerNotes, change: Callable[[OwnerNotes, list[int]], None], message: str
) -> None:
    ids = rich_notes(notes)
    done = merge_all(notes, ids)
    change(notes, ids)
    before = contents(engine)
    with pytest.raises(NoteStateError, match=message):
        notes.undo_merge(done.id)
    assert contents(engine) == before


def test_merges_are_undone_newest_first(engine: Engine, notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    before = contents(engine)
    first = notes.merge(ids[:2])
    second = notes.merge([ids[0], ids[2]], canonical_text="Lava cools to basalt.")
    notes.undo_merge(second.id)
    notes.undo_merge(first.id)
    assert contents(engine) == before


def test_purge_leaves_no_text_in_the_log(engine: Engine, notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    merge_all(notes, ids)
    notes.purge()
    with engine.database.snapshot() as snapshot:
        stored = [tuple(row) for row in snapshot.rows("SELECT * FROM note_merges")]
    assert SAME not in repr(stored)


# Proposals


def propose(notes: OwnerNotes) -> int:
    notes.dedup()
    [proposal] = notes.proposals().proposals
    return proposal.id


def test_accepted_proposal_merges_and_a_rejected_one_never_comes_again(notes: OwnerNotes) -> None:
    ids = [notes.add(text).note.id for text in (LAVA, SAME)]
    proposal_id = propose(notes)
    assert notes.decide(proposal_id, False).status == "rejected"
    notes.dedup(recheck=True)
    assert notes.proposals().total == 0
    with pytest.raises(NoteStateError, match="is rejected"):
        notes.decide(proposal_id, True)
    third = notes.add(THIRD).note.id
    notes.dedup(recheck=True)
    proposals = notes.proposals().proposals
    assert all(third in proposal.note_ids for proposal in proposals)
    assert not any(set(ids) <= set(proposal.note_ids) for proposal in proposals)


@pytest.mark.parametrize("change", ["text", "deprecate", "merge"])
def test_proposal_is_outdated_by_a_change_of_its_notes(notes: OwnerNotes, change: str) -> None:
    first, second = (notes.add(text).note.id for text in (LAVA, SAME))
    other = notes.add(RAIN).note.id
    proposal_id = propose(notes)
    if change == "text":
        notes.update(second, text="Something else about the coast.")
    elif change == "deprecate":
        notes.deprecate(first)
    else:
        notes.merge([second, other], canonical_text="Rain and lava.")
    assert notes.proposals(status="outdated").proposals[0].id == proposal_id
    with pytest.raises(NoteStateError, match="outdated"):
        notes.decide(proposal_id, True)


def test_decision_for_both_at_once_counts_once(notes: OwnerNotes) -> None:
    for text in (LAVA, SAME):
        notes.add(text)
    proposal_id = propose(notes)
    results: list[str] = []

    def decide(accept: bool) -> None:
        try:
            results.append(notes.decide(proposal_id, accept).status)
        except NoteStateError:
            results.append("late")

    run_together([lambda: decide(True), lambda: decide(False), lambda: decide(True)])
    assert "late" in results
    assert len([each for each in results if each == "late"]) == 2
    assert notes.merges().total == (1 if "merged" in results else 0)


# Two at once, and processes that die


def run_together(functions: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_two_merges_of_the_same_notes_at_once_merge_once(notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    errors: list[Exception] = []

    def merge(chosen: list[int]) -> None:
        try:
            notes.merge(chosen, canonical_text=f"Lava cools, {chosen}.")
        except NoteStateError as error:
            errors.append(error)

    run_together([lambda some=some: merge(some) for some in (ids, ids[:2], ids[1:], ids)])  # type: ignore[misc]
    everything = notes.list(include_deprecated=True).notes
    assert sum(note.occurrence_count for note in everything if note.is_active) == 4
    absorbed = [note_id for each in notes.merges().merges for note_id in each.absorbed_ids]
    assert len(set(absorbed)) == len(absorbed)
    assert {note.id for note in everything if not note.is_active} == set(absorbed)
    assert len(errors) + notes.merges().total == 4


@pytest.mark.parametrize("what", ["merge", "undo"])
def test_process_that_dies_leaves_notes_merged_or_not(
    settings: Settings, migrated_file: Path, tmp_path: Path, what: str
) -> None:
    put_empty_library(migrated_file, settings)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        ids = rich_notes(engine.notes.of("me"))
        apart = contents(engine)
        done = merge_all(engine.notes.of("me"), ids)
        together = contents(engine)
        if what == "merge":
            engine.notes.of("me").undo_merge(done.id)

    def work() -> None:
        with Engine(settings=settings, scorer=FakeScorer()) as engine:
            if what == "merge":
                merge_all(engine.notes.of("me"), ids)
            else:
                engine.notes.of("me").undo_merge(done.id)

    saved = tmp_path / "saved.db"
    shutil.copyfile(settings.database_path, saved)
    place, seen, code = 0, set[bool](), KILLED
    while code != DONE:
        place += 1
        assert place < 100, "the work ends"
        shutil.copyfile(saved, settings.database_path)
        for suffix in ("-wal", "-shm"):
            settings.database_path.with_name(settings.database_path.name + suffix).unlink(missing_ok=True)
        code, message = killed_at(place, work)
        assert code in (KILLED, DONE), message
        with Engine(settings=settings, scorer=FakeScorer()) as engine:
            found = contents(engine)
            is_merged = found["note_tags"] == together["note_tags"]
            without_times = normalized(found), normalized(together if is_merged else apart)
            assert without_times[0] == without_times[1]
            seen.add(is_merged)
    assert seen == {True, False}


def normalized(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [{name: value for name, value in row.items() if name != "deprecated_at"} for row in some]
        for table, some in rows.items()
    }


# Isolation


def test_statements_are_bound_to_an_owner() -> None:
    unbound = {
        name
        for name, value in vars(merge_rows).items()
        if isinstance(value, str)
        and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", value)
        and ":owner" not in value
        and not name.startswith("_")
    }
    assert unbound == {"LAST_FEEDBACK", "LINK_MERGE", "LINK_PROPOSAL"}, "numbers alone"


def test_owners_do_not_see_each_others_merges(engine: Engine, notes: OwnerNotes) -> None:
    ids = rich_notes(notes)
    theirs = engine.notes.of("them")
    mine = theirs.add(LAVA).note.id
    done = merge_all(notes, ids)
    notes.add(SAME)
    notes.add("The lava of volcanoes cools, and becomes basalt.")
    proposal_id = propose(notes)
    for call in (
        lambda: theirs.merge([mine, ids[0]]),
        lambda: theirs.undo_merge(done.id),
        lambda: theirs.decide(proposal_id, False),
        lambda: theirs.merges(note_id=ids[0]),
        lambda: theirs.undo_merge(2**70),
        lambda: theirs.decide(-1, True),
    ):
        with pytest.raises(NotFoundError):
            call()
    assert (theirs.merges().total, theirs.proposals().total) == (0, 0)
    theirs.dedup(recheck=True)
    assert theirs.proposals().total == 0
