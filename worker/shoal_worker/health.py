"""`python -m shoal_worker.health`: check for a recent heartbeat of a worker on this machine.

For container health checks, where the host name is that of the container. The heartbeat is a database row
that every worker process renews, so a healthy result also means that the database is reachable.
"""

from __future__ import annotations

import socket
import sys
import time

from shoal.errors import ShoalError
from shoal.jobs.queue import statements
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal_worker.reconciler import HEARTBEAT_SECONDS

MISSED_HEARTBEATS = 3
"""Heartbeats that may be missing: one may wait for the write lock and for the preceding reconciliation."""


def seconds_since_heartbeat(settings: Settings, hostname: str) -> float | None:
    """Return the age of the last heartbeat on a machine, None if there is none. Raises StorageError."""
    database = Database(settings.database_url)
    try:
        with database.snapshot() as snapshot:
            rows = snapshot.rows(statements.WORKERS, {"since": 0.0})
    finally:
        database.close()
    heartbeats = [row["seen_at"] for row in rows if row["hostname"] == hostname]
    return time.time() - max(heartbeats) if heartbeats else None


def main() -> int:
    """Return 0 if the worker is healthy, else 1 with the reason on stderr."""
    hostname = socket.gethostname()
    try:
        settings = Settings.from_environment()
        silence = seconds_since_heartbeat(settings, hostname)
    except ShoalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if silence is None:
        sys.stderr.write(f"no worker is registered on {hostname}\n")
        return 1
    if silence > MISSED_HEARTBEATS * HEARTBEAT_SECONDS + settings.reconcile_seconds:
        sys.stderr.write(f"the last heartbeat of the worker on {hostname} was {silence:.0f} s ago\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
