"""Numbers that worker processes count and whoever is asked for metrics reads: sums in a table, which only grow.

A process adds up in memory and writes now and then. One that is killed takes what it had not written with it: at most
some seconds' worth of numbers, never of work.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping

import sqlalchemy as sa

from shoal.jobs.queue.states import Stage
from shoal.storage.database import Database, Snapshot

STAGE_BATCHES = "stage_batches"
"""Batches by stage and upper bound of their seconds: the label is `STAGE BOUND`."""
STAGE_SECONDS = "stage_seconds"
STAGE_ITEMS = "stage_items"
STAGE_BYTES = "stage_bytes"
LEASES_LOST = "leases_lost"
REMOVED_JOBS = "removed_jobs"
"""Of jobs that were removed after their time: how many, by status."""
REMOVED_ITEMS = "removed_items"
REMOVED_BYTES = "removed_bytes"
"""Items by their end, and bytes, that jobs counted once and count no longer: the job was removed, or they were tried
again."""

SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bounds for the time of a batch: some ms for a note, tens of seconds for the learn of a wave of books."""

# Adds to a sum, or begins it.
ADD = sa.text("""
    INSERT INTO counters (name, label, value) VALUES (:name, :label, :value)
    ON CONFLICT (name, label) DO UPDATE SET value = value + excluded.value
""")
ALL = "SELECT name, label, value FROM counters"

Key = tuple[str, str]


class Counters:
    """What a process has counted and not yet written. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[Key, float] = defaultdict(float)

    def add(self, name: str, label: str, value: float = 1.0) -> None:
        """Count something."""
        with self._lock:
            self._sums[name, label] += value

    def add_batch(self, stage: Stage, *, seconds: float, items: int, n_bytes: int) -> None:
        """Count a batch that was processed."""
        place = bisect_left(SECONDS, seconds)
        bound = SECONDS[place] if place < len(SECONDS) else math.inf
        with self._lock:
            self._sums[STAGE_BATCHES, f"{stage.value} {bound_text(bound)}"] += 1
            self._sums[STAGE_SECONDS, stage.value] += seconds
            self._sums[STAGE_ITEMS, stage.value] += items
            self._sums[STAGE_BYTES, stage.value] += n_bytes

    def write(self, database: Database) -> None:
        """Write what was counted. Raises StorageError; then it is kept for the next time."""
        with self._lock:
            taken, self._sums = self._sums, defaultdict(float)
        if not taken:
            return
        try:
            with database.write() as connection:
                add(connection, taken)
        except BaseException:
            with self._lock:
                for key, value in taken.items():
                    self._sums[key] += value
            raise


def bound_text(seconds: float) -> str:
    """A bound as it stands in the label of a tally."""
    return f"{seconds:g}"


def add(connection: sa.Connection, sums: Mapping[Key, float]) -> None:
    """Add to sums within a transaction, in which what they count happens."""
    rows = [{"name": name, "label": label, "value": value} for (name, label), value in sums.items() if value]
    if rows:
        connection.execute(ADD, rows)


def read(snapshot: Snapshot) -> Mapping[str, Mapping[str, float]]:
    """All sums: by name, then by label; a name without any has none."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for name, label, value in snapshot.tuples(ALL):
        found[name][label] = value
    return found
