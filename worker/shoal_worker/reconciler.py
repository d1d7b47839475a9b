"""Recovery in a worker: a thread of every child, and the watchdog (`python -m shoal_worker.reconciler`).

The thread recovers interrupted work and sends heartbeats. It runs in the children, not in the parent. SQLite
must not be open in a process that forks: its locks belong to the process, but its record of them would be
copied. The parent forks whenever it replaces a child.

The watchdog renews a worker's leases and kills children that hang. The worker's parent starts it and restarts
it if it dies. It is a separate program because neither parent nor children can do this: SQLite must not be
open in the parent, and a busy child may be unable to run other threads.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import structlog

import shoal
from shoal.cli.supervisor import environment_of
from shoal.collections.registry import Registry
from shoal.errors import DatabaseUnavailableError, StorageError
from shoal.jobs.queue import claims, statements
from shoal.jobs.queue.claims import has_claimable_work
from shoal.jobs.queue.metrics import LEASES_LOST, Counters
from shoal.jobs.queue.recovery import Watchdog, reconcile, round_seconds
from shoal.jobs.transport.broker import remove_stale_messages
from shoal.service import process_setup
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp
from shoal.support.collection_names import MAIN, is_id
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
SLOT_BYTES = 512
"""More than the length of any owner (`shoal.jobs.queue.claims`)."""
RESTART_SECONDS = 1.0


def worker_name(parent: int) -> str:
    """Return the name of the worker whose parent process has this pid on this machine.

    Containers may share the name of a host, and number their processes alike.
    """
    return f"{worker_host()}:{parent}"


def worker_host() -> str:
    """Return the beginning of the names of workers on this machine and in this process namespace."""
    return f"{socket.gethostname()}:{claims.host()}"


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


class Slots:
    """The current owner of each child of a worker, in memory shared with the watchdog."""

    def __init__(self, file: int) -> None:
        """`file` is the descriptor of the mapped file, with SLOT_BYTES for each child."""
        self._memory = mmap.mmap(file, 0)

    def set(self, index: int, owner: str, collection_id: str = MAIN) -> None:
        """Set the owner of child `index` and the collection it works in, empty for none.

        A reader may briefly see a partial owner, which holds no lease.
        """
        start = index * SLOT_BYTES
        text = f"{collection_id} {owner}" if owner else ""
        self._memory[start : start + SLOT_BYTES] = text.encode().ljust(SLOT_BYTES, b"\0")

    def owners(self) -> dict[str, list[str]]:
        """Return the owners that are working, by the id of their collection."""
        offsets = range(0, len(self._memory), SLOT_BYTES)
        texts = [self._memory[offset : offset + SLOT_BYTES].rstrip(b"\0") for offset in offsets]
        owners: dict[str, list[str]] = {}
        for text in texts:
            collection_id, _, owner = text.decode(errors="replace").partition(" ")
            if owner:
                owners.setdefault(collection_id, []).append(owner)
        return owners


class Watchdogs:
    """A watchdog for each collection in which a child works, and always one for `main`."""

    def __init__(self, settings: Settings) -> None:
        self._registry = Registry(settings)
        self._open: dict[str, tuple[Database, Watchdog]] = {}

    def watch(self, owners: dict[str, list[str]]) -> None:
        """Run one round. An error in one collection is logged and stops no other."""
        for collection_id in {MAIN, *owners}:
            if collection_id != MAIN and not is_id(collection_id):
                # A slot that is being written.
                continue
            try:
                self._watchdog(collection_id).watch(owners.get(collection_id, []))
            except StorageError as error:
                log.warning("leases not renewed", collection=collection_id, reason=str(error))
            except Exception:
                # The worker's time limits depend on this process, so no error may end it.
                log.exception("leases not renewed", collection=collection_id)
        for collection_id in self._open.keys() - {MAIN, *owners}:
            self._open.pop(collection_id)[0].close()

    def _watchdog(self, collection_id: str) -> Watchdog:
        if collection_id not in self._open:
            # The child that works there keeps the files of a deleted collection.
            if collection_id != MAIN and not self._registry.has_database(collection_id):
                raise DatabaseUnavailableError("the database of the collection is gone")
            settings = self._registry.settings_by_id(collection_id)
            database = open_database(settings.database_url, settings.data_path)
            database.write_guard = migrate.check_writable
            self._open[collection_id] = database, Watchdog(database, settings)
        return self._open[collection_id][1]


class WatchdogProcess:
    """Keeps a watchdog running beside this process, the parent of a worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Written in full, because memory mapped to a hole in a file needs disk space later.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker lives
        self._file.write(bytes(settings.workers * SLOT_BYTES))
        self._file.flush()
        self.slots = Slots(self._file.fileno())
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ending = False

    def start(self) -> None:
        self._spawn()
        threading.Thread(target=self._keep_alive, name="watchdog", daemon=True).start()

    def end(self) -> None:
        self._is_ending = True
        if self._process is not None:
            self._process.kill()

    def _spawn(self) -> None:
        file = self._file.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "shoal_worker.reconciler", str(file), str(os.getpid())],
            env=environment_of(self._settings),
            stdin=subprocess.DEVNULL,
            pass_fds=[file],
        )

    def _keep_alive(self) -> None:
        while True:
            assert self._process is not None, "the watchdog starts before this thread"
            code = self._process.wait()
            if self._is_ending:
                return
            log.warning("the watchdog died and is restarted", code=code)
            time.sleep(RESTART_SECONDS)
            try:
                self._spawn()
            except OSError as error:
                log.warning("the watchdog cannot be started", reason=str(error))


def main(file: int, parent: int) -> None:
    """Watch the children of a worker until their parent has died."""
    # A Ctrl-C at the terminal reaches every process, but the children still finish their batches.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    settings = Settings.from_environment()
    process_setup.configure(settings, service="worker")
    slots, watchdogs = Slots(file), Watchdogs(settings)
    while os.getppid() == parent:
        watchdogs.watch(slots.owners())
        time.sleep(round_seconds(settings))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
