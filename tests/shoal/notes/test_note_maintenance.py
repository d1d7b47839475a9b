"""Notes take part in rescore, export, import, backup and doctor."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from postgres_schemas import sqlite_only

import lagoon
from shoal import Engine
from shoal.maintenance.doctor import Report
from shoal.models.notes import Note
from shoal.notes import note_maintenance
from shoal.settings import Settings

LAVA = "Lava of a volcano cools to basalt and ash."
RAIN = "Rain and storm of the monsoon season fall on the coast."


def fill(engine: Engine) -> list[Note]:
    """Notes of two owners in every state and with every kind of evidence."""
    first, second = engine.notes.of("first"), engine.notes.of("second")
    a = first.add(
        LAVA,
        kind="atom",
        title="Rocks",
        domain="geology",
        tags=["web"],
        categories=["earth/rocks"],
        prerequisites={"os": ["linux"]},
        metadata={"text": 'Grüße \u2028 "', "n": [1.5]},
        session_id="s1",
    ).note
    first.add(LAVA, session_id="s2")
    first.record_shown("s3", [a.id], event="prompt", environment={"repo": "app", "tags": ["web", "go"]})
    first.feedback(a.id, applicable=True, reason="it helped", tag_scores={"web": 0.5}, session_id="s3")
    first.pin(a.id, tags=["go"])
    b = first.add(RAIN).note
    first.deprecate(b.id, reason="too wet")
    c = second.add(LAVA).note
    return [first.get(a.id), first.get(b.id), second.get(c.id)]


def comparable(note: Note) -> dict[str, Any]:
    fields = {name: getattr(note, name) for name in note.__slots__}
    return {
        name: value for name, value in fields.items() if name not in ("id", "change_number", "merged_into")
    }


def lines(engine: Engine, *, canonical: bool = False) -> list[str]:
    return list(engine.maintenance.export(canonical=canonical))


def new_engine(folder: Path, migrated_file: Path) -> Engine:
    shutil.copyfile(migrated_file, folder / "other.db")
    return Engine(folder / "other.db", scorer=FakeScorer(), learning=False)


@pytest.fixture
def other(tmp_path: Path, migrated_file: Path) -> Iterator[Engine]:
    with new_engine(tmp_path, migrated_file) as engine:
        yield engine


def import_lines(engine: Engine, exported: list[str]) -> Any:
    return engine.maintenance.import_export(io.BytesIO("\n".join(exported).encode()))


# Export and import


def test_imported_notes_equal_the_exported_ones(engine: Engine, other: Engine) -> None:
    notes = fill(engine)
    result = import_lines(other, lines(engine))
    assert (result.notes, result.duplicate_notes, result.n_bad) == (3, 0, 0)
    found = {
        (note.owner, note.text): note
        for owner in ("first", "second")
        for note in other.notes.of(owner).list(include_deprecated=True).notes
    }
    for note in notes:
        imported = found[note.owner, note.text]
        assert comparable(imported) == comparable(note)
        ours, theirs = other.notes.of(note.owner), engine.notes.of(note.owner)
        assert list(ours.history(imported.id)) == list(theirs.history(note.id))
        assert list(ours.feedbacks(imported.id)) == list(theirs.feedbacks(note.id))
    assert [result.note.text for result in other.notes.of("first").search("lava").results] == [LAVA]
    assert other.notes.of("second").status().n_active == 1
    again = import_lines(other, lines(engine))
    assert (again.notes, again.duplicate_notes) == (0, 3)


def test_canonical_export_does_not_depend_on_order_and_time(engine: Engine, other: Engine) -> None:
    for shift, target in enumerate((engine, other)):
        texts = [f"{LAVA} Number {number}." for number in range(4)]
        for text in texts[shift:] + texts[:shift]:
            note = target.notes.of("me").add(text, tags=["b", "a"], metadata={"x": 1}).note
            target.notes.of("me").feedback(note.id, applicable=True)
        target.notes.of("you").add(RAIN)
    assert lines(engine, canonical=True) == lines(other, canonical=True)
    records = [json.loads(line) for line in lines(engine, canonical=True)]
    [first, *_] = [record for record in records if record["type"] == "note"]
    assert not {"id", "created_at", "updated_at", "history"} & first.keys()


def test_canonical_export_can_be_imported(engine: Engine, other: Engine) -> None:
    fill(engine)
    exported = lines(engine, canonical=True)
    assert import_lines(other, exported).notes == 3
    assert lines(other, canonical=True) == exported


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("owner", ""),
        ("owner", None),
        ("text", 5),
        ("kind", "x"),
        ("pinned_by", "nobody"),
        ("pin_tags", "go"),
        ("occurrence_count", 0),
        ("times_matched", -1),
        ("times_matched", 10**30),
        ("created_at", "yesterday"),
        ("deprecated_at", "2026-01-31"),
        ("sessions", ["s" * 300]),
        ("repo_matches", {"app": "many"}),
        ("tag_set_matches", [["a"]]),
        ("tag_relevance", {"a": [2.0, 1, 1]}),
        ("tag_relevance", {"a": 1}),
        ("feedback", [{"is_applicable": 1}]),
        ("feedback", [{"is_applicable": True, "tag_scores": {"a": None}}]),
        ("history", [{"action": "x", "before": {}}]),
        ("history", [5]),
    ],
)
def test_bad_note_of_an_export_is_named_and_left_out(
    engine: Engine, other: Engine, field: str, value: Any
) -> None:
    fill(engine)
    exported = lines(engine)
    at = next(i for i, line in enumerate(exported) if '"type":"note"' in line)
    exported[at] = json.dumps({**json.loads(exported[at]), field: value})
    result = import_lines(other, exported)
    assert (result.notes, result.n_bad) == (2, 1)
    assert (result.bad[0].line, result.bad[0].reason.partition(":")[0]) == (at + 1, field)


@sqlite_only
def test_backup_has_the_notes(engine: Engine, tmp_path: Path) -> None:
    [note, *_] = fill(engine)
    engine.maintenance.backup(tmp_path / "copy.db")
    with Engine(tmp_path / "copy.db", scorer=FakeScorer()) as copy:
        assert copy.notes.of("first").get(note.id) == note


# Status and rescore


def test_status_counts_active_notes(engine: Engine) -> None:
    assert engine.status().n_notes == 0
    fill(engine)
    assert engine.status().n_notes == 2
    engine.notes.of("first").purge()
    assert engine.status().n_notes == 2


class OtherData(FakeScorer):
    """Other data: the same words are in other reefs."""

    data_checksum = "e" * 64

    def score(self, text: str, top_k: int = 10) -> Any:
        return super().score(text.replace("Lava", "court jury"), top_k)


def test_rescore_brings_notes_to_other_data_and_can_be_interrupted(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(note_maintenance, "RESCORED_TOGETHER", 2)
    notes = engine.notes.of("me")
    for number in range(7):
        notes.add(f"{LAVA} Number {number}.")
    with Engine(settings=settings, scorer=OtherData()) as newer:
        assert newer.notes.of("me").search("verdict of a judge").results == (), "reefs cannot be compared"
        write, calls = note_maintenance.write_scores, iter(range(100))

        def die(*args: Any) -> bool:
            if next(calls) == 5:
                raise KeyboardInterrupt
            return write(*args)

        monkeypatch.setattr(note_maintenance, "write_scores", die)
        with pytest.raises(KeyboardInterrupt):
            newer.maintenance.rescore()
        monkeypatch.setattr(note_maintenance, "write_scores", write)
        assert len(newer.notes.of("me").search("verdict of a judge", top_k=50).results) == 4
        assert newer.maintenance.rescore().n_notes == 3
        assert len(newer.notes.of("me").search("verdict of a judge", top_k=50).results) == 7
        assert newer.maintenance.rescore().n_notes == 0


def test_rescore_changes_only_notes_whose_values_change(engine: Engine, settings: Settings) -> None:
    notes = engine.notes.of("me")
    notes.add(LAVA)
    before = notes.list().notes
    with engine.database.write() as transaction:
        transaction.execute("UPDATE notes SET vocabulary_version = 77")
    assert engine.maintenance.rescore().n_notes == 0
    assert notes.list().notes == before
    with engine.database.snapshot() as snapshot:
        assert snapshot.value("SELECT vocabulary_version FROM notes") == 0


def test_change_during_a_rescore_wins(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = engine.notes.of("me").add(LAVA).note
    with Engine(settings=settings, scorer=OtherData()) as newer:
        score, texts = note_maintenance.score_texts, iter([RAIN])

        def change_meanwhile(*args: Any, **options: Any) -> Any:
            for text in texts:
                engine.notes.of("me").update(note.id, text=text)
            return score(*args, **options)

        monkeypatch.setattr(note_maintenance, "score_texts", change_meanwhile)
        newer.maintenance.rescore()
        assert newer.notes.of("me").get(note.id).text == RAIN
        assert newer.maintenance.doctor().is_healthy
        assert [result.note.id for result in newer.notes.of("me").search("monsoon").results] == [note.id]


def test_notes_learn_words_with_the_library(tmp_path: Path, migrated_file: Path) -> None:
    shutil.copyfile(migrated_file, tmp_path / "shoal.db")
    text = "The zorblat threw lava over the volcano. Magma filled the crater of the zorblat. "
    with Engine(tmp_path / "shoal.db", scorer=lagoon.load()) as engine:
        notes = engine.notes.of("me")
        note = notes.add("Never stand below a zorblat.").note
        engine.ingest_many([{"title": str(i), "content": f"{text * 6} Text {i}."} for i in range(4)])
        assert engine.status().n_custom_words > 0
        assert engine.maintenance.rescore().n_notes == 1
        assert notes.get(note.id).change_number > note.change_number
        assert [result.note.id for result in notes.search("volcanic eruption").results] == [note.id]
        assert notes.explain(note.id, "volcanic eruption").matched_words == ()


# Doctor


DAMAGE = {
    "words": "UPDATE notes SET words = :x WHERE id = 1",
    "hash": "UPDATE notes SET text_hash = 'x' WHERE id = 1",
    "profile": "UPDATE notes SET profile = :empty WHERE id = 1",
    "change": "UPDATE note_changes SET last = 0",
    "no change": "DELETE FROM note_changes",
    "count": "UPDATE note_owners SET n_active = 17",
    "owner": "DELETE FROM note_owners WHERE owner = 'first'",
    "shown": "UPDATE shown_notes SET owner = 'second'",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_and_repaired(engine: Engine, damage: str) -> None:
    fill(engine)
    assert engine.maintenance.doctor().is_healthy
    with engine.database.write() as transaction:
        assert transaction.execute(DAMAGE[damage], {"x": b"x", "empty": b""}) > 0
    report: Report = engine.maintenance.doctor()
    assert not report.is_healthy
    repaired = engine.maintenance.doctor(repair=True)
    assert repaired.repaired
    assert engine.maintenance.doctor().is_healthy
    assert [result.note.id for result in engine.notes.of("first").search("lava").results] == [1]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE notes SET metadata = '[' WHERE id = 1",
        "UPDATE notes SET kind = 'joke' WHERE id = 1",
        "UPDATE notes SET pin_tags = '{}' WHERE id = 1",
        "UPDATE note_history SET before = 'x'",
        "UPDATE notes SET title = 7.5 WHERE id = 1",
    ],
)
def test_invalid_value_is_reported(engine: Engine, damage: str) -> None:
    fill(engine)
    with engine.database.write() as transaction:
        transaction.execute(damage)
    findings = engine.maintenance.doctor().findings
    assert any("note" in example for finding in findings for example in finding.examples), findings
