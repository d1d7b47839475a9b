"""Topic statistics of a library: the main reefs of documents, the best chunks of a reef, frequent tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.storage.database import IDS_PER_STATEMENT, Query, Snapshot, listed
from shoal.storage.staleness import any_other_data
from shoal.storage.totals import FREQUENT_TAGS

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
