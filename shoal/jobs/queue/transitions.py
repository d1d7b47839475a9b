"""Record results: an item ends a stage; the last item of a wave opens the next stage or ends the job.

All of this happens in the transaction that stores the result of the item, and only if the owner still holds
the lease. So a result is stored once, and a wave passes from one stage to the next once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import CANCELED, LeaseLostError
from shoal.jobs.queue import attachments, statements
from shoal.jobs.queue.claims import ItemRef, WaveRef, WorkItem
from shoal.jobs.queue.states import (
    FINAL,
    RETRIABLE,
    RUNNING,
    STATUS_AFTER,
    WAVE_DONE,
    plan_from_json,
    stage_after,
)
from shoal.jobs.queue.waits import wake
from shoal.models.jobs import ItemStatus, JobStatus, Stage
from shoal.storage.database import Row, Transaction, listed_in_parts
from shoal.storage.document_writer import merge_tags
from shoal.storage.saved_search_changes import set_jobs
from shoal.support.clock import timestamp_at

CANCELED_REASON = "the job was canceled"

MAX_COPIES = 1000
"""Copies of the items of a batch that end with them in one transaction: about 50 ms. The first of the others
is claimed, and ends with the next."""


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
