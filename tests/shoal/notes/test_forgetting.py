"""What is forgotten leaves a digest and no text, and is not stored again for its owner."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lagoon
from shoal import Engine
from shoal.cli.app import run
from shoal.errors import NoteError, NotFoundError
from shoal.models.notes import AddedNote
from shoal.notes.notes import OwnerNotes

SECRET = "The zyxomma fills my safe, whose code is quobble."
SPELLED = "The  zyxomma fills\nmy safe, whose code is quobble. "
SAID = {"content": SECRET, "speaker": "Ann", "session_id": "s", "said_at": "2026-05-05T10:00:00Z"}
ITEM = {"content": SECRET, "topic": "safe", "confidence": 0.95}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shoal.db"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    with Engine(path, scorer=lagoon.load()) as engine:
        yield engine


@pytest.fixture
def notes(engine: Engine) -> OwnerNotes:
    return engine.notes.of("ann")


def test_forgotten_text_is_in_no_file(engine: Engine, path: Path, notes: OwnerNotes) -> None:
    note = notes.add(SECRET, title="Zyxomma", tags=["zyxomma"], metadata={"what": "zyxomma"}).note
    notes.update(note.id, title="On the zyxomma")
    notes.feedback(note.id, applicable=True, reason="zyxomma")
    notes.remember([SAID])
    old = notes.add("The zyxomma of my old safe is quobble.").note
    notes.merge([note.id, old.id], canonical_text=SECRET)
    engine.notes.of("ann").once("key", "0" * 64).remember([{**ITEM, "content": SECRET + " So it is."}])
    notes.add("Rain falls on the coast.")
    for found in notes.list(include_deprecated=True).notes:
        if "zyxomma" in found.text:
            notes.forget(found.id)
    assert [each.text for each in notes.list(include_deprecated=True).notes] == ["Rain falls on the coast."]
    engine.close()
    for file in path.parent.iterdir():
        if file.is_file():
            stored = file.read_bytes().lower()
            assert b"zyxomma" not in stored, file.name
            assert b"quobble" not in stored, file.name


def test_backup_says_what_it_has_of_forgotten_notes(
    engine: Engine, path: Path, notes: OwnerNotes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = notes.add(SECRET).note
    notes.add("Rain falls on the coast.")
    copies = []
    for name in ("before", "after"):
        assert run(["backup", str(tmp_path / name), "--db", str(path), "--json"]) == 0
        copies.append(json.loads(capsys.readouterr().out))
        notes.forget(note.id) if name == "before" else None
    assert [(copy["notes"], copy["forgotten_notes"]) for copy in copies] == [(2, 0), (1, 1)]
    assert b"zyxomma" in (tmp_path / "before").read_bytes().lower()
    assert b"zyxomma" not in (tmp_path / "after").read_bytes().lower()


def test_stored_answers_of_requests_lose_the_text(engine: Engine, notes: OwnerNotes) -> None:
    first = notes.add(SECRET).note
    [outcome] = notes.once("key", "0" * 64).add_many([{"text": SECRET}]).results
    assert outcome.is_duplicate
    with engine.notes._context.database.write() as transaction:
        similar = [{"id": first.id, "text": SECRET, "similarity": 0.9, "is_opposite": False}]
        transaction.execute(
            "UPDATE note_request_outcomes SET outcome = :outcome",
            {
                "outcome": json.dumps(
                    {"note_id": first.id, "is_duplicate": True, "similar": similar}, separators=(",", ":")
                )
            },
        )
    engine.notes.of("bob").forget(engine.notes.of("bob").add(SECRET).note.id)
    assert notes.once("key", "0" * 64).add_many([]).results[0].similar
    notes.forget(first.id)
    assert notes.once("key", "0" * 64).add_many([]).results[0].similar == ()


WAYS: dict[str, Callable[[OwnerNotes], Any]] = {
    "add": lambda notes: [notes.add(SPELLED)],
    "add_many": lambda notes: notes.add_many([{"text": SPELLED}]),
    "remember": lambda notes: notes.remember([{**ITEM, "content": SPELLED}]),
    "turn": lambda notes: notes.remember([{**SAID, "content": SPELLED}]),
    "update": lambda notes: [notes.update(notes.add("My safe is green.").note.id, text=SPELLED)],
    "merge": lambda notes: [
        notes.merge(
            [notes.add("My safe is green.").note.id, notes.add("My safe is a green one.").note.id],
            canonical_text=SPELLED,
        )
    ],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["note", "turn"])
def test_forgotten_text_is_refused(engine: Engine, notes: OwnerNotes, way: str, kind: str) -> None:
    [added] = notes.remember([SAID]) if kind == "turn" else [notes.add(SECRET)]
    assert isinstance(added, AddedNote)
    notes.forget(added.note.id)
    try:
        [outcome] = WAYS[way](notes)
    except NoteError as error:
        outcome = error
    assert isinstance(outcome, NoteError)
    assert f"was forgotten as note {added.note.id}" in str(outcome)
    assert not [note for note in notes.list().notes if "zyxomma" in note.text]
    [other] = WAYS[way](engine.notes.of("bob"))
    assert not isinstance(other, NoteError)


def test_the_others_of_a_batch_are_stored(notes: OwnerNotes) -> None:
    notes.forget(notes.add(SECRET).note.id)
    texts = ["Rain falls on the coast.", SECRET, "", "Lava cools to basalt."]
    outcomes = notes.add_many([{"text": text} for text in texts])
    assert [isinstance(each, AddedNote) for each in outcomes] == [True, False, False, True]
    assert "was forgotten" in str(outcomes[1])


def test_forgetting_again_gives_the_same(engine: Engine, notes: OwnerNotes) -> None:
    note, (turn,) = notes.add(SECRET).note, notes.remember([SAID])
    assert isinstance(turn, AddedNote)
    done = notes.forget(turn.note.id)
    assert done.note_ids == (note.id, turn.note.id)
    assert notes.forget(note.id) == notes.forget(turn.note.id) == done
    for stranger, note_id in ((engine.notes.of("bob"), note.id), (notes, 99), (notes, 2**80)):
        with pytest.raises(NotFoundError):
            stranger.forget(note_id)


def test_forgotten_note_is_not_found(notes: OwnerNotes) -> None:
    kept = notes.add("Rain falls on the coast.").note
    note = notes.add(SECRET).note
    assert notes.search("zyxomma").results
    notes.forget(note.id)
    assert not notes.search("zyxomma").results
    assert [result.note.id for result in notes.search("rain").results] == [kept.id]
    for call in (notes.get, notes.restore, notes.history):
        with pytest.raises(NotFoundError):
            call(note.id)


def test_absorbed_notes_are_forgotten_with_the_survivor(notes: OwnerNotes) -> None:
    ids = [notes.add(text).note.id for text in (SECRET, "My safe holds the zyxomma.")]
    survivor = notes.merge(ids).survivor_id
    assert notes.forget(survivor).note_ids == tuple(ids)
    assert notes.list(include_deprecated=True).total == 0


def test_replaced_note_does_not_point_to_a_forgotten_one(notes: OwnerNotes) -> None:
    first = notes.add("I live in Leeds.", valid_from="2026-01-01").note
    second = notes.add("I live in Bath.", valid_from="2026-02-01", supersedes=first.id).note
    third = notes.add("I live in York.", valid_from="2026-03-01", supersedes=second.id).note
    notes.forget(second.id)
    assert notes.get(first.id).superseded_by == third.id
    notes.forget(third.id)
    now = notes.get(first.id)
    assert (now.superseded_by, now.valid_to) == (None, "2026-02-01")
    again = notes.add("I live in Leeds.")
    assert not again.is_duplicate


def test_import_does_not_bring_a_forgotten_text_back(engine: Engine, notes: OwnerNotes, path: Path) -> None:
    note = notes.add(SECRET).note
    export = path.with_name("export.jsonl")
    export.write_text("".join(f"{line.rstrip()}\n" for line in engine.maintenance.export()))
    notes.forget(note.id)
    assert "zyxomma" not in "".join(engine.maintenance.export())
    with export.open("rb") as lines:
        assert engine.maintenance.import_export(lines).forgotten_notes == 1
    assert notes.list(include_deprecated=True).total == 0


def test_doctor_accepts_a_library_with_forgotten_notes(engine: Engine, notes: OwnerNotes) -> None:
    notes.add("Rain falls on the coast.", categories=["a/b"])
    notes.forget(notes.add(SECRET, categories=["a/c"]).note.id)
    assert [count.path for count in notes.categories()] == ["a", "a/b"]
    assert notes.status().n_active == 1
    assert not [each for each in engine.maintenance.doctor().findings if "note" in str(each).lower()]


def test_turns_teach_others_nothing(engine: Engine, notes: OwnerNotes) -> None:
    """The words of what a person said are no learned words, suggestions or numbers of anyone else."""
    for number in range(3):
        engine.ingest(content=f"Lava of volcano {number} cools to basalt and ash. Lava is molten rock.")
    bob = engine.notes.of("bob")
    bob.add("Lava is hot.")

    def seen() -> tuple[Any, ...]:
        words = tuple(word.word for word in engine.vocabulary.list(limit=1_000).words)
        suggested = [engine.suggest(q) for q in ("zyx", "quob", "lava")]
        status = dataclasses.replace(engine.status(owners=["bob"]), db_bytes=0)
        found = engine.search("lava zyxomma")
        scores = [(result.chunk_id, result.match_score, result.relevance) for result in found.results]
        of_bob = [(each.note.id, each.score) for each in bob.search("lava zyxomma").results]
        return words, suggested, status, scores, of_bob, bob.status(), bob.categories()

    before = seen()
    notes.remember([{**SAID, "said_at": f"2026-05-0{day}T10:00:00Z"} for day in range(1, 9)])
    notes.remember([{**SAID, "content": f"Lava lava zyxomma {n} quobble."} for n in range(8)])
    assert notes.status().n_active == 16
    engine.maintenance.rescore()
    notes.search("zyxomma quobble")
    after = seen()
    assert after == before
    assert "zyxomma" not in str(after[:2])
