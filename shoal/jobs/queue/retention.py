"""Remove finished jobs after `job_retention`. Documents stay, and the jobs' counts move to the counters."""

from __future__ import annotations

from shoal.jobs.queue import counters
from shoal.jobs.queue.states import FINAL
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction
from shoal.support.clock import timestamp_at

JOBS_PER_ROUND = 50
"""Ended jobs checked per round, oldest first. Every worker runs a round every few seconds."""

# Ordered by id, that is by creation: few old jobs are still open.
OLDEST_ENDED_JOBS = """
    SELECT id, finished_at FROM jobs
    WHERE status IN ('succeeded', 'partial', 'failed', 'canceled') AND local_owner IS NULL
    ORDER BY id LIMIT :limit
"""
# Repeats the conditions, because a retry may have reopened the job in the meantime.
COUNTS = """
    SELECT status, n_succeeded AS succeeded, n_failed AS failed, n_duplicate AS duplicate,
           n_canceled AS canceled, bytes_done
    FROM jobs
    WHERE id = :job_id AND status IN ('succeeded', 'partial', 'failed', 'canceled') AND finished_at < :before
"""
# Hides the job. `remove_dropped` deletes its rows in slices.
DROP_JOB = "UPDATE jobs SET status = 'dropped', idempotency_key = NULL WHERE id = :job_id"


def drop_expired_jobs(database: Database, settings: Settings, now: float) -> int:
    """Drop some of the jobs that ended longer than `job_retention` ago; return their number.

    `remove_dropped` deletes their rows.
    """
    if not settings.job_retention:
        return 0
    before = timestamp_at(max(now - settings.job_retention, 0.0))
    with database.snapshot() as snapshot:
        ended = snapshot.rows(OLDEST_ENDED_JOBS, {"limit": JOBS_PER_ROUND})
    old = [row["id"] for row in ended if row["finished_at"] < before]
    if not old:
        return 0
    with database.write() as transaction:
        return sum(_drop_job(transaction, job_id, before) for job_id in old)


def _drop_job(transaction: Transaction, job_id: int, before: str) -> bool:
    job = transaction.first(COUNTS, {"job_id": job_id, "before": before})
    if job is None:
        return False
    sums = {
        (counters.REMOVED_JOBS, job["status"]): 1,
        (counters.REMOVED_BYTES, ""): job["bytes_done"],
        **{(counters.REMOVED_ITEMS, end): job[end] for end in FINAL},
    }
    counters.add(transaction, sums)
    transaction.execute(DROP_JOB, {"job_id": job_id})
    return True
