"""Counts and sizes of a library."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from shoal.models import JobStatus
from shoal.storage.database import Database, Snapshot
from shoal.storage.vocabulary_queries import count_words

COUNTS = """
    SELECT (SELECT COUNT(*) FROM documents) AS n_documents,
           (SELECT COUNT(*) FROM chunks) AS n_chunks,
           (SELECT COALESCE(MAX(version), 0) FROM vocabulary_versions) AS vocabulary_version,
           (SELECT COALESCE(SUM(n_bytes), 0) FROM documents) AS content_bytes
"""
COUNT_STALE = """
    SELECT COUNT(*) FROM chunks
    WHERE data_checksum <> :data_checksum OR vocabulary_version <> :vocabulary_version
"""
JOBS_BY_STATUS = "SELECT status, COUNT(*) FROM jobs WHERE local_owner IS NULL GROUP BY status"
COUNT_WORKERS = "SELECT COUNT(*) FROM workers WHERE seen_at >= :since"
CHUNKS_BY_REEF = """
    SELECT top_reef_id, COUNT(*) FROM chunks
    WHERE top_reef_id IS NOT NULL AND top_reef_probability >= :label_threshold
    GROUP BY top_reef_id
"""

WORKER_SEEN_SECONDS = 30.0
"""A worker without a heartbeat for this long is considered dead; workers send one every few seconds."""


def get_counts(snapshot: Snapshot, *, data_checksum: str) -> dict[str, Any]:
    """Count documents, chunks and words, chunks that are stale for this build of lagoon's data, jobs and
    workers."""
    counts = dict(snapshot.first(COUNTS))
    version = {"data_checksum": data_checksum, "vocabulary_version": counts["vocabulary_version"]}
    return {
        **counts,
        "n_custom_words": count_words(snapshot, counts["vocabulary_version"]),
        "n_stale_chunks": snapshot.value(COUNT_STALE, version),
        "jobs": jobs_by_status(snapshot),
        "workers": snapshot.value(COUNT_WORKERS, {"since": time.time() - WORKER_SEEN_SECONDS}),
    }


def jobs_by_status(snapshot: Snapshot) -> dict[str, int]:
    """Count jobs for every public status. An incomplete upload is not a job yet."""
    counts = dict(snapshot.rows(JOBS_BY_STATUS))
    return {status.value: counts.get(status.value, 0) for status in JobStatus}


def chunks_by_reef(snapshot: Snapshot, label_threshold: float) -> dict[int, int]:
    """Count the chunks by the reef of their first label."""
    return dict(snapshot.rows(CHUNKS_BY_REEF, {"label_threshold": label_threshold}))


def size_on_disk(database: Database) -> int:
    """Return the size of the database file and its WAL in bytes."""
    files = (database.path, Path(f"{database.path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
