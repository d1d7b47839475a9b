"""Canceling: what has not ended of a job ends now, also what is being worked on."""

from __future__ import annotations

from shoal.jobs.queue import statements
from shoal.jobs.queue.queries import Job, get_job
from shoal.jobs.queue.transitions import cancel_items
from shoal.settings import MIB
from shoal.storage.database import Database

ITEMS = 1000
"""Items canceled in one transaction: about 50 ms."""
TEXT_BYTES = 16 * MIB
"""Texts removed in one transaction."""


def cancel(database: Database, job_id: int) -> Job:
    """Cancel the open items of a job; the job as it is then. One that has ended stays as it is.

    What is stored stays: a rescore that is canceled leaves the chunks it has not come to as they were. Items that had
    failed before cannot be tried again. Raises NotFoundError.
    """
    job = get_job(database, job_id)
    if job.ended:
        return job
    n = ITEMS
    while n == ITEMS:
        with database.write() as connection:
            n = cancel_items(connection, job_id, ITEMS)
    _forget_failed(database, job_id)
    return get_job(database, job_id)


def _forget_failed(database: Database, job_id: int) -> None:
    """Remove the texts of items that had failed, which were kept for trying them again."""
    while True:
        with database.write() as connection:
            rows = connection.execute(statements.TEXTS_OF_FAILED, {"job_id": job_id, "limit": ITEMS}).all()
            some, n_bytes = [], 0
            for row in rows:
                some.append({"item_id": row.id})
                n_bytes += row.n_bytes
                if n_bytes >= TEXT_BYTES:
                    break
            if not some:
                return
            connection.execute(statements.DELETE_CONTENT, some)
