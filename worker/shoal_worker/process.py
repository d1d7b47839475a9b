"""The worker as a process: one parent that loads the scorer and forks, children that claim and work."""

from __future__ import annotations

import contextlib
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

import billiard
import structlog
from celery import Celery, signals
from celery.platforms import SecurityWarning

from shoal.errors import StorageError
from shoal.jobs.queue import lease, statements
from shoal.jobs.queue.counters import Counters
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import handlers_for
from shoal.jobs.transport.broker import TASK_WORK, make_celery, worker_notifier
from shoal.service import log_setup
from shoal.service.garbage_collection import relax_collector
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal_worker.reconciler import Reconciler, worker_name
from shoal_worker.watchdog import Slots, WatchdogProcess
from shoal_worker.work import work_once

QUIET = ("celery.app.trace", "celery.worker.strategy", "celery.pool")
"""Celery's own lines about every task; the worker logs its batches itself."""

OUT_OF_MEMORY = 1
"""Exit code of a child that needed more memory than it may take."""

STOP_SECONDS = 30
"""How long a worker that is told to end may finish what it has in hand: less than `shoal up` and containers wait."""
KILLED = 1
"""Exit code of a worker that was not done by then."""

log = structlog.get_logger(__name__)


def main(settings: Settings | None = None, *, scorer: Any = None) -> int:
    """Work until SIGTERM or Ctrl-C, then end after the batches that are being worked on, or after STOP_SECONDS; the exit
    code.

    The scorer (lagoon's packaged data unless given) is loaded here, before the fork, so that all children share
    its pages. Raises ShoalError where the settings, the database or the data can't be used.
    """
    settings = settings or Settings.from_environment()
    log_setup.configure(settings, service="worker")
    _check_database(settings)
    scorer = scorer if scorer is not None else _load_scorer()
    watchdog = WatchdogProcess(settings)
    app = make_worker(settings, scorer, watchdog.slots)
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
    watchdog.start()
    worker.start()
    watchdog.end()
    _sign_off(settings)
    return int(worker.exitcode or 0)


def make_worker(settings: Settings, scorer: Any, slots: Slots) -> Celery:
    """The Celery application with the one task. Opens no database: that is for the children."""
    app = make_celery(settings, consumer=True)
    child = _Child(settings, scorer, make_celery(settings), slots)
    app.task(child.work, name=TASK_WORK, shared=False)
    signals.worker_process_init.connect(child.start, weak=False)
    signals.worker_process_shutdown.connect(child.stop, weak=False)
    signals.worker_shutting_down.connect(child.end, weak=False)
    # Our logging is set up already.
    signals.setup_logging.connect(_keep_logging, weak=False)
    # It warns of a root user because of pickled messages; ours are JSON and say nothing.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    return app


class _Child:
    """The state of one worker process, empty until after the fork but for what the parent tells all of them."""

    def __init__(self, settings: Settings, scorer: Any, sender: Celery, slots: Slots) -> None:
        self._settings = settings
        self._slots = slots
        self._scorer = scorer
        self._notify = worker_notifier(sender)
        self._busy = threading.Lock()
        self._database: Database | None = None
        self._handlers: Handlers = {}
        self._counters = Counters()
        # One byte that parent and children share, 1 once the worker is to end.
        self._ending = mmap.mmap(-1, 1)

    def end(self, **_: Any) -> None:
        """In the parent: the worker is to end. A message may be taken a moment later; it finds no one to claim. A second
        Ctrl-C, for which Celery would also wait, kills."""
        if self._ending[0]:
            return
        self._ending[0] = 1
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, _kill_worker)
        signal.alarm(STOP_SECONDS)

    def start(self, **_: Any) -> None:
        relax_collector()
        if self._settings.worker_memory_bytes:
            # Not the address space, of which the mapped model takes much: what the process has for itself alone.
            most = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (self._settings.worker_memory_bytes, most))
        self._database = Database(self._settings.database_url)
        self._handlers = handlers_for(self._database, self._scorer, self._settings)
        Reconciler(
            self._database, self._settings, self._notify, self._busy, self._work_unasked, self._counters
        ).start()
        log.info("worker process ready", pid=os.getpid(), parent=os.getppid())

    def stop(self, **_: Any) -> None:
        """Write what was counted since the reconciler did so last."""
        if self._database is None:
            return
        try:
            self._counters.write(self._database)
        except StorageError as error:
            log.warning("counts of the last seconds are lost", reason=str(error))

    def work(self) -> None:
        """The task: answer one message."""
        # Should a manager of services send a SIGTERM to every process, the child still finishes its batch.
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
        owner, slot = lease.new_owner(), billiard.current_process().index
        self._slots.set(slot, owner)
        try:
            return work_once(
                self._database, self._handlers, self._settings, self._notify, self._counters, owner=owner
            )
        except MemoryError:
            # What it held is taken back as after any other crash, and done by a process that begins afresh.
            log.critical("out of memory: this process ends", limit=self._settings.worker_memory_bytes)
            os._exit(OUT_OF_MEMORY)
        finally:
            self._slots.set(slot, "")


def _kill_worker(*_: Any) -> None:
    """End this process, the worker's parent, and its children. The next worker takes up what they held."""
    try:
        log.critical("the worker is killed; the next one takes up what it had in hand")
    finally:
        for child in billiard.active_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        os._exit(KILLED)


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
