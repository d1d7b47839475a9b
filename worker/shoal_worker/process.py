"""The worker as a process: one parent that loads the scorer and forks, children that claim and work."""

from __future__ import annotations

import gc
import logging
import mmap
import os
import resource
import signal
import socket
import threading
import time
import warnings
from typing import Any

import structlog
from celery import Celery, signals
from celery.platforms import SecurityWarning

from shoal import logs
from shoal.collector import relax_collector
from shoal.errors import StorageError
from shoal.jobs import statements
from shoal.jobs.broker import make_celery, nudger
from shoal.jobs.names import TASK_WORK
from shoal.jobs.pipeline import Handlers, handlers_for
from shoal.jobs.tallies import Tallies
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal_worker.reconciler import Reconciler, worker_name
from shoal_worker.work import work_once

QUIET = ("celery.app.trace", "celery.worker.strategy", "celery.pool")
"""Celery's own lines about every task; the worker logs its batches itself."""

OUT_OF_MEMORY = 1
"""Exit code of a child that needed more memory than it may take."""

log = structlog.get_logger(__name__)


def main(settings: Settings | None = None, *, scorer: Any = None) -> int:
    """Work until SIGTERM or Ctrl-C, then end after the batches that are being worked on; the exit code.

    The scorer (lagoon's packaged data unless given) is loaded here, before the fork, so that all children share
    its pages. Raises ShoalError where the settings, the database or the data can't be used.
    """
    settings = settings or Settings.from_environment()
    logs.configure(settings, service="worker")
    _check_database(settings)
    scorer = scorer if scorer is not None else _load_scorer()
    app = make_worker(settings, scorer)
    worker = app.Worker(
        hostname=f"shoal-{os.getpid()}@{socket.gethostname()}",
        pool_cls="prefork",
        concurrency=settings.workers,
        loglevel=logging.getLevelName(settings.log_level.upper()),
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    # What is alive now lives as long as the process: the children's collector need not touch (and copy) it.
    gc.collect()
    gc.freeze()
    worker.start()
    _sign_off(settings)
    return int(worker.exitcode or 0)


def make_worker(settings: Settings, scorer: Any) -> Celery:
    """The Celery application with the one task. Opens no database: that is for the children."""
    app = make_celery(settings, consumer=True)
    child = _Child(settings, scorer, make_celery(settings))
    app.task(child.work, name=TASK_WORK, shared=False)
    signals.worker_process_init.connect(child.start, weak=False)
    signals.worker_process_shutdown.connect(child.stop, weak=False)
    signals.worker_shutting_down.connect(child.claim_no_more, weak=False)
    # Our logging is set up already.
    signals.setup_logging.connect(_keep_logging, weak=False)
    # It warns of a root user because of pickled messages; ours are JSON and say nothing.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    return app


class _Child:
    """The state of one worker process, empty until after the fork but for what the parent tells all of them."""

    def __init__(self, settings: Settings, scorer: Any, sender: Celery) -> None:
        self._settings = settings
        self._scorer = scorer
        self._nudge = nudger(sender)
        self._busy = threading.Lock()
        self._database: Database | None = None
        self._handlers: Handlers = {}
        self._tallies = Tallies()
        # One byte that parent and children share, 1 once the worker is to end.
        self._ending = mmap.mmap(-1, 1)

    def claim_no_more(self, **_: Any) -> None:
        """In the parent: the worker is to end. A message may be taken a moment later; it finds no one to claim."""
        self._ending[0] = 1

    def start(self, **_: Any) -> None:
        relax_collector()
        if self._settings.worker_memory_bytes:
            # Not the address space, of which the mapped model takes much: what the process has for itself alone.
            most = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (self._settings.worker_memory_bytes, most))
        self._database = Database(self._settings.database_url)
        self._handlers = handlers_for(self._database, self._scorer, self._settings)
        Reconciler(
            self._database, self._settings, self._nudge, self._busy, self._work_unasked, self._tallies
        ).start()
        log.info("worker process ready", pid=os.getpid(), parent=os.getppid())

    def stop(self, **_: Any) -> None:
        """Write what was counted since the reconciler did so last."""
        if self._database is None:
            return
        try:
            self._tallies.write(self._database)
        except StorageError as error:
            log.warning("counts of the last seconds are lost", reason=str(error))

    def work(self) -> None:
        """The task: answer one message."""
        # A task over its time limit gets a SIGTERM and, at once, a SIGKILL. The first would be taken by any of the
        # threads that work here, and end the process while another of them holds a lock that the whole pool shares.
        others = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            with self._busy:
                self._work_once()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, others)

    def _work_unasked(self) -> bool:
        """Take work without a message, unless there is some in hand; whether there was any."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            return self._work_once()
        finally:
            self._busy.release()

    def _work_once(self) -> bool:
        assert self._database is not None, "a child works once it has started"
        if self._ending[0]:
            return False
        try:
            return work_once(self._database, self._handlers, self._settings, self._nudge, self._tallies)
        except MemoryError:
            # What it held is taken back as after any other crash, and done by a process that begins afresh.
            log.critical("out of memory: this process ends", limit=self._settings.worker_memory_bytes)
            os._exit(OUT_OF_MEMORY)


def _check_database(settings: Settings) -> None:
    database = Database(settings.database_url)
    try:
        migrate.check(database)
    finally:
        database.close()


def _sign_off(settings: Settings) -> None:
    """A worker that has ended in order is no longer listed. The children are gone, so SQLite may be opened here."""
    database = Database(settings.database_url)
    try:
        with database.write() as connection:
            connection.execute(statements.FORGET_WORKER, {"name": worker_name(os.getpid())})
    except StorageError as error:
        log.warning("still listed", reason=str(error))
    finally:
        database.close()


def _load_scorer() -> Any:
    import lagoon

    started = time.monotonic()
    scorer = lagoon.load()
    log.info("scorer loaded", pid=os.getpid(), seconds=round(time.monotonic() - started, 3))
    return scorer


def _keep_logging(**_: Any) -> None:
    """Celery sets up no logging where this signal has a receiver."""
