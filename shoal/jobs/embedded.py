"""Embedded jobs: jobs that one process submits and runs itself, without the service.

They go through the same stages as other jobs, so the library comes out the same. They are not durable: when
the process ends, for any reason, the rest of its job is dropped. Other processes neither see nor run it."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.errors import NotFoundError, ShoalError
from shoal.jobs.queue import lease, statements
from shoal.jobs.queue.claims import claim, leases
from shoal.jobs.queue.queries import POLL_SECONDS, get_job
from shoal.jobs.queue.recovery import (
    drop_dead_local_jobs,
    reclaim_expired_leases,
    return_free_pages,
)
from shoal.jobs.queue.submission import Upload, remove_dropped
from shoal.jobs.queue.watchdog import Watchdog, renewing_leases, round_seconds
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import process
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.byte_units import MIB

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

ALL_SLICES = 1 << 30

BATCH_BYTES = 16 * MIB
BATCH_ITEMS = 4096
"""Batch size of an embedded job, instead of `SHOAL_BATCH_BYTES` and `SHOAL_BATCH_ITEMS`. No other job waits
for its turn, and within a batch the next text is prepared while the last one is stored."""

STEPS = 10
"""Least number of transactions for a batch of documents, so that a few files show their progress as well."""

WATCH_SECONDS = 0.1
"""Minimum time between two progress reports."""

log = logging.getLogger(__name__)


class LocalProgress(NamedTuple):
    """Bytes and items of a job, done and in total. A document counts for the stages that it has passed.

    `latest` is the source path, or else the title, of the item that ended last; None before the first.
    """

    bytes_done: int
    bytes_total: int
    items_done: int
    items_total: int
    latest: str | None


Watcher = Callable[[LocalProgress], None]


def drop_abandoned_jobs(database: Database, settings: Settings) -> None:
    """Delete embedded jobs of dead processes."""
    if drop_dead_local_jobs(database, settings, database.now()):
        remove_dropped(database, ALL_SLICES)


def open_upload(database: Database, settings: Settings) -> Upload:
    """An upload, not begun, for an embedded job."""
    drop_abandoned_jobs(database, settings)
    return Upload(database, settings, local_owner=lease.new_owner())


def run_job(
    database: Database,
    job_id: int,
    handlers: Handlers,
    settings: Settings,
    watch: Watcher | None = None,
) -> None:
    """Run an embedded job until it has ended or is deleted."""
    large = dataclasses.replace(settings, batch_bytes=BATCH_BYTES, batch_items=BATCH_ITEMS)
    with renewing_leases(database, settings, job_id):
        _run_job(database, job_id, handlers, large, watch)


def _run_job(
    database: Database,
    job_id: int,
    handlers: Handlers,
    settings: Settings,
    watch: Watcher | None = None,
) -> None:
    """Run a job, alone or together with other processes."""
    report = _throttled(database, job_id, watch) if watch is not None else _no_report
    while True:
        batch = claim(database, lease.new_owner(), settings, job_id=job_id)
        if batch is not None:
            process(batch, database, handlers, settings, report, steps=STEPS)
        elif _has_ended(database, job_id):
            break
        else:
            # Another process has the rest, or learns for another job. If it dies, its leases are reclaimed.
            reclaim_expired_leases(database, settings, database.now())
            time.sleep(POLL_SECONDS)
            report()
    if watch is not None:
        watch(progress(database, job_id))


def _throttled(database: Database, job_id: int, watch: Watcher) -> Callable[[], None]:
    """A function that reports progress at most once in WATCH_SECONDS."""
    reported_at = 0.0

    def report() -> None:
        nonlocal reported_at
        now = time.monotonic()
        if now - reported_at >= WATCH_SECONDS:
            reported_at = now
            watch(progress(database, job_id))

    return report


def _no_report() -> None:
    """Report nothing."""


def run_job_in_processes(
    database: Database,
    job_id: int,
    settings: Settings,
    n: int,
    watch: Watcher | None = None,
) -> None:
    """Run an embedded job in `n` processes, with lagoon's packaged data.

    A process that an item kills, or that is killed because it makes no progress, is replaced. Such an item
    fails after `max_attempts`, as in the service. Raises ShoalError once all processes have died of other
    causes."""
    import multiprocessing

    # Spawned, not forked: a thread of this process may hold a lock at the moment of a fork.
    context = multiprocessing.get_context("spawn")

    def start() -> BaseProcess:
        process = context.Process(target=_work_child, args=(settings, job_id), daemon=True)
        process.start()
        return process

    watchdog, next_round = Watchdog(database, settings), 0.0
    processes = [start() for _ in range(n)]
    try:
        while not _has_ended(database, job_id):
            if time.monotonic() >= next_round:
                watchdog.watch([held.owner for held in leases(database) if job_id in held.job_ids])
                next_round = time.monotonic() + round_seconds(settings)
            # Leases come first: the process that held one is among the dead counted below.
            n_lost = sum(reclaim_expired_leases(database, settings, database.now()))
            alive = [process for process in processes if process.is_alive()]
            if n_lost:
                processes = alive + [start() for _ in range(n - len(alive))]
            elif not alive and not _has_ended(database, job_id):
                raise ShoalError(
                    "all worker processes have died, perhaps from lack of memory; stored documents stay, "
                    "and the same command stores the rest"
                )
            if watch is not None:
                watch(progress(database, job_id))
            time.sleep(POLL_SECONDS)
    finally:
        for process in processes:
            if not _has_ended(database, job_id):
                process.kill()
            process.join()


def progress(database: Database, job_id: int) -> LocalProgress:
    """The progress of a job; all zeros if it is deleted."""
    with database.snapshot() as snapshot:
        row = snapshot.first(statements.LOCAL_PROGRESS, {"job_id": job_id})
    *counts, latest = row
    bytes_done, bytes_total, items_done, items_total = (int(count or 0) for count in counts)
    return LocalProgress(bytes_done, bytes_total, items_done, items_total, latest)


def drop(database: Database, job_id: int) -> None:
    """Delete an embedded job with all its rows, ended or not."""
    with database.write() as transaction:
        transaction.execute(statements.DROP_LOCAL_JOB, {"job_id": job_id})
    remove_dropped(database, ALL_SLICES)
    return_free_pages(database)


def _has_ended(database: Database, job_id: int) -> bool:
    try:
        return get_job(database, job_id).ended
    except NotFoundError:
        return True


def _work_child(settings: Settings, job_id: int) -> None:
    """The main function of a child process. Ctrl-C ends it at once; its parent drops the job."""
    import os
    import signal

    import lagoon
    from shoal.jobs.stages.runner import handlers_for
    from shoal.service.garbage_collection import reduce_collections

    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(130))
    reduce_collections()
    database = open_database(settings.database_url, settings.data_path)
    try:
        handlers: Any = handlers_for(database, lagoon.load(), settings)
        _run_job(database, job_id, handlers, settings)
    finally:
        database.close()
