"""Sessions of all owners, for the work beside them: due extractions, requests to the chat endpoint, old rows.

Nothing here reads a note.

What agents' sessions left behind is deleted in short transactions: old events of hooks, sessions with what
they were shown, counts of requests to the chat endpoint, and idempotency keys. What the ranking uses stays:
matches, judgements and sessions of a note are counted with the note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.support.clock import timestamp

# The queue of all owners, oldest first.
DUE = """
    SELECT owner, session_id FROM agent_sessions
    WHERE waiting_since IS NOT NULL AND (:any_time = 1 OR retry_at IS NULL OR retry_at <= :now)
    ORDER BY retry_at IS NOT NULL, waiting_since LIMIT :limit
"""
TAKE_REQUEST = """
    INSERT INTO chat_requests (day, n_requests) SELECT :day, 1 WHERE :limit > 0
    ON CONFLICT (day) DO UPDATE SET n_requests = chat_requests.n_requests + 1
        WHERE chat_requests.n_requests < :limit
    RETURNING n_requests
"""
REQUESTS = "SELECT n_requests FROM chat_requests WHERE day = :day"
DELETE_OLD_EVENTS = """
    DELETE FROM hook_events
    WHERE id IN (SELECT id FROM hook_events ORDER BY id LIMIT :limit) AND created_at < :moment
"""

# A session that is still used keeps what it was shown, so that it sees no note twice.
DELETE_OLD_SHOWN = """
    DELETE FROM shown_notes WHERE (owner, session_id, note_id) IN (
        SELECT owner, session_id, note_id FROM shown_notes s
        WHERE s.shown_at < :moment AND NOT EXISTS (
            SELECT 1 FROM agent_sessions a
            WHERE a.owner = s.owner AND a.session_id = s.session_id AND a.updated_at >= :moment)
        ORDER BY s.shown_at LIMIT :limit)
"""
OLD_SESSIONS = """
    SELECT updated_at, owner, session_id, transcript_path, waiting_since IS NOT NULL FROM agent_sessions
    WHERE updated_at < :moment AND (updated_at, owner, session_id) > (:after_time, :after_owner, :after_id)
    ORDER BY updated_at, owner, session_id LIMIT :limit
"""
# Only if it was not used since it was read. Without what it was shown, it knows nothing that counts.
DELETE_SESSION = """
    DELETE FROM agent_sessions
    WHERE owner = :owner AND session_id = :session_id AND updated_at = :updated_at AND NOT EXISTS (
        SELECT 1 FROM shown_notes s WHERE s.owner = :owner AND s.session_id = :session_id)
"""
DELETE_OLD_DAYS = """
    DELETE FROM chat_requests WHERE day IN (
        SELECT day FROM chat_requests WHERE day < :moment ORDER BY day LIMIT :limit)
"""
DELETE_OLD_REQUESTS = """
    DELETE FROM note_requests WHERE idempotency_key IN (
        SELECT idempotency_key FROM note_requests WHERE created_at < :moment ORDER BY created_at LIMIT :limit)
"""
TOGETHER = 1_000
"""Rows of one transaction, which takes some hundredths of a second."""
MAX_BATCHES = 100
"""Batches of one kind in one run; the rest waits for the next run."""


class OldSession(NamedTuple):
    """A session that was not used for long. `path`: of its transcript; `is_waiting`: to be extracted."""

    updated_at: str
    owner: str
    session_id: str
    path: str
    is_waiting: int

    @property
    def key(self) -> tuple[str, str, str]:
        return self[:3]


def due_sessions(
    snapshot: Snapshot, now: str, *, any_time: bool = False, limit: int = 100
) -> list[tuple[str, str]]:
    """Read owners and sessions whose extraction is due: the longest wait first, and failed ones last.

    `any_time`: also those that wait for their next attempt.
    """
    rows = snapshot.rows(DUE, {"now": now, "any_time": any_time, "limit": limit})
    return [(row["owner"], row["session_id"]) for row in rows]


def take_request(transaction: Transaction, day: str, limit: int) -> bool:
    """Count a request to the chat endpoint; False if the limit of the day is reached."""
    return transaction.value(TAKE_REQUEST, {"day": day, "limit": limit}) is not None


def requests_of(snapshot: Snapshot, day: str) -> int:
    """Read the number of requests to the chat endpoint of a day."""
    return int(snapshot.value(REQUESTS, {"day": day}) or 0)


def delete_old_events(transaction: Transaction, moment: str, limit: int) -> int:
    """Delete the oldest events of hooks if they are from before a time; return their number."""
    return transaction.execute(DELETE_OLD_EVENTS, {"moment": moment, "limit": limit})


def delete_old_shown(transaction: Transaction, moment: str, limit: int) -> int:
    """Delete what sessions were shown before a time, unless the session was used since; return the number."""
    return transaction.execute(DELETE_OLD_SHOWN, {"moment": moment, "limit": limit})


def old_sessions(
    snapshot: Snapshot, moment: str, after: tuple[str, str, str], limit: int
) -> list[OldSession]:
    """Read the next sessions that were not used since a time, oldest first. `after`: key of the last one."""
    places = dict(zip(("after_time", "after_owner", "after_id"), after, strict=True))
    rows = snapshot.tuples(OLD_SESSIONS, {"moment": moment, "limit": limit, **places})
    return list(map(OldSession._make, rows))


def delete_sessions(transaction: Transaction, sessions: Iterable[OldSession]) -> int:
    """Delete sessions, unless they were used since they were read; return the number."""
    return transaction.write_many(DELETE_SESSION, [each._asdict() for each in sessions])


def delete_old_days(transaction: Transaction, moment: str, limit: int) -> int:
    """Delete the counts of requests of days (UTC) before one; return the number."""
    return transaction.execute(DELETE_OLD_DAYS, {"moment": moment, "limit": limit})


def delete_old_requests(transaction: Transaction, moment: str, limit: int) -> int:
    """Delete idempotency keys of notes from before a time, with their outcomes; return the number of keys."""
    return transaction.execute(DELETE_OLD_REQUESTS, {"moment": moment, "limit": limit})


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
        pruned["events"] = _in_batches(database, delete_old_events, oldest)
    if settings.agent_session_days:
        oldest = before(days=settings.agent_session_days)
        pruned["shown"] = _in_batches(database, delete_old_shown, oldest)
        pruned["sessions"] = _delete_sessions(database, oldest)
        pruned["days"] = _in_batches(database, delete_old_days, oldest[:10])
    if settings.job_retention:
        oldest = before(seconds=settings.job_retention)
        pruned["requests"] = _in_batches(database, delete_old_requests, oldest)
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
            batch = old_sessions(snapshot, moment, after, TOGETHER)
        if not batch:
            break
        # Files are looked at before the write lock is taken.
        gone = [each for each in batch if not (each.is_waiting and _may_exist(each.path))]
        with database.write() as transaction:
            total += delete_sessions(transaction, gone)
        after = batch[-1].key
    return total


def _may_exist(path: str) -> bool:
    try:
        return path != "" and Path(path).exists()
    except OSError:
        return True
