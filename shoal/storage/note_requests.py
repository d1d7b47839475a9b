"""Requests that add notes, by their idempotency keys, with the outcome of each note so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.storage.database import Snapshot, Transaction
from shoal.storage.json_text import compact_json

FIND = "SELECT request_hash FROM note_requests WHERE idempotency_key = :key"
# Jobs have keys too; all requests share them.
IS_OF_JOB = "SELECT 1 FROM jobs WHERE idempotency_key = :key"
OUTCOMES = """
    SELECT outcome FROM note_request_outcomes WHERE idempotency_key = :key ORDER BY seq
"""
INSERT = """
    INSERT INTO note_requests (idempotency_key, request_hash, created_at)
    VALUES (:key, :request_hash, :now) ON CONFLICT DO NOTHING
"""
INSERT_OUTCOME = """
    INSERT INTO note_request_outcomes (idempotency_key, seq, outcome) VALUES (:key, :seq, :outcome)
    ON CONFLICT DO NOTHING
"""


class NoteRequest(NamedTuple):
    """A request that was accepted before. `outcomes`: JSON texts, of the first notes."""

    request_hash: str
    outcomes: tuple[str, ...]


def is_key_of_job(snapshot: Snapshot, key: str) -> bool:
    """Whether a job was accepted with this key."""
    return snapshot.value(IS_OF_JOB, {"key": key}) is not None


def find_request(snapshot: Snapshot, key: str) -> NoteRequest | None:
    """Read what is known of a key."""
    request_hash = snapshot.value(FIND, {"key": key})
    if request_hash is None:
        return None
    return NoteRequest(request_hash, tuple(row[0] for row in snapshot.tuples(OUTCOMES, {"key": key})))


def write_outcomes(
    transaction: Transaction,
    key: str,
    request_hash: str,
    outcomes: Sequence[Mapping[str, Any]],
    *,
    n_before: int,
    now: str,
) -> bool:
    """Write the outcomes of the next notes of a request. False if another thread or process did, or if the
    key is that of another request: then nothing of the transaction may be kept."""
    transaction.execute(INSERT, {"key": key, "request_hash": request_hash, "now": now})
    if is_key_of_job(transaction, key) or transaction.value(FIND, {"key": key}) != request_hash:
        return False
    rows = [
        {"key": key, "seq": seq, "outcome": compact_json(outcome)}
        for seq, outcome in enumerate(outcomes, n_before)
    ]
    return transaction.write_many(INSERT_OUTCOME, rows) == len(rows)
