"""The thread of every worker process that recovers interrupted work and sends heartbeats.

It runs in the children, not in the parent. SQLite must not be open in a process that forks: its locks belong
to the process, but its record of them would be copied. The parent forks whenever it replaces a child.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

import structlog

import shoal
from shoal.errors import StorageError
from shoal.jobs.queue import lease, statements
from shoal.jobs.queue.claims import has_claimable_work
from shoal.jobs.queue.metrics import LEASES_LOST, Counters
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.transport.broker import remove_stale_messages
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.support.clock import timestamp
from shoal_worker.keepers import block_sigterm

FORGET_SECONDS = 86_400.0
"""A worker without a heartbeat for a day is no longer listed."""

HEARTBEAT_SECONDS = 10.0
"""Shortest time between two heartbeats."""

IDLE_CLAIM_SECONDS = 10.0
"""How long work waits before an idle process claims it without a message. A message takes less than a second,
unless the broker is down or Celery's pool hangs (its processes share locks, and a killed process never
releases its lock)."""

log = structlog.get_logger(__name__)


def worker_name(parent: int) -> str:
    """Return the name of the worker whose parent process has this pid on this machine.

    Containers may share the name of a host, and number their processes alike.
    """
    return f"{worker_host()}:{parent}"


def worker_host() -> str:
    """Return the beginning of the names of workers on this machine and in this process namespace."""
    return f"{socket.gethostname()}:{lease.host()}"


def recover(
    database: Database, settings: Settings, notify: Callable[[], None], counters: Counters, **context: str
) -> None:
    """Recover interrupted work of a library once, count and log it. Raises StorageError."""
    result = reconcile(database, settings, notify)
    counters.add(LEASES_LOST, "", result.reclaimed + result.failed)
    if result.reclaimed or result.failed or result.dropped:
        numbers = {"reclaimed": result.reclaimed, "failed": result.failed, "dropped": result.dropped}
        log.info("reconciled", **context, **numbers)


class Reconciler:
    """Reconciles every `reconcile_seconds`; ends the process when its parent has died."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        notify: Callable[[], None],
        busy: threading.Lock,
        work: Callable[[], bool],
        counters: Counters,
        look: Callable[[], None],
        set_outdated: Callable[[], None],
        has_waiting: Callable[[], bool] = lambda: False,
    ) -> None:
        """`busy` is held while this process works on a batch. `work` processes a batch unless the process is
        busy, and returns whether it did. `counters` are those of this process. `look` has documents embedded
        that lack vectors. `set_outdated` is called when a newer version has migrated the database; then this
        thread ends. `has_waiting`: whether work waits in a collection other than `main`.
        """
        self._database = database
        self._settings = settings
        self._notify = notify
        self._busy = busy
        self._counters = counters
        self._work = work
        self._look = look
        self._has_waiting = has_waiting
        self._set_outdated = set_outdated
        self._idle_since: float | None = None
        self._parent = os.getppid()
        self._heartbeat_at = -HEARTBEAT_SECONDS
        self._started_at = timestamp()

    def start(self) -> None:
        threading.Thread(target=self._run, name="reconciler", daemon=True).start()

    def _run(self) -> None:
        block_sigterm()
        # The first round runs at once: this process may replace one that died at work.
        while True:
            if os.getppid() != self._parent:
                self._exit_when_idle()
            worked = False
            try:
                if migrate.is_outdated(self._database):
                    self._set_outdated()
                    return
                recover(self._database, self._settings, self._notify, self._counters)
                self._send_heartbeat()
                remove_stale_messages(self._settings)
                self._look()
                worked = self._claim_without_message()
            except StorageError as error:
                log.warning("not reconciled", reason=str(error))
            except Exception:
                # Recovery depends on this thread, so no error may end it.
                log.exception("not reconciled")
            if not worked:
                time.sleep(self._settings.reconcile_seconds)

    def _claim_without_message(self) -> bool:
        """Process a batch if work has been waiting while this process is idle; True if it did."""
        now = time.monotonic()
        if self._busy.locked() or not (has_claimable_work(self._database) or self._has_waiting()):
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since < IDLE_CLAIM_SECONDS:
            return False
        worked = self._work()
        if worked:
            log.warning("work claimed without a message", waited=round(now - self._idle_since, 1))
        return worked

    def _send_heartbeat(self) -> None:
        if time.monotonic() - self._heartbeat_at < HEARTBEAT_SECONDS:
            return
        with self._database.write() as transaction:
            now = transaction.now()
            transaction.execute(
                statements.UPSERT_WORKER,
                {
                    "name": worker_name(self._parent),
                    "hostname": socket.gethostname(),
                    "pid": self._parent,
                    "processes": self._settings.workers,
                    "version": shoal.__version__,
                    "started_at": self._started_at,
                    "seen_at": now,
                },
            )
            transaction.execute(statements.DELETE_STALE_WORKERS, {"moment": now - FORGET_SECONDS})
        self._counters.write(self._database)
        self._heartbeat_at = time.monotonic()

    def _exit_when_idle(self) -> None:
        """Exit after the current batch: without a parent this process gets no messages and never ends."""
        with self._busy:
            log.warning("the worker's parent has died; this process exits")
            os._exit(0)
