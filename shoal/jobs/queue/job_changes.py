"""Changes of whole jobs: cancel, retry, and the removal of finished ones after `job_retention`.

A retry puts the failed and canceled items through all stages again. They join new waves at the end of their
job and start at its first stage. A wave that has learned is never reopened, so documents scored with its
vocabulary version stay unchanged. The retried items are learned from and scored with the version of their new
wave, as if they were uploaded now. Their texts are kept as long as the job.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from shoal.errors import JobStateError
from shoal.jobs.queue import metrics, statements
from shoal.jobs.queue.queries import Job, get_job
from shoal.jobs.queue.states import FINAL, RETRIABLE, plan_from_json
from shoal.jobs.queue.transitions import cancel_items
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction
from shoal.support.clock import timestamp_at

ITEMS = 1000
"""Items canceled in one transaction: about 50 ms."""


def cancel(database: Database, job_id: int) -> Job:
    """Cancel the open items of a job and return the job. A job that has ended is unchanged.

    Stored results stay; a canceled rescore leaves the remaining chunks unchanged. The items can be retried.
    Raises NotFoundError.
    """
    job = get_job(database, job_id)
    if job.ended:
        return job
    n = ITEMS
    while n == ITEMS:
        with database.write() as transaction:
            n = cancel_items(transaction, job_id, ITEMS)
    return get_job(database, job_id)


WAVE_ITEMS = 2000
"""Largest number of items in a new wave, which one transaction creates: about a tenth of a second."""


def retry(database: Database, settings: Settings, job_id: int) -> Job:
    """Requeue the failed and canceled items of a job and return the job.

    An interrupted call has requeued some of the items; a second call requeues the rest. Items that the upload
    refused have no text to retry and stay failed. Raises NotFoundError, and JobStateError if no item can be
    retried.
    """
    get_job(database, job_id)
    with database.snapshot() as snapshot:
        # Read once, so that items that fail again during this call are not requeued twice.
        ended = snapshot.rows(statements.RETRIABLE_ITEMS, {"job_id": job_id})
    n = 0
    for item_ids in _waves([(row["id"], row["n_bytes"]) for row in ended], settings.wave_bytes):
        with database.write() as transaction:
            n += _requeue(transaction, job_id, item_ids)
    if not n:
        # No item could be requeued, or a concurrent call has requeued them all.
        raise JobStateError(_nothing_to_retry(database, job_id))
    return get_job(database, job_id)


def can_retry(database: Database, settings: Settings, job: Job) -> bool:
    """Whether `retry` would requeue an item of a job that may succeed then."""
    if not (job.progress.failed or job.progress.canceled):
        return False
    with database.snapshot() as snapshot:
        row = {"job_id": job.id, "ocr": int(settings.ocr)}
        return snapshot.first(statements.MAY_SUCCEED, row) is not None


def _nothing_to_retry(database: Database, job_id: int) -> str:
    with database.snapshot() as snapshot:
        row = snapshot.first(statements.JOB, {"job_id": job_id})
    n = row["n_failed"] + row["n_canceled"]
    if not n:
        return f"job {job_id} has no failed or canceled items"
    items = "the failed or canceled item" if n == 1 else f"the {n:,} failed or canceled items"
    return (
        f"{items} of job {job_id} cannot be retried: the upload contained no usable text, "
        "or the document has newer content; upload the documents again instead"
    )


def _waves(items: Sequence[tuple[int, int]], wave_bytes: int) -> Iterator[list[int]]:
    """Yield the item ids of each wave; a wave ends when it reaches `wave_bytes`."""
    remaining = iter(items)
    while first := next(remaining, None):
        ids, n_bytes = [first[0]], first[1]
        while n_bytes < wave_bytes and len(ids) < WAVE_ITEMS and (item := next(remaining, None)):
            ids.append(item[0])
            n_bytes += item[1]
        yield ids


def _requeue(transaction: Transaction, job_id: int, item_ids: Sequence[int]) -> int:
    """Make a wave of those items that no other call has requeued; return their number."""
    parameters = {"job_id": job_id}
    job = transaction.first(statements.JOB, parameters)
    if job is None:
        return 0
    selected = set(item_ids)
    rows = [row for row in transaction.rows(statements.RETRIABLE_ITEMS, parameters) if row["id"] in selected]
    if not rows:
        return 0
    now = timestamp_at(transaction.now())
    wave = transaction.value(statements.NEXT_WAVE, parameters)
    n_bytes = sum(row["n_bytes"] for row in rows)
    transaction.write_many(
        statements.RETRY_ITEM, [{"item_id": row["id"], "wave": wave, "now": now} for row in rows]
    )
    sizes_by_wave: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        sizes_by_wave[row["wave"]].append(row["n_bytes"])
    transaction.write_many(
        statements.SHRINK_WAVE,
        [
            {**parameters, "wave": n, "items": len(sizes), "bytes": sum(sizes)}
            for n, sizes in sizes_by_wave.items()
        ],
    )
    stage = plan_from_json(job["plan"])[0].value
    transaction.execute(
        statements.INSERT_WAVE,
        {**parameters, "n": wave, "stage": stage, "items": len(rows), "bytes": n_bytes},
    )
    by_status = Counter(row["status"] for row in rows)
    reopened = {status.value: by_status[status.value] for status in RETRIABLE}
    transaction.execute(statements.REOPEN_JOB, {**parameters, **reopened, "bytes": n_bytes, "now": now})
    # REOPEN_JOB subtracts these items from the job's counts; the metrics still count them.
    removed = {(metrics.REMOVED_ITEMS, status): n for status, n in reopened.items()}
    metrics.add(transaction, {**removed, (metrics.REMOVED_BYTES, ""): n_bytes})
    return len(rows)


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
        (metrics.REMOVED_JOBS, job["status"]): 1,
        (metrics.REMOVED_BYTES, ""): job["bytes_done"],
        **{(metrics.REMOVED_ITEMS, end): job[end] for end in FINAL},
    }
    metrics.add(transaction, sums)
    transaction.execute(DROP_JOB, {"job_id": job_id})
    return True
