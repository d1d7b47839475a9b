"""Old sessions, what they were shown, and counts of requests are deleted; what ranks notes stays."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from faults import KILLED, killed_in_transaction

from shoal import Engine
from shoal.notes import session_maintenance
from shoal.notes.notes import OwnerNotes
from shoal.notes.session_maintenance import Pruned, prune
from shoal.notes.session_rows import SessionRows

LAVA = "Lava of a volcano cools to basalt and ash."
OLD = "2020-01-01T00:00:00.000Z"


@pytest.fixture
def notes(engine: Engine) -> OwnerNotes:
    return engine.notes.of("ann")


def age(engine: Engine, session_id: str) -> None:
    """Make a session one of long ago."""
    with engine.database.write() as transaction:
        for statement in (
            "UPDATE agent_sessions SET updated_at = :old WHERE session_id = :id",
            "UPDATE shown_notes SET shown_at = :old WHERE session_id = :id",
            "UPDATE hook_events SET created_at = :old WHERE session_id = :id",
        ):
            transaction.execute(statement, {"old": OLD, "id": session_id})


def count(engine: Engine, table: str) -> int:
    with engine.database.snapshot() as snapshot:
        n_rows: int = snapshot.value(f"SELECT COUNT(*) FROM {table}")
    return n_rows


def show(notes: OwnerNotes, *sessions: str) -> int:
    note_id = notes.add(LAVA, tags=["web"], session_id="s0").note.id
    for session in sessions:
        notes.record_shown(session, [note_id], event="prompt", environment={"repo": "app", "tags": ["web"]})
    return note_id


def test_old_sessions_are_deleted_and_evidence_stays(engine: Engine, notes: OwnerNotes) -> None:
    note_id = show(notes, "old", "new")
    notes.feedback(note_id, applicable=True, session_id="old")
    age(engine, "old")
    with engine.database.write() as transaction:
        transaction.execute("INSERT INTO chat_requests VALUES ('2020-01-01', 5), ('2999-01-01', 5)")
    before, found = notes.get(note_id), notes.explain(note_id, "lava")
    assert engine.notes.prune() == Pruned(events=1, sessions=1, shown=1, days=1)
    assert [count(engine, table) for table in ("agent_sessions", "shown_notes", "hook_events")] == [1, 1, 1]
    assert count(engine, "chat_requests") == 1
    assert notes.get(note_id) == before
    assert notes.explain(note_id, "lava") == found
    assert len(notes.feedbacks(note_id)) == 1
    assert notes.search("lava", session_id="new").results == ()
    assert len(notes.search("lava", session_id="old").results) == 1
    assert engine.notes.prune() == Pruned()


def test_session_in_use_keeps_what_it_was_shown_long_ago(engine: Engine, notes: OwnerNotes) -> None:
    show(notes, "long")
    with engine.database.write() as transaction:
        transaction.execute("UPDATE shown_notes SET shown_at = :old", {"old": OLD})
    assert engine.notes.prune() == Pruned()
    assert notes.search("lava", session_id="long").results == ()


def test_session_whose_transcript_waits_is_kept_as_long_as_the_file(
    engine: Engine, notes: OwnerNotes, tmp_path: Path
) -> None:
    transcript = tmp_path / "session.jsonl"
    transcript.write_text("{}")
    with engine.database.write() as transaction:
        rows = SessionRows(transaction, "ann")
        rows.write_session("waiting", repo="", tags=(), now=OLD)
        rows.queue("waiting", str(transcript), OLD)
    assert engine.notes.prune() == Pruned()
    transcript.unlink()
    assert engine.notes.prune() == Pruned(sessions=1)


def test_zero_days_keep_all(engine: Engine, notes: OwnerNotes) -> None:
    show(notes, "old")
    age(engine, "old")
    never = dataclasses.replace(engine.settings, agent_session_days=0, hook_event_days=0, job_retention=0)
    assert prune(engine.database, never) == Pruned()
    later = datetime.now(UTC) + timedelta(days=engine.settings.agent_session_days - 1)
    show(notes, "new")
    assert prune(engine.database, engine.settings, later).sessions == 1
    assert count(engine, "agent_sessions") == 1


def test_idempotency_keys_are_deleted_with_their_outcomes(engine: Engine) -> None:
    with engine.database.write() as transaction:
        transaction.execute("INSERT INTO note_requests VALUES ('k', 'hash', :old)", {"old": OLD})
        transaction.execute("INSERT INTO note_request_outcomes VALUES ('k', 0, '{}')")
    assert engine.notes.prune() == Pruned(requests=1)
    assert count(engine, "note_request_outcomes") == 0


def test_batches_are_bounded(engine: Engine, notes: OwnerNotes, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [f"s{number}" for number in range(7)]
    show(notes, *sessions)
    for session in sessions:
        age(engine, session)
    monkeypatch.setattr(session_maintenance, "TOGETHER", 2)
    monkeypatch.setattr(session_maintenance, "MAX_BATCHES", 2)
    first = engine.notes.prune()
    assert (first.events, first.shown, first.sessions) == (4, 4, 4)
    assert engine.notes.prune() == Pruned(events=3, shown=3, sessions=3)


@pytest.mark.parametrize("n_transactions", [0, 2, 4])
def test_killed_retention_is_completed_by_the_next(
    engine: Engine, notes: OwnerNotes, monkeypatch: pytest.MonkeyPatch, n_transactions: int
) -> None:
    old = [f"s{number}" for number in range(4)]
    note_id = show(notes, *old, "new")
    for session in old:
        age(engine, session)
    before: Any = notes.get(note_id)
    monkeypatch.setattr(session_maintenance, "TOGETHER", 2)

    def prune_in_time() -> None:
        with Engine(engine.settings.database_path, scorer=FakeScorer(), learning=False) as other:
            other.notes.prune()

    code, message = killed_in_transaction(n_transactions, prune_in_time)
    assert code == KILLED, message
    engine.notes.prune()
    assert [count(engine, table) for table in ("agent_sessions", "shown_notes", "hook_events")] == [1, 1, 1]
    assert notes.get(note_id) == before
    assert engine.maintenance.doctor().is_healthy
