"""How far jobs are: their progress, speed and remaining time, and what waits.

Progress is computed from the counts of a job and its waves. A claim passes by items that wait for another
item, and jobs without claimable work. If it finds them, it notes it in the database, so that the next one
does not look at them again. Each change that may end a wait wakes them (`wake`). So a claim costs the same
however many items and jobs wait.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.jobs.queue import statements
from shoal.jobs.queue.queries import Job, WaveProgress
from shoal.models.jobs import JobStatus, Stage
from shoal.storage.database import Transaction, listed_in_parts

WORK = {
    Stage.convert: 2,
    Stage.discover: 1,
    Stage.rediscover: 1,
    Stage.score: 1,
    Stage.rescore: 1,
    Stage.delete: 1,
    Stage.dedup: 1,
    Stage.embed: 1,
}
"""Work of a stage on a document, relative to the others. Discover and score read a text in the same way and
take about as long; converting a file takes longer than both of them."""

WINDOW_SECONDS = 60.0
"""The speed is that of the last minute, so that a job that waited or was stopped does not seem slow."""

MIN_WINDOW_SECONDS = 5.0
"""A shorter window is too noisy; until then the speed is measured since the start of the job."""

SAMPLE_SECONDS = 1.0
"""Shortest time between two samples of a job."""
MAX_JOBS = 256
"""Number of jobs with samples; the least recently used ones are dropped."""
MAX_WAITS = 200
"""Waiting items and jobs that one look for work passes by, and one transaction parks: about 20 ms."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Progress and speed of a job.

    `fraction` is the share of the work that is done, 0 to 1. Documents that are not stored yet count for the
    stages that they have passed, also in `bytes_per_second`. Both speeds leave out items that the upload
    refused. `stage_done` counts the items that have passed the current stage, or have ended; it is None in
    stages of whole waves, and when the job has ended. Other values are None while they cannot be estimated:
    before the job starts or, for `seconds_left`, while the job makes no progress.
    """

    fraction: float
    stage_done: int | None = None
    items_per_second: float | None = None
    bytes_per_second: float | None = None
    seconds_left: float | None = None


def fraction_done(job: Job, waves: Sequence[WaveProgress]) -> float:
    """Return the share of a job that is done, 0 to 1, by bytes, or by items if the waves have no bytes."""
    progress = job.progress
    if job.ended:
        return 1.0
    total = sum(wave.bytes for wave in waves)
    if total <= 0:
        return progress.done / progress.total if progress.total else 0.0
    # Items that the upload refused are counted as done but are in no wave.
    ended = max(0, progress.bytes_done - (progress.bytes_total - total))
    *earlier, last = [stage for stage in job.plan if stage in WORK]
    passed = {
        stage: sum(wave.bytes * _share_passed(wave, stage, job.plan) for wave in waves) for stage in earlier
    }
    running = sum(wave.bytes_running for wave in waves if wave.stage is last)
    done = WORK[last] * (ended + running) + sum(
        WORK[stage] * max(n_bytes, ended) for stage, n_bytes in passed.items()
    )
    return min(1.0, done / (total * sum(WORK[stage] for stage in (*earlier, last))))


def _items_processed(job: Job, waves: Sequence[WaveProgress]) -> int:
    """Return the number of ended items without those that the upload refused, which are in no wave."""
    refused = job.progress.total - sum(wave.total for wave in waves)
    return max(0, job.progress.done - refused)


def _items_past_stage(job: Job, waves: Sequence[WaveProgress]) -> int | None:
    """Return the number of items that have passed the current stage; those that the upload refused, too."""
    if job.ended or job.stage not in WORK or job.stage not in job.plan:
        return None
    n = job.progress.total - sum(wave.total for wave in waves)
    for wave in waves:
        if wave.stage is None or job.plan.index(wave.stage) > job.plan.index(job.stage):
            n += wave.total
        elif wave.stage is job.stage:
            n += wave.total - wave.pending
    return n


def _share_passed(wave: WaveProgress, stage: Stage, plan: Sequence[Stage]) -> float:
    """Return the share of a wave that has passed a stage, by bytes if they are known, else by items."""
    if wave.stage is None or plan.index(stage) < plan.index(wave.stage):
        return 1.0
    if wave.stage != stage or not wave.total:
        return 0.0
    left = wave.pending / wave.total
    if wave.bytes_pending is not None and wave.bytes:
        left = wave.bytes_pending / wave.bytes
    running = wave.bytes_running / wave.bytes if wave.bytes else 0.0
    return min(1.0, max(0.0, 1 - left + running))


class ProgressEstimator:
    """Samples of the progress of jobs, taken at each estimate. Safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns seconds since the epoch."""
        self._clock = clock
        # Samples by library and job: time, fraction done, items processed.
        self._samples: OrderedDict[tuple[str, int], deque[tuple[float, float, int]]] = OrderedDict()
        self._lock = threading.Lock()

    def estimate(self, job: Job, waves: Sequence[WaveProgress], library: str = "") -> Estimate:
        """Return the progress of a job and its recent speed. `library` tells jobs of several libraries apart,
        whose ids are the same."""
        estimate = self._estimate(job, waves, library)
        return dataclasses.replace(estimate, stage_done=_items_past_stage(job, waves))

    def _estimate(self, job: Job, waves: Sequence[WaveProgress], library: str) -> Estimate:
        fraction, items = fraction_done(job, waves), _items_processed(job, waves)
        n_bytes = sum(wave.bytes for wave in waves)
        if job.started_at is None or job.status is JobStatus.enqueued:
            return Estimate(fraction)
        started = dt.datetime.fromisoformat(job.started_at).timestamp()
        if job.ended and job.finished_at is not None:
            seconds = max(0.001, dt.datetime.fromisoformat(job.finished_at).timestamp() - started)
            return _estimate(fraction, 1.0, items, n_bytes, seconds)
        now = self._clock()
        then, fraction_then, items_then = self._add_sample((library, job.id), now, fraction, items)
        if now - then < MIN_WINDOW_SECONDS:
            then, fraction_then, items_then = started, 0.0, 0
        return _estimate(
            fraction,
            fraction - fraction_then,
            items - items_then,
            n_bytes,
            max(0.001, now - then),
        )

    def _add_sample(
        self, job: tuple[str, int], now: float, fraction: float, items: int
    ) -> tuple[float, float, int]:
        """Store a sample of a job and return the earliest one in the window."""
        with self._lock:
            samples = self._samples.setdefault(job, deque())
            self._samples.move_to_end(job)
            if len(self._samples) > MAX_JOBS:
                self._samples.popitem(last=False)
            # Retrying a job lowers its fraction, and a clock may be set back.
            if samples and (fraction < samples[-1][1] or now < samples[-1][0]):
                samples.clear()
            if not samples or now - samples[-1][0] >= SAMPLE_SECONDS:
                samples.append((now, fraction, items))
            while now - samples[0][0] > WINDOW_SECONDS and len(samples) > 1:
                samples.popleft()
            return samples[0]


def _estimate(fraction: float, fraction_gained: float, items: int, n_bytes: int, seconds: float) -> Estimate:
    """Return the estimate for a job that completed `fraction_gained` and `items` in the last `seconds`."""
    if fraction_gained <= 0:
        return Estimate(fraction, None, 0.0, 0.0)
    return Estimate(
        fraction=fraction,
        items_per_second=max(0, items) / seconds,
        bytes_per_second=fraction_gained * n_bytes / seconds,
        seconds_left=(1 - fraction) * seconds / fraction_gained,
    )


class Parked(enum.IntEnum):
    """When a claim looks at a job."""

    no = 0
    """At once."""
    until_change = 1
    """When something has changed in the job, or an item for which one of its items waits."""
    until_learning = 2
    """The same, or when no other wave is being learned from."""


@dataclass(slots=True)
class Waits:
    """What a look for work found waiting: rows of PARK_ITEM and PARK_JOB."""

    items: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.items) + len(self.jobs) >= MAX_WAITS

    def park(self, transaction: Transaction) -> None:
        """Write it. The transaction must be the one that looked."""
        transaction.write_many(statements.PARK_ITEM, self.items)
        transaction.write_many(statements.PARK_JOB, self.jobs)


def wake(transaction: Transaction, job_ids: Collection[int], ended: Sequence[int] = ()) -> None:
    """Let claims look at jobs in which something has changed, and at what waits for items that have ended or
    passed a stage."""
    woken = set(job_ids)
    for ids, parameters in listed_in_parts("id", ended):
        waiting = {
            row[0] for row in transaction.rows(statements.JOBS_WAITING_FOR.format(ids=ids), parameters)
        }
        if waiting:
            transaction.execute(statements.WAKE_ITEMS.format(ids=ids), parameters)
        woken |= waiting
    _wake_jobs(transaction, woken)


def wake_due(transaction: Transaction) -> None:
    """Wake the items whose pause before another try has ended."""
    moment = {"moment": transaction.now()}
    jobs = [row[0] for row in transaction.rows(statements.JOBS_DUE, moment)]
    if jobs:
        transaction.execute(statements.WAKE_DUE, moment)
        _wake_jobs(transaction, jobs)


def wake_all(transaction: Transaction) -> None:
    """Look at everything again, after a repair."""
    transaction.execute(statements.WAKE_ALL_ITEMS)
    transaction.execute(statements.WAKE_ALL_JOBS)


def _wake_jobs(transaction: Transaction, job_ids: Iterable[int]) -> None:
    transaction.write_many(statements.WAKE_JOB, [{"job_id": job_id} for job_id in sorted(job_ids)])
