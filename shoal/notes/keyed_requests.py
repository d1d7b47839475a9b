"""Requests with an idempotency key: a repeated one adds no note again and has the same outcome.

The outcomes are written in the transactions that store the notes. So a request that was interrupted continues
where it ended, and two that run at once add each note once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.errors import IdempotencyError, NoteError
from shoal.models.notes import AddedNote, NoteDraft, NoteOutcome, NoteOutcomes, SimilarNote, outcome_of
from shoal.notes import adding, remembering
from shoal.notes.adding import ADDED_TOGETHER, Record
from shoal.notes.context import NoteContext
from shoal.notes.note_rows import NoteRows
from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction
from shoal.support.clock import timestamp

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
    return key + owner_suffix(owner)


def owner_suffix(owner: str) -> str:
    """Return the end of the stored keys of an owner."""
    return f"{_BEFORE_OWNER}{hashlib.sha256(owner.encode()).hexdigest()}"


_USED = "this Idempotency-Key was already used for a different request"


class RepeatedError(Exception):
    """Another thread or process has stored these notes for the same request."""


class KeyedRequest:
    """A request of an owner with an idempotency key. `request_hash`: SHA-256 (hex) of what it asks for.

    Every method raises IdempotencyError if the key is that of another request of the owner, or of a job.
    """

    def __init__(self, context: NoteContext, owner: str, key: str, request_hash: str) -> None:
        self._context = context
        self._owner = owner
        self._key = key
        self._request_hash = request_hash
        self._n_done = 0

    def add(self, draft: NoteDraft) -> AddedNote:
        """Store a note as `adding.add`. Raises NotFoundError if it was purged since."""

        def store(_: Sequence[object], record: Record) -> None:
            adding.add(self._context, self._owner, draft, record=record)

        [outcome] = self._store([draft], 1, store)
        with self._context.database.snapshot() as snapshot:
            threshold = self._context.settings.label_threshold
            note = NoteRows(snapshot, self._owner).get(outcome.note_id or 0, label_threshold=threshold)
        return AddedNote(note, outcome.is_duplicate, outcome.similar)

    def add_many(self, items: Iterable[Mapping[str, Any] | NoteError]) -> NoteOutcomes:
        """Store notes as `adding.add_many`."""

        def store(batch: Sequence[Any], record: Record) -> None:
            adding.add_batch(self._context, self._owner, batch, find_similar=False, record=record)

        return NoteOutcomes.summed(self._store(items, ADDED_TOGETHER, store))

    def remember(self, items: Iterable[Mapping[str, Any]]) -> NoteOutcomes:
        """Store what an agent learned as `remembering.remember`."""

        def store(batch: Sequence[Any], record: Record) -> None:
            remembering.remember_one(self._context, self._owner, batch[0], record=record)

        return NoteOutcomes.summed(self._store(items, 1, store))

    def _store(
        self, items: Iterable[Any], together: int, store: Callable[[Sequence[Any], Record], None]
    ) -> list[NoteOutcome]:
        """Store the items that are not stored yet; return the outcomes of all."""
        remaining = itertools.islice(items, len(self._outcomes()), None)
        while batch := list(itertools.islice(remaining, together)):
            while batch:
                n_before = self._n_done
                try:
                    store(batch, self._record)
                except RepeatedError:
                    self._outcomes()
                    if self._n_done == n_before:
                        raise IdempotencyError(_USED) from None
                n_new = self._n_done - n_before
                # The others may be ahead of this batch.
                list(itertools.islice(remaining, max(0, n_new - len(batch))))
                batch = batch[n_new:]
        return self._outcomes()

    def _outcomes(self) -> list[NoteOutcome]:
        with self._context.database.snapshot() as snapshot:
            known = find_request(snapshot, self._owner, self._key)
            is_other = is_key_of_job(snapshot, self._key)
        if is_other or (known is not None and known.request_hash != self._request_hash):
            raise IdempotencyError(_USED)
        found = [] if known is None else [_from_json(outcome) for outcome in known.outcomes]
        self._n_done = len(found)
        return found

    def _record(self, transaction: Transaction, stored: Sequence[AddedNote | NoteError]) -> None:
        outcomes = [dataclasses.asdict(outcome_of(each)) for each in stored]
        is_written = write_outcomes(
            transaction,
            self._owner,
            self._key,
            self._request_hash,
            outcomes,
            n_before=self._n_done,
            now=timestamp(),
        )
        if not is_written:
            raise RepeatedError
        # If the transaction fails after this, the request ends with its error.
        self._n_done += len(outcomes)


def _from_json(outcome: str) -> NoteOutcome:
    fields = json.loads(outcome)
    return NoteOutcome(**{**fields, "similar": tuple(SimilarNote(**each) for each in fields["similar"])})
