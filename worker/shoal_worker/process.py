"""The worker process: a parent loads the scorer and forks, its children claim and process work.

A child claims one batch, notifies another worker while more work waits, processes the batch, and checks
again.

On PostgreSQL, threads claim work when the database notifies of it: one listens for `main`, and one for the
collections, which the catalog marks. The broker's message usually comes first. Without the broker, these
threads take the work at once, which the reconciler would find later.
"""

from __future__ import annotations

import contextlib
import functools
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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import billiard
import structlog
from celery import Celery, signals
from celery.platforms import SecurityWarning

from shoal.collections.catalog import Catalog
from shoal.errors import CollectionNotFoundError, StorageError
from shoal.jobs.queue import claims, statements
from shoal.jobs.queue.claims import Batch, claim, has_claimable_work
from shoal.jobs.queue.metrics import Counters
from shoal.jobs.queue.queries import trace_ids
from shoal.jobs.queue.recovery import return_free_pages
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import process
from shoal.jobs.transport.broker import TASK_WORK, make_celery, worker_notifier
from shoal.scorer import Scorer
from shoal.service import process_setup
from shoal.service.process_setup import reduce_collections
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database, Listener
from shoal.storage.opening import open_database
from shoal.support.collection_names import MAIN
from shoal_worker.collection_keeper import CollectionKeeper
from shoal_worker.health import is_outdated, wait_while_outdated
from shoal_worker.keepers import repeat
from shoal_worker.libraries import Libraries
from shoal_worker.reconciler import Reconciler, Slots, WatchdogProcess, worker_name

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder

QUIET_LOGGERS = ("celery.app.trace", "celery.worker.strategy", "celery.pool")
"""Celery loggers that write a line for every task; the worker logs its batches itself."""

OUT_OF_MEMORY_EXIT_CODE = 1
"""Exit code of a child that exceeded its memory limit."""

COLLECTIONS_PER_MESSAGE = 16
"""Collections that a process looks at for one message."""

STOP_SECONDS = 30
"""Time a stopping worker has to finish its batches: less than `shoal up` and containers wait."""
OUTDATED_POLL_SECONDS = 0.5
KILLED_EXIT_CODE = 1
"""Exit code of a worker that exceeded STOP_SECONDS."""

log = structlog.get_logger(__name__)
WAIT_SECONDS = 60.0
MESSAGE_SECONDS = 0.5
"""How long the broker's message has to come first."""


def main(settings: Settings | None = None, *, scorer: Scorer | None = None) -> int:
    """Work until SIGTERM or Ctrl-C, finish the current batches within STOP_SECONDS, and return the exit code.

    If a newer version migrates the database, the worker stops its processes and waits to be stopped.

    Loads the scorer (lagoon's packaged data by default) before the fork, so that all children share its
    pages. Raises ShoalError if the settings, the database or the data cannot be used.
    """
    settings = settings or Settings.from_environment()
    process_setup.configure(settings, service="worker")
    if is_outdated(settings):
        wait_while_outdated(settings)
        return 0
    _check_database(settings)
    scorer = scorer if scorer is not None else _load_scorer()
    watchdog = WatchdogProcess(settings)
    ending = Ending()
    app = make_worker(settings, scorer, watchdog.slots, ending)
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
    gc.enable()
    watchdog.start()
    threading.Thread(target=_stop_when_outdated, args=(ending,), name="outdated", daemon=True).start()
    worker.start()
    watchdog.end()
    if ending.is_outdated:
        signal.alarm(0)
        wait_while_outdated(settings)
        return 0
    _unregister(settings)
    return int(worker.exitcode or 0)


class Ending:
    """Why the worker is stopping, in memory that parent and children share."""

    def __init__(self) -> None:
        self._flags = mmap.mmap(-1, 2)

    @property
    def has_begun(self) -> bool:
        return bool(self._flags[0])

    def begin(self) -> None:
        self._flags[0] = 1

    @property
    def is_outdated(self) -> bool:
        return bool(self._flags[1])

    def set_outdated(self) -> None:
        """Note that a newer version has migrated the database. A worker that is being stopped just ends."""
        if not self.has_begun:
            self._flags[1] = 1

    def forget_outdated(self) -> None:
        """Let an outdated worker end rather than wait."""
        self._flags[1] = 0


def _stop_when_outdated(ending: Ending) -> None:
    """Stop this worker, in its parent process, once a child has found that it is outdated."""
    while not ending.is_outdated:
        time.sleep(OUTDATED_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def make_worker(settings: Settings, scorer: Scorer, slots: Slots, ending: Ending) -> Celery:
    """Return the Celery application with its one task. Opens no database: only the children may do so."""
    app = make_celery(settings, consumer=True)
    child = _Child(settings, scorer, make_celery(settings), slots, ending)
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

    def __init__(
        self, settings: Settings, scorer: Scorer, sender: Celery, slots: Slots, ending: Ending
    ) -> None:
        self._settings = settings
        self._slots = slots
        self._scorer = scorer
        self._notify = worker_notifier(sender)
        self._busy = threading.Lock()
        self._libraries: Libraries | None = None
        self._counters = Counters()
        # Looks without a batch since the last one, so that collections whose work waits cause no endless
        # turn.
        self._n_fruitless = 0
        self._encoders: list[Encoder | None] = []
        self._ending = ending

    def end(self, **_: Any) -> None:
        """Stop the worker (runs in the parent). Later messages cause no claim.

        A second Ctrl-C kills the worker; Celery alone would keep waiting.
        """
        if self._ending.has_begun:
            # A worker that stops because it is outdated would wait; this signal ends it.
            self._ending.forget_outdated()
            return
        self._ending.begin()
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, _kill_worker)
        signal.alarm(STOP_SECONDS)

    def start(self, **_: Any) -> None:
        reduce_collections()
        if self._settings.worker_memory_bytes:
            # Limit private memory, not the address space: most of it is the mapped model.
            hard_limit = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (self._settings.worker_memory_bytes, hard_limit))
        libraries = Libraries(self._settings, self._scorer, self._encoder, self._notify)
        if self._settings.embed and self._encoder() is None:
            log.warning("SHOAL_EMBED=1 has no effect: SHOAL_ENCODER names no encoder")
        assert libraries.main.handlers, "loads what work needs, before the first message"
        self._libraries = libraries
        keeper = CollectionKeeper(libraries, self._settings, self._notify, self._counters)
        # The threads below may take work at once.
        Reconciler(
            libraries.main.database,
            self._settings,
            self._notify,
            self._busy,
            self._process_without_message,
            self._counters,
            libraries.main.look,
            self._ending.set_outdated,
            keeper.has_waiting,
        ).start()
        take = self._process_without_message
        WorkListener.of_main(libraries.main.database, self._busy, take).start()
        WorkListener.of_collections(libraries.registry.catalog, self._busy, take).start()
        libraries.main.notes.start()
        libraries.main.searches.start()
        libraries.main.sources.start()
        keeper.start()
        log.info("worker process ready", pid=os.getpid(), parent=os.getppid())

    def stop(self, **_: Any) -> None:
        """Write the counts since the reconciler's last write."""
        if self._libraries is None:
            return
        try:
            self._counters.write(self._libraries.main.database)
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
        assert self._libraries is not None, "a child works only after it has started"
        if self._ending.has_begun or self._ending.is_outdated:
            return False
        try:
            turn = self._libraries.turn()
        except StorageError as error:
            log.warning("work postponed", reason=str(error))
            return False
        for collection_id in turn[:COLLECTIONS_PER_MESSAGE]:
            if self._process_batch_of(collection_id, self._libraries):
                self._libraries.served(collection_id)
                self._n_fruitless = 0
                if len(turn) > 1:
                    # Another collection may have work, too.
                    self._notify()
                return True
            self._libraries.served(collection_id)
            self._n_fruitless += 1
        if len(turn) > COLLECTIONS_PER_MESSAGE and self._n_fruitless <= len(turn):
            self._notify()
        return False

    def _process_batch_of(self, collection_id: str, libraries: Libraries) -> bool:
        """Process a batch of a collection; False if it has none, or was deleted."""
        owner, slot = claims.new_owner(), billiard.current_process().index
        self._slots.set(slot, owner, collection_id)
        try:
            with libraries.using(collection_id) as library:
                # Loading the parsers takes a second, so only for work that is there.
                if collection_id != MAIN and not has_claimable_work(library.database):
                    return False
                worked = process_next_batch(
                    library.database,
                    library.handlers,
                    library.settings,
                    self._notify,
                    self._counters,
                    owner=owner,
                )
                try:
                    library.look()
                except StorageError as error:
                    # The reconciler looks again.
                    log.warning("embedding not begun", reason=str(error))
                return worked
        except (CollectionNotFoundError, StorageError) as error:
            log.warning("work postponed", collection=collection_id, reason=str(error))
            return False
        except MemoryError:
            # Its lease is reclaimed as after any other crash, and a fresh process repeats the work.
            log.critical("out of memory: this process exits", limit=self._settings.worker_memory_bytes)
            os._exit(OUT_OF_MEMORY_EXIT_CODE)
        finally:
            self._slots.set(slot, "")

    def _encoder(self) -> Encoder | None:
        """The encoder of the settings, which all libraries of this process share."""
        if not self._encoders:
            from shoal.encoders.encoder import open_encoder

            self._encoders.append(open_encoder(self._settings))
        return self._encoders[0]


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
    with contextlib.closing(open_database(settings.database_url, settings.data_path)) as database:
        migrate.check(database)


def _unregister(settings: Settings) -> None:
    """Remove the worker from the list of workers. The children are gone, so SQLite may be opened here."""
    with contextlib.closing(open_database(settings.database_url, settings.data_path)) as database:
        database.write_guard = migrate.check_writable
        try:
            with database.write() as transaction:
                transaction.execute(statements.DELETE_WORKER, {"name": worker_name(os.getpid())})
        except StorageError as error:
            log.warning("the stopped worker is still listed", reason=str(error))


def _load_scorer() -> Any:
    import lagoon

    started = time.monotonic()
    scorer = lagoon.load()
    log.info("scorer loaded", pid=os.getpid(), seconds=round(time.monotonic() - started, 3))
    return scorer


def _keep_logging(**_: Any) -> None:
    """Keep the logging configuration: Celery configures none if this signal has a receiver."""


def process_next_batch(
    database: Database,
    handlers: Handlers,
    settings: Settings,
    notify: Callable[[], None],
    counters: Counters | None = None,
    *,
    owner: str,
) -> bool:
    """Claim and process one batch for `owner` (`lease.new_owner()`); False if there was no work.

    While more work can be claimed, a message to other workers is kept in the queue. It is sent before the
    batch and again after it, because the batch may have opened a stage or made duplicates claimable. A
    StorageError is logged; the reconciler sends the next message.
    """
    try:
        batch = claim(database, owner, settings)
        if batch is None:
            return False
        with structlog.contextvars.bound_contextvars(**_log_context(database, batch)):
            _work_on(batch, database, handlers, settings, notify, counters)
    except StorageError as error:
        log.warning("work postponed", reason=str(error))
    return True


def _work_on(
    batch: Batch,
    database: Database,
    handlers: Handlers,
    settings: Settings,
    notify: Callable[[], None],
    counters: Counters | None,
) -> None:
    started = time.monotonic()
    if batch.more:
        notify()
    advance = process(batch, database, handlers, settings)
    if has_claimable_work(database):
        notify()
    if advance.ended_jobs:
        return_free_pages(database)
    seconds, n_bytes = time.monotonic() - started, sum(item.n_bytes for item in batch.items)
    if counters is not None:
        counters.add_batch(batch.stage, seconds=seconds, items=len(batch.items), n_bytes=n_bytes)
    log.info(
        "batch processed",
        stage=batch.stage.value,
        items=len(batch.items),
        bytes=n_bytes,
        seconds=round(seconds, 3),
        ended_jobs=list(advance.ended_jobs),
    )


def _log_context(database: Database, batch: Batch) -> dict[str, Any]:
    """Return the jobs of a batch and the trace ids of their requests, for all log lines about the batch."""
    jobs = {item.job_id for item in batch.items} | ({batch.wave.job_id} if batch.wave else set())
    return {"jobs": sorted(jobs), "trace_ids": trace_ids(database, sorted(jobs))}


class WorkListener:
    """Listens in a thread, if the database sends notifications."""

    def __init__(
        self,
        listener: Listener | None,
        has_work: Callable[[], bool],
        busy: threading.Lock,
        work: Callable[[], bool],
    ) -> None:
        """`has_work` may raise StorageError. `busy` is held while this process works. `work` processes a
        batch unless the process is busy, and returns whether it did."""
        self._listener = listener
        self._has_work = has_work
        self._busy = busy
        self._work = work

    @classmethod
    def of_main(cls, database: Database, busy: threading.Lock, work: Callable[[], bool]) -> WorkListener:
        """Return what listens for work in the library `main`."""
        return cls(database.listener(), lambda: has_claimable_work(database), busy, work)

    @classmethod
    def of_collections(cls, catalog: Catalog, busy: threading.Lock, work: Callable[[], bool]) -> WorkListener:
        """Return what listens for marks of collections."""
        return cls(catalog.listener(), lambda: bool(catalog.with_work(limit=1)), busy, work)

    def start(self) -> None:
        if self._listener is not None:
            repeat("work listener", functools.partial(self._wait, self._listener), 0)

    def _wait(self, listener: Listener) -> None:
        if listener.wait("work", WAIT_SECONDS):
            self.take_work()

    def take_work(self) -> None:
        """Work while there is work and no message brings it to this process. Raises StorageError."""
        while True:
            time.sleep(MESSAGE_SECONDS)
            if self._busy.locked() or not self._has_work() or not self._work():
                return
            log.info("work claimed by a notification")
