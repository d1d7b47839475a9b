"""`python -m shoal_worker.watchdog`: the process that renews a worker's leases and kills children that hang.

The worker's parent starts it and restarts it if it dies. It is a separate program because neither parent nor
children can do this: SQLite must not be open in the parent, which forks, and a busy child may be unable to
run other threads.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import structlog

from shoal.cli.supervisor import environment_of
from shoal.collections.registry import Registry
from shoal.errors import DatabaseUnavailableError, StorageError
from shoal.jobs.queue.watchdog import Watchdog, round_seconds
from shoal.service import process_setup
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.collection_names import MAIN, is_id

SLOT_BYTES = 512
"""More than the length of any owner (`shoal.jobs.queue.lease`)."""

RESTART_SECONDS = 1.0

log = structlog.get_logger(__name__)


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
            [sys.executable, "-P", "-m", "shoal_worker.watchdog", str(file), str(os.getpid())],
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
