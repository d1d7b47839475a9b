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
    SELECT top_reef_id, COUNT(*) FROM chunks WHERE top_reef_id IS NOT NULL GROUP BY top_reef_id
"""

WORKER_SEEN_SECONDS = 30.0
"""A worker gives a sign of life every few seconds; one that has been silent this long is gone."""


def get_counts(snapshot: Snapshot, *, data_checksum: str) -> dict[str, Any]:
    """What is stored, how much of it is out of date for this build of lagoon's data, and what is being done."""
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
    """Numbers of jobs; every status that a person may see is there. An upload that is not complete is no job yet."""
    found = dict(snapshot.rows(JOBS_BY_STATUS))
    return {status.value: found.get(status.value, 0) for status in JobStatus}


def chunks_by_reef(snapshot: Snapshot) -> dict[int, int]:
    """How many chunks have a reef as their strongest, by reef id."""
    return dict(snapshot.rows(CHUNKS_BY_REEF))


def size_on_disk(database: Database) -> int:
    """Bytes of the database file with what is not yet folded into it."""
    files = (database.path, Path(f"{database.path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
