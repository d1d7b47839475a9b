"""New chunks that saved searches have yet to see.

A transaction that stores chunks notes them by document, as a range of ids: chunks that a replacement keeps
also keep their ids, which are lower than those of all new chunks. A range is open until the job that last
changed the document has ended; then it gets the number of an evaluation, and each saved search sees it once,
in the order of these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.storage.column_values import packed_ids
from shoal.storage.database import Snapshot, Transaction

RANGES_PER_EVALUATION = 10_000
"""Most documents that one transaction gives to an evaluation."""

IS_WATCHED = "SELECT EXISTS (SELECT 1 FROM saved_searches WHERE is_active = 1)"
NOTE_NEW = """
    INSERT INTO saved_search_changes (document_id, first_chunk_id)
    SELECT document_id, MIN(id) FROM chunks WHERE document_id = :document_id AND id > :last_kept
    GROUP BY document_id
    ON CONFLICT (document_id) WHERE evaluation IS NULL DO NOTHING
"""
IS_ANY_OPEN = "SELECT EXISTS (SELECT 1 FROM saved_search_changes WHERE evaluation IS NULL)"
SET_JOB = """
    UPDATE saved_search_changes SET job_id = :job_id WHERE document_id = :document_id AND evaluation IS NULL
"""
# Without a job, or of one that was removed: nothing else will change the document.
_ENDED = """
    evaluation IS NULL AND NOT EXISTS (
        SELECT 1 FROM jobs j
        WHERE j.id = saved_search_changes.job_id AND j.status IN ('enqueued', 'processing'))
"""
ENDED = f"SELECT id FROM saved_search_changes WHERE {_ENDED} LIMIT :limit"
IS_ANY_ENDED = f"SELECT EXISTS (SELECT 1 FROM saved_search_changes WHERE {_ENDED})"
LATEST = "SELECT evaluation FROM saved_search_state"
NEXT = "UPDATE saved_search_state SET evaluation = evaluation + 1 RETURNING evaluation"
CLOSE = f"""
    UPDATE saved_search_changes
    SET evaluation = :evaluation, last_chunk_id = (SELECT COALESCE(MAX(id), 0) FROM chunks)
    WHERE id IN ({ENDED})
"""
NEW_CHUNKS = """
    SELECT DISTINCT c.id FROM saved_search_changes s
    JOIN chunks c ON c.document_id = s.document_id AND c.id BETWEEN s.first_chunk_id AND s.last_chunk_id
    WHERE s.evaluation > :after AND s.evaluation <= :last
"""
# All active searches have seen them, or there is none.
FORGET_SEEN = """
    DELETE FROM saved_search_changes WHERE id IN (
        SELECT id FROM saved_search_changes
        WHERE evaluation <= COALESCE((SELECT MIN(evaluated) FROM saved_searches WHERE is_active = 1),
                                     (SELECT evaluation FROM saved_search_state))
        LIMIT :limit)
"""
IS_ANY_SEEN = FORGET_SEEN[FORGET_SEEN.index("SELECT id") : FORGET_SEEN.index("LIMIT")] + " LIMIT 1"


def note_new_chunks(
    transaction: Transaction,
    document_ids: Sequence[int],
    kept: Sequence[Sequence[int | None]] | None = None,
) -> None:
    """Note the new chunks of documents, which are stored already. `kept`: as in `chunk_rows.write_parts`."""
    if not transaction.value(IS_WATCHED):
        return
    last_kept = [max((chunk_id or 0 for chunk_id in ids), default=0) for ids in kept or ()]
    rows = [
        {"document_id": document_id, "last_kept": last_kept[i] if kept is not None else 0}
        for i, document_id in enumerate(document_ids)
    ]
    transaction.write_many(NOTE_NEW, rows)


def set_jobs(transaction: Transaction, documents: Iterable[tuple[int, int]]) -> None:
    """Note the job of documents that it has stored in this transaction, as (job, document)."""
    if transaction.value(IS_ANY_OPEN):
        rows = [{"job_id": job_id, "document_id": document_id} for job_id, document_id in documents]
        transaction.write_many(SET_JOB, rows)


def latest_evaluation(snapshot: Snapshot) -> int:
    """Read the number of the latest evaluation."""
    number: int = snapshot.value(LATEST)
    return number


def is_any_ended(snapshot: Snapshot) -> bool:
    """Whether new chunks of an ended job wait for an evaluation."""
    return bool(snapshot.value(IS_ANY_ENDED))


def close_ended(transaction: Transaction) -> int:
    """Give the new chunks of ended jobs to a new evaluation; return the number of the latest."""
    if not transaction.value(IS_ANY_ENDED):
        return latest_evaluation(transaction)
    number: int = transaction.value(NEXT)
    transaction.execute(CLOSE, {"evaluation": number, "limit": RANGES_PER_EVALUATION})
    return number


def new_chunks(snapshot: Snapshot, after: int, last: int) -> NDArray[np.int64]:
    """Read the ids of the chunks of the evaluations from `after`, exclusive, to `last`, inclusive, that are
    still stored."""
    return packed_ids(snapshot, NEW_CHUNKS, {"after": after, "last": last})


def is_any_seen(snapshot: Snapshot) -> bool:
    """Whether ranges are left that all saved searches have seen."""
    return snapshot.value(IS_ANY_SEEN) is not None


def forget_seen(transaction: Transaction, limit: int = RANGES_PER_EVALUATION) -> int:
    """Delete ranges that all saved searches have seen; return their number."""
    return transaction.execute(FORGET_SEEN, {"limit": limit})
