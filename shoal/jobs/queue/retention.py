"""Finished jobs are forgotten after their time. The documents stay; what the jobs had counted goes into the counters."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from shoal.jobs.queue import counters
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.clock import timestamp

LOOKED_AT = 50
"""Jobs looked at in a round: the oldest that have ended. A round is every few seconds, in every worker."""

# In the order of their ids, which is that of their beginning: few of the old ones are still open.
OLDEST_ENDED = """
    SELECT id, finished_at FROM jobs
    WHERE status IN ('succeeded', 'partial', 'failed', 'canceled') AND local_owner IS NULL
    ORDER BY id LIMIT :limit
"""
# A job that goes on again meanwhile, because its failed documents are tried once more, stays.
COUNTS = sa.text("""
    SELECT status, n_succeeded AS succeeded, n_failed AS failed, n_duplicate AS duplicate, n_canceled AS canceled,
           bytes_done
    FROM jobs
    WHERE id = :job_id AND status IN ('succeeded', 'partial', 'failed', 'canceled') AND finished_at < :before
""")
# From here on nobody sees it; the rows of its items are removed in slices, as those of uploads that were given up.
FORGET = sa.text("UPDATE jobs SET status = 'dropped', idempotency_key = NULL WHERE id = :job_id")

ITEM_ENDS = ("succeeded", "failed", "duplicate", "canceled")


def forget_old_jobs(database: Database, settings: Settings, now: float) -> int:
    """Forget jobs that ended longer than `job_retention` ago, some of them at a time; how many. Their rows are removed
    by `remove_dropped`."""
    if not settings.job_retention:
        return 0
    before = timestamp(datetime.fromtimestamp(max(now - settings.job_retention, 0.0), UTC))
    with database.snapshot() as snapshot:
        ended = snapshot.rows(OLDEST_ENDED, {"limit": LOOKED_AT})
    old = [row["id"] for row in ended if row["finished_at"] < before]
    if not old:
        return 0
    with database.write() as connection:
        return sum(_forget(connection, job_id, before) for job_id in old)


def _forget(connection: sa.Connection, job_id: int, before: str) -> bool:
    job = connection.execute(COUNTS, {"job_id": job_id, "before": before}).mappings().first()
    if job is None:
        return False
    sums = {
        (counters.REMOVED_JOBS, job["status"]): 1,
        (counters.REMOVED_BYTES, ""): job["bytes_done"],
        **{(counters.REMOVED_ITEMS, end): job[end] for end in ITEM_ENDS},
    }
    counters.add(connection, sums)
    connection.execute(FORGET, {"job_id": job_id})
    return True
