"""`python -m shoal_worker.health`: check for a recent heartbeat of a worker on this machine.

For container health checks. The heartbeat is a database row that every worker process renews, so a healthy
result also means that the database is reachable. `--ready`: also check that the worker is not outdated.

When a newer version has migrated the database, a worker does nothing until it is stopped. It would restart
and fail in a loop if it ended, and a failing health check would make others restart it.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from contextlib import closing

import structlog

from shoal.errors import ShoalError, StorageError
from shoal.jobs.queue import statements
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.opening import open_database
from shoal_worker.reconciler import HEARTBEAT_SECONDS, worker_host

log = structlog.get_logger(__name__)


CHECK_SECONDS = 5.0
"""Interval at which an idle worker looks whether the schema is its own again."""
ADVICE = "start workers of the version that migrated it, and stop this one"
MISSED_HEARTBEATS = 3
"""Heartbeats that may be missing: one may wait for the write lock and for the preceding reconciliation."""


def seconds_since_heartbeat(settings: Settings) -> float | None:
    """Return the age of the last heartbeat of a worker on this machine and in this process namespace, by the
    store's clock; None if there is none. Raises StorageError."""
    with (
        closing(open_database(settings.database_url, settings.data_path)) as database,
        database.snapshot() as snapshot,
    ):
        rows, now = snapshot.rows(statements.WORKERS, {"since": 0.0}), snapshot.now()
    heartbeats = [row["seen_at"] for row in rows if row["name"].startswith(f"{worker_host()}:")]
    return now - max(heartbeats) if heartbeats else None


def main() -> int:
    """Return 0 if the worker is healthy, else 1 with the reason on stderr.

    A worker is alive while it waits because a newer version has migrated the database, as a restart would
    not help. It is not ready: with `--ready` the result is 1.
    """
    hostname = socket.gethostname()
    try:
        settings = Settings.from_environment()
        if is_outdated(settings):
            sys.stderr.write(f"outdated: a newer version has migrated the database; {ADVICE}\n")
            return int("--ready" in sys.argv[1:])
        silence = seconds_since_heartbeat(settings)
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


def is_outdated(settings: Settings) -> bool:
    """Whether a newer version has migrated the database. Raises StorageError."""
    with closing(open_database(settings.database_url, settings.data_path)) as database:
        return migrate.is_outdated(database)


def wait_while_outdated(settings: Settings) -> None:
    """Wait until SIGTERM or Ctrl-C, or until the database has this version's schema again.

    Call it in the main thread, in a process that does not fork any more.
    """
    log.critical("worker outdated: it claims and stores nothing", schema=migrate.HEAD, advice=ADVICE)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.wait(CHECK_SECONDS):
        try:
            if not is_outdated(settings):
                log.warning("the database has the schema of this version again; the worker ends")
                return
        except StorageError as error:
            log.warning("the schema cannot be read", reason=str(error))


if __name__ == "__main__":
    sys.exit(main())
