"""The time that a read of the database may take.

A statement that runs longer is interrupted by a thread. SQLite looks at that flag in all of its loops, those of the
full-text index included: the worst statements end within a quarter of a second. A progress handler would do the same, but
needs Python's lock thousands of times in a search, for which busy threads wait 5 ms each.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator

from shoal.errors import ReadTimeoutError

TICK_S = 0.1
"""How often the thread looks at the clock, seconds."""
IDLE_TICKS = 50
"""Ticks without a read after which the thread ends; the next read starts another."""


class Deadline:
    """The moment at which a read has to end; without `seconds` there is none."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def check(self) -> None:
        """Raise ReadTimeoutError if the time is over."""
        if self.is_over:
            raise self.error()

    def error(self) -> ReadTimeoutError:
        return ReadTimeoutError(self._seconds or 0.0)


UNLIMITED = Deadline(None)


class Interrupter:
    """Interrupts the statements of connections that are beyond their deadlines. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deadlines: dict[sqlite3.Connection, Deadline] = {}
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self, connection: sqlite3.Connection, deadline: Deadline) -> Iterator[None]:
        """Within the block, statements of the connection end with SQLITE_INTERRUPT once the time is over."""
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
            # Under the lock, so that no interrupt meets whoever uses the connection next.
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
                # Again and again: between two statements an interrupt has no effect.
                for connection, deadline in self._deadlines.items():
                    if deadline.is_over:
                        connection.interrupt()
