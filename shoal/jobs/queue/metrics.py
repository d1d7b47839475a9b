"""Job metrics of a library, read from the database, so they cover all workers; and counters that only grow.

A process counts in memory and writes at intervals. A killed process loses the counts of its last few seconds,
but no work.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shoal.jobs.queue.statements import OPEN_ITEM, OPEN_JOB
from shoal.jobs.queue.states import FINAL, RUNNING, STORED
from shoal.models.jobs import ItemStatus, Stage
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.storage.statistics import WORKER_SEEN_SECONDS

OPEN_STATES = [status for status in ItemStatus if status not in FINAL]
FINAL_STATES = [status.value for status in STORED if status in FINAL]

_OF_KIND = {ItemStatus.scoring: "j.kind <> 'embed'", ItemStatus.embedding: "j.kind = 'embed'"}
"""Statuses that are one in the rows: the jobs whose items have each."""

# Open items of the service's jobs, by state: ranges of an index, one for each job and state.
WAITING = " UNION ALL ".join(
    f"""
    SELECT '{status}', COUNT(*), COALESCE(SUM(i.n_bytes), 0)
    FROM jobs j CROSS JOIN job_items i
    WHERE i.job_id = j.id AND j.status IN {OPEN_JOB} AND j.local_owner IS NULL
      AND {_OF_KIND.get(status, "TRUE")}
      AND i.status = '{RUNNING[Stage.embed] if status is ItemStatus.embedding else status}'
      AND i.status IN {OPEN_ITEM}
    """
    for status in OPEN_STATES
)
# Counts of the jobs that have not been removed.
ENDED = """
    SELECT COALESCE(SUM(n_succeeded), 0) AS succeeded, COALESCE(SUM(n_failed), 0) AS failed,
           COALESCE(SUM(n_duplicate), 0) AS duplicate, COALESCE(SUM(n_canceled), 0) AS canceled,
           COALESCE(SUM(bytes_done), 0) AS n_bytes
    FROM jobs WHERE status NOT IN ('receiving', 'dropped') AND local_owner IS NULL
"""
OLDEST_OPEN = """
    SELECT MIN(created_at) FROM jobs WHERE status IN ('enqueued', 'processing') AND local_owner IS NULL
"""
OLDEST_NOT_BEGUN = "SELECT MIN(created_at) FROM jobs WHERE status = 'enqueued' AND local_owner IS NULL"
RECEIVING = "SELECT COUNT(*) FROM jobs WHERE status = 'receiving' AND local_owner IS NULL"
WORKERS = "SELECT COUNT(*), COALESCE(SUM(processes), 0) FROM workers WHERE seen_at >= :since"


@dataclass(frozen=True, slots=True)
class Work:
    """Job metrics at one moment.

    waiting, waiting_bytes   open items by state
    ended, ended_bytes       all items that ever ended, including those of removed jobs
    oldest_seconds           age of the oldest open job, 0 if there is none
    queue_seconds            age of the oldest job that no worker has begun, 0 if there is none
    counted                  counters of the workers by name and label (`shoal.jobs.queue.metrics`)
    """

    waiting: Mapping[str, int]
    waiting_bytes: Mapping[str, int]
    ended: Mapping[str, int]
    ended_bytes: int
    oldest_seconds: float
    queue_seconds: float
    receiving: int
    workers: int
    worker_processes: int
    counted: Mapping[str, Mapping[str, float]]


def measure(snapshot: Snapshot) -> Work:
    """Return the current job metrics."""
    waiting = {status: (n, n_bytes) for status, n, n_bytes in snapshot.tuples(WAITING)}
    counted = read(snapshot)
    removed = counted.get(REMOVED_ITEMS, {})
    ended = dict(snapshot.first(ENDED))
    workers, processes = snapshot.first(WORKERS, {"since": snapshot.now() - WORKER_SEEN_SECONDS})
    return Work(
        waiting={state: n for state, (n, _) in waiting.items()},
        waiting_bytes={state: n_bytes for state, (_, n_bytes) in waiting.items()},
        ended={end: ended[end] + int(removed.get(end, 0)) for end in FINAL_STATES},
        ended_bytes=ended["n_bytes"] + int(counted.get(REMOVED_BYTES, {}).get("", 0)),
        oldest_seconds=_age(snapshot, OLDEST_OPEN),
        queue_seconds=_age(snapshot, OLDEST_NOT_BEGUN),
        receiving=snapshot.value(RECEIVING),
        workers=workers,
        worker_processes=processes,
        counted=counted,
    )


def _age(snapshot: Snapshot, oldest_sql: str) -> float:
    """Return the seconds since the moment that a statement reads; 0 if it reads none."""
    oldest = snapshot.value(oldest_sql)
    return max(0.0, snapshot.now() - datetime.fromisoformat(oldest).timestamp()) if oldest else 0.0


STAGE_BATCHES = "stage_batches"
"""Batches by stage and histogram bucket: the label is `STAGE BOUND`, the bound in seconds."""
STAGE_SECONDS = "stage_seconds"
STAGE_ITEMS = "stage_items"
STAGE_BYTES = "stage_bytes"
LEASES_LOST = "leases_lost"
REMOVED_JOBS = "removed_jobs"
"""Jobs removed after `job_retention`, by status."""
REMOVED_ITEMS = "removed_items"
"""Items by final status that no job counts any more: the job was removed or the items were retried."""
REMOVED_BYTES = "removed_bytes"
"""Bytes of the REMOVED_ITEMS."""

SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Histogram bounds for the time of a batch: a few ms for a note, tens of seconds to learn a wave of books."""

# Adds to a counter, or creates it.
ADD = """
    INSERT INTO counters (name, label, value) VALUES (:name, :label, :value)
    ON CONFLICT (name, label) DO UPDATE SET value = counters.value + excluded.value
"""
ALL = "SELECT name, label, value FROM counters"

Key = tuple[str, str]


class Counters:
    """Counts of a process that are not written yet. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[Key, float] = defaultdict(float)

    def add(self, name: str, label: str, value: float = 1.0) -> None:
        """Add to a counter."""
        with self._lock:
            self._sums[name, label] += value

    def add_batch(self, stage: Stage, *, seconds: float, items: int, n_bytes: int) -> None:
        """Count a processed batch."""
        index = bisect_left(SECONDS, seconds)
        bound = SECONDS[index] if index < len(SECONDS) else math.inf
        with self._lock:
            self._sums[STAGE_BATCHES, f"{stage.value} {bound_text(bound)}"] += 1
            self._sums[STAGE_SECONDS, stage.value] += seconds
            self._sums[STAGE_ITEMS, stage.value] += items
            self._sums[STAGE_BYTES, stage.value] += n_bytes

    def write(self, database: Database) -> None:
        """Write the counts. Raises StorageError and keeps the counts for the next call."""
        with self._lock:
            sums, self._sums = self._sums, defaultdict(float)
        if not sums:
            return
        try:
            with database.write() as transaction:
                add(transaction, sums)
        except BaseException:
            with self._lock:
                for key, value in sums.items():
                    self._sums[key] += value
            raise


def bound_text(seconds: float) -> str:
    """Format a bound for the label of a counter."""
    return f"{seconds:g}"


def add(transaction: Transaction, sums: Mapping[Key, float]) -> None:
    """Add to counters in the transaction of the counted change."""
    rows = [{"name": name, "label": label, "value": value} for (name, label), value in sums.items() if value]
    transaction.write_many(ADD, rows)


def read(snapshot: Snapshot) -> Mapping[str, Mapping[str, float]]:
    """Return all counters by name, then by label."""
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for name, label, value in snapshot.tuples(ALL):
        values[name][label] = value
    return values
