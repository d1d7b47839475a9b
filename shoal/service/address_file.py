"""The file beside the database with the address of the service that runs for it, for hooks of agents.

The service holds a lock on the file while it runs, so nobody mistakes the file of a dead service for a living
one. Of two services of one library, the first is named.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

ATTEMPTS = 20
PAUSE_SECONDS = 0.05
"""A hook that looks at the file holds the lock for a moment."""


@contextlib.contextmanager
def announced(database: Path, url: str) -> Iterator[None]:
    """Name the service at `url` during the block. Without write permission or as a second service, do
    nothing."""
    path = database.with_name(f"{database.name}.service")
    descriptor = _locked(path)
    if descriptor is None:
        yield
        return
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{url}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(PAUSE_SECONDS)
            continue
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        break  # a service that ended in this moment has removed the file
    os.close(descriptor)
    return None
