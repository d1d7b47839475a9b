"""Claim work: a claim leases the next items in fair order to one owner, in one short transaction.

Workers work only on what they have claimed, so a repeated, late or needless message does no harm. Two claims
never hold the same item. An owner says which process holds a lease, so that others can see whether it is
alive. It is `HOST:PID:START:PARENT:PARENTSTART-UUID`:

HOST                  the boot of a machine and the process namespace in which the pids are valid: names of
                      machines may repeat, and every machine numbers its first namespace alike
PID, START            the process and its start (clock ticks since boot), to detect a reused pid
PARENT, PARENTSTART   the same of its parent; if the parent is alive, only this process crashed, else the
                      whole worker ended
UUID                  unique for each claim, so a lost claim is not confused with a later one of the process
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import heapq
import json
import os
import signal
import socket
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from shoal.errors import LeaseLostError
from shoal.jobs.queue import statements
from shoal.jobs.queue.progress import Parked, Waits, wake, wake_due
from shoal.jobs.queue.states import (
    RUNNING,
    WHOLE_WAVE_STAGES,
    plan_from_json,
    ready_status,
)
from shoal.models.documents import DocFormat, DocumentDraft
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage.column_values import passages_from_json, rights_from_json
from shoal.storage.database import Database, Row, Snapshot, Transaction
from shoal.storage.document_queries import file_from_json
from shoal.support.clock import timestamp_at

_READY = {Stage.discover: statements.READY_UNDISCOVERED, Stage.score: statements.READY_ORIGINALS}
"""Queries for the ready items of the stages in which items of equal content wait for each other."""
DEAD_STATES = "ZXx"
"""State letters in /proc/PID/stat of a process that has ended, reaped or not."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Random for each boot of a kernel, and the same in all of its containers."""


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
class WorkItem(ItemRef):
    """A claimed item, with the `owner` of its lease.

    `head` is its document with an empty `content`, which is long and read on its own (`draft_of`).
    `document_id` is set for delete, replace and rescore jobs, `vocabulary_version` once all waves of its job
    have learned. `by_path`: it replaces the document with its source path, if there is one. `attempts`: that
    ended with a crash, or with a failure for a time.
    """

    owner: str
    seq: int
    vocabulary_version: int | None
    document_id: int | None
    by_path: bool
    alone: bool
    attempts: int
    head: DocumentDraft


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
    """The open rest of a claim: items of `n_bytes` in total, all in one stage, or a wave."""

    owner: str
    expires_at: float
    job_ids: frozenset[int]
    item_ids: frozenset[int]
    n_bytes: int
    wave: WaveRef | None
    stage: Stage


def claim(
    database: Database, owner: str, settings: Settings, now: float | None = None, *, job_id: int | None = None
) -> Batch | None:
    """Lease the next work to `owner` (a new `lease.new_owner()` for each claim) until `now + lease_seconds`.

    Jobs take turns: the job with the longest time since its last claim comes first, then its lowest wave,
    then the items in order, up to `batch_bytes` and `batch_items`. Remaining room goes to the next job in the
    same stage. An item that runs alone is a batch of its own. Returns None if there is no work.

    `job_id` restricts the claim to a local job.
    """
    while True:
        # Read first: a needless message must not wait for the write lock.
        if not has_claimable_work(database, job_id=job_id):
            return None
        with database.write() as transaction:
            # The store's clock: those of the hosts may differ.
            now = transaction.now() if now is None else now
            wake_due(transaction)
            waits = Waits()
            work, more = _select_work(transaction, settings, job_id, waits)
            waits.park(transaction)
            if isinstance(work, WaveRef):
                return _lease_wave(transaction, work, owner, settings, now, more)
            if work:
                return _lease_items(transaction, work, owner, settings, now, more)
            if not waits.is_full:
                return None


def has_claimable_work(database: Database, *, job_id: int | None = None) -> bool:
    """Whether a claim would find work now, or would have to look at more than MAX_WAITS that wait."""
    waits = Waits()
    with database.snapshot() as snapshot:
        return (
            next(claimable(snapshot, job_id, waits), None) is not None
            or waits.is_full
            or snapshot.first(statements.ANY_DUE, {"moment": snapshot.now()}) is not None
        )


def find_work(database: Database) -> WaveRef | WorkItem | None:
    """Return the first work that a claim would find, None if there is none."""
    while has_claimable_work(database):
        with database.write() as transaction:
            wake_due(transaction)
            waits = Waits()
            work = next(claimable(transaction, waits=waits), None)
            waits.park(transaction)
            if work is not None or not waits.is_full:
                return work
    return None


def claimable(
    snapshot: Snapshot, job_id: int | None = None, waits: Waits | None = None
) -> Iterator[WaveRef | WorkItem]:
    """Yield claimable items and waves in fair order, of a local job or, without `job_id`, of the service.

    Ends early when `waits`, which collects what turned out to wait, is full.
    """
    waits = Waits() if waits is None else waits
    is_learning = snapshot.value(statements.LEARNING_NOW) is not None
    if job_id is not None:
        jobs: Iterable[tuple[Any, ...]] = snapshot.tuples(statements.OPEN_LOCAL_JOB, {"job_id": job_id})
    else:
        classes = [Parked.no] if is_learning else [Parked.no, Parked.until_learning]
        in_turn = [snapshot.tuples(statements.JOBS_IN_TURN, {"parked": int(each)}) for each in classes]
        jobs = heapq.merge(*in_turn)
    for *_, each_id, plan, total in jobs:
        if waits.is_full:
            return
        job = _Job(each_id, plan_from_json(plan), total, is_local=job_id is not None)
        is_idle = True
        for work in _claimable_of_job(snapshot, job, waits, is_learning=is_learning):
            is_idle = False
            yield work
        # The one job that embeds comes last, so that no claim passes by it.
        if is_idle and not waits.is_full and Stage.embed not in job.plan:
            until = Parked.until_learning if is_learning else Parked.until_change
            waits.jobs.append({"job_id": job.id, "parked": int(until)})


@dataclass(frozen=True, slots=True)
class _Job:
    """An open job; `total` of its items."""

    id: int
    plan: tuple[Stage, ...]
    total: int
    is_local: bool

    @property
    def stages_until_learned(self) -> tuple[Stage, ...]:
        """The stages that all waves of the job must have passed before one of them enters a later stage."""
        last = max((n for n, stage in enumerate(self.plan) if stage in WHOLE_WAVE_STAGES), default=-1)
        return self.plan[: last + 1]


def _claimable_of_job(
    snapshot: Snapshot, job: _Job, waits: Waits, *, is_learning: bool
) -> Iterator[WaveRef | WorkItem]:
    unlearned = job.stages_until_learned
    first = next(_waves_at(snapshot, job, unlearned), None)
    # A wave learns on top of the earlier waves of its job, so these must have learned first.
    if first is not None and first.stage in WHOLE_WAVE_STAGES and not is_learning:
        yield first
    # No wave is scored before all have learned: the words of a later wave would change its scores.
    stages = unlearned if first is not None else job.plan[len(unlearned) :]
    version = snapshot.value(statements.NEWEST_VERSION, {"job_id": job.id})
    for wave in _waves_at(snapshot, job, [stage for stage in stages if stage not in WHOLE_WAVE_STAGES]):
        if wave.stage is Stage.embed and snapshot.value(statements.EMBEDDING_NOW) is not None:
            return
        yield from _ready_items(snapshot, job, wave, version, waits)


def _waves_at(snapshot: Snapshot, job: _Job, stages: Sequence[Stage]) -> Iterator[WaveRef]:
    """Yield the waves of a job in these stages, the lowest first."""

    def at(stage: Stage) -> Iterator[tuple[int, Stage]]:
        for (n,) in snapshot.tuples(statements.WAVES_AT, {"job_id": job.id, "stage": stage.value}):
            yield n, stage

    for n, stage in heapq.merge(*map(at, stages)):
        yield WaveRef(job.id, n, stage)


def _ready_items(
    snapshot: Snapshot, job: _Job, wave: WaveRef, version: int | None, waits: Waits
) -> Iterator[WorkItem]:
    parameters: dict[str, Any] = {
        "status": ready_status(wave.stage, job.plan).value,
        "job_id": job.id,
        "wave": wave.n,
        "is_local": int(job.is_local),
        "total": job.total,
    }
    statement = _READY.get(wave.stage, statements.READY_ITEMS)
    for *columns, earlier in snapshot.tuples(statement, parameters):
        if earlier is None:
            yield _work_item(tuple(columns), wave, version)
            continue
        waits.items.append({"item_id": columns[0], "waits_for": earlier})
        if waits.is_full:
            return


def leases(database: Database) -> list[Lease]:
    """Return the current leases, one for each claim that has not ended."""
    with database.snapshot() as snapshot:
        items = snapshot.rows(statements.LEASED_ITEMS)
        waves = snapshot.rows(statements.LEASED_WAVES)
    by_owner: dict[str, list[Row]] = defaultdict(list)
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
            stage=Stage(rows[0]["stage"]),
        )
        for owner, rows in by_owner.items()
    ]
    for row in waves:
        wave = WaveRef(row["job_id"], row["n"], Stage(row["stage"]))
        jobs = frozenset([wave.job_id])
        held.append(
            Lease(row["lease_owner"], row["lease_expires_at"], jobs, frozenset(), 0, wave, wave.stage)
        )
    return held


def renew(database: Database, lease: Lease, settings: Settings, now: float | None = None) -> bool:
    """Extend a lease; False if its owner no longer holds any of it."""
    with database.write() as transaction:
        expires = (transaction.now() if now is None else now) + settings.lease_seconds
        renewal = {"owner": lease.owner, "expires": expires}
        if lease.wave is not None:
            row = {"job_id": lease.wave.job_id, "wave": lease.wave.n, **renewal}
            return transaction.execute(statements.RENEW_WAVE, row) > 0
        rows = [{"item_id": item_id, **renewal} for item_id in sorted(lease.item_ids)]
        return transaction.write_many(statements.RENEW_ITEM, rows) > 0


def release(database: Database, batch: Batch) -> int:
    """Release what the owner still holds without counting an attempt; return the number of items or waves."""
    with database.write() as transaction:
        n = (
            _release_wave(transaction, batch)
            if batch.wave is not None
            else _release_items(transaction, batch)
        )
        if n:
            wake(transaction, {batch.wave.job_id} if batch.wave else {item.job_id for item in batch.items})
        return n


def _release_wave(transaction: Transaction, batch: Batch) -> int:
    assert batch.wave is not None, "the batch is a wave"
    row = {"job_id": batch.wave.job_id, "wave": batch.wave.n, "owner": batch.owner, "charged": 0}
    return transaction.execute(statements.RELEASE_WAVE, row)


def _release_items(transaction: Transaction, batch: Batch) -> int:
    plans: dict[int, Any] = {}
    for item in batch.items:
        if item.job_id not in plans:
            text = transaction.value(statements.PLAN, {"job_id": item.job_id})
            plans[item.job_id] = plan_from_json(text)
    return transaction.write_many(
        statements.RELEASE_ITEM,
        [
            {
                "item_id": item.id,
                "owner": batch.owner,
                "running": RUNNING[item.stage].value,
                "ready": ready_status(item.stage, plans[item.job_id]).value,
                "alone": int(item.alone),
                "now": timestamp_at(transaction.now()),
            }
            for item in batch.items
        ],
    )


def check_held(snapshot: Snapshot, item: WorkItem, *, or_canceled: bool = False) -> None:
    """Raise LeaseLostError unless the owner of a claimed item still holds it.

    A stage calls it in each transaction in which it stores something before the one that ends the item.
    `or_canceled`: nor if the item was canceled, for a result that should not be wasted.
    """
    row = {"item_id": item.id, "owner": item.owner, "running": RUNNING[item.stage].value}
    statement = statements.HOLDS_OR_CANCELED if or_canceled else statements.HOLDS_ITEM
    if snapshot.first(statement, row) is None:
        raise LeaseLostError("the job was canceled, or the lease was lost and another worker has the item")


def draft_of(snapshot: Snapshot, item: WorkItem) -> DocumentDraft | None:
    """Return the document of an item with its text, or None if the item has ended."""
    row = snapshot.first(statements.ITEM_CONTENT, {"item_id": item.id})
    if row is None:
        return None
    content, source, passages = row
    return dataclasses.replace(
        item.head,
        content=content,
        # The item has the size of what was sent: a file, or a text in another encoding.
        n_bytes=len(content.encode()),
        passages=passages_from_json(passages),
        file=None if source is None else file_from_json(source),
    )


def _select_work(
    transaction: Transaction, settings: Settings, job_id: int | None, waits: Waits
) -> tuple[WaveRef | list[WorkItem], bool]:
    """Return the work of the next batch, and whether there is more."""
    items: list[WorkItem] = []
    n_bytes = 0
    for work in claimable(transaction, job_id, waits):
        if isinstance(work, WaveRef):
            # The next claim, or the end of this stage, shows whether there is more.
            return items or work, True
        full = n_bytes >= settings.batch_bytes or len(items) >= settings.batch_items
        if full or (items and (work.alone or items[0].alone or items[0].stage is not work.stage)):
            return items, True
        if items and n_bytes + work.n_bytes > settings.batch_bytes:
            return items, True
        items.append(work)
        n_bytes += work.n_bytes
    return items, waits.is_full


def _lease_items(
    transaction: Transaction,
    items: list[WorkItem],
    owner: str,
    settings: Settings,
    now: float,
    more: bool,
) -> Batch:
    text = timestamp_at(transaction.now())
    plans = {
        job_id: plan_from_json(transaction.value(statements.PLAN, {"job_id": job_id}))
        for job_id in dict.fromkeys(item.job_id for item in items)
    }
    stage = items[0].stage
    transaction.write_many(
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
        transaction.execute(
            statements.START_JOB, {"job_id": job_id, "stage": stage.value, "moment": now, "now": text}
        )
    held = tuple(dataclasses.replace(item, owner=owner) for item in items)
    return Batch(owner, stage, held, None, more)


def _lease_wave(
    transaction: Transaction, wave: WaveRef, owner: str, settings: Settings, now: float, more: bool
) -> Batch:
    job = {"job_id": wave.job_id, "stage": wave.stage.value}
    transaction.execute(
        statements.CLAIM_WAVE,
        {**job, "wave": wave.n, "owner": owner, "expires": now + settings.lease_seconds},
    )
    transaction.execute(statements.START_JOB, {**job, "moment": now, "now": timestamp_at(transaction.now())})
    return Batch(owner, wave.stage, (), wave, more)


def _work_item(columns: tuple[Any, ...], wave: WaveRef, vocabulary_version: int | None) -> WorkItem:
    item_id, seq, title, source_path, text_format, tags, metadata, warnings, *rest = columns
    n_bytes, content_hash, document_id, by_path, alone, attempts, chunk_tokens, rights, language = rest
    return WorkItem(
        id=item_id,
        owner="",
        job_id=wave.job_id,
        seq=seq,
        wave=wave.n,
        stage=wave.stage,
        vocabulary_version=vocabulary_version,
        n_bytes=n_bytes,
        document_id=document_id,
        by_path=bool(by_path),
        alone=bool(alone),
        attempts=attempts,
        head=DocumentDraft(
            title=title,
            content="",
            # Items of stored documents have no hash, and no stage asks for it.
            content_hash=content_hash or "",
            n_bytes=n_bytes,
            source_path=source_path,
            format=DocFormat(text_format),
            tags=tuple(json.loads(tags)),
            metadata=json.loads(metadata),
            warnings=tuple(json.loads(warnings)),
            chunk_tokens=chunk_tokens,
            rights=rights_from_json(rights),
            language=language,
        ),
    )


class _Process(NamedTuple):
    """A process; `start` (clock ticks since boot) is 0 if unknown."""

    pid: int
    start: int

    @classmethod
    def from_pid(cls, pid: int) -> _Process:
        fields = _stat(pid)
        return cls(pid, int(fields[19]) if fields else 0)

    @property
    def is_dead(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        fields = _stat(self.pid)
        if fields is None:
            return False
        return fields[0] in DEAD_STATES or (self.start > 0 and int(fields[19]) != self.start)


def new_owner() -> str:
    """Return an owner for one claim of this process."""
    process, parent = _Process.from_pid(os.getpid()), _Process.from_pid(os.getppid())
    return f"{host()}:{process.pid}:{process.start}:{parent.pid}:{parent.start}-{uuid.uuid4().hex}"


def is_local(owner: str) -> bool:
    """Whether the owner is a process of this machine and process namespace."""
    return _parse_local(owner) is not None


def is_dead(owner: str) -> bool:
    """Whether the owner has certainly died. False on another machine, where only the lease can tell."""
    processes = _parse_local(owner)
    return processes is not None and processes[0].is_dead


def has_parent(owner: str) -> bool:
    """Whether the parent process of the owner is alive. False for every owner on another machine."""
    processes = _parse_local(owner)
    return processes is not None and not processes[1].is_dead


def kill(owner: str) -> None:
    """Kill the owner's process if it is alive and on this machine."""
    processes = _parse_local(owner)
    if processes is not None and not processes[0].is_dead:
        with contextlib.suppress(ProcessLookupError):
            os.kill(processes[0].pid, signal.SIGKILL)


def _parse_local(owner: str) -> tuple[_Process, _Process] | None:
    """Return the owner's process and its parent if they are on this machine, else None."""
    parts = owner.rsplit(":", 4)
    if len(parts) != 5 or parts[0] != host():
        return None
    pid, start, parent, parent_start = (int(part.partition("-")[0]) for part in parts[1:])
    return _Process(pid, start), _Process(parent, parent_start)


def host() -> str:
    """Return the identity of the process table of this process: equal for two processes if and only if one
    can see whether the other is alive.

    A machine that was restarted is another one: its former processes are reclaimed when their leases end.
    """
    try:
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        namespace = ""
    # The parts must not contain the separator.
    return f"{_boot()}/{namespace}".replace(":", "_")


@functools.cache
def _boot() -> str:
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    # Without /proc, the address of a network card tells machines of one name apart.
    return boot or f"{socket.gethostname()}-{uuid.getnode():012x}"


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on (index 19: start), None without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program name in brackets and may contain anything.
    return text.rpartition(")")[2].split()
