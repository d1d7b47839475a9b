"""Exclusive access between processes, through a lock file beside the database that exists only while it is
held."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from shoal.errors import ReadOnlyDatabaseError


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
