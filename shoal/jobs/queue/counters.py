"""Counters of the worker processes, stored in a table for the metrics endpoint; they only grow.

A process counts in memory and writes at intervals. A killed process loses the counts of its last few seconds,
but no work.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping

from shoal.models.jobs import Stage
from shoal.storage.database import Database, Snapshot, Transaction

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
