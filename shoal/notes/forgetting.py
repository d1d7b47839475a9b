"""Forgetting notes: their rows go, and a digest of each text stays (`shoal.notes.tombstones`).

Every statement is bound to the owner.
"""

from __future__ import annotations

import json

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError
from shoal.models.notes import ForgottenNotes
from shoal.notes.context import NoteContext
from shoal.notes.keyed_requests import owner_suffix
from shoal.notes.note_rows import NoteRows
from shoal.notes.tombstones import digest_of
from shoal.storage.column_values import compact_json
from shoal.storage.database import Transaction
from shoal.support.clock import timestamp

NAMED = "SELECT with_note_id, forgotten_at FROM forgotten_notes WHERE owner = :owner AND note_id = :id"
FORGOTTEN_WITH = """
    SELECT note_id FROM forgotten_notes WHERE owner = :owner AND with_note_id = :id ORDER BY note_id
"""
# Who forgets a text means all its copies, and the notes that were merged into one of them.
SAME_NOTES = """
    WITH RECURSIVE same (id) AS (
        SELECT id FROM notes WHERE owner = :owner
            AND text_hash = (SELECT text_hash FROM notes WHERE owner = :owner AND id = :id)
        UNION
        SELECT n.id FROM notes n JOIN same s ON n.merged_into = s.id WHERE n.owner = :owner)
    SELECT n.id, n.text_hash FROM notes n JOIN same s ON s.id = n.id WHERE n.owner = :owner ORDER BY n.id
"""
INSERT = """
    INSERT INTO forgotten_notes (note_id, owner, text_digest, with_note_id, forgotten_at)
    VALUES (:note_id, :owner, :text_digest, :id, :now)
"""
REPLACED = """
    SELECT t.note_id, r.superseded_by
    FROM note_times t JOIN notes n ON n.id = t.note_id AND n.owner = :owner
    JOIN note_times r ON r.note_id = t.superseded_by
    WHERE t.superseded_by = :note_id
"""
POINT_TO = """
    UPDATE note_times SET superseded_by = :successor
    WHERE note_id = :replaced AND note_id IN (SELECT id FROM notes WHERE owner = :owner)
"""
DELETE = "DELETE FROM notes WHERE owner = :owner AND id = :note_id"
OUTCOMES = """
    SELECT idempotency_key, seq, outcome FROM note_request_outcomes
    WHERE idempotency_key LIKE :of_owner AND outcome LIKE :has_similar
"""
WRITE_OUTCOME = """
    UPDATE note_request_outcomes SET outcome = :outcome WHERE idempotency_key = :key AND seq = :seq
"""


def forget(context: NoteContext, owner: str, note_id: int) -> ForgottenNotes:
    """Delete a note, its copies and what was merged into them, in one transaction; keep digests. A note that
    is forgotten already gives the same result. Raises NotFoundError."""
    now = timestamp()
    with context.database.write() as transaction:
        rows = NoteRows(transaction, owner)
        try:
            rows.check(note_id)
        except NotFoundError:
            known = _forgotten_before(transaction, rows, note_id)
            if known is None:
                raise
            return known
        same = list(transaction.tuples(SAME_NOTES, rows.values(id=note_id)))
        for each, text_hash in same:
            digest = digest_of(owner, text_hash)
            transaction.execute(INSERT, rows.values(note_id=each, text_digest=digest, id=note_id, now=now))
            for replaced, successor in list(transaction.tuples(REPLACED, rows.values(note_id=each))):
                transaction.execute(POINT_TO, rows.values(replaced=replaced, successor=successor))
                rows.change(replaced, now)
            transaction.execute(DELETE, rows.values(note_id=each))
        ids = tuple(each for each, _ in same)
        _remove_from_outcomes(transaction, owner, frozenset(ids))
    return ForgottenNotes(ids, now)


def _forgotten_before(transaction: Transaction, rows: NoteRows, note_id: int) -> ForgottenNotes | None:
    if not isinstance(note_id, int) or not 0 < note_id <= MAX_ID:
        return None
    named = transaction.first(NAMED, rows.values(id=note_id))
    if named is None:
        return None
    with_id, forgotten_at = named
    found = transaction.tuples(FORGOTTEN_WITH, rows.values(id=with_id))
    return ForgottenNotes(tuple(each for (each,) in found), forgotten_at)


def _remove_from_outcomes(transaction: Transaction, owner: str, note_ids: frozenset[int]) -> None:
    """Remove the texts from the stored answers of requests with an idempotency key."""
    values = {"of_owner": f"%{owner_suffix(owner)}", "has_similar": '%"similar":[{%'}
    for key, seq, outcome in list(transaction.tuples(OUTCOMES, values)):
        fields = json.loads(outcome)
        kept = [each for each in fields["similar"] if each["id"] not in note_ids]
        if len(kept) < len(fields["similar"]):
            changed = compact_json({**fields, "similar": kept})
            transaction.execute(WRITE_OUTCOME, {"key": key, "seq": seq, "outcome": changed})
