"""Recover from interruptions: leases of dead owners, abandoned uploads, lost messages, and hanging processes.

Every worker process recovers every `reconcile_seconds`. It is idempotent and safe to run anywhere at any
time: each step reads first, then changes only rows that are still in the state it read.

A process cannot watch itself: a single call into C, such as a regular expression match, may hold the
interpreter and block every thread of the process. So a separate process, which never touches a document,
renews the leases of working processes and kills a process that exceeds its time limit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from shoal.conversion.process import START_SECONDS, seconds_for
from shoal.errors import ATTEMPTS_EXHAUSTED, BrokerUnavailableError, StorageError
from shoal.jobs.queue import claims, statements
from shoal.jobs.queue.claims import ItemRef, Lease, WaveRef, find_work, leases, renew
from shoal.jobs.queue.progress import wake, wake_all
from shoal.jobs.queue.states import RUNNING, plan_from_json, ready_status
from shoal.jobs.queue.submission import remove_dropped
from shoal.jobs.queue.transitions import Outcome, drop_expired_jobs, fail_wave, finish_items
from shoal.jobs.transport.broker import WorkerNotifier
from shoal.models.jobs import ItemStatus, Stage
from shoal.settings import Settings
from shoal.storage.database import Database, Row, Transaction
from shoal.support.byte_units import MIB
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
ROUND_SECONDS = 1.0
"""Longest time between two rounds; short leases shorten it."""
RENEW_BELOW = 2 / 3
"""A lease is renewed when less than this share of it is left, so two failed renewals do no harm."""
FULL_TIME_BYTES = 32 * MIB
"""Document size that gets the full `item_time_limit`. Larger documents get proportionally more."""
MIN_TIME_SHARE = 0.2
"""Share of `item_time_limit` for small documents: time to wait for a locked disk (`STORE_RETRY_SECONDS`)."""


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
            dead[owner] = claims.is_dead(owner)
        if dead[owner] or row["lease_expires_at"] <= now:
            expired.append(row)
    return expired


def _reclaim_item(transaction: Transaction, row: Row, settings: Settings) -> bool:
    """Reclaim one item, or fail it; True if it failed."""
    owner, stage = row["lease_owner"], Stage(row["stage"])
    crashed = claims.is_dead(owner) and claims.has_parent(owner)
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
        if claims.is_dead(row["local_owner"])
        or (not claims.is_local(row["local_owner"]) and row["received_at"] < now - settings.upload_timeout)
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


@dataclass(slots=True)
class _WatchedLease:
    """The lease of an owner in the last round, and how long it has not changed."""

    lease: Lease | None
    unchanged_seconds: float = 0.0


class Watchdog:
    """Watches the processes of this machine through their leases."""

    def __init__(
        self, database: Database, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._last_round: float | None = None
        self._watched: dict[str, _WatchedLease] = {}

    def watch(self, owners: Iterable[str]) -> list[str]:
        """Run one round over the working owners: renew their leases, kill those over their time limit.

        Returns the killed owners. Every item that ends restarts the time, so a batch may run as long as it
        makes progress. Raises StorageError.
        """
        # `reconcile` handles processes that have died.
        alive = [owner for owner in owners if claims.is_local(owner) and not claims.is_dead(owner)]
        elapsed = self._elapsed()
        held = {held_lease.owner: held_lease for held_lease in leases(self._database)} if alive else {}
        watched: dict[str, _WatchedLease] = {}
        for owner in alive:
            before, now = self._watched.get(owner), held.get(owner)
            same = before is not None and _is_same(before.lease, now)
            watched[owner] = _WatchedLease(
                now, before.unchanged_seconds + elapsed if before and same else 0.0
            )
        self._watched = watched
        killed = [
            owner
            for owner, state in watched.items()
            if state.unchanged_seconds > time_limit(state.lease, self._settings)
        ]
        for owner in killed:
            log.error(
                "killing a process that made no progress for %.0f s",
                watched[owner].unchanged_seconds,
                extra={"owner": owner},
            )
            claims.kill(owner)
        soon = self._database.now() + RENEW_BELOW * self._settings.lease_seconds
        for owner in alive:
            renewable = held.get(owner)
            if renewable is not None and owner not in killed and renewable.expires_at < soon:
                renew(self._database, renewable, self._settings)
        return killed

    def _elapsed(self) -> float:
        """Return the seconds since the last round, capped in case this process was suspended."""
        now, last = self._clock(), self._last_round
        self._last_round = now
        return 0.0 if last is None else min(now - last, 5 * ROUND_SECONDS)


def time_limit(held: Lease | None, settings: Settings) -> float:
    """Return the seconds an owner may work on its lease before an item of it must end.

    An owner whose work was canceled holds nothing; it has the time of a large document to notice.
    """
    if held is None:
        return settings.item_time_limit
    if held.wave is not None or held.stage in (Stage.dedup, Stage.embed):
        # An item of a dedup waits for answers of a chat endpoint, each with a limit of its own; an encoder
        # takes minutes for a book.
        return settings.task_time_limit
    limit = settings.item_time_limit * max(MIN_TIME_SHARE, held.n_bytes / FULL_TIME_BYTES)
    if held.stage is Stage.convert:
        # It ends by itself before, as one failed item.
        limit = max(limit, seconds_for(held.n_bytes, settings.conversion_seconds) + 2 * START_SECONDS)
    return limit


def round_seconds(settings: Settings) -> float:
    """Return the time between two rounds."""
    return min(ROUND_SECONDS, settings.lease_seconds / 6)


@contextmanager
def renewing_leases(database: Database, settings: Settings, job_id: int) -> Iterator[None]:
    """Renew the leases of a local job in a thread for the duration of the block.

    No watchdog kills this process. If its interpreter is blocked for longer than a lease, a service on the
    same database may reclaim the work, and the process repeats it.
    """
    stop = threading.Event()

    def renew_until_stopped() -> None:
        while not stop.wait((1 - RENEW_BELOW) * settings.lease_seconds):
            try:
                for held in leases(database):
                    if job_id in held.job_ids:
                        renew(database, held, settings)
            except StorageError as error:
                log.warning("lease not renewed: %s", error)

    thread = threading.Thread(target=renew_until_stopped, name="lease-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _is_same(before: Lease | None, now: Lease | None) -> bool:
    if before is None or now is None:
        return before is now
    return (before.item_ids, before.wave) == (now.item_ids, now.wave)
