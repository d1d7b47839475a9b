"""Sessions of all owners, for the work that runs beside them: due extractions, requests to the chat endpoint,
and old events of hooks. Nothing here reads a note."""

from __future__ import annotations

from shoal.storage.database import Snapshot, Transaction

# The queue of all owners, oldest first.
DUE = """
    SELECT owner, session_id FROM agent_sessions
    WHERE waiting_since IS NOT NULL AND (:any_time OR retry_at IS NULL OR retry_at <= :now)
    ORDER BY retry_at IS NOT NULL, waiting_since LIMIT :limit
"""
TAKE_REQUEST = """
    INSERT INTO chat_requests (day, n_requests) SELECT :day, 1 WHERE :limit > 0
    ON CONFLICT (day) DO UPDATE SET n_requests = n_requests + 1 WHERE n_requests < :limit
    RETURNING n_requests
"""
REQUESTS = "SELECT n_requests FROM chat_requests WHERE day = :day"
DELETE_OLD_EVENTS = """
    DELETE FROM hook_events
    WHERE id IN (SELECT id FROM hook_events ORDER BY id LIMIT :limit) AND created_at < :moment
"""


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
