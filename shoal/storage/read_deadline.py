"""Deadlines for reads of the database.

A thread interrupts statements that run too long. SQLite checks the interrupt flag in all of its loops: the
worst statements end within a quarter of a second. A progress handler would do the same, but needs Python's
interpreter lock thousands of times per search, and waits up to 5 ms for it when threads are busy.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import threading
import time
from collections.abc import Iterator

from shoal.errors import ReadTimeoutError

TICK_S = 0.1
"""Interval at which the thread checks the deadlines, seconds."""
IDLE_TICKS = 50
"""Ticks without a read after which the thread ends; the next read starts a new one."""


class Deadline:
    """The time at which a read must end; None for no deadline."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def remaining(self) -> float:
        """Seconds that are left, at least 0; infinite without a deadline."""
        return math.inf if self._end is None else max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise ReadTimeoutError after the deadline."""
        if self.is_over:
            raise self.error()

    @contextlib.contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock within the block. Raises ReadTimeoutError if it is not free before the deadline."""
        if not lock.acquire(timeout=min(self.remaining(), threading.TIMEOUT_MAX)):
            raise self.error()
        try:
            yield
        finally:
            lock.release()

    def error(self) -> ReadTimeoutError:
        return ReadTimeoutError(self._seconds or 0.0)


UNLIMITED = Deadline(None)


class Interrupter:
    """Interrupts statements of connections past their deadlines. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deadlines: dict[sqlite3.Connection, Deadline] = {}
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self, connection: sqlite3.Connection, deadline: Deadline) -> Iterator[None]:
        """Within the block, interrupt the connection's statements (SQLITE_INTERRUPT) after the deadline."""
        if deadline is UNLIMITED:
            yield
            return
        with self._lock:
            self._deadlines[connection] = deadline
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            # Under the lock, so that no interrupt hits the next user of the connection.
            with self._lock:
                del self._deadlines[connection]

    def _run(self) -> None:
        n_idle = 0
        while True:
            time.sleep(TICK_S)
            with self._lock:
                n_idle = 0 if self._deadlines else n_idle + 1
                if n_idle >= IDLE_TICKS:
                    self._thread = None
                    return
                # At every tick: an interrupt between two statements has no effect.
                for connection, deadline in self._deadlines.items():
                    if deadline.is_over:
                        connection.interrupt()
