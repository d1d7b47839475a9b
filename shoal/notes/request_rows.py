"""Requests that add notes, by their owners and idempotency keys, with the outcome of each note so far.

The column `idempotency_key` has the key and a hash of the owner, so owners do not meet each other's keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction

FIND = "SELECT request_hash FROM note_requests WHERE idempotency_key = :key"
# Jobs have keys too. They belong to no owner, so each is compared with those of all owners.
IS_OF_NOTES = """
    SELECT 1 FROM note_requests WHERE idempotency_key >= :key AND idempotency_key < :end LIMIT 1
"""
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


_BEFORE_OWNER, _AFTER_OWNER = "\n", "\v"
"""No keys have these characters. The second ends the range of all that begin with a key and the first."""


class NoteRequest(NamedTuple):
    """A request that was accepted before. `outcomes`: JSON texts, of the first notes."""

    request_hash: str
    outcomes: tuple[str, ...]


def is_key_of_job(snapshot: Snapshot, key: str) -> bool:
    """Whether a job was accepted with this key."""
    return snapshot.value(IS_OF_JOB, {"key": key}) is not None


def is_key_of_notes(snapshot: Snapshot, key: str) -> bool:
    """Whether a request that adds notes was accepted with this key, of any owner."""
    return snapshot.value(IS_OF_NOTES, {"key": key, "end": key + _AFTER_OWNER}) is not None


def find_request(snapshot: Snapshot, owner: str, key: str) -> NoteRequest | None:
    """Read what is known of a key of an owner."""
    values = {"key": _stored(owner, key)}
    request_hash = snapshot.value(FIND, values)
    if request_hash is None:
        return None
    return NoteRequest(request_hash, tuple(row[0] for row in snapshot.tuples(OUTCOMES, values)))


def write_outcomes(
    transaction: Transaction,
    owner: str,
    key: str,
    request_hash: str,
    outcomes: Sequence[Mapping[str, Any]],
    *,
    n_before: int,
    now: str,
) -> bool:
    """Write the outcomes of the next notes of a request. False if another thread or process did, or if the
    key is that of another request: then nothing of the transaction may be kept."""
    stored = _stored(owner, key)
    transaction.execute(INSERT, {"key": stored, "request_hash": request_hash, "now": now})
    if is_key_of_job(transaction, key) or transaction.value(FIND, {"key": stored}) != request_hash:
        return False
    rows = [
        {"key": stored, "seq": seq, "outcome": compact_json(outcome)}
        for seq, outcome in enumerate(outcomes, n_before)
    ]
    return transaction.write_many(INSERT_OUTCOME, rows) == len(rows)


def _stored(owner: str, key: str) -> str:
    return f"{key}{_BEFORE_OWNER}{hashlib.sha256(owner.encode()).hexdigest()}"
