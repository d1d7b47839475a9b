"""A worker compares notes on schedule and deletes what is old, beside its jobs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from empty_library import put_empty_library
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.models.jobs import JobKind
from shoal.settings import Settings
from shoal_worker.keepers import NoteKeeper


def test_worker_compares_notes_when_due_and_deletes_old_sessions(
    settings: Settings, migrated_file: Path
) -> None:
    put_empty_library(migrated_file, settings)
    daily = dataclasses.replace(settings, note_dedup_hours=24)
    with Engine(settings=daily, scorer=FakeScorer()) as engine:
        note = engine.notes.of("ann").add("Lava cools to basalt.").note
        engine.notes.of("ann").record_shown("old", [note.id], event="prompt")
        with engine.database.write() as transaction:
            transaction.execute("UPDATE agent_sessions SET updated_at = '2020-01-01T00:00:00.000Z'")
            transaction.execute("UPDATE shown_notes SET shown_at = '2020-01-01T00:00:00.000Z'")
        keepers = [NoteKeeper(engine.database, daily, FakeScorer()) for _ in range(2)]
        for keeper in [*keepers, *keepers]:
            keeper.keep()
        assert [job.kind for job in engine.jobs.list()] == [JobKind.dedup]
        assert len(engine.notes.of("ann").search("lava", session_id="old").results) == 1
        with engine.database.snapshot() as snapshot:
            assert snapshot.value("SELECT COUNT(*) FROM agent_sessions") == 0
