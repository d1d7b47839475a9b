"""Counts and sizes of a library: totals that writes maintain, and the few counts that they do not."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shoal.models.jobs import JobStatus
from shoal.storage import totals, vectors
from shoal.storage.database import Snapshot, listed
from shoal.storage.staleness import count_stale
from shoal.storage.vocabulary_queries import count_words

VOCABULARY_VERSION = "SELECT COALESCE(MAX(version), 0) FROM vocabulary_versions"
JOBS_BY_STATUS = "SELECT status, COUNT(*) FROM jobs WHERE local_owner IS NULL{of_owners} GROUP BY status"
# A job that compares notes has their owners in its items.
OF_OWNERS = """
    AND (kind <> 'dedup' OR NOT EXISTS (
        SELECT 1 FROM job_items i
        WHERE i.job_id = jobs.id AND json_extract(i.metadata, '$.owner') NOT IN ({owners})))
"""
COUNT_WORKERS = "SELECT COALESCE(SUM(processes), 0) FROM workers WHERE seen_at >= :since"

WORKER_SEEN_SECONDS = 30.0
"""A worker without a heartbeat for this long is considered dead; workers send one every few seconds."""
COUNT_NOTES = "SELECT COALESCE(SUM(n_active), 0) FROM note_owners"
COUNT_NOTES_OF = f"{COUNT_NOTES} WHERE owner IN ({{owners}})"


def get_counts(
    snapshot: Snapshot, *, data_checksum: str, owners: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the numbers of documents, chunks, notes and words, of chunks that are stale for this build of
    lagoon's data, of chunks with a vector and the encoder of them, and of jobs and workers.

    `owners`: only notes of these, and no jobs that compare notes of others; None for all.
    """
    version = snapshot.value(VOCABULARY_VERSION)
    encoder = vectors.encoder(snapshot)
    return {
        **dict(snapshot.first(totals.LIBRARY)),
        "n_notes": _count_notes(snapshot, owners),
        "vocabulary_version": version,
        "n_custom_words": count_words(snapshot, version),
        "n_stale_chunks": count_stale(snapshot, data_checksum),
        "n_embedded_chunks": 0 if encoder is None else vectors.count(snapshot),
        "encoder": None
        if encoder is None
        else {"name": encoder.name, "revision": encoder.revision, "dimension": encoder.dimension},
        "jobs": jobs_by_status(snapshot, owners),
        "workers": count_workers(snapshot),
    }


def count_workers(snapshot: Snapshot) -> int:
    """Count the processes of the workers with a recent heartbeat."""
    n: int = snapshot.value(COUNT_WORKERS, {"since": snapshot.now() - WORKER_SEEN_SECONDS})
    return n


def of_owners(owners: Collection[str] | None) -> tuple[str, dict[str, Any]]:
    """Return a further condition of a statement over `jobs`, and its parameters: no job that compares notes
    of other owners than these. Empty for None."""
    if owners is None:
        return "", {}
    names, parameters = listed("owner", owners)
    return OF_OWNERS.format(owners=names), parameters


def jobs_by_status(snapshot: Snapshot, owners: Collection[str] | None = None) -> dict[str, int]:
    """Count jobs for every public status; `owners` as in `of_owners`. An incomplete upload is not a job
    yet."""
    condition, parameters = of_owners(owners)
    counts = dict(snapshot.rows(JOBS_BY_STATUS.format(of_owners=condition), parameters))
    return {status.value: counts.get(status.value, 0) for status in JobStatus}


def chunks_by_reef(snapshot: Snapshot, label_threshold: float) -> dict[int, int]:
    """Return the number of chunks by the reef of their first label."""
    return dict(snapshot.tuples(totals.CHUNKS_BY_REEF, {"percent": round(100 * label_threshold)}))


def _count_notes(snapshot: Snapshot, owners: Collection[str] | None = None) -> int:
    """Count the active notes of some owners, or of all."""
    if owners is None:
        return int(snapshot.value(COUNT_NOTES))
    names, values = listed("owner", owners)
    return int(snapshot.value(COUNT_NOTES_OF.format(owners=names), values))
