"""Deletes what agents' sessions left behind, in short transactions: old events of hooks, sessions with what
they were shown, counts of requests to the chat endpoint, and idempotency keys.

What the ranking uses stays: matches, judgements and sessions of a note are counted with the note.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shoal.notes import session_maintenance as sessions
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction
from shoal.support.clock import timestamp

TOGETHER = 1_000
"""Rows of one transaction, which takes some hundredths of a second."""
MAX_BATCHES = 100
"""Batches of one kind in one run; the rest waits for the next run."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """Numbers of rows that were deleted. `requests`: idempotency keys."""

    events: int = 0
    sessions: int = 0
    shown: int = 0
    days: int = 0
    requests: int = 0


def prune(database: Database, settings: Settings, now: datetime | None = None) -> Pruned:
    """Delete what is older than the settings say. Raises StorageError; another run then continues."""
    moment = datetime.now(UTC) if now is None else now

    def before(**age: float) -> str:
        return timestamp(moment - timedelta(**age))

    pruned = {}
    if settings.hook_event_days:
        oldest = before(days=settings.hook_event_days)
        pruned["events"] = _in_batches(database, sessions.delete_old_events, oldest)
    if settings.agent_session_days:
        oldest = before(days=settings.agent_session_days)
        pruned["shown"] = _in_batches(database, sessions.delete_old_shown, oldest)
        pruned["sessions"] = _delete_sessions(database, oldest)
        pruned["days"] = _in_batches(database, sessions.delete_old_days, oldest[:10])
    if settings.job_retention:
        oldest = before(seconds=settings.job_retention)
        pruned["requests"] = _in_batches(database, sessions.delete_old_requests, oldest)
    return Pruned(**pruned)


def _in_batches(database: Database, delete: Callable[[Transaction, str, int], int], moment: str) -> int:
    total = 0
    for _ in range(MAX_BATCHES):
        with database.write() as transaction:
            n_deleted = delete(transaction, moment, TOGETHER)
        total += n_deleted
        if n_deleted < TOGETHER:
            break
    return total


def _delete_sessions(database: Database, moment: str) -> int:
    """Delete old sessions. One whose transcript waits to be extracted stays as long as there is the file."""
    total, after = 0, ("", "", "")
    for _ in range(MAX_BATCHES):
        with database.snapshot() as snapshot:
            batch = sessions.old_sessions(snapshot, moment, after, TOGETHER)
        if not batch:
            break
        # Files are looked at before the write lock is taken.
        gone = [each for each in batch if not (each.is_waiting and _may_exist(each.path))]
        with database.write() as transaction:
            total += sessions.delete_sessions(transaction, gone)
        after = batch[-1].key
    return total


def _may_exist(path: str) -> bool:
    try:
        return path != "" and Path(path).exists()
    except OSError:
        return True
