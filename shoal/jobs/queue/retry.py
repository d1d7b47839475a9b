"""Trying again: the failed items of a job go through its stages once more.

They join new waves at the end of their job and begin at its first stage. A wave that has learned is never opened
again, so what was scored with its version stays as it is, and the items are learned from and scored with the version
of their new wave, as if they had been uploaded now. Their texts are kept for this as long as the job is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from shoal.errors import JobStateError
from shoal.jobs.queue import counters, statements
from shoal.jobs.queue.queries import Job, get_job
from shoal.jobs.queue.states import plan_from_json
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.clock import timestamp

WAVE_ITEMS = 2000
"""Most items of a new wave, which is made in one transaction: about a tenth of a second."""


def retry(database: Database, settings: Settings, job_id: int) -> Job:
    """Send the failed items of a job to work again; the job as it is then.

    Killed on the way, it has sent some of them, and done again it sends the rest. Items that were refused on arrival
    have no text to try again, and stay as they are. Raises NotFoundError, and JobStateError where there is nothing
    that can be tried again.
    """
    get_job(database, job_id)
    with database.read() as connection:
        # Those that have failed by now: what fails once more while this goes on is not taken again.
        failed = connection.execute(statements.RETRIABLE_ITEMS, {"job_id": job_id}).all()
    n = 0
    for some in _waves([(row.id, row.n_bytes) for row in failed], settings.wave_bytes):
        with database.write() as connection:
            n += _send(connection, job_id, some)
    if not n:
        # None could be sent, or someone else has sent them all.
        raise JobStateError(_nothing_to_retry(database, job_id))
    return get_job(database, job_id)


def can_retry(database: Database, job: Job) -> bool:
    """Whether `retry` would send any item of a job to work again."""
    if not job.progress.failed or job.progress.canceled:
        return False
    with database.read() as connection:
        return connection.execute(statements.RETRIABLE_ITEMS, {"job_id": job.id}).first() is not None


def _nothing_to_retry(database: Database, job_id: int) -> str:
    with database.read() as connection:
        row = connection.execute(statements.JOB, {"job_id": job_id}).mappings().one()
    if row["n_canceled"]:
        return f"job {job_id} was canceled; upload again what is to be stored"
    n = row["n_failed"]
    if not n:
        return f"job {job_id} has no failed items"
    which = "the failed item" if n == 1 else f"the {n:,} failed items"
    return (
        f"{which} of job {job_id} cannot be tried again: no usable text arrived, or the document has been "
        "given other content since; upload again what is to be stored"
    )


def _waves(items: Sequence[tuple[int, int]], wave_bytes: int) -> Iterator[list[int]]:
    """Ids of items by wave; a wave ends once it has `wave_bytes`."""
    left = iter(items)
    while first := next(left, None):
        ids, n_bytes = [first[0]], first[1]
        while n_bytes < wave_bytes and len(ids) < WAVE_ITEMS and (more := next(left, None)):
            ids.append(more[0])
            n_bytes += more[1]
        yield ids


def _send(connection: sa.Connection, job_id: int, item_ids: Sequence[int]) -> int:
    """Make a wave of those of the items that are still failed; how many."""
    place = {"job_id": job_id}
    job = connection.execute(statements.JOB, place).mappings().first()
    if job is None or job["n_canceled"]:
        return 0
    wanted = set(item_ids)
    rows = [row for row in connection.execute(statements.RETRIABLE_ITEMS, place) if row.id in wanted]
    if not rows:
        return 0
    now = timestamp()
    wave = connection.execute(statements.NEXT_WAVE, place).scalar_one()
    n_bytes = sum(row.n_bytes for row in rows)
    connection.execute(statements.RETRY_ITEM, [{"item_id": row.id, "wave": wave, "now": now} for row in rows])
    left: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        left[row.wave].append(row.n_bytes)
    connection.execute(
        statements.LEAVE_WAVE,
        [{**place, "wave": n, "items": len(sizes), "bytes": sum(sizes)} for n, sizes in left.items()],
    )
    stage = plan_from_json(job["plan"])[0].value
    connection.execute(
        statements.INSERT_WAVE, {**place, "n": wave, "stage": stage, "items": len(rows), "bytes": n_bytes}
    )
    connection.execute(statements.REOPEN_JOB, {**place, "failed": len(rows), "bytes": n_bytes, "now": now})
    # The job counts them no longer; what was counted once stays counted.
    counters.add(
        connection, {(counters.REMOVED_ITEMS, "failed"): len(rows), (counters.REMOVED_BYTES, ""): n_bytes}
    )
    return len(rows)
