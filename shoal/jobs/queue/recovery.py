"""Making good what was interrupted: leases of the dead, uploads that stopped, messages that never came.

Every worker process does this every `reconcile_seconds`. It is idempotent and safe to run anywhere at any time:
each step looks first, then changes only rows that are still as they were seen.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from shoal.errors import BrokerUnavailableError
from shoal.jobs.queue import lease, statements
from shoal.jobs.queue.claims import ItemRef, WaveRef, claimable
from shoal.jobs.queue.retention import forget_old_jobs
from shoal.jobs.queue.states import RUNNING, Stage, plan_from_json, ready_status
from shoal.jobs.queue.submission import remove_dropped
from shoal.jobs.queue.transitions import Outcome, fail_wave, finish_items
from shoal.jobs.transport.broker import WorkerNotifier
from shoal.models import ItemStatus
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.clock import timestamp

FREE_PAGES = 2000
"""Free pages (8 MB) that are left to be used again; above that, an idle database gives them to the file system."""

ATTEMPT = 10
"""What a crash counts, where `max_attempts` of them are enough to give up."""
INTERRUPTION = 1
"""What it counts that a worker was ended as a whole. An operator's restart says nothing of the documents that were
being processed; but where one document takes its whole container down, that must come to an end too."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What one round did: leases given back, items and waves failed, upload items removed, message sent."""

    given_back: int = 0
    failed: int = 0
    dropped: int = 0
    nudged: bool = False


def reconcile(
    database: Database, settings: Settings, notify: WorkerNotifier | None = None, now: float | None = None
) -> Reconciled:
    """One round. Raises StorageError where the database can't be used; the next round starts afresh."""
    now = time.time() if now is None else now
    given_back, failed = reclaim_expired_leases(database, settings, now)
    drop_dead_local_jobs(database, settings, now)
    forget_old_jobs(database, settings, now)
    dropped = _drop_silent_uploads(database, settings, now)
    nudged = _notify(database, settings, notify, now) if notify else False
    if not (given_back or dropped or nudged):
        _incremental_vacuum(database)
    return Reconciled(given_back, failed, dropped, nudged)


def reclaim_expired_leases(database: Database, settings: Settings, now: float) -> tuple[int, int]:
    """Free what dead or silent owners held; how many were given back and how many have failed for good.

    A crash is charged to an item that ran alone; one that shared its worker with others runs alone from now on. It is
    a crash where a worker lost one of its processes. Where it was ended as a whole (restarted, or with its machine; of a
    worker elsewhere no more is known than its silence), that is an interruption, of which it takes `max_attempts` to run
    alone, and ten times as many to fail. A lease that ran out although its owner lives is an interruption too: a machine
    that slept or a disk that was full fails no document, but nothing is taken back and claimed again for ever.
    """
    with database.read() as connection:
        if not _lost(connection.execute(statements.LEASED_ITEMS).mappings().all(), now) and not _lost(
            connection.execute(statements.LEASED_WAVES).mappings().all(), now
        ):
            return 0, 0
    given_back = failed = 0
    with database.write() as connection:
        for row in _lost(connection.execute(statements.LEASED_ITEMS).mappings().all(), now):
            if _take_back_item(connection, row, settings):
                failed += 1
            else:
                given_back += 1
        for row in _lost(connection.execute(statements.LEASED_WAVES).mappings().all(), now):
            if _take_back_wave(connection, row, settings):
                failed += 1
            else:
                given_back += 1
    log.warning("leases taken back", extra={"given_back": given_back, "failed": failed})
    return given_back, failed


def _lost(rows: Sequence[sa.RowMapping], now: float) -> list[sa.RowMapping]:
    dead: dict[str, bool] = {}
    lost = []
    for row in rows:
        owner = row["lease_owner"]
        if owner not in dead:
            dead[owner] = lease.is_dead(owner)
        if dead[owner] or row["lease_expires_at"] <= now:
            lost.append(row)
    return lost


def _take_back_item(connection: sa.Connection, row: sa.RowMapping, settings: Settings) -> bool:
    """Give one item back, or fail it; True if it failed."""
    owner, stage = row["lease_owner"], Stage(row["stage"])
    crashed = lease.is_dead(owner) and lease.has_parent(owner)
    was_alone = bool(row["alone"])
    attempts = row["attempts"] + int(crashed and was_alone)
    interruptions = row["interruptions"] + int(not crashed)
    # A restart or two don't make a batch suspicious, and one by one its documents take much longer.
    suspicious = crashed or interruptions >= settings.max_attempts
    taken_back = {
        "item_id": row["id"],
        "owner": owner,
        "running": RUNNING[stage].value,
        "ready": ready_status(stage, plan_from_json(row["plan"])).value,
        "alone": int(was_alone or suspicious),
        "attempts": attempts,
        "interruptions": interruptions,
        "now": timestamp(),
    }
    connection.execute(statements.CHARGE_ITEM, taken_back)
    if attempts * ATTEMPT + interruptions * INTERRUPTION >= settings.max_attempts * ATTEMPT:
        error = (
            f"the worker died {attempts + interruptions} times while it processed this document: it needs more "
            "memory (SHOAL_WORKER_MEMORY_BYTES) or time (SHOAL_ITEM_TIME_LIMIT) than there is, or breaks the program"
        )
        item = ItemRef(row["id"], row["job_id"], row["wave"], stage, row["n_bytes"])
        finish_items(connection, [(item, Outcome(ItemStatus.failed, error=error))], owner)
        return True
    connection.execute(statements.RELEASE_ITEM, taken_back)
    return False


def _take_back_wave(connection: sa.Connection, row: sa.RowMapping, settings: Settings) -> bool:
    wave, owner = WaveRef(row["job_id"], row["n"], Stage(row["stage"])), row["lease_owner"]
    # Giving up would cost all the documents of the wave, so here a crash counts no more than an interruption.
    return release_wave(connection, wave, owner, row["attempts"], INTERRUPTION, settings)


def release_wave(
    connection: sa.Connection, wave: WaveRef, owner: str, attempts: int, charged: int, settings: Settings
) -> bool:
    """Free a wave that is worked on as a whole, or fail its items once it was tried often enough; True if failed.

    `attempts` so far and what is `charged` now are counted in parts of ATTEMPT.
    """
    if attempts + charged >= settings.max_attempts * ATTEMPT:
        error = "learning from this part of the upload did not succeed, however often it was tried"
        fail_wave(connection, wave, error)
        return True
    row = {"job_id": wave.job_id, "wave": wave.n, "owner": owner, "charged": charged}
    connection.execute(statements.RELEASE_WAVE, row)
    return False


def drop_dead_local_jobs(database: Database, settings: Settings, now: float) -> int:
    """Drop the jobs of processes that worked on them by themselves and live no more; how many. The rows are removed
    by `remove_dropped`."""
    with database.read() as connection:
        found = connection.execute(statements.LOCAL_JOBS).all()
    # Of a process elsewhere only its silence tells.
    dead = [
        {"job_id": row.id}
        for row in found
        if lease.is_dead(row.local_owner)
        or (not lease.is_local(row.local_owner) and row.received_at < now - settings.upload_timeout)
    ]
    if dead:
        with database.write() as connection:
            connection.execute(statements.DROP_LOCAL_JOB, dead)
    return len(dead)


def _drop_silent_uploads(database: Database, settings: Settings, now: float) -> int:
    silent_since = {"moment": now - settings.upload_timeout}
    with database.read() as connection:
        if not connection.execute(statements.SILENT_UPLOADS, silent_since).scalar_one():
            return 0
    with database.write() as connection:
        connection.execute(statements.DROP_SILENT_UPLOADS, silent_since)
    return remove_dropped(database)


def _notify(database: Database, settings: Settings, notify: WorkerNotifier, now: float) -> bool:
    """Send a message where work waits and none was sent for a while; one reconciler does, however many there are."""
    with database.read() as connection:
        first = next(claimable(connection), None)
    if first is None:
        return False
    wave = first.wave
    row = {
        "job_id": wave.job_id,
        "wave": wave.n,
        "moment": now,
        # Rounds are never exactly reconcile_seconds apart.
        "before": now - settings.reconcile_seconds / 2,
    }
    with database.write() as connection:
        if not connection.execute(statements.NUDGE_WAVE, row).rowcount:
            return False
    try:
        notify()
    except BrokerUnavailableError as error:
        log.warning("work waits, but %s", error)
        return False
    return True


def _incremental_vacuum(database: Database) -> None:
    """Shrink the file while nobody works: the text of what was ingested went through it."""
    with database.read() as connection:
        if connection.execute(statements.OPEN_WORK).first() is not None:
            return
        free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    if free > FREE_PAGES:
        database.give_back_space(FREE_PAGES)
