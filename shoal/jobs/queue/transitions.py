"""Changes of items and jobs: an item ends a stage, and a job is canceled, retried or removed.

The last item of a wave opens the next stage or ends the job. All of this happens in the transaction that
stores the result of the item, and only if the owner still holds the lease. So a result is stored once, and a
wave passes from one stage to the next once.

A retry puts the failed and canceled items through all stages again. They join new waves at the end of their
job and start at its first stage. A wave that has learned is never reopened, so documents scored with its
vocabulary version stay unchanged. The retried items are learned from and scored with the version of their new
wave, as if they were uploaded now. Their texts are kept as long as the job.

Finished jobs are removed after `job_retention`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import CANCELED, JobStateError, LeaseLostError
from shoal.jobs.queue import attachments, metrics, statements
from shoal.jobs.queue.claims import ItemRef, WaveRef, WorkItem
from shoal.jobs.queue.progress import wake
from shoal.jobs.queue.queries import Job, get_job
from shoal.jobs.queue.states import (
    FINAL,
    RETRIABLE,
    RUNNING,
    STATUS_AFTER,
    WAVE_DONE,
    plan_from_json,
    stage_after,
)
from shoal.models.jobs import ItemStatus, JobStatus, Stage
from shoal.settings import Settings
from shoal.storage.database import Database, Row, Transaction, listed_in_parts
from shoal.storage.document_writer import merge_tags
from shoal.storage.saved_search_changes import set_jobs
from shoal.support.clock import timestamp_at

CANCELED_REASON = "the job was canceled"

MAX_COPIES = 1000
"""Copies of the items of a batch that end with them in one transaction: about 50 ms. The first of the others
is claimed, and ends with the next."""
ITEMS = 1000
"""Items canceled in one transaction: about 50 ms."""
WAVE_ITEMS = 2000
"""Largest number of items in a new wave, which one transaction creates: about a tenth of a second."""
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an item in a stage: one of the final states, or `converted` or `discovered`. With `enqueued`,
    the item stays in its first stage and is claimed again.

    `document_id` is the document that the item became or duplicates; `error` is shown to the client, and
    `error_code` is the stable code of it.
    """

    status: ItemStatus
    document_id: int | None = None
    error: str | None = None
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """Consequences of a result: newly opened stages (workers are notified) and jobs that have ended."""

    opened: tuple[tuple[int, int, Stage], ...] = ()
    ended_jobs: tuple[int, ...] = ()

    def __or__(self, other: Advance) -> Advance:
        return Advance(self.opened + other.opened, self.ended_jobs + other.ended_jobs)


def finish_items(transaction: Transaction, results: Sequence[tuple[ItemRef, Outcome]], owner: str) -> Advance:
    """Record the outcomes of items that `owner` has claimed.

    Raises LeaseLostError if `owner` no longer holds all of them. The caller must then roll back its
    transaction, including everything it stored for these items.
    """
    now = timestamp_at(transaction.now())
    n_ended = transaction.write_many(
        statements.END_ITEM,
        [
            {
                "item_id": item.id,
                "owner": owner,
                "running": RUNNING[item.stage].value,
                "status": outcome.status.value,
                "document_id": outcome.document_id,
                "error": outcome.error,
                "error_code": outcome.error_code,
                "now": now,
            }
            for item, outcome in results
        ],
    )
    if n_ended != len(results):
        raise LeaseLostError("the lease was lost and another worker has the work; this result is not stored")
    set_jobs(
        transaction,
        (
            (item.job_id, outcome.document_id)
            for item, outcome in results
            if outcome.status is ItemStatus.succeeded and outcome.document_id is not None
        ),
    )
    ended = [(item, outcome) for item, outcome in results if outcome.status is not ItemStatus.enqueued]
    ended += _finish_copies(transaction, [item for item, _ in results], now)
    wake(transaction, {item.job_id for item, _ in results}, [item.id for item, _ in ended])
    _link(transaction, ended)
    return _count_down(transaction, ended, now)


def _link(transaction: Transaction, ended: Iterable[tuple[ItemRef, Outcome]]) -> None:
    """Link the documents that items became or duplicate to those that they are attached to."""
    stored = [
        item
        for item, outcome in ended
        if outcome.status in (ItemStatus.succeeded, ItemStatus.duplicate)
        and item.stage in (Stage.convert, Stage.score)
    ]
    new = [item.id for item in stored if not (isinstance(item, WorkItem) and item.document_id is not None)]
    attachments.link(transaction, [item.id for item in stored], new)


def _finish_copies(
    transaction: Transaction, items: Sequence[ItemRef], now: str
) -> list[tuple[ItemRef, Outcome]]:
    """Let up to MAX_COPIES unclaimed copies of items that have ended a stage pass it as well.

    They need no discovery, and end as duplicates of a document that was stored.
    """
    outcomes: list[tuple[ItemRef, Outcome]] = []
    finished: dict[tuple[int, Stage], list[int]] = defaultdict(list)
    for item in items:
        finished[item.job_id, item.stage].append(item.id)
    for (job_id, stage), item_ids in finished.items():
        if stage not in (Stage.discover, Stage.score):
            continue
        is_local = transaction.value(statements.IS_LOCAL, {"job_id": job_id})
        of_job = {"job_id": job_id, "is_local": int(is_local), "limit": MAX_COPIES}
        finish = _pass_copies if stage is Stage.discover else _end_copies
        for ids, parameters in listed_in_parts("id", item_ids):
            outcomes += finish(transaction, ids, {**parameters, **of_job}, now)
    return outcomes


def _pass_copies(
    transaction: Transaction, ids: str, parameters: Mapping[str, Any], now: str
) -> list[tuple[ItemRef, Outcome]]:
    copies = transaction.rows(statements.COPIES_TO_PASS.format(ids=ids), parameters)
    transaction.write_many(statements.PASS_COPY, [{"item_id": row["id"], "now": now} for row in copies])
    return [
        (
            ItemRef(row["id"], row["job_id"], row["wave"], Stage.discover, row["n_bytes"]),
            Outcome(ItemStatus.discovered),
        )
        for row in copies
    ]


def _end_copies(
    transaction: Transaction, ids: str, parameters: Mapping[str, Any], now: str
) -> list[tuple[ItemRef, Outcome]]:
    copies = transaction.rows(statements.COPIES_TO_END.format(ids=ids), parameters)
    tags: dict[int, dict[str, None]] = defaultdict(dict)
    for row in copies:
        tags[row["document_id"]].update(dict.fromkeys(json.loads(row["tags"])))
    for document_id, tags_of_copies in tags.items():
        merge_tags(transaction, document_id, tags_of_copies, now=now)
    transaction.write_many(
        statements.END_COPY,
        [{"item_id": row["id"], "document_id": row["document_id"], "now": now} for row in copies],
    )
    return [
        (
            ItemRef(row["id"], row["job_id"], row["wave"], Stage(row["stage"]), row["n_bytes"]),
            Outcome(ItemStatus.duplicate, row["document_id"]),
        )
        for row in copies
    ]


def finish_wave(
    transaction: Transaction, wave: WaveRef, owner: str, vocabulary_version: int | None
) -> Advance:
    """End a stage that processes a whole wave. Raises LeaseLostError like `finish_items`."""
    return _advance(
        transaction, wave, timestamp_at(transaction.now()), owner=owner, vocabulary_version=vocabulary_version
    )


def fail_wave(transaction: Transaction, wave: WaveRef, error: str, error_code: str) -> Advance:
    """Fail every open item of a wave that cannot pass its stage. No owner may hold any of its items."""
    now = timestamp_at(transaction.now())
    rows = transaction.rows(statements.OPEN_ITEMS_OF_WAVE, {"job_id": wave.job_id, "wave": wave.n})
    outcome = Outcome(ItemStatus.failed, error=error, error_code=error_code)
    items = [ItemRef(row["id"], wave.job_id, wave.n, wave.stage, row["n_bytes"]) for row in rows]
    for item in items:
        row = {
            "item_id": item.id,
            "status": outcome.status.value,
            "error": error,
            "error_code": error_code,
            "now": now,
        }
        transaction.execute(statements.END_OPEN_ITEM, row)
    wake(transaction, [wave.job_id], [item.id for item in items])
    if not items:
        return _advance(transaction, wave, now)
    return _count_down(transaction, [(item, outcome) for item in items], now)


def cancel_items(transaction: Transaction, job_id: int, limit: int) -> int:
    """Cancel up to `limit` open items of a job, claimed ones too, and return their number.

    Results of claimed items are not stored.
    """
    now = timestamp_at(transaction.now())
    rows = transaction.rows(statements.OPEN_ITEMS_OF_JOB, {"job_id": job_id, "limit": limit})
    by_wave: dict[WaveRef, int] = defaultdict(int)
    for row in rows:
        ended = {
            "item_id": row["id"],
            "status": ItemStatus.canceled.value,
            "error": CANCELED_REASON,
            "error_code": CANCELED,
            "now": now,
        }
        transaction.execute(statements.END_OPEN_ITEM, ended)
        stage = Stage(row["stage"])
        # An item that has passed the stage of its wave has already been subtracted from `pending`.
        is_counted = row["status"] != STATUS_AFTER.get(stage)
        by_wave[WaveRef(job_id, row["wave"], stage)] += is_counted
    if rows:
        _delete_texts(transaction, [(row["id"], ItemStatus.canceled) for row in rows])
        _count_job(transaction, job_id, [(ItemStatus.canceled, row["n_bytes"]) for row in rows], now)
    for wave, n in by_wave.items():
        _decrement_pending(transaction, wave, n, now)
    wake(transaction, [job_id], [row["id"] for row in rows])
    return len(rows)


def close_if_done(transaction: Transaction, job_id: int, now: str) -> bool:
    """End a job that has no open wave; True if this call ended it."""
    parameters = {"job_id": job_id}
    if transaction.value(statements.OPEN_WAVES_OF_JOB, parameters):
        return False
    counts = transaction.first(statements.JOB_COUNTS, parameters)
    if counts is None:
        return False
    error = None
    if counts["n_failed"]:
        error = transaction.value(statements.FIRST_ERROR, parameters)
        if counts["total"] > 1:
            error = f"{counts['n_failed']} of {counts['total']} documents failed; first error: {error}"
    row = {**parameters, "status": _final_status(counts).value, "error": error, "now": now}
    return bool(transaction.execute(statements.END_JOB, row))


def _final_status(counts: Row) -> JobStatus:
    if counts["n_canceled"]:
        return JobStatus.canceled
    if not counts["n_failed"]:
        return JobStatus.succeeded
    return JobStatus.failed if counts["n_failed"] == counts["total"] else JobStatus.partial


def _count_down(transaction: Transaction, results: Iterable[tuple[ItemRef, Outcome]], now: str) -> Advance:
    by_wave: dict[WaveRef, int] = defaultdict(int)
    by_job: dict[int, list[tuple[ItemStatus, int]]] = defaultdict(list)
    final: list[tuple[int, ItemStatus]] = []
    for item, outcome in results:
        by_wave[item.wave_ref] += 1
        if outcome.status in FINAL:
            final.append((item.id, outcome.status))
            by_job[item.job_id].append((outcome.status, item.n_bytes))
    _delete_texts(transaction, final)
    for job_id, ends in by_job.items():
        _count_job(transaction, job_id, ends, now)
    advance = Advance()
    for wave, ended in by_wave.items():
        advance |= _decrement_pending(transaction, wave, ended, now)
    return advance


def _delete_texts(transaction: Transaction, ended: Sequence[tuple[int, ItemStatus]]) -> None:
    """Delete the texts and chunk boundaries of ended items. Those that a retry takes up keep their texts."""
    transaction.write_many(statements.DELETE_CUTS, [{"item_id": item_id} for item_id, _ in ended])
    unneeded = [{"item_id": item_id} for item_id, status in ended if status not in RETRIABLE]
    transaction.write_many(statements.DELETE_CONTENT, unneeded)
    transaction.write_many(statements.DELETE_FILE, unneeded)


def _decrement_pending(transaction: Transaction, wave: WaveRef, ended: int, now: str) -> Advance:
    """Subtract `ended` items from the wave's count; open its next stage if none is left."""
    row = {"job_id": wave.job_id, "wave": wave.n, "stage": wave.stage.value, "ended": ended}
    pending = transaction.value(statements.COUNT_DOWN_WAVE, row)
    assert pending >= 0, "a wave counts each of its items once per stage"
    return _advance(transaction, wave, now) if pending == 0 else Advance()


def _advance(
    transaction: Transaction,
    wave: WaveRef,
    now: str,
    *,
    owner: str | None = None,
    vocabulary_version: int | None = None,
) -> Advance:
    plan = plan_from_json(transaction.value(statements.PLAN, {"job_id": wave.job_id}))
    parameters = {"job_id": wave.job_id, "wave": wave.n}
    pending = len(transaction.rows(statements.OPEN_ITEMS_OF_WAVE, parameters))
    next_stage = stage_after(wave.stage, plan) if pending else None
    n_advanced = transaction.execute(
        statements.ADVANCE_WAVE if owner is None else statements.ADVANCE_LEASED_WAVE,
        {
            **parameters,
            "stage": wave.stage.value,
            "next": next_stage.value if next_stage else WAVE_DONE,
            "pending": pending if next_stage else 0,
            "vocabulary_version": vocabulary_version,
            "owner": owner,
        },
    )
    if not n_advanced:
        raise LeaseLostError("the lease was lost and another worker has the wave; this result is not stored")
    wake(transaction, [wave.job_id])
    if next_stage:
        _count_job(transaction, wave.job_id, [], now, next_stage)
        return Advance(opened=((wave.job_id, wave.n, next_stage),))
    return Advance(ended_jobs=(wave.job_id,) if close_if_done(transaction, wave.job_id, now) else ())


def _count_job(
    transaction: Transaction,
    job_id: int,
    ends: Sequence[tuple[ItemStatus, int]],
    now: str,
    stage: Stage | None = None,
) -> None:
    counts = dict.fromkeys(FINAL, 0)
    for status, _ in ends:
        counts[status] += 1
    row = {f"n_{status.value}": n for status, n in counts.items()}
    row["bytes_done"] = sum(n_bytes for _, n_bytes in ends)
    transaction.execute(
        statements.COUNT_JOB,
        {**row, "job_id": job_id, "now": now, "stage": stage.value if stage else None},
    )


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
