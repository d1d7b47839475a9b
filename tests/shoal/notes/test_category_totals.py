"""Stored numbers of notes by category equal a count after any changes and a repair."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fake_scorer import FakeScorer
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Engine
from shoal.errors import NoteStateError
from shoal.models.notes import CategoryCount
from shoal.notes.notes import OwnerNotes
from shoal.storage.totals import wrong_totals

PATHS = ("a", "a/b", "a/b/c", "a/bc", "a0", "ä/b", "b/a", "a%", "b'/\"c", "b/a/c")
OWNERS = ("ann", "bob")
CHANGES = ("add", "categorize", "deprecate", "restore", "purge", "merge", "undo", "delete")

changes = st.tuples(
    st.sampled_from(CHANGES),
    st.sampled_from(OWNERS),
    st.integers(0, 30),
    st.lists(st.sampled_from(PATHS), max_size=4),
)


def counted(notes: OwnerNotes) -> list[CategoryCount]:
    """Count the categories of the active notes in plain Python."""
    own, below = Counter[str](), Counter[str]()
    for note in notes.list(limit=100).notes:
        own.update(note.categories)
        parts = [path.split("/") for path in note.categories]
        below.update({"/".join(path[:end]) for path in parts for end in range(1, len(path) + 1)})
    return [CategoryCount(path, own[path], n) for path, n in sorted(below.items())]


def change(engine: Engine, number: int, kind: str, owner: str, pick: int, paths: list[str]) -> None:
    notes = engine.notes.of(owner)
    if kind == "add":
        notes.add(f"Lava number {number} of {owner}.", categories=paths)
    listed = notes.list(include_deprecated=True, limit=100).notes
    if not listed:
        return
    note = listed[pick % len(listed)]
    if kind == "categorize":
        notes.categorize(note.id, add=paths, remove=note.categories[: pick % 3])
    elif kind == "deprecate" and note.is_active:
        notes.deprecate(note.id)
    elif kind == "restore" and not note.is_active and not note.merged_into:
        notes.restore(note.id)
    elif kind == "purge":
        notes.purge()
    elif kind == "merge":
        active = [each.id for each in listed if each.is_active][:2]
        if len(active) == 2:
            notes.merge(active, canonical_text=f"Lava merged {number} of {owner}.")
    elif kind == "undo" and (merges := notes.merges().merges):
        with contextlib.suppress(NoteStateError):  # undone already, or a note was purged
            notes.undo_merge(merges[0].id)
    elif kind == "delete":
        with engine.database.write() as transaction:
            transaction.execute("DELETE FROM notes WHERE id = :id", {"id": note.id})


@settings(max_examples=30)
@given(sequence=st.lists(changes, min_size=1, max_size=20))
def test_totals_equal_a_count_after_any_changes(
    migrated_file: Path, sequence: list[tuple[str, str, int, list[str]]]
) -> None:
    with TemporaryDirectory() as folder:
        shutil.copyfile(migrated_file, Path(folder, "shoal.db"))
        with Engine(Path(folder, "shoal.db"), scorer=FakeScorer(), learning=False) as engine:
            for number, (kind, owner, pick, paths) in enumerate(sequence):
                change(engine, number, kind, owner, pick, paths)
                for each in OWNERS:
                    notes = engine.notes.of(each)
                    assert notes.categories() == counted(notes), (kind, paths)
                    for deprecated in (False, True):
                        page = notes.list(include_deprecated=deprecated, limit=100)
                        assert page.total == len(page.notes)
                        page = notes.list(category="a", include_deprecated=deprecated, limit=100)
                        assert page.total == len(page.notes)
                    assert notes.status().n_categories == len(counted(notes))
            with engine.database.snapshot() as snapshot:
                assert wrong_totals(snapshot) == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE note_category_totals SET n_notes = 9 WHERE path = 'a/b'",
        "DELETE FROM note_category_totals WHERE path = 'a'",
        "INSERT INTO note_category_totals VALUES ('bob', 'x', 1, 1)",
    ],
)
def test_doctor_counts_wrong_totals_again(engine: Engine, damage: str) -> None:
    notes = engine.notes.of("ann")
    notes.add("Lava.", categories=["a/b"])
    assert engine.maintenance.doctor().is_healthy
    with engine.database.write() as transaction:
        transaction.execute(damage)
    (finding,) = engine.maintenance.doctor().findings
    assert "note_category_totals" in finding.problem
    engine.maintenance.doctor(repair=True)
    assert engine.maintenance.doctor().is_healthy
    assert notes.categories() == counted(notes)
