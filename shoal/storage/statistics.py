"""Counts, sizes and topics of a library, besides the totals that triggers maintain."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.models.jobs import JobStatus
from shoal.storage import document_queries, totals, vectors
from shoal.storage.database import IDS_PER_STATEMENT, Query, Snapshot, listed
from shoal.storage.staleness import any_other_data, count_stale
from shoal.storage.totals import FREQUENT_TAGS
from shoal.storage.vocabulary import count_words

MAX_LISTED = 20
"""Documents that are listed besides their number."""
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
        "n_incomplete_documents": document_queries.count_incomplete(snapshot),
        "incomplete_documents": document_queries.incomplete_documents(snapshot, MAX_LISTED),
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


# Counts in an index of the chunks; a name is read from one chunk of its group.
MAIN_REEFS = """
    SELECT g.document_id, g.top_reef_id,
           (SELECT c.top_reef_name FROM chunks c
            WHERE c.document_id = g.document_id AND c.top_reef_id = g.top_reef_id LIMIT 1), g.n
    FROM (SELECT document_id, top_reef_id, COUNT(*) AS n,
                 ROW_NUMBER() OVER (
                    PARTITION BY document_id ORDER BY COUNT(*) DESC, top_reef_id) AS place
          FROM chunks
          WHERE document_id IN ({ids}) AND top_reef_id IS NOT NULL
            AND top_reef_probability >= :label_threshold
          GROUP BY document_id, top_reef_id) g
    WHERE g.place <= :n
    ORDER BY g.document_id, g.place
"""
# The rows of chunks are wide: those of a document are read only up to the first that awaits a rescore.
AWAITING_RESCORE = """
    SELECT d.id FROM documents d WHERE d.id IN ({ids}) AND EXISTS (
        SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.data_checksum <> :data_checksum)
"""
CHUNKS_OF_REEF = """
    SELECT c.id, c.chunk_index, c.document_id, d.title, c.start_line, c.end_line, p.probability,
           SUBSTR(c.text, 1, :n_chars) AS beginning
    FROM (SELECT id, top_reef_probability AS probability FROM chunks
          WHERE top_reef_id = :reef_id AND top_reef_probability >= :label_threshold
          ORDER BY top_reef_probability DESC, id LIMIT :limit) p
    JOIN chunks c ON c.id = p.id
    JOIN documents d ON d.id = c.document_id
    ORDER BY p.probability DESC, c.id
"""
BEGINNING_CHARS = 240


@dataclass(frozen=True, slots=True)
class MainReef:
    """A reef that is the first label of `n_chunks` chunks of a document."""

    reef_id: int
    reef_name: str
    n_chunks: int


@dataclass(frozen=True, slots=True)
class ReefChunk:
    """A chunk whose first label is a reef, with the probability of that label."""

    chunk_id: int
    chunk_index: int
    document_id: int
    document_title: str
    start_line: int
    end_line: int
    probability: float
    beginning: str


def main_reefs(
    snapshot: Snapshot, document_ids: Sequence[int], n: int, *, label_threshold: float
) -> dict[int, tuple[MainReef, ...]]:
    """Map document ids to the `n` reefs that are the first label of most chunks."""
    by_document: dict[int, list[MainReef]] = {}
    for query in main_reefs_queries(document_ids, n, label_threshold=label_threshold):
        for document_id, *reef in snapshot.tuples(*query):
            by_document.setdefault(document_id, []).append(MainReef(*reef))
    return {document_id: tuple(reefs) for document_id, reefs in by_document.items()}


def main_reefs_queries(document_ids: Sequence[int], n: int, *, label_threshold: float) -> Iterator[Query]:
    """Yield what `main_reefs` reads."""
    for start in range(0, len(document_ids), IDS_PER_STATEMENT):
        ids, parameters = listed("id", document_ids[start : start + IDS_PER_STATEMENT])
        yield Query(MAIN_REEFS.format(ids=ids), {**parameters, "label_threshold": label_threshold, "n": n})


def awaiting_rescore(snapshot: Snapshot, document_ids: Sequence[int], *, data_checksum: str) -> set[int]:
    """Return those of the documents that have chunks scored with other data of lagoon."""
    found: set[int] = set()
    if not any_other_data(snapshot, data_checksum):
        return found
    for start in range(0, len(document_ids), IDS_PER_STATEMENT):
        ids, parameters = listed("id", document_ids[start : start + IDS_PER_STATEMENT])
        parameters["data_checksum"] = data_checksum
        found.update(row[0] for row in snapshot.tuples(AWAITING_RESCORE.format(ids=ids), parameters))
    return found


def find_reef_chunks(
    snapshot: Snapshot, reef_id: int, limit: int, *, label_threshold: float
) -> tuple[ReefChunk, ...]:
    """List the chunks whose first label is a reef, most probable first."""
    parameters = {
        "reef_id": reef_id,
        "label_threshold": label_threshold,
        "limit": limit,
        "n_chars": BEGINNING_CHARS,
    }
    return tuple(ReefChunk(*row) for row in snapshot.tuples(CHUNKS_OF_REEF, parameters))


def frequent_tags(snapshot: Snapshot, limit: int) -> tuple[tuple[str, int], ...]:
    """List tags with their numbers of documents, most frequent first."""
    return tuple(snapshot.tuples(FREQUENT_TAGS, {"limit": limit}))
