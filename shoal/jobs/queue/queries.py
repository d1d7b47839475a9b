"""The read side: jobs and their items as people see them, and waiting for them to change."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shoal.errors import NotFoundError
from shoal.jobs.queue import statements
from shoal.jobs.queue.duplicates import not_taken
from shoal.jobs.queue.states import FINAL, WAVE_DONE, Stage, plan_from_json
from shoal.models import ItemStatus, JobKind, JobStatus
from shoal.storage.database import Database, listed

POLL_SECONDS = 0.05
"""How often a waiting request looks. One indexed read of a row: a hundred waiting clients cost a few per cent of
a core, and a person notices no delay."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Items and bytes of a job. `done` counts every item that has ended, whatever its end; of those `failed`,
    `duplicate` and `canceled`. `done == total` and `bytes_done == bytes_total` once the job has ended. `skipped` counts
    entries of an archive that are no items, such as folders."""

    total: int
    done: int
    failed: int
    duplicate: int
    canceled: int
    skipped: int
    bytes_total: int
    bytes_done: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job; times as `shoal.support.clock` writes them. `revision` grows with every change: it makes the ETag."""

    id: int
    kind: JobKind
    status: JobStatus
    stage: Stage | None
    progress: Progress
    created_at: str
    started_at: str | None
    finished_at: str | None
    error: str | None
    revision: int
    plan: tuple[Stage, ...]

    @property
    def ended(self) -> bool:
        return self.status not in (JobStatus.enqueued, JobStatus.processing)


@dataclass(frozen=True, slots=True)
class JobItem:
    """One document of a job. `document_id` is what it became, or the document it is a duplicate of. `stage` is
    that of its wave while the item is open. `attempts` counts the workers that it took down, running alone. `warnings`
    say what is doubtful about the text, and of a duplicate what the document does not have of it."""

    seq: int
    title: str
    source_path: str | None
    bytes: int
    status: ItemStatus
    stage: Stage | None
    document_id: int | None
    attempts: int
    error: str | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WaveSeen:
    """A slice of a job; `stage` is None once it has been through all of them. `pending` of its `total` items have not
    ended the stage."""

    stage: Stage | None
    total: int
    pending: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Documents that are accepted and not done, in how many jobs."""

    jobs: int
    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """A worker that gave a sign of life; `seen_at` in seconds since the epoch."""

    name: str
    hostname: str
    pid: int
    processes: int
    version: str
    started_at: str
    seen_at: float


def get_job(database: Database, job_id: int) -> Job:
    """Raises NotFoundError; an upload that is not complete is not found."""
    with database.read() as connection:
        row = connection.execute(statements.JOB, {"job_id": job_id}).mappings().first()
    if row is None:
        raise NotFoundError(f"there is no job {job_id}")
    return _job(row)


def list_jobs(
    database: Database,
    status: JobStatus | Collection[JobStatus] | None = None,
    limit: int = 50,
    offset: int = 0,
    *,
    kinds: Collection[JobKind] = (),
) -> list[Job]:
    """Jobs in this status or any of several, and of any of these kinds (none: all), the newest first."""
    wanted = {**_wanted(status, kinds), "limit": limit, "offset": offset}
    with database.read() as connection:
        return [_job(row) for row in connection.execute(statements.JOBS, wanted).mappings()]


def count_jobs(
    database: Database,
    status: JobStatus | Collection[JobStatus] | None = None,
    *,
    kinds: Collection[JobKind] = (),
) -> int:
    """How many jobs `list_jobs` has on all its pages."""
    with database.read() as connection:
        return int(connection.execute(statements.COUNT_JOBS, _wanted(status, kinds)).scalar_one())


def _wanted(
    status: JobStatus | Collection[JobStatus] | None, kinds: Collection[JobKind]
) -> dict[str, list[str]]:
    statuses = [status] if isinstance(status, JobStatus) else status
    return {
        "statuses": [each.value for each in statuses or JobStatus],
        "kinds": [each.value for each in kinds or JobKind],
    }


def get_waves(database: Database, job_id: int) -> list[WaveSeen]:
    """The waves of a job in their order."""
    with database.read() as connection:
        rows = connection.execute(statements.WAVES, {"job_id": job_id}).all()
    return [
        WaveSeen(None if row.stage == WAVE_DONE else Stage(row.stage), row.total, row.pending, row.bytes)
        for row in rows
    ]


def waiting(database: Database) -> Waiting:
    """What the workers have before them."""
    with database.read() as connection:
        row = connection.execute(statements.WAITING).one()
    return Waiting(*row)


def get_items(
    database: Database, job_id: int, status: ItemStatus | None = None, limit: int = 50, offset: int = 0
) -> list[JobItem]:
    """Items of a job in the order of the upload. Raises NotFoundError."""
    get_job(database, job_id)
    wanted = {
        "job_id": job_id,
        "status": status.value if status else None,
        "limit": limit,
        "offset": offset,
    }
    with database.read() as connection:
        return [_item(row) for row in connection.execute(statements.ITEMS, wanted).mappings()]


def count_items(database: Database, job_id: int, status: ItemStatus | None = None) -> int:
    """How many items `get_items` has on all its pages."""
    wanted = {"job_id": job_id, "status": status.value if status else None}
    with database.read() as connection:
        return int(connection.execute(statements.COUNT_ITEMS, wanted).scalar_one())


def find_by_key(database: Database, idempotency_key: str) -> tuple[int, str | None] | None:
    """The job that was accepted under an `Idempotency-Key`, with the hash of the body that came with it."""
    with database.read() as connection:
        row = connection.execute(statements.JOB_BY_KEY, {"key": idempotency_key}).first()
    return None if row is None else (int(row.id), row.request_hash)


def workers_seen(database: Database, within_seconds: float) -> list[WorkerSeen]:
    """Workers that gave a sign of life within the last `within_seconds`, by name."""
    with database.read() as connection:
        rows = connection.execute(statements.WORKERS, {"since": time.time() - within_seconds}).mappings()
        return [WorkerSeen(**row) for row in rows]


def trace_ids(database: Database, job_ids: Iterable[int]) -> list[str]:
    """The ids of the requests that jobs came with; a job of a command has none."""
    ids, parameters = listed("id", job_ids)
    with database.snapshot() as snapshot:
        return [row[0] for row in snapshot.tuples(statements.TRACE_IDS.format(ids=ids), parameters)]


def wait_for_change(
    database: Database, job_id: int, revision: int, seconds: float, *, poll: float = POLL_SECONDS
) -> Job:
    """The job as soon as its revision is another than `revision`, or as it is after `seconds`.

    Raises NotFoundError. Holds no transaction while it waits.
    """
    return _wait(database, job_id, seconds, lambda job: job.revision != revision, poll)


def wait_for_end(database: Database, job_id: int, seconds: float) -> Job:
    """The job as soon as it has ended, or as it is after `seconds`. Raises NotFoundError."""
    return _wait(database, job_id, seconds, lambda job: job.ended)


def _wait(database: Database, job_id: int, seconds: float, enough: Any, poll: float = POLL_SECONDS) -> Job:
    deadline = time.monotonic() + seconds
    while True:
        job = get_job(database, job_id)
        left = deadline - time.monotonic()
        if enough(job) or left <= 0:
            return job
        time.sleep(min(poll, left))


def _job(row: sa.RowMapping) -> Job:
    ended = row["n_succeeded"] + row["n_failed"] + row["n_duplicate"] + row["n_canceled"]
    return Job(
        id=row["id"],
        kind=JobKind(row["kind"]),
        status=JobStatus(row["status"]),
        stage=Stage(row["stage"]) if row["stage"] else None,
        progress=Progress(
            total=row["total"],
            done=ended,
            failed=row["n_failed"],
            duplicate=row["n_duplicate"],
            canceled=row["n_canceled"],
            skipped=row["n_skipped"],
            bytes_total=row["bytes_total"],
            bytes_done=row["bytes_done"],
        ),
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error=row["error"],
        revision=row["revision"],
        plan=plan_from_json(row["plan"]),
    )


def _not_taken(row: sa.RowMapping) -> tuple[str, ...]:
    if row["title_stored"] is None:
        return ()
    stored = {
        "title": row["title_stored"],
        "source_path": row["source_path_stored"],
        "metadata": json.loads(row["metadata_stored"]),
    }
    given = {"title": row["title"], "source_path": row["source_path"]}
    return not_taken(row["document_id"], stored, **given, metadata=json.loads(row["metadata"]))


def _warnings(row: sa.RowMapping) -> tuple[str, ...]:
    """What is known by now: of a stored document all that its report says, else what was seen as the text came."""
    of_text = json.loads(row["report"])["warnings"] if row["report"] else json.loads(row["warnings"])
    return (*of_text, *_not_taken(row))


def _item(row: sa.RowMapping) -> JobItem:
    status = ItemStatus(row["status"])
    return JobItem(
        seq=row["seq"],
        title=row["title"],
        source_path=row["source_path"],
        bytes=row["n_bytes"],
        status=status,
        stage=Stage(row["stage"]) if status not in FINAL and row["stage"] else None,
        document_id=row["document_id"],
        attempts=row["attempts"],
        error=row["error"],
        warnings=_warnings(row),
    )
