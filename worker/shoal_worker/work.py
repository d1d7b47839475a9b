"""Process one batch: claim it, notify another worker while more work waits, process it, and check again.

On PostgreSQL, threads claim work when the database notifies of it: one listens for `main`, and one for the
collections, which the catalog marks. The broker's message usually comes first. Without the broker, these
threads take the work at once, which the reconciler would find later.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog

from shoal.collections.catalog import Catalog
from shoal.errors import StorageError
from shoal.jobs.queue.claims import Batch, claim, has_claimable_work
from shoal.jobs.queue.metrics import Counters
from shoal.jobs.queue.queries import trace_ids
from shoal.jobs.queue.recovery import return_free_pages
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import process
from shoal.settings import Settings
from shoal.storage.database import Database, Listener
from shoal_worker.keepers import repeat

log = structlog.get_logger(__name__)


def process_next_batch(
    database: Database,
    handlers: Handlers,
    settings: Settings,
    notify: Callable[[], None],
    counters: Counters | None = None,
    *,
    owner: str,
) -> bool:
    """Claim and process one batch for `owner` (`lease.new_owner()`); False if there was no work.

    While more work can be claimed, a message to other workers is kept in the queue. It is sent before the
    batch and again after it, because the batch may have opened a stage or made duplicates claimable. A
    StorageError is logged; the reconciler sends the next message.
    """
    try:
        batch = claim(database, owner, settings)
        if batch is None:
            return False
        with structlog.contextvars.bound_contextvars(**_log_context(database, batch)):
            _work_on(batch, database, handlers, settings, notify, counters)
    except StorageError as error:
        log.warning("work postponed", reason=str(error))
    return True


def _work_on(
    batch: Batch,
    database: Database,
    handlers: Handlers,
    settings: Settings,
    notify: Callable[[], None],
    counters: Counters | None,
) -> None:
    started = time.monotonic()
    if batch.more:
        notify()
    advance = process(batch, database, handlers, settings)
    if has_claimable_work(database):
        notify()
    if advance.ended_jobs:
        return_free_pages(database)
    seconds, n_bytes = time.monotonic() - started, sum(item.n_bytes for item in batch.items)
    if counters is not None:
        counters.add_batch(batch.stage, seconds=seconds, items=len(batch.items), n_bytes=n_bytes)
    log.info(
        "batch processed",
        stage=batch.stage.value,
        items=len(batch.items),
        bytes=n_bytes,
        seconds=round(seconds, 3),
        ended_jobs=list(advance.ended_jobs),
    )


def _log_context(database: Database, batch: Batch) -> dict[str, Any]:
    """Return the jobs of a batch and the trace ids of their requests, for all log lines about the batch."""
    jobs = {item.job_id for item in batch.items} | ({batch.wave.job_id} if batch.wave else set())
    return {"jobs": sorted(jobs), "trace_ids": trace_ids(database, sorted(jobs))}


WAIT_SECONDS = 60.0
MESSAGE_SECONDS = 0.5
"""How long the broker's message has to come first."""


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
