"""Whether the files of a database are still those that a process has open.

While a process is connected, SQLite replaces neither the file nor the `-wal` and `-shm` beside it. Whoever else removes or
replaces one takes from every process what it writes from then on: it goes to a file without a name, and ends with the
process. SQLite does not notice.
"""

from __future__ import annotations

import threading
from pathlib import Path

from shoal.errors import DatabaseReplacedError

SUFFIXES = ("", "-wal", "-shm")

Identity = tuple[int, int] | None
"""Device and inode of a file; None if there is none."""


class DatabaseFiles:
    """The files as the first of the open connections of this process found them. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self._paths = [Path(f"{path}{suffix}") for suffix in SUFFIXES]
        self._lock = threading.Lock()
        self._n_open = 0
        self._opened: list[Identity] = []

    def opened(self) -> None:
        """Count a connection that was just opened. Raises DatabaseReplacedError, and does not count it, if it has other
        files than those opened before."""
        identities = self._identities()
        with self._lock:
            if not self._n_open:
                self._opened = identities
            elif identities != self._opened:
                raise DatabaseReplacedError
            self._n_open += 1

    def closed(self) -> None:
        """Forget a connection that is about to be closed. Without any, another process may remove the log."""
        with self._lock:
            self._n_open -= 1

    def replaced(self) -> tuple[str, ...]:
        """The suffixes of the files that were removed or replaced."""
        with self._lock:
            opened = list(self._opened) if self._n_open else None
        if opened is None:
            return ()
        current = self._identities()
        return tuple(suffix for suffix, old, new in zip(SUFFIXES, opened, current, strict=True) if old != new)

    def _identities(self) -> list[Identity]:
        return [_identity(path) for path in self._paths]


def _identity(path: Path) -> Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
