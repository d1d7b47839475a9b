"""The files of a database on SQLite: their lock, and the detection that they were removed or replaced.

While a process is connected, SQLite replaces neither the file nor its `-wal` and `-shm`. If something else
removes or replaces one of them, every connected process keeps writing to an unlinked file, and its changes
end with the process. SQLite does not detect this.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from shoal.errors import DatabaseReplacedError, ReadOnlyDatabaseError

SUFFIXES = ("", "-wal", "-shm")

Identity = tuple[int, int] | None
"""Device and inode of a file; None if the file does not exist."""


class DatabaseFiles:
    """The identities of the files when the first open connection of this process was opened. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._paths = [Path(f"{path}{suffix}") for suffix in SUFFIXES]
        self._lock = threading.Lock()
        self._n_open = 0
        self._opened: list[Identity] = []

    def opened(self) -> None:
        """Count a connection that was just opened.

        Raises DatabaseReplacedError, without counting it, if its files differ from those of earlier
        connections.
        """
        identities = self._identities()
        with self._lock:
            if not self._n_open:
                self._opened = identities
            elif identities != self._opened:
                raise DatabaseReplacedError
            self._n_open += 1

    def closed(self) -> None:
        """Discount a connection that is about to be closed. Without connections, other processes may remove
        the WAL."""
        with self._lock:
            self._n_open -= 1

    def replaced(self) -> tuple[str, ...]:
        """List the suffixes of the files that were removed or replaced."""
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
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def alone(database: Path, what: str) -> Iterator[None]:
    """Hold the exclusive lock for the operation `what`; wait for other processes. Raises
    ReadOnlyDatabaseError."""
    path = database.with_name(f"{database.name}.{what}-lock")
    file = _locked(database, path)
    try:
        yield
    finally:
        # Removed before it is unlocked: a waiting process notices the removal and creates a new lock file.
        path.unlink(missing_ok=True)
        file.close()


@contextlib.contextmanager
def alone_if_free(database: Path, what: str) -> Iterator[bool]:
    """Hold the exclusive lock for the operation `what`, or yield False at once if another process or thread
    holds it. Raises ReadOnlyDatabaseError."""
    path = database.with_name(f"{database.name}.{what}-lock")
    try:
        file = _locked(database, path, fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _locked(database: Path, path: Path, flags: int = 0) -> IO[str]:
    while True:
        try:
            file = path.open("w")
        except OSError as error:
            raise ReadOnlyDatabaseError(database) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | flags)
        except BlockingIOError:
            file.close()
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
