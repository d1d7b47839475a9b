"""How far a job is, how quickly it goes, and how long it will take: from what is counted anyway."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.jobs.queue.queries import Job, WaveSeen
from shoal.jobs.queue.states import DISCOVER_STAGES
from shoal.models import JobStatus

FIRST_LOOK_SHARE = 0.5
"""Of the work on a document. The two passes over a text read it in the same way and take about as long."""

WINDOW_SECONDS = 60.0
"""The pace is that of the last minute: a job that waited behind another or was stopped overnight would else seem slow."""

MIN_WINDOW_SECONDS = 5.0
"""What was seen for less than this says nothing yet; the pace since the start serves until then."""

SAMPLE_SECONDS = 1.0
MAX_JOBS = 256
"""How often a job is noted, and of how many jobs."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`fraction` of the work that is done, 0 to 1. Documents that were looked at but are not stored yet count half, in
    `bytes_per_second` too. None where nothing can be said: before the job begins, or while nothing moves."""

    fraction: float
    items_per_second: float | None = None
    bytes_per_second: float | None = None
    seconds_left: float | None = None


def fraction_done(job: Job, waves: Sequence[WaveSeen]) -> float:
    """How much of a job is done, 0 to 1: by bytes, or by items where they have none."""
    progress = job.progress
    if job.ended:
        return 1.0
    total = sum(wave.bytes for wave in waves)
    if total <= 0:
        return progress.done / progress.total if progress.total else 0.0
    # What was refused on arrival was no work.
    ended = max(0, progress.bytes_done - (progress.bytes_total - total))
    if not any(stage in DISCOVER_STAGES for stage in job.plan):
        return min(1.0, ended / total)
    seen = sum(wave.bytes * _seen(wave) for wave in waves)
    return min(1.0, (FIRST_LOOK_SHARE * max(seen, ended) + (1 - FIRST_LOOK_SHARE) * ended) / total)


def _seen(wave: WaveSeen) -> float:
    """The share of a wave that has been looked at, by items."""
    if wave.stage not in DISCOVER_STAGES or not wave.total:
        return 1.0
    return min(1.0, max(0.0, 1 - wave.pending / wave.total))


class Paces:
    """Remembers how far jobs were when somebody asked. Safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` tells seconds since the epoch."""
        self._clock = clock
        # Of each job: when it was seen, the fraction done, the items that had ended.
        self._seen: OrderedDict[int, deque[tuple[float, float, int]]] = OrderedDict()
        self._lock = threading.Lock()

    def estimate(self, job: Job, waves: Sequence[WaveSeen]) -> Estimate:
        """How a job stands now, going by its pace of late."""
        fraction = fraction_done(job, waves)
        if job.started_at is None or job.status is JobStatus.enqueued:
            return Estimate(fraction)
        started = dt.datetime.fromisoformat(job.started_at).timestamp()
        if job.ended and job.finished_at is not None:
            seconds = max(0.001, dt.datetime.fromisoformat(job.finished_at).timestamp() - started)
            return _estimate(fraction, 1.0, job.progress.done, job.progress.bytes_total, seconds)
        now = self._clock()
        then, fraction_then, items_then = self._note(job.id, now, fraction, job.progress.done)
        if now - then < MIN_WINDOW_SECONDS:
            then, fraction_then, items_then = started, 0.0, 0
        return _estimate(
            fraction,
            fraction - fraction_then,
            job.progress.done - items_then,
            job.progress.bytes_total,
            max(0.001, now - then),
        )

    def _note(self, job_id: int, now: float, fraction: float, items: int) -> tuple[float, float, int]:
        """Remember a look at a job; the earliest look within the window."""
        with self._lock:
            seen = self._seen.setdefault(job_id, deque())
            self._seen.move_to_end(job_id)
            if len(self._seen) > MAX_JOBS:
                self._seen.popitem(last=False)
            # A retried job starts anew, and a clock may be set back.
            if seen and (fraction < seen[-1][1] or now < seen[-1][0]):
                seen.clear()
            if not seen or now - seen[-1][0] >= SAMPLE_SECONDS:
                seen.append((now, fraction, items))
            while now - seen[0][0] > WINDOW_SECONDS and len(seen) > 1:
                seen.popleft()
            return seen[0]


def _estimate(fraction: float, moved: float, items: int, bytes_total: int, seconds: float) -> Estimate:
    """`moved` and `items`: how much of the job, and how many documents, were done in so many seconds."""
    if moved <= 0:
        return Estimate(fraction, 0.0, 0.0)
    return Estimate(
        fraction=fraction,
        items_per_second=max(0, items) / seconds,
        bytes_per_second=moved * bytes_total / seconds,
        seconds_left=(1 - fraction) * seconds / moved,
    )
