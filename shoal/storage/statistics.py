"""Counts and sizes of a library: totals that writes maintain, and the few counts that they do not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from shoal.models import JobStatus
from shoal.storage import totals
from shoal.storage.database import Database, Snapshot
from shoal.storage.note_maintenance import count_active
from shoal.storage.staleness import count_stale
from shoal.storage.vocabulary_queries import count_words

VOCABULARY_VERSION = "SELECT COALESCE(MAX(version), 0) FROM vocabulary_versions"
JOBS_BY_STATUS = "SELECT status, COUNT(*) FROM jobs WHERE local_owner IS NULL GROUP BY status"
COUNT_WORKERS = "SELECT COUNT(*) FROM workers WHERE seen_at >= :since"

WORKER_SEEN_SECONDS = 30.0
"""A worker without a heartbeat for this long is considered dead; workers send one every few seconds."""


def get_counts(snapshot: Snapshot, *, data_checksum: str) -> dict[str, Any]:
    """Return the numbers of documents, chunks, notes and words, of chunks that are stale for this build of
    lagoon's data, and of jobs and workers."""
    version = snapshot.value(VOCABULARY_VERSION)
    return {
        **dict(snapshot.first(totals.LIBRARY)),
        "n_notes": count_active(snapshot),
        "vocabulary_version": version,
        "n_custom_words": count_words(snapshot, version),
        "n_stale_chunks": count_stale(snapshot, data_checksum),
        "jobs": jobs_by_status(snapshot),
        "workers": snapshot.value(COUNT_WORKERS, {"since": time.time() - WORKER_SEEN_SECONDS}),
    }


def jobs_by_status(snapshot: Snapshot) -> dict[str, int]:
    """Count jobs for every public status. An incomplete upload is not a job yet."""
    counts = dict(snapshot.rows(JOBS_BY_STATUS))
    return {status.value: counts.get(status.value, 0) for status in JobStatus}


def chunks_by_reef(snapshot: Snapshot, label_threshold: float) -> dict[int, int]:
    """Return the number of chunks by the reef of their first label."""
    return dict(snapshot.tuples(totals.CHUNKS_BY_REEF, {"percent": round(100 * label_threshold)}))


def size_on_disk(database: Database) -> int:
    """Return the size of the database file and its WAL in bytes."""
    files = (database.path, Path(f"{database.path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
