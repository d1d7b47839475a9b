"""Threads of every worker process that claim work when the database notifies of it (PostgreSQL).

One listens for `main`, and one for the collections, which the catalog marks. The broker's message usually
comes first. Without the broker, these threads take the work at once, which the reconciler would find later.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable

import structlog

from shoal.collections.catalog import Catalog
from shoal.jobs.queue.claims import has_claimable_work
from shoal.storage.database import Database, Listener
from shoal_worker.background import repeat

WAIT_SECONDS = 60.0
MESSAGE_SECONDS = 0.5
"""How long the broker's message has to come first."""

log = structlog.get_logger(__name__)


class WorkListener:
    """Listens in a thread, if the database sends notifications."""

    def __init__(
        self,
        listener: Listener | None,
        has_work: Callable[[], bool],
        busy: threading.Lock,
        work: Callable[[], bool],
    ) -> None:
        """`has_work` may raise StorageError. `busy` is held while this process works. `work` processes a
        batch unless the process is busy, and returns whether it did."""
        self._listener = listener
        self._has_work = has_work
        self._busy = busy
        self._work = work

    @classmethod
    def of_main(cls, database: Database, busy: threading.Lock, work: Callable[[], bool]) -> WorkListener:
        """Return what listens for work in the library `main`."""
        return cls(database.listener(), lambda: has_claimable_work(database), busy, work)

    @classmethod
    def of_collections(cls, catalog: Catalog, busy: threading.Lock, work: Callable[[], bool]) -> WorkListener:
        """Return what listens for marks of collections."""
        return cls(catalog.listener(), lambda: bool(catalog.with_work(limit=1)), busy, work)

    def start(self) -> None:
        if self._listener is not None:
            repeat("work listener", functools.partial(self._wait, self._listener), 0)

    def _wait(self, listener: Listener) -> None:
        if listener.wait("work", WAIT_SECONDS):
            self.take_work()

    def take_work(self) -> None:
        """Work while there is work and no message brings it to this process. Raises StorageError."""
        while True:
            time.sleep(MESSAGE_SECONDS)
            if self._busy.locked() or not self._has_work() or not self._work():
                return
            log.info("work claimed by a notification")
