"""`python -m shoal_worker.health`: whether a worker of this machine has given a sign of life lately.

For health checks of containers, where the machine's name is the container's. The sign is the row that every
worker process renews in the database, so a healthy answer also says that the database can be reached.
"""

from __future__ import annotations

import socket
import sys
import time

from shoal.errors import ShoalError
from shoal.jobs.queue import statements
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal_worker.reconciler import SIGN_SECONDS

MISSED_SIGNS = 3
"""A sign may come late: it waits for the write lock, and for the round of reconciling before it."""


def seconds_since_sign(settings: Settings, hostname: str) -> float | None:
    """How long ago a worker of that machine was seen; None if none was. Raises StorageError."""
    database = Database(settings.database_url)
    try:
        with database.read() as connection:
            rows = connection.execute(statements.WORKERS, {"since": 0.0}).mappings().all()
    finally:
        database.close()
    seen = [row["seen_at"] for row in rows if row["hostname"] == hostname]
    return time.time() - max(seen) if seen else None


def main() -> int:
    """0 if the worker is well, else 1 with the reason on stderr."""
    hostname = socket.gethostname()
    try:
        settings = Settings.from_environment()
        silence = seconds_since_sign(settings, hostname)
    except ShoalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if silence is None:
        sys.stderr.write(f"no worker on {hostname} has been seen\n")
        return 1
    if silence > MISSED_SIGNS * SIGN_SECONDS + settings.reconcile_seconds:
        sys.stderr.write(f"the worker on {hostname} was last seen {silence:.0f} s ago\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
