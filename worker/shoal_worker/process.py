"""The worker process: a parent loads the scorer and forks, its children claim and process work."""

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
from shoal.scorer import Scorer
from shoal.service import log_setup
from shoal.service.garbage_collection import reduce_collections
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal_worker.note_keeper import NoteKeeper
from shoal_worker.reconciler import Reconciler, worker_name
from shoal_worker.watchdog import Slots, WatchdogProcess
from shoal_worker.work import process_next_batch

QUIET_LOGGERS = ("celery.app.trace", "celery.worker.strategy", "celery.pool")
"""Celery loggers that write a line for every task; the worker logs its batches itself."""

OUT_OF_MEMORY_EXIT_CODE = 1
"""Exit code of a child that exceeded its memory limit."""

STOP_SECONDS = 30
"""Time a stopping worker has to finish its batches: less than `shoal up` and containers wait."""
KILLED_EXIT_CODE = 1
"""Exit code of a worker that exceeded STOP_SECONDS."""

log = structlog.get_logger(__name__)


def main(settings: Settings | None = None, *, scorer: Scorer | None = None) -> int:
    """Work until SIGTERM or Ctrl-C, finish the current batches within STOP_SECONDS, and return the exit code.

    Loads the scorer (lagoon's packaged data by default) before the fork, so that all children share its
    pages. Raises ShoalError if the settings, the database or the data cannot be used.
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
    # All objects that exist now live as long as the process. Freezing them keeps the children's garbage
    # collector from touching, and so copying, their pages.
    gc.collect()
    gc.freeze()
    watchdog.start()
    worker.start()
    watchdog.end()
    _unregister(settings)
    return int(worker.exitcode or 0)


def make_worker(settings: Settings, scorer: Scorer, slots: Slots) -> Celery:
    """Return the Celery application with its one task. Opens no database: only the children may do so."""
    app = make_celery(settings, consumer=True)
    child = _Child(settings, scorer, make_celery(settings), slots)
    app.task(child.work, name=TASK_WORK, shared=False)
    signals.worker_process_init.connect(child.start, weak=False)
    signals.worker_process_shutdown.connect(child.stop, weak=False)
    signals.worker_shutting_down.connect(child.end, weak=False)
    # Logging is already configured.
    signals.setup_logging.connect(_keep_logging, weak=False)
    # Celery warns about running as root because of pickled messages; these messages are JSON without
    # arguments.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    return app


class _Child:
    """State of one worker process. Before the fork it holds only what all processes share."""

    def __init__(self, settings: Settings, scorer: Scorer, sender: Celery, slots: Slots) -> None:
        self._settings = settings
        self._slots = slots
        self._scorer = scorer
        self._notify = worker_notifier(sender)
        self._busy = threading.Lock()
        self._database: Database | None = None
        self._handlers: Handlers = {}
        self._counters = Counters()
        # One byte shared by parent and children: 1 once the worker is stopping.
        self._ending = mmap.mmap(-1, 1)

    def end(self, **_: Any) -> None:
        """Stop the worker (runs in the parent). Later messages cause no claim.

        A second Ctrl-C kills the worker; Celery alone would keep waiting.
        """
        if self._ending[0]:
            return
        self._ending[0] = 1
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, _kill_worker)
        signal.alarm(STOP_SECONDS)

    def start(self, **_: Any) -> None:
        reduce_collections()
        if self._settings.worker_memory_bytes:
            # Limit private memory, not the address space, most of which is the mapped model.
            hard_limit = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (self._settings.worker_memory_bytes, hard_limit))
        self._database = Database(self._settings.database_url)
        self._handlers = handlers_for(self._database, self._scorer, self._settings)
        Reconciler(
            self._database,
            self._settings,
            self._notify,
            self._busy,
            self._process_without_message,
            self._counters,
        ).start()
        NoteKeeper(self._database, self._settings, self._scorer).start()
        log.info("worker process ready", pid=os.getpid(), parent=os.getppid())

    def stop(self, **_: Any) -> None:
        """Write the counts since the reconciler's last write."""
        if self._database is None:
            return
        try:
            self._counters.write(self._database)
        except StorageError as error:
            log.warning("counts of the last seconds lost", reason=str(error))

    def work(self) -> None:
        """Process one batch; this is the Celery task."""
        # A service manager may send SIGTERM to every process; the child still finishes its batch.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            with self._busy:
                self._process_next_batch()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)

    def _process_without_message(self) -> bool:
        """Process a batch without a message unless this process is busy; True if there was work."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            return self._process_next_batch()
        finally:
            self._busy.release()

    def _process_next_batch(self) -> bool:
        assert self._database is not None, "a child works only after it has started"
        if self._ending[0]:
            return False
        owner, slot = lease.new_owner(), billiard.current_process().index
        self._slots.set(slot, owner)
        try:
            return process_next_batch(
                self._database, self._handlers, self._settings, self._notify, self._counters, owner=owner
            )
        except MemoryError:
            # Its lease is reclaimed as after any other crash, and a fresh process repeats the work.
            log.critical("out of memory: this process exits", limit=self._settings.worker_memory_bytes)
            os._exit(OUT_OF_MEMORY_EXIT_CODE)
        finally:
            self._slots.set(slot, "")


def _kill_worker(*_: Any) -> None:
    """Kill the worker: this parent process and its children. The next worker reclaims their leases."""
    try:
        log.critical("the worker is killed; the next one resumes its work")
    finally:
        for child in billiard.active_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        os._exit(KILLED_EXIT_CODE)


def _check_database(settings: Settings) -> None:
    database = Database(settings.database_url)
    try:
        migrate.check(database)
    finally:
        database.close()


def _unregister(settings: Settings) -> None:
    """Remove the worker from the list of workers. The children are gone, so SQLite may be opened here."""
    database = Database(settings.database_url)
    try:
        with database.write() as transaction:
            transaction.execute(statements.DELETE_WORKER, {"name": worker_name(os.getpid())})
    except StorageError as error:
        log.warning("the stopped worker is still listed", reason=str(error))
    finally:
        database.close()


def _load_scorer() -> Any:
    import lagoon

    started = time.monotonic()
    scorer = lagoon.load()
    log.info("scorer loaded", pid=os.getpid(), seconds=round(time.monotonic() - started, 3))
    return scorer


def _keep_logging(**_: Any) -> None:
    """Keep the logging configuration: Celery configures none if this signal has a receiver."""
