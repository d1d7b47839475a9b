"""Process one batch: claim it, notify another worker while more work waits, process it, and check again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog

from shoal.errors import StorageError
from shoal.jobs.queue.claims import Batch, claim, has_claimable_work
from shoal.jobs.queue.metrics import Counters
from shoal.jobs.queue.queries import trace_ids
from shoal.jobs.queue.recovery import return_free_pages
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import process
from shoal.settings import Settings
from shoal.storage.database import Database

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
