"""`python -m shoal_worker.watchdog`: the process beside a worker that renews its leases and kills what hangs.

The worker's parent starts it and starts it again should it die. It is a program of its own because neither parent nor
children can do this: SQLite must not be open in the parent, which forks, and a child that works may run nothing else.
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
from shoal.errors import StorageError
from shoal.jobs.queue.watchdog import Watchdog, round_seconds
from shoal.service import log_setup
from shoal.settings import Settings
from shoal.storage.database import Database

SLOT_BYTES = 512
"""More than the longest owner of a claim (`shoal.jobs.queue.lease`)."""

RESTART_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Slots:
    """The owner of the claim that each child of a worker works on, in memory that the watchdog shares."""

    def __init__(self, file: int) -> None:
        """`file` is the descriptor of the file that is mapped, of SLOT_BYTES for each child."""
        self._memory = mmap.mmap(file, 0)

    def set(self, index: int, owner: str) -> None:
        """Set the owner that child `index` works for; empty for none. A reader may see half of it for a moment, which is
        the owner of nothing."""
        start = index * SLOT_BYTES
        self._memory[start : start + SLOT_BYTES] = owner.encode().ljust(SLOT_BYTES, b"\0")

    def owners(self) -> list[str]:
        """The owners that work now."""
        slots = range(0, len(self._memory), SLOT_BYTES)
        texts = [self._memory[at : at + SLOT_BYTES].rstrip(b"\0") for at in slots]
        return [text.decode(errors="replace") for text in texts if text]


class WatchdogProcess:
    """Keeps a watchdog running beside this process, the parent of a worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Written in full: memory that is mapped to a hole in a file needs a place on the disk later.
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
            assert self._process is not None, "it was started before this thread"
            code = self._process.wait()
            if self._is_ending:
                return
            log.warning("the watchdog ended and is started again", code=code)
            time.sleep(RESTART_SECONDS)
            try:
                self._spawn()
            except OSError as error:
                log.warning("the watchdog cannot be started", reason=str(error))


def main(file: int, parent: int) -> None:
    """Watch the children of a worker until their parent is gone."""
    # A Ctrl-C at the terminal reaches every process; the children still finish what they have in hand.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    settings = Settings.from_environment()
    log_setup.configure(settings, service="worker")
    slots, watchdog = Slots(file), Watchdog(Database(settings.database_url), settings)
    while os.getppid() == parent:
        try:
            watchdog.watch(slots.owners())
        except StorageError as error:
            log.warning("leases not renewed", reason=str(error))
        except Exception:
            # What is reliable about the worker rests on this process: it must outlive its own mistakes.
            log.exception("leases not renewed")
        time.sleep(round_seconds(settings))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
