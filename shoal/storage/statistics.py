"""Counts and sizes of a library: totals that writes maintain, and the few counts that they do not."""

from __future__ import annotations

from typing import Any

from shoal.models.jobs import JobStatus
from shoal.storage import totals, vectors
from shoal.storage.database import Snapshot
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
    lagoon's data, of chunks with a vector and the encoder of them, and of jobs and workers."""
    version = snapshot.value(VOCABULARY_VERSION)
    encoder = vectors.encoder(snapshot)
    return {
        **dict(snapshot.first(totals.LIBRARY)),
        "n_notes": count_active(snapshot),
        "vocabulary_version": version,
        "n_custom_words": count_words(snapshot, version),
        "n_stale_chunks": count_stale(snapshot, data_checksum),
        "n_embedded_chunks": 0 if encoder is None else vectors.count(snapshot),
        "encoder": None
        if encoder is None
        else {"name": encoder.name, "revision": encoder.revision, "dimension": encoder.dimension},
        "jobs": jobs_by_status(snapshot),
        "workers": count_workers(snapshot),
    }


def count_workers(snapshot: Snapshot) -> int:
    """Count the workers with a recent heartbeat."""
    n: int = snapshot.value(COUNT_WORKERS, {"since": snapshot.now() - WORKER_SEEN_SECONDS})
    return n


def jobs_by_status(snapshot: Snapshot) -> dict[str, int]:
    """Count jobs for every public status. An incomplete upload is not a job yet."""
    counts = dict(snapshot.rows(JOBS_BY_STATUS))
    return {status.value: counts.get(status.value, 0) for status in JobStatus}


def chunks_by_reef(snapshot: Snapshot, label_threshold: float) -> dict[int, int]:
    """Return the number of chunks by the reef of their first label."""
    return dict(snapshot.tuples(totals.CHUNKS_BY_REEF, {"percent": round(100 * label_threshold)}))
