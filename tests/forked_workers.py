"""What lets the workers among the forks of `forks.py` start and wait less. They import it."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

from billiard import pool
from waiting import LOOK_SECONDS

from shoal_worker import reconciler


class ForkedWatchdog:
    """A watchdog that is a fork of its worker, with the methods of `subprocess.Popen` that the worker uses.

    As a program it takes a second of processor time to start, in each worker.
    """

    def __init__(self, file: int) -> None:
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                reconciler.main(file, parent)
            finally:
                os._exit(1)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _fork(watchdog: reconciler.WatchdogProcess) -> None:
    watchdog._process = ForkedWatchdog(watchdog._file.fileno())  # type: ignore[assignment]


def _sleep(seconds: float) -> None:
    time.sleep(min(seconds, LOOK_SECONDS))


# Celery's processes look every 0.8 seconds whether one has died or should end, and wait a second before they end.
pool.time = SimpleNamespace(**vars(time) | {"sleep": _sleep})
reconciler.WatchdogProcess._spawn = _fork  # type: ignore[method-assign]
