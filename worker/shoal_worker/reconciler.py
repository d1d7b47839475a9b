"""The thread of every worker process that makes good what was interrupted and says that the worker lives.

It runs in the children, not in the parent: SQLite must not be open in a process that forks (its locks belong to
the process, its book-keeping of them would be copied), and the parent forks whenever a child is replaced.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable

import structlog

import shoal
from shoal.errors import StorageError
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import has_claimable_work
from shoal.jobs.queue.counters import LEASES_LOST, Counters
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.transport.broker import tidy_folders
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.clock import timestamp

FORGET_SECONDS = 86_400.0
"""A worker that has not been seen for a day is no longer listed."""

SIGN_SECONDS = 10.0
"""A worker says that it lives this often, at most."""

PATIENCE_SECONDS = 10.0
"""How long an idle process sees work waiting before it takes some without having got a message. One that came through
would have been here within a second; what is left are a broker that is away, and Celery's pool when it stands still
(its processes share locks, and one that was killed with such a lock in its hands never gives it back)."""

log = structlog.get_logger(__name__)


def worker_name(parent: int) -> str:
    """The name of the worker whose parent process has this pid on this machine."""
    return f"{socket.gethostname()}:{parent}"


class Reconciler:
    """Reconciles every `reconcile_seconds` until the process ends, or ends it when the parent is gone."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        notify: Callable[[], None],
        busy: threading.Lock,
        work: Callable[[], bool],
        counters: Counters,
    ) -> None:
        """`busy` is held while this process works on a batch; `work` takes one, unless it is, and says whether;
        `counters` is what it has counted.
        """
        self._database = database
        self._settings = settings
        self._notify = notify
        self._busy = busy
        self._counters = counters
        self._work = work
        self._idle_since: float | None = None
        self._parent = os.getppid()
        self._signed_at = 0.0
        self._started_at = timestamp()

    def start(self) -> None:
        threading.Thread(target=self._run, name="reconciler", daemon=True).start()

    def _run(self) -> None:
        # A signal that ends the process is for the main thread: Celery holds it back there while a lock is held that
        # the processes of the pool share. Taken by this thread, it would end the process with the lock.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        # At once: this process may be the successor of one that died with work in its hands.
        while True:
            if os.getppid() != self._parent:
                self._leave()
            worked = False
            try:
                done = reconcile(self._database, self._settings, self._notify)
                self._counters.add(LEASES_LOST, "", done.given_back + done.failed)
                if done.given_back or done.failed or done.dropped:
                    log.info(
                        "reconciled", given_back=done.given_back, failed=done.failed, dropped=done.dropped
                    )
                self._sign()
                tidy_folders(self._settings)
                worked = self._take_what_waits()
            except StorageError as error:
                log.warning("not reconciled", reason=str(error))
            except Exception:
                # This thread is what makes the rest reliable: it must outlive its own mistakes.
                log.exception("not reconciled")
            if not worked:
                time.sleep(self._settings.reconcile_seconds)

    def _take_what_waits(self) -> bool:
        """Work on a batch where work has been waiting although this process is idle; whether it did."""
        now = time.monotonic()
        if self._busy.locked() or not has_claimable_work(self._database):
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since < PATIENCE_SECONDS:
            return False
        worked = self._work()
        if worked:
            log.warning("work taken without a message", waited=round(now - self._idle_since, 1))
        return worked

    def _sign(self) -> None:
        now = time.time()
        if now - self._signed_at < SIGN_SECONDS:
            return
        with self._database.write() as connection:
            connection.execute(
                statements.SIGN_OF_LIFE,
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
            connection.execute(statements.FORGET_OLD_WORKERS, {"moment": now - FORGET_SECONDS})
        self._counters.write(self._database)
        self._signed_at = now

    def _leave(self) -> None:
        """End this process after its batch: without a parent nobody would give it work or end it."""
        with self._busy:
            log.warning("the worker's parent is gone; this process ends")
            os._exit(0)
