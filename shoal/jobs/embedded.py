"""Jobs that a process takes on and works off by itself, without the service.

They go through the stages of any other job, so that a library comes out the same. But nothing is promised: what such
a process leaves undone when it ends, however it ends, is dropped, and nobody else sees or waits for it.
"""

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
from shoal.jobs.queue.recovery import FREE_PAGES, drop_dead_local_jobs, reclaim_expired_leases
from shoal.jobs.queue.submission import Upload, remove_dropped
from shoal.jobs.queue.watchdog import Watchdog, renewed, round_seconds
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import process
from shoal.settings import MIB, Settings
from shoal.storage.database import FREE_PAGES as COUNT_FREE_PAGES
from shoal.storage.database import Database

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

ALL_SLICES = 1 << 30

BATCH_BYTES = 16 * MIB
BATCH_ITEMS = 4096
"""What a process takes at a time that has a job for itself, instead of `SHOAL_BATCH_BYTES` and `SHOAL_BATCH_ITEMS`: no
one waits for its turn, and within a batch the next text is prepared while the last is stored."""

WATCH_SECONDS = 0.1
"""Time between two looks at the progress of a job, at least."""

log = logging.getLogger(__name__)


class LocalProgress(NamedTuple):
    """Of a job: bytes done, of all, where a text counts half once it has had its first look; and items that have
    ended, of all."""

    bytes_done: int
    bytes_total: int
    items_done: int
    items_total: int


Watcher = Callable[[LocalProgress], None]


def tidy(database: Database, settings: Settings) -> None:
    """Remove what processes that died have left undone."""
    if drop_dead_local_jobs(database, settings, time.time()):
        remove_dropped(database, ALL_SLICES)


def open_upload(database: Database, settings: Settings) -> Upload:
    """An upload, not begun, for a job of this process."""
    tidy(database, settings)
    return Upload(database, settings, local_owner=lease.new_owner())


def run_job(
    database: Database,
    job_id: int,
    handlers: Handlers,
    settings: Settings,
    watch: Watcher | None = None,
) -> None:
    """Work on a job, which no other process does, until it has ended or is gone."""
    large = dataclasses.replace(settings, batch_bytes=BATCH_BYTES, batch_items=BATCH_ITEMS)
    with renewed(database, settings, job_id):
        _run_job(database, job_id, handlers, large, watch)


def _run_job(
    database: Database,
    job_id: int,
    handlers: Handlers,
    settings: Settings,
    watch: Watcher | None = None,
) -> None:
    """The same, together with other processes or without."""
    told = _seldom(database, job_id, watch) if watch is not None else _untold
    while True:
        batch = claim(database, lease.new_owner(), settings, job_id=job_id)
        if batch is not None:
            process(batch, database, handlers, settings, told)
        elif _has_ended(database, job_id):
            break
        else:
            # Another process has the rest, or learns for another job; should it die, its work is free again.
            reclaim_expired_leases(database, settings, time.time())
            time.sleep(POLL_SECONDS)
            told()
    if watch is not None:
        watch(progress(database, job_id))


def _seldom(database: Database, job_id: int, watch: Watcher) -> Callable[[], None]:
    """Tells how far a job is, but not more often than anyone could follow."""
    told_at = 0.0

    def tell() -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at >= WATCH_SECONDS:
            told_at = now
            watch(progress(database, job_id))

    return tell


def _untold() -> None:
    """For who doesn't watch."""


def run_job_in_processes(
    database: Database,
    job_id: int,
    settings: Settings,
    n: int,
    watch: Watcher | None = None,
) -> None:
    """As `run_job`, by `n` processes with lagoon's packaged data. One that dies of its work, or is killed for want of
    progress, is replaced: an item that ends its process fails after `max_attempts`, as in the service. Raises ShoalError
    once all of them have died of something else.
    """
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
            n_lost = sum(reclaim_expired_leases(database, settings, time.time()))
            alive = [process for process in processes if process.is_alive()]
            if n_lost:
                processes = alive + [start() for _ in range(n - len(alive))]
            elif not alive and not _has_ended(database, job_id):
                raise ShoalError(
                    "the processes that did the work have died, perhaps for want of memory; what is stored stays, and "
                    "running the same command again takes in the rest"
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
    """How far a job is; nothing of nothing for one that is gone."""
    with database.read() as connection:
        row = connection.execute(statements.LOCAL_PROGRESS, {"job_id": job_id}).one()
    return LocalProgress(*(int(value or 0) for value in row))


def drop(database: Database, job_id: int) -> None:
    """Remove a job of this process with all its rows, ended or not."""
    with database.write() as connection:
        connection.execute(statements.DROP_LOCAL_JOB, {"job_id": job_id})
    remove_dropped(database, ALL_SLICES)
    with database.snapshot() as snapshot:
        free = snapshot.value(COUNT_FREE_PAGES)
    # The texts went through the file.
    while free > FREE_PAGES and database.give_back_space(FREE_PAGES):
        free -= FREE_PAGES


def _has_ended(database: Database, job_id: int) -> bool:
    try:
        return get_job(database, job_id).ended
    except NotFoundError:
        return True


def _work_child(settings: Settings, job_id: int) -> None:
    """The work of one of several processes. Ctrl-C ends it at once: its parent drops the job."""
    import os
    import signal

    import lagoon
    from shoal.jobs.stages.runner import handlers_for
    from shoal.service.garbage_collection import relax_collector

    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(130))
    relax_collector()
    database = Database(settings.database_url)
    try:
        handlers: Any = handlers_for(database, lagoon.load(), settings)
        _run_job(database, job_id, handlers, settings)
    finally:
        database.close()
