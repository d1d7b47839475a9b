"""What a worker does when a newer version has migrated the database: nothing, until it is stopped.

It would restart and fail in a loop if it ended, and a failing health check would make others restart it.
`python -m shoal_worker.health --ready` shows the state.
"""

from __future__ import annotations

import signal
import threading
from contextlib import closing

import structlog

from shoal.errors import StorageError
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.opening import open_database

CHECK_SECONDS = 5.0
"""Interval at which an idle worker looks whether the schema is its own again."""
ADVICE = "start workers of the version that migrated it, and stop this one"

log = structlog.get_logger(__name__)


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
