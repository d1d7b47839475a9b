"""The thread of every worker process that makes good what was interrupted and says that the worker lives.

It runs in the children, not in the parent: SQLite must not be open in a process that forks (its locks belong to
the process, its book-keeping of them would be copied), and the parent forks whenever a child is replaced.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

import structlog

import shoal
from shoal.clock import timestamp
from shoal.errors import StorageError
from shoal.jobs import statements
from shoal.jobs.broker import tidy_folders
from shoal.jobs.reconcile import reconcile
from shoal.settings import Settings
from shoal.storage.database import Database

FORGET_SECONDS = 86_400.0
"""A worker that has not been seen for a day is no longer listed."""

SIGN_SECONDS = 10.0
"""A worker says that it lives this often, at most."""

log = structlog.get_logger(__name__)


def worker_name(parent: int) -> str:
    """The name of the worker whose parent process has this pid on this machine."""
    return f"{socket.gethostname()}:{parent}"


class Reconciler:
    """Reconciles every `reconcile_seconds` until the process ends, or ends it when the parent is gone."""

    def __init__(
        self, database: Database, settings: Settings, nudge: Callable[[], None], busy: threading.Lock
    ) -> None:
        """`busy` is held while this process works on a batch."""
        self._database = database
        self._settings = settings
        self._nudge = nudge
        self._busy = busy
        self._parent = os.getppid()
        self._signed_at = 0.0
        self._started_at = timestamp()

    def start(self) -> None:
        threading.Thread(target=self._run, name="reconciler", daemon=True).start()

    def _run(self) -> None:
        # At once: this process may be the successor of one that died with work in its hands.
        while True:
            if os.getppid() != self._parent:
                self._leave()
            try:
                done = reconcile(self._database, self._settings, self._nudge)
                if done.given_back or done.failed or done.dropped:
                    log.info(
                        "reconciled", given_back=done.given_back, failed=done.failed, dropped=done.dropped
                    )
                self._sign()
                tidy_folders(self._settings)
            except StorageError as error:
                log.warning("not reconciled", reason=str(error))
            except Exception:
                # This thread is what makes the rest reliable: it must outlive its own mistakes.
                log.exception("not reconciled")
            time.sleep(self._settings.reconcile_seconds)

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
        self._signed_at = now

    def _leave(self) -> None:
        """End this process after its batch: without a parent nobody would give it work or end it."""
        with self._busy:
            log.warning("the worker's parent is gone; this process ends")
            os._exit(0)
