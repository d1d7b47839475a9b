"""Cancel a job: all of its open items end at once, including claimed ones."""

from __future__ import annotations

from shoal.jobs.queue import statements
from shoal.jobs.queue.queries import Job, get_job
from shoal.jobs.queue.transitions import cancel_items
from shoal.storage.database import Database
from shoal.support.byte_units import MIB

ITEMS = 1000
"""Items canceled in one transaction: about 50 ms."""
TEXT_BYTES = 16 * MIB
"""Texts removed in one transaction."""


def cancel(database: Database, job_id: int) -> Job:
    """Cancel the open items of a job and return the job. A job that has ended is unchanged.

    Stored results stay; a canceled rescore leaves the remaining chunks unchanged. Items that failed earlier
    cannot be retried any more. Raises NotFoundError.
    """
    job = get_job(database, job_id)
    if job.ended:
        return job
    n = ITEMS
    while n == ITEMS:
        with database.write() as transaction:
            n = cancel_items(transaction, job_id, ITEMS)
    _delete_failed_texts(database, job_id)
    return get_job(database, job_id)


def _delete_failed_texts(database: Database, job_id: int) -> None:
    """Delete the texts of failed items, which were kept for a retry."""
    while True:
        with database.write() as transaction:
            rows = transaction.rows(statements.FAILED_ITEMS_WITH_TEXT, {"job_id": job_id, "limit": ITEMS})
            items, n_bytes = [], 0
            for row in rows:
                items.append({"item_id": row["id"]})
                n_bytes += row["n_bytes"]
                if n_bytes >= TEXT_BYTES:
                    break
            if not items:
                return
            transaction.write_many(statements.DELETE_CONTENT, items)
            transaction.write_many(statements.DELETE_FILE, items)
