"""Claim work: a claim leases the next items in fair order to one owner, in one short transaction.

Workers work only on what they have claimed, so a repeated, late or needless message does no harm. Two claims
never hold the same item.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from shoal.jobs.queue import statements
from shoal.jobs.queue.states import (
    DISCOVER_STAGES,
    RUNNING,
    WHOLE_WAVE_STAGES,
    Stage,
    plan_from_json,
    ready_status,
)
from shoal.models import DocFormat, DocumentDraft
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot
from shoal.support.clock import timestamp

_READY = {Stage.discover: statements.READY_UNDISCOVERED, Stage.score: statements.READY_ORIGINALS}
"""Queries for the ready items of the stages in which items of equal content wait for each other."""


@dataclass(frozen=True, slots=True)
class WaveRef:
    """A wave in one of its stages."""

    job_id: int
    n: int
    stage: Stage


@dataclass(frozen=True, slots=True)
class ItemRef:
    """An item in the stage of its wave."""

    id: int
    job_id: int
    wave: int
    stage: Stage
    n_bytes: int

    @property
    def wave_ref(self) -> WaveRef:
        return WaveRef(self.job_id, self.wave, self.stage)


@dataclass(frozen=True, slots=True)
class DocumentHead:
    """The fields of an item's document, without the text."""

    title: str
    source_path: str | None
    format: DocFormat
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkItem(ItemRef):
    """A claimed item.

    `document_id` is set for delete, replace and rescore jobs, `vocabulary_version` once its wave has learned.
    """

    seq: int
    vocabulary_version: int | None
    content_hash: str | None
    document_id: int | None
    alone: bool
    head: DocumentHead


class Claimable(NamedTuple):
    """Claimable work: the row of an item, or a whole wave if `item` is None."""

    wave: WaveRef
    vocabulary_version: int | None
    item: sa.RowMapping | None


@dataclass(frozen=True, slots=True)
class Batch:
    """The work of one claim: items of one stage, or a whole wave (`wave`).

    `more` tells whether another claim would have found work right after this one.
    """

    owner: str
    stage: Stage
    items: tuple[WorkItem, ...]
    wave: WaveRef | None
    more: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """The open rest of a claim: items of `n_bytes` in total, or a wave."""

    owner: str
    expires_at: float
    job_ids: frozenset[int]
    item_ids: frozenset[int]
    n_bytes: int
    wave: WaveRef | None


def claim(
    database: Database, owner: str, settings: Settings, now: float | None = None, *, job_id: int | None = None
) -> Batch | None:
    """Lease the next work to `owner` (a new `lease.new_owner()` for each claim) until `now + lease_seconds`.

    Jobs take turns: the job with the longest time since its last claim comes first, then its lowest wave,
    then the items in order, up to `batch_bytes` and `batch_items`. Remaining room goes to the next job in the
    same stage. An item that runs alone is a batch of its own. Returns None if there is no work.

    `job_id` restricts the claim to a local job.
    """
    now = time.time() if now is None else now
    # Read first: a needless message must not wait for the write lock.
    if not has_claimable_work(database, job_id=job_id):
        return None
    with database.write() as connection:
        work, more = _select_work(connection, settings, job_id)
        if not work:
            return None
        if isinstance(work, WaveRef):
            return _lease_wave(connection, work, owner, settings, now, more)
        return _lease_items(connection, work, owner, settings, now, more)


def has_claimable_work(database: Database, *, job_id: int | None = None) -> bool:
    """Whether a claim would find work now."""
    with database.read() as connection:
        return next(claimable(connection, job_id), None) is not None


def claimable(connection: sa.Connection, job_id: int | None = None) -> Iterator[Claimable]:
    """Yield claimable work in fair order, of one local job or, without `job_id`, of the service's jobs."""
    unlearned: set[int] = set()
    for row in connection.execute(statements.OPEN_WAVES, {"job_id": job_id}).mappings().all():
        stage, plan = Stage(row["stage"]), plan_from_json(row["plan"])
        wave = WaveRef(row["job_id"], row["n"], stage)
        if stage in WHOLE_WAVE_STAGES:
            # A wave learns on top of the earlier waves of its job, so these must have learned first.
            if wave.job_id not in unlearned and connection.execute(statements.LEARNING_NOW).first() is None:
                yield Claimable(wave, None, None)
        else:
            statement = _READY.get(stage, statements.READY_ITEMS)
            parameters = {"status": ready_status(stage, plan).value, "job_id": wave.job_id, "wave": wave.n}
            if stage in _READY:
                parameters["is_local"] = int(job_id is not None)
            with connection.execute(statement, parameters) as rows:
                for item in rows.mappings():
                    yield Claimable(wave, row["vocabulary_version"], item)
        if stage in DISCOVER_STAGES | WHOLE_WAVE_STAGES and WHOLE_WAVE_STAGES & set(plan):
            unlearned.add(wave.job_id)


def leases(database: Database) -> list[Lease]:
    """Return the current leases, one for each claim that has not ended."""
    with database.read() as connection:
        items = connection.execute(statements.LEASED_ITEMS).mappings().all()
        waves = connection.execute(statements.LEASED_WAVES).mappings().all()
    by_owner: dict[str, list[sa.RowMapping]] = defaultdict(list)
    for row in items:
        by_owner[row["lease_owner"]].append(row)
    held = [
        Lease(
            owner=owner,
            expires_at=min(row["lease_expires_at"] for row in rows),
            job_ids=frozenset(row["job_id"] for row in rows),
            item_ids=frozenset(row["id"] for row in rows),
            n_bytes=sum(row["n_bytes"] for row in rows),
            wave=None,
        )
        for owner, rows in by_owner.items()
    ]
    for row in waves:
        wave = WaveRef(row["job_id"], row["n"], Stage(row["stage"]))
        jobs = frozenset([wave.job_id])
        held.append(Lease(row["lease_owner"], row["lease_expires_at"], jobs, frozenset(), 0, wave))
    return held


def renew(database: Database, lease: Lease, settings: Settings, now: float | None = None) -> bool:
    """Extend a lease; False if its owner no longer holds any of it."""
    expires = (time.time() if now is None else now) + settings.lease_seconds
    renewal = {"owner": lease.owner, "expires": expires}
    with database.write() as connection:
        if lease.wave is not None:
            row = {"job_id": lease.wave.job_id, "wave": lease.wave.n, **renewal}
            return connection.execute(statements.RENEW_WAVE, row).rowcount > 0
        rows = [{"item_id": item_id, **renewal} for item_id in sorted(lease.item_ids)]
        return connection.execute(statements.RENEW_ITEM, rows).rowcount > 0


def release(database: Database, batch: Batch) -> int:
    """Release what the owner still holds without counting an attempt; return the number of items or waves."""
    with database.write() as connection:
        if batch.wave is not None:
            row = {
                "job_id": batch.wave.job_id,
                "wave": batch.wave.n,
                "owner": batch.owner,
                "charged": 0,
            }
            return connection.execute(statements.RELEASE_WAVE, row).rowcount
        plans: dict[int, Any] = {}
        for item in batch.items:
            if item.job_id not in plans:
                text = connection.execute(statements.PLAN, {"job_id": item.job_id}).scalar_one()
                plans[item.job_id] = plan_from_json(text)
        return connection.execute(
            statements.RELEASE_ITEM,
            [
                {
                    "item_id": item.id,
                    "owner": batch.owner,
                    "running": RUNNING[item.stage].value,
                    "ready": ready_status(item.stage, plans[item.job_id]).value,
                    "alone": int(item.alone),
                    "now": timestamp(),
                }
                for item in batch.items
            ],
        ).rowcount


def draft_of(snapshot: Snapshot, item: WorkItem) -> DocumentDraft | None:
    """Return the document of an item with its text, or None if the item has ended."""
    content = snapshot.value(statements.ITEM_CONTENT, {"item_id": item.id})
    if content is None or item.content_hash is None:
        return None
    head = item.head
    return DocumentDraft(
        title=head.title,
        content=content,
        format=head.format,
        content_hash=item.content_hash,
        n_bytes=item.n_bytes,
        tags=head.tags,
        source_path=head.source_path,
        metadata=head.metadata,
        warnings=head.warnings,
    )


def _select_work(
    connection: sa.Connection, settings: Settings, job_id: int | None
) -> tuple[WaveRef | list[WorkItem], bool]:
    """Return the work of the next batch, and whether there is more."""
    items: list[WorkItem] = []
    n_bytes = 0
    for wave, version, row in claimable(connection, job_id):
        if row is None:
            if items:
                return items, True
            # The next claim, or the end of this stage, shows whether there is more.
            return wave, True
        full = n_bytes >= settings.batch_bytes or len(items) >= settings.batch_items
        if full or (items and (row["alone"] or items[0].alone or items[0].stage is not wave.stage)):
            return items, True
        if items and n_bytes + row["n_bytes"] > settings.batch_bytes:
            return items, True
        items.append(_work_item(row, wave, version))
        n_bytes += row["n_bytes"]
    return items, False


def _lease_items(
    connection: sa.Connection,
    items: list[WorkItem],
    owner: str,
    settings: Settings,
    now: float,
    more: bool,
) -> Batch:
    text = timestamp()
    plans = {
        job_id: plan_from_json(connection.execute(statements.PLAN, {"job_id": job_id}).scalar_one())
        for job_id in dict.fromkeys(item.job_id for item in items)
    }
    stage = items[0].stage
    connection.execute(
        statements.CLAIM_ITEM,
        [
            {
                "item_id": item.id,
                "ready": ready_status(stage, plans[item.job_id]).value,
                "running": RUNNING[stage].value,
                "owner": owner,
                "expires": now + settings.lease_seconds,
                # A crash of the worker counts as an attempt of an item that is alone in its batch.
                "alone": int(len(items) == 1),
                "now": text,
            }
            for item in items
        ],
    )
    for job_id in plans:
        connection.execute(
            statements.START_JOB, {"job_id": job_id, "stage": stage.value, "moment": now, "now": text}
        )
    return Batch(owner, stage, tuple(items), None, more)


def _lease_wave(
    connection: sa.Connection, wave: WaveRef, owner: str, settings: Settings, now: float, more: bool
) -> Batch:
    job = {"job_id": wave.job_id, "stage": wave.stage.value}
    connection.execute(
        statements.CLAIM_WAVE,
        {**job, "wave": wave.n, "owner": owner, "expires": now + settings.lease_seconds},
    )
    connection.execute(statements.START_JOB, {**job, "moment": now, "now": timestamp()})
    return Batch(owner, wave.stage, (), wave, more)


def _work_item(row: sa.RowMapping, wave: WaveRef, vocabulary_version: int | None) -> WorkItem:
    return WorkItem(
        id=row["id"],
        job_id=row["job_id"],
        seq=row["seq"],
        wave=row["wave"],
        stage=wave.stage,
        vocabulary_version=vocabulary_version,
        n_bytes=row["n_bytes"],
        content_hash=row["content_hash"],
        document_id=row["document_id"],
        alone=bool(row["alone"]),
        head=DocumentHead(
            title=row["title"],
            source_path=row["source_path"],
            format=DocFormat(row["format"]),
            tags=tuple(json.loads(row["tags"])),
            metadata=json.loads(row["metadata"]),
            warnings=tuple(json.loads(row["warnings"])),
        ),
    )
