"""An export has merges, proposals and sessions, and an import brings them back: a merge can be undone."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from faults import KILLED, killed_in_transaction

from shoal import Engine
from shoal.errors import NoteStateError
from shoal.maintenance import import_export
from shoal.maintenance.import_export import Imported
from shoal.notes.notes import OwnerNotes

LAVA = "Lava of a volcano cools to basalt and ash."
RAIN = "Rain and storm of the monsoon season fall on the coast."


@pytest.fixture
def make(tmp_path: Path, migrated_file: Path) -> Iterator[Any]:
    """Makes engines with empty libraries."""
    engines = list[Engine]()

    def new() -> Engine:
        path = tmp_path / f"library{len(engines)}.db"
        shutil.copyfile(migrated_file, path)
        engines.append(Engine(path, scorer=FakeScorer(), learning=False))
        return engines[-1]

    yield new
    for engine in engines:
        engine.close()


def fill(engine: Engine) -> OwnerNotes:
    """Notes with two open merges, one upon the other, an undone one, and proposals of each status; ids have
    gaps."""
    notes = engine.notes.of("ann")
    gone = notes.add("A judge weighs the evidence.").note.id
    where = {"repo": "app", "tags": ["web"]}
    ids = [
        notes.add(f"{LAVA} {word}", tags=["web", word], session_id=f"s{word}").note.id
        for word in ("One", "Two", "Three", "Four", "Five")
    ]
    notes.record_shown("t1", [gone, *ids], event="prompt", environment=where)
    notes.deprecate(gone)
    notes.purge()
    first, second, third, fourth, fifth = ids
    notes.feedback(first, applicable=True, environment=where)
    notes.merge([first, second], canonical_text="Lava cools.", reason="same")
    notes.feedback(first, applicable=False, environment=where)
    notes.merge([first, third], canonical_text="Lava cools to basalt.")
    notes.record_shown("t2", [first], event="prompt")
    undone = notes.merge([fourth, fifth], canonical_text="Basalt was lava.")
    notes.undo_merge(undone.id)
    again = notes.add(f"{LAVA} Two").note.id
    notes.merge([fourth, again], canonical_text=f"{LAVA} Four")
    rain = [notes.add(f"{start} {RAIN}").note.id for start in ("Remember:", "Note:")]
    engine.notes.of("ann").dedup()
    assert notes.proposals().total >= 1
    notes.pin(rain[0])
    engine.notes.of("bob").add(LAVA, session_id="s9")
    return notes


def lines(engine: Engine, *, canonical: bool = False) -> list[str]:
    return list(engine.maintenance.export(canonical=canonical))


def import_lines(engine: Engine, exported: list[str]) -> Imported:
    return engine.maintenance.import_export(io.BytesIO("\n".join(exported).encode()))


def without_ids(exported: list[str]) -> list[Any]:
    """Records with the rank of each id in place of the id, and without the texts that name one."""
    records = [json.loads(line) for line in exported]
    ranks: dict[str, dict[int, int]] = {}
    for record in records:
        if "id" in record:
            known = ranks.setdefault(record["type"], {})
            known[record["id"]] = len(known)

    def note(value: int | None) -> int | None:
        return None if value is None else ranks["note"][value]

    for record in records:
        if "id" in record:
            record["id"] = ranks[record["type"]][record["id"]]
        if record["type"] == "note":
            record["merged_into"] = note(record["merged_into"])
            record["deprecated_reason"] = without_digits(str(record["deprecated_reason"]))
            former = [entry["before"] for entry in record["history"]]
            for change in former:
                change.update({name: note(change[name]) for name in change.keys() & {"merged_into"}})
        else:
            record["note_ids"] = [note(value) for value in record.get("note_ids", ())]
            record["reason"] = without_digits(record.get("reason", ""))
            before = record.get("before") or {"notes": [], "shown": []}
            before["notes"] = [{**each, "id": note(each["id"])} for each in before["notes"]]
            shown = [*before["shown"], *record.get("shown", ())]
            for each in shown:
                each[0] = note(each[0])
    return records


def without_digits(text: str) -> str:
    return re.sub(r"\d", "", text)


def test_export_of_an_import_equals_the_export(make: Any) -> None:
    original, copy, second_copy = make(), make(), make()
    fill(original)
    result = import_lines(copy, lines(original))
    assert (result.bad, result.left_out) == ((), 0)
    assert (result.merges, result.sessions) == (4, 2)
    assert result.proposals >= 3
    assert without_ids(lines(copy)) == without_ids(lines(original))
    assert lines(copy, canonical=True) == lines(original, canonical=True)
    import_lines(second_copy, lines(copy))
    assert lines(second_copy) == lines(copy)
    assert {record["type"] for record in map(json.loads, lines(copy))} == {
        "export", "note", "note_merge", "merge_proposal", "agent_session",
    }  # fmt: skip
    checked = copy.maintenance.doctor()
    assert checked.is_healthy, checked


def test_merges_can_be_undone_after_an_import(make: Any) -> None:
    original, copy = make(), make()
    fill(original)
    import_lines(copy, lines(original))
    for engine in (original, copy):
        notes = engine.notes.of("ann")
        merges = [merge.id for merge in notes.merges().merges if merge.undone_at is None]
        with pytest.raises(NoteStateError, match="undo it first"):
            notes.undo_merge(merges[-1])
        notes.feedback(notes.merges().merges[-1].survivor_id, applicable=True, tag_scores={"web": 1.0})
        for merge_id in merges[1:]:  # the newest absorbed a note with a text of the oldest
            notes.undo_merge(merge_id)
        assert notes.search("lava", session_id="t1").results == ()
    assert lines(copy, canonical=True) == lines(original, canonical=True)
    assert [note.text for note in copy.notes.of("ann").list().notes] == [
        note.text for note in original.notes.of("ann").list().notes
    ]


def test_rejected_notes_are_not_proposed_again_after_an_import(make: Any) -> None:
    original, copy = make(), make()
    notes = fill(original)
    for proposal in notes.proposals().proposals:
        notes.decide(proposal.id, accept=False)
    import_lines(copy, lines(original))
    copied = copy.notes.of("ann")
    assert copied.dedup(recheck=True).n_proposed == 0
    assert copied.proposals().total == 0


def test_repeated_import_adds_nothing(make: Any) -> None:
    original, copy = make(), make()
    fill(original)
    import_lines(copy, lines(original))
    before = lines(copy)
    again = import_lines(copy, lines(original))
    assert (again.notes, again.merges, again.proposals, again.sessions, again.left_out) == (0, 0, 0, 0, 0)
    assert lines(copy) == before


def test_merge_of_other_notes_with_the_texts_is_left_out(make: Any) -> None:
    original, other = make(), make()
    fill(original)
    foreign = other.notes.of("ann").add("Lava cools to basalt.").note.id
    result = import_lines(other, lines(original))
    assert result.left_out >= 2
    assert other.notes.of("ann").merges(note_id=foreign).total == 0
    absorbed = [
        note for note in other.notes.of("ann").list(include_deprecated=True).notes if note.merged_into
    ]
    assert {note.merged_into for note in absorbed} >= {foreign}


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("note_merge", "note_ids", [2]),
        ("note_merge", "note_ids", [2, 2]),
        ("note_merge", "note_ids", list(range(1, 30))),
        ("note_merge", "owner", ""),
        ("note_merge", "confidence", 2),
        ("note_merge", "canonical_text", None),
        ("note_merge", "decided_by", "nobody"),
        ("note_merge", "before", [1]),
        ("note_merge", "before", {"notes": [{"id": 2, "text": "a"}]}),
        ("note_merge", "before", {"notes": [5]}),
        ("note_merge", "before", {"shown": [[99, "s", "prompt", None]]}),
        ("note_merge", "id", "1"),
        ("merge_proposal", "status", "x"),
        ("merge_proposal", "similarity", "high"),
        ("merge_proposal", "is_opposite", 1),
        ("merge_proposal", "note_ids", "12"),
        ("agent_session", "session_id", 5),
        ("agent_session", "environment", "linux"),
        ("agent_session", "shown", [[1, "prompt"]]),
        ("agent_session", "shown", [["1", "prompt", None]]),
    ],
)
def test_bad_record_is_named_and_left_out(make: Any, kind: str, field: str, value: object) -> None:
    original, copy = make(), make()
    fill(original)
    exported = lines(original)
    number = next(n for n, line in enumerate(exported) if json.loads(line)["type"] == kind)
    exported[number] = json.dumps({**json.loads(exported[number]), field: value})
    result = import_lines(copy, exported)
    assert [bad.line for bad in result.bad] == [number + 1]
    assert result.notes == 9


@pytest.mark.parametrize("n_transactions", [3, 6, 8, 10])
def test_killed_import_is_completed_by_another(
    make: Any, monkeypatch: pytest.MonkeyPatch, n_transactions: int
) -> None:
    original, whole, killed = make(), make(), make()
    fill(original)
    exported = lines(original)
    import_lines(whole, exported)
    monkeypatch.setattr(import_export, "NOTES_TOGETHER", 2)

    def read() -> None:
        with Engine(killed.settings.database_path, scorer=FakeScorer(), learning=False) as other:
            import_lines(other, exported)

    code, message = killed_in_transaction(n_transactions, read)
    assert code == KILLED, message
    assert 1 < len(lines(killed)) <= len(lines(whole))
    result = import_lines(killed, exported)
    assert (result.left_out, result.bad) == (0, ())
    assert lines(killed) == lines(whole)
