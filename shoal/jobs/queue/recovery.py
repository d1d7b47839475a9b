"""Recover from interruptions: leases of dead owners, abandoned uploads, lost messages.

Every worker process runs this every `reconcile_seconds`. It is idempotent and safe to run anywhere at any
time: each step reads first, then changes only rows that are still in the state it read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.errors import ATTEMPTS_EXHAUSTED, BrokerUnavailableError
from shoal.jobs.queue import lease, statements
from shoal.jobs.queue.claims import ItemRef, WaveRef, find_work
from shoal.jobs.queue.job_changes import drop_expired_jobs
from shoal.jobs.queue.states import RUNNING, plan_from_json, ready_status
from shoal.jobs.queue.submission import remove_dropped
from shoal.jobs.queue.transitions import Outcome, fail_wave, finish_items
from shoal.jobs.queue.waits import wake, wake_all
from shoal.jobs.transport.broker import WorkerNotifier
from shoal.models.jobs import ItemStatus, Stage
from shoal.settings import Settings
from shoal.storage.database import Database, Row, Transaction
from shoal.support.clock import timestamp_at

FREE_PAGES = 256
"""Free pages (1 MB) kept for reuse; an idle database returns more than that to the file system."""
PAGES_PER_STEP = 2000
"""Pages returned in one transaction, which takes some hundredths of a second."""
ALL_STEPS = 1 << 30

ATTEMPT = 10
"""Weight of a crash; an item fails at `max_attempts` times this weight."""
INTERRUPTION = 1
"""Weight of the end of a whole worker. An operator's restart says nothing about the documents in progress,
but a document that kills its whole container must fail eventually."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Results of one round: leases reclaimed, items and waves failed, upload items removed, message sent."""

    reclaimed: int = 0
    failed: int = 0
    dropped: int = 0
    notified: bool = False


def reconcile(
    database: Database, settings: Settings, notify: WorkerNotifier | None = None, now: float | None = None
) -> Reconciled:
    """Run one round. Raises StorageError if the database cannot be used; the next round tries again."""
    now = database.now() if now is None else now
    reclaimed, failed = reclaim_expired_leases(database, settings, now)
    drop_dead_local_jobs(database, settings, now)
    drop_expired_jobs(database, settings, now)
    dropped = _drop_silent_uploads(database, settings, now)
    notified = _notify(database, settings, notify, now) if notify else False
    if not (reclaimed or dropped or notified):
        return_free_pages(database, steps=1)
    return Reconciled(reclaimed, failed, dropped, notified)


def reclaim_expired_leases(database: Database, settings: Settings, now: float) -> tuple[int, int]:
    """Reclaim the leases of dead or silent owners; return how many were reclaimed and how many failed.

    The death of a single worker process is a crash. It counts as an attempt of an item that ran alone; an
    item that shared a batch runs alone from now on. The end of a whole worker (a restart, or silence of
    another machine) is an interruption: after `max_attempts` of them an item runs alone, after ten times as
    many it fails. An expired lease of a living owner is an interruption too. So a suspended machine or a full
    disk fails no document, but no item is reclaimed forever.
    """
    with database.snapshot() as snapshot:
        if not _expired(snapshot.rows(statements.LEASED_ITEMS), now) and not _expired(
            snapshot.rows(statements.LEASED_WAVES), now
        ):
            return 0, 0
    reclaimed = failed = 0
    with database.write() as transaction:
        for row in _expired(transaction.rows(statements.LEASED_ITEMS), now):
            if _reclaim_item(transaction, row, settings):
                failed += 1
            else:
                reclaimed += 1
        for row in _expired(transaction.rows(statements.LEASED_WAVES), now):
            if _reclaim_wave(transaction, row, settings):
                failed += 1
            else:
                reclaimed += 1
    log.warning("leases reclaimed", extra={"reclaimed": reclaimed, "failed": failed})
    return reclaimed, failed


def _expired(rows: Sequence[Row], now: float) -> list[Row]:
    dead: dict[str, bool] = {}
    expired = []
    for row in rows:
        owner = row["lease_owner"]
        if owner not in dead:
            dead[owner] = lease.is_dead(owner)
        if dead[owner] or row["lease_expires_at"] <= now:
            expired.append(row)
    return expired


def _reclaim_item(transaction: Transaction, row: Row, settings: Settings) -> bool:
    """Reclaim one item, or fail it; True if it failed."""
    owner, stage = row["lease_owner"], Stage(row["stage"])
    crashed = lease.is_dead(owner) and lease.has_parent(owner)
    was_alone = bool(row["alone"])
    weight = INTERRUPTION if not crashed else ATTEMPT if was_alone else 0
    # `attempts` also counts tries that a website or an encoder did not answer; a worker did not die of them.
    interruptions = row["interruptions"] + weight
    # A restart or two does not make a batch suspicious, and processing its documents one by one takes much
    # longer.
    suspicious = crashed or interruptions >= settings.max_attempts
    parameters = {
        "item_id": row["id"],
        "owner": owner,
        "running": RUNNING[stage].value,
        "ready": ready_status(stage, plan_from_json(row["plan"])).value,
        "alone": int(was_alone or suspicious),
        "attempts": row["attempts"] + int(crashed and was_alone),
        "interruptions": interruptions,
        "now": timestamp_at(transaction.now()),
    }
    transaction.execute(statements.RECORD_ATTEMPT, parameters)
    if interruptions >= settings.max_attempts * ATTEMPT:
        error = (
            "the worker died too often while it processed this document: "
            "it needs more memory (SHOAL_WORKER_MEMORY_BYTES) or time (SHOAL_ITEM_TIME_LIMIT) than allowed, "
            "or crashes the program"
        )
        item = ItemRef(row["id"], row["job_id"], row["wave"], stage, row["n_bytes"])
        outcome = Outcome(ItemStatus.failed, error=error, error_code=ATTEMPTS_EXHAUSTED)
        finish_items(transaction, [(item, outcome)], owner)
        return True
    transaction.execute(statements.RELEASE_ITEM, parameters)
    wake(transaction, [row["job_id"]])
    return False


def _reclaim_wave(transaction: Transaction, row: Row, settings: Settings) -> bool:
    wave, owner = WaveRef(row["job_id"], row["n"], Stage(row["stage"])), row["lease_owner"]
    # A failed wave fails all its documents, so a crash counts only as an interruption here.
    return release_wave(transaction, wave, owner, row["attempts"], INTERRUPTION, settings)


def release_wave(
    transaction: Transaction, wave: WaveRef, owner: str, attempts: int, charged: int, settings: Settings
) -> bool:
    """Release a leased wave, or fail its items when its attempts are used up; True if it failed.

    `attempts` (so far) and `charged` (now) are in units of 1/ATTEMPT of an attempt.
    """
    if attempts + charged >= settings.max_attempts * ATTEMPT:
        error = "learning from this part of the upload failed repeatedly"
        fail_wave(transaction, wave, error, ATTEMPTS_EXHAUSTED)
        return True
    row = {"job_id": wave.job_id, "wave": wave.n, "owner": owner, "charged": charged}
    transaction.execute(statements.RELEASE_WAVE, row)
    wake(transaction, [wave.job_id])
    return False


def drop_dead_local_jobs(database: Database, settings: Settings, now: float) -> int:
    """Drop local jobs whose process has died; return their number. `remove_dropped` removes the rows."""
    with database.snapshot() as snapshot:
        jobs = snapshot.rows(statements.LOCAL_JOBS)
    # Whether a process on another machine is alive shows only in its heartbeat.
    dead = [
        {"job_id": row["id"]}
        for row in jobs
        if lease.is_dead(row["local_owner"])
        or (not lease.is_local(row["local_owner"]) and row["received_at"] < now - settings.upload_timeout)
    ]
    if dead:
        with database.write() as transaction:
            transaction.write_many(statements.DROP_LOCAL_JOB, dead)
    return len(dead)


def _drop_silent_uploads(database: Database, settings: Settings, now: float) -> int:
    silent_since = {"moment": now - settings.upload_timeout}
    with database.snapshot() as snapshot:
        if not snapshot.value(statements.COUNT_STALE_UPLOADS, silent_since):
            return 0
    with database.write() as transaction:
        transaction.execute(statements.DROP_STALE_UPLOADS, silent_since)
    return remove_dropped(database)


def _notify(database: Database, settings: Settings, notify: WorkerNotifier, now: float) -> bool:
    """Send a message if work waits and none was sent for a while; only one of several reconcilers does."""
    first = find_work(database) or (find_work(database) if _wake_stalled(database) else None)
    if first is None:
        return False
    wave = first if isinstance(first, WaveRef) else first.wave_ref
    row = {
        "job_id": wave.job_id,
        "wave": wave.n,
        "moment": now,
        # Half, because rounds are never exactly reconcile_seconds apart.
        "before": now - settings.reconcile_seconds / 2,
    }
    with database.write() as transaction:
        if not transaction.execute(statements.MARK_WAVE_NOTIFIED, row):
            return False
    try:
        notify()
    except BrokerUnavailableError as error:
        log.warning("workers not notified of waiting work: %s", error)
        return False
    return True


def _wake_stalled(database: Database) -> bool:
    """Look again at all that waits if nothing remains that could end its wait; whether that was so."""
    with database.snapshot() as snapshot:
        if snapshot.first(statements.IS_STALLED) is None:
            return False
    with database.write() as transaction:
        if transaction.first(statements.IS_STALLED) is None:
            return False
        wake_all(transaction)
    log.warning("work that waited for nothing is looked at again")
    return True


def return_free_pages(database: Database, *, steps: int = ALL_STEPS) -> None:
    """Shrink the file while no work is open: the deleted texts of ingested items leave free pages."""
    for _ in range(steps):
        with database.snapshot() as snapshot:
            if snapshot.first(statements.OPEN_WORK) is not None:
                return
        free = database.free_pages() - FREE_PAGES
        if free <= 0 or not database.return_pages(min(free, PAGES_PER_STEP)):
            return
