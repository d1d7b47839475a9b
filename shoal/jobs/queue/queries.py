"""Read jobs, items, waves and workers, and wait for a job to change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.errors import NotFoundError
from shoal.jobs.queue import statements
from shoal.jobs.queue.states import FINAL, RUNNING, WAVE_DONE, plan_from_json
from shoal.models.jobs import Item, ItemCounts, ItemStatus, JobKind, JobStatus, Stage
from shoal.models.rights import Rights
from shoal.storage.column_values import rights_from_json
from shoal.storage.database import Database, Row, listed
from shoal.storage.statistics import of_owners

_RUNNING = frozenset(RUNNING.values())

POLL_SECONDS = 0.05
"""Polling interval of a waiting request. A poll reads one row by index: a hundred waiting clients cost a few
per cent of a core, and a person notices no delay."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Times have the format of `shoal.support.clock`; `revision` grows with every change (ETag)."""

    id: int
    kind: JobKind
    status: JobStatus
    stage: Stage | None
    progress: ItemCounts
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
class WaveProgress:
    """A wave of a job. `stage` is None when it is done; `pending` of its items have not ended the stage.

    `bytes_pending`: the bytes of these items, if they are known. `bytes_running`: how many of them workers
    have passed, as far as they report it.
    """

    stage: Stage | None
    total: int
    pending: int
    bytes: int
    bytes_pending: int | None = None
    bytes_running: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Jobs with open documents, and the number and bytes of these documents."""

    jobs: int
    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A registered worker; `seen_at` is its last heartbeat in seconds since the epoch."""

    name: str
    hostname: str
    pid: int
    processes: int
    version: str
    started_at: str
    seen_at: float


def get_job(database: Database, job_id: int) -> Job:
    """Return a job. Raises NotFoundError, also for an incomplete upload."""
    with database.snapshot() as snapshot:
        row = snapshot.first(statements.JOB, {"job_id": job_id})
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
    owners: Collection[str] | None = None,
) -> list[Job]:
    """Return jobs with one of these statuses and kinds, newest first; no status or kind selects all.

    `owners`: without jobs that compare notes of other owners.
    """
    selection, parameters = _selection(status, kinds, owners)
    page = {**parameters, "limit": limit, "offset": offset}
    with database.snapshot() as snapshot:
        return [_job(row) for row in snapshot.rows(statements.JOBS.format(**selection), page)]


def count_jobs(
    database: Database,
    status: JobStatus | Collection[JobStatus] | None = None,
    *,
    kinds: Collection[JobKind] = (),
    owners: Collection[str] | None = None,
) -> int:
    """Return the number of jobs on all pages of `list_jobs`."""
    selection, parameters = _selection(status, kinds, owners)
    with database.snapshot() as snapshot:
        return int(snapshot.value(statements.COUNT_JOBS.format(**selection), parameters))


def _selection(
    status: JobStatus | Collection[JobStatus] | None,
    kinds: Collection[JobKind],
    owners: Collection[str] | None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the lists and the further condition of a statement over jobs, and their parameters."""
    statuses = [status] if isinstance(status, JobStatus) else status
    status_list, status_parameters = listed("status", (one.value for one in statuses or JobStatus))
    kind_list, kind_parameters = listed("kind", (kind.value for kind in kinds or JobKind))
    condition, owner_parameters = of_owners(owners)
    return (
        {"statuses": status_list, "kinds": kind_list, "of_owners": condition},
        {**status_parameters, **kind_parameters, **owner_parameters},
    )


def get_waves(database: Database, job_id: int) -> list[WaveProgress]:
    """Return the waves of a job in order."""
    with database.snapshot() as snapshot:
        rows = snapshot.rows(statements.WAVES, {"job_id": job_id})
    return [
        WaveProgress(
            stage=None if stage == WAVE_DONE else Stage(stage),
            total=total,
            pending=pending,
            bytes=n_bytes,
            bytes_pending=bytes_pending,
            bytes_running=bytes_running or 0.0,
        )
        for stage, total, pending, n_bytes, bytes_pending, bytes_running in rows
    ]


def waiting(database: Database) -> Waiting:
    """Return the backlog of the workers."""
    with database.snapshot() as snapshot:
        row = snapshot.first(statements.WAITING)
    return Waiting(*row)


def get_items(
    database: Database, job_id: int, status: ItemStatus | None = None, limit: int = 50, offset: int = 0
) -> list[Item]:
    """Return items of a job in the order of the upload. Raises NotFoundError."""
    if not _may_have(get_job(database, job_id).kind, status):
        return []
    parameters = {
        "job_id": job_id,
        "status": _stored(status),
        "limit": limit,
        "offset": offset,
    }
    with database.snapshot() as snapshot:
        return [_item(row) for row in snapshot.rows(_with_status(statements.ITEMS, status), parameters)]


def count_items(database: Database, job_id: int, status: ItemStatus | None = None) -> int:
    """Return the number of items on all pages of `get_items`."""
    if status in _BY_KIND and not _may_have(get_job(database, job_id).kind, status):
        return 0
    parameters = {"job_id": job_id, "status": _stored(status)}
    with database.snapshot() as snapshot:
        return int(snapshot.value(_with_status(statements.COUNT_ITEMS, status), parameters))


_BY_KIND = (ItemStatus.scoring, ItemStatus.embedding)
"""Statuses that are one in the rows; which of them is shown depends on the job."""


def _may_have(kind: JobKind, status: ItemStatus | None) -> bool:
    """Whether items of a job may be shown with a status."""
    other = ItemStatus.scoring if kind is JobKind.embed else ItemStatus.embedding
    return status is not other


def _stored(status: ItemStatus | None) -> str | None:
    """The status of a row that is shown with a status."""
    return ItemStatus.scoring.value if status is ItemStatus.embedding else status and status.value


def _with_status(statement: str, status: ItemStatus | None) -> str:
    """Complete a statement over the items of a job."""
    return statement.format(has_status=statements.HAS_STATUS if status else "")


def find_by_key(database: Database, idempotency_key: str) -> tuple[int, str | None] | None:
    """Return the id and request hash of the job that was accepted with an idempotency key, or None."""
    with database.snapshot() as snapshot:
        row = snapshot.first(statements.JOB_BY_KEY, {"key": idempotency_key})
    return None if row is None else (row["id"], row["request_hash"])


def live_workers(database: Database, within_seconds: float) -> list[WorkerInfo]:
    """Return the workers with a heartbeat in the last `within_seconds`, sorted by name."""
    with database.snapshot() as snapshot:
        rows = snapshot.rows(statements.WORKERS, {"since": snapshot.now() - within_seconds})
        return [WorkerInfo(**row) for row in rows]


def trace_ids(database: Database, job_ids: Iterable[int]) -> list[str]:
    """Return the trace ids of the requests that submitted these jobs; jobs from the CLI have none."""
    ids, parameters = listed("id", job_ids)
    with database.snapshot() as snapshot:
        return [row[0] for row in snapshot.tuples(statements.TRACE_IDS.format(ids=ids), parameters)]


def wait_for_change(
    database: Database, job_id: int, revision: int, seconds: float, *, poll: float = POLL_SECONDS
) -> Job:
    """Return the job when its revision differs from `revision`, or after `seconds` at the latest.

    Holds no transaction while it waits. Raises NotFoundError.
    """
    return _wait(database, job_id, seconds, lambda job: job.revision != revision, poll)


def wait_for_end(database: Database, job_id: int, seconds: float) -> Job:
    """Return the job when it has ended, or after `seconds` at the latest. Raises NotFoundError."""
    return _wait(database, job_id, seconds, lambda job: job.ended)


def _wait(
    database: Database,
    job_id: int,
    seconds: float,
    is_done: Callable[[Job], bool],
    poll: float = POLL_SECONDS,
) -> Job:
    deadline = time.monotonic() + seconds
    while True:
        job = get_job(database, job_id)
        left = deadline - time.monotonic()
        if is_done(job) or left <= 0:
            return job
        time.sleep(min(poll, left))


def _job(row: Row) -> Job:
    ended = row["n_succeeded"] + row["n_failed"] + row["n_duplicate"] + row["n_canceled"]
    return Job(
        id=row["id"],
        kind=JobKind(row["kind"]),
        status=JobStatus(row["status"]),
        stage=Stage(row["stage"]) if row["stage"] else None,
        progress=ItemCounts(
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


def _duplicate_warnings(row: Row) -> tuple[str, ...]:
    if row["title_stored"] is None:
        return ()
    stored = {
        "title": row["title_stored"],
        "source_path": row["source_path_stored"],
        "metadata": json.loads(row["metadata_stored"]),
        "rights": rights_from_json(row["rights_stored"]),
    }
    return duplicate_warnings(
        row["document_id"],
        stored,
        title=row["title"],
        source_path=row["source_path"],
        metadata=json.loads(row["metadata"]),
        rights=rights_from_json(row["rights"]),
    )


def _warnings(row: Row) -> tuple[str, ...]:
    """Return the warnings of a stored document's report, or before that the warnings from the upload."""
    text_warnings = json.loads(row["report"])["warnings"] if row["report"] else json.loads(row["warnings"])
    return (*text_warnings, *_duplicate_warnings(row))


def _item(row: Row) -> Item:
    status = ItemStatus(row["status"])
    is_embedding = status is ItemStatus.scoring and row["stage"] == Stage.embed
    return Item(
        seq=row["seq"] + 1,
        title=row["title"],
        source_path=row["source_path"],
        bytes=row["n_bytes"],
        status=ItemStatus.embedding if is_embedding else status,
        stage=Stage(row["stage"]) if status not in FINAL and row["stage"] else None,
        document_id=row["document_id"],
        attempts=row["attempts"],
        error=row["error"],
        warnings=_warnings(row),
        error_code=row["error_code"],
        stage_share=row["stage_share"] if status in _RUNNING else None,
        attached_to=None if row["attached_to"] is None else row["attached_to"] + 1,
    )


def duplicate_warnings(
    document_id: int,
    stored: Mapping[str, Any],
    *,
    title: str | None,
    source_path: str | None,
    metadata: Mapping[str, Any] | None,
    rights: Rights | None = None,
) -> tuple[str, ...]:
    """Return one warning if a field of the duplicate differs from the stored document, else nothing.

    `stored` has the `title`, `source_path`, `metadata` and `rights` of the document. Fields that the client
    did not send for the duplicate are None.
    """
    ignored = []
    if title is not None and title != stored["title"]:
        ignored.append(f"its title ({title}; the document has {stored['title']})")
    if source_path and source_path != stored["source_path"]:
        stored_path = stored["source_path"] or "none"
        ignored.append(f"its source path ({source_path}; the document has {stored_path})")
    if metadata and metadata != stored["metadata"]:
        ignored.append("its metadata (the document has others)" if stored["metadata"] else "its metadata")
    if rights is not None and rights != stored["rights"]:
        ignored.append("who may see it")
    if not ignored:
        return ()
    warning = (
        f"document {document_id} already has this content and received only the tags; "
        f"not stored: {'; '.join(ignored)}"
    )
    return (warning,)
