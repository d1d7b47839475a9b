"""Queries for chunks: the chunks of a document with their profiles, and the neighbours of a chunk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.errors import NotFoundError
from shoal.models import ContextChunk, IslandScore, Label, ReefScore
from shoal.storage.database import IDS_PER_STATEMENT, Snapshot, listed
from shoal.storage.document_queries import get_document
from shoal.storage.records import ChunkDetail, ChunkPage, StoredChunk

COUNT_CHUNKS = "SELECT n_chunks FROM documents WHERE id = :document_id"
_STORED = """
    SELECT c.id, c.document_id, c.chunk_index, s.section_index, s.path, c.text, c.start_char, c.end_char,
           c.start_line, c.end_line, c.sentence_count, c.confidence, c.coverage, c.matched_words,
           c.arch_score_0, c.arch_score_1, c.arch_score_2, c.arch_score_3, c.vocabulary_version,
           c.data_checksum
    FROM chunks c
    JOIN sections s ON s.id = c.section_id
"""
CHUNKS_OF = f"{_STORED} WHERE c.document_id = :document_id ORDER BY c.chunk_index LIMIT :limit OFFSET :offset"
GET_CHUNK = f"{_STORED} WHERE c.id = :chunk_id"
REEFS_OF = """
    SELECT chunk_id, reef_id, reef_name, z_score, raw_bm25, n_contributing_words, probability
    FROM chunk_reefs
    WHERE chunk_id IN ({ids}) AND rank < :n_reefs
    ORDER BY chunk_id, rank
"""
LABELS_OF = """
    SELECT chunk_id, reef_id, reef_name, probability
    FROM chunk_reefs
    WHERE chunk_id IN ({ids}) AND probability >= :label_threshold
    ORDER BY chunk_id, probability DESC, rank
"""
ISLANDS_OF = """
    SELECT chunk_id, island_id, island_name, aggregate_z, n_contributing_reefs
    FROM chunk_islands
    WHERE chunk_id IN ({ids})
    ORDER BY chunk_id, aggregate_z DESC, island_id
"""
NEIGHBOURS = """
    SELECT id, chunk_index, text, start_char, end_char, start_line, end_line
    FROM chunks
    WHERE document_id = :document_id AND chunk_index BETWEEN :first AND :last AND chunk_index <> :middle
    ORDER BY chunk_index
"""

ALL_REEFS = 1 << 30


def get_chunks(
    snapshot: Snapshot,
    document_id: int,
    *,
    limit: int | None = None,
    offset: int = 0,
    n_reefs: int = ALL_REEFS,
    label_threshold: float | None = None,
    data_checksum: str | None = None,
) -> ChunkPage:
    """Read the chunks of a document in order, each with its `n_reefs` strongest reefs; without a threshold,
    they have no labels, and without the checksum of the scorer's data, none awaits a rescore. Raises
    NotFoundError."""
    total = snapshot.value(COUNT_CHUNKS, {"document_id": document_id})
    if total is None:
        raise NotFoundError(f"there is no document {document_id}")
    page = {"document_id": document_id, "limit": total if limit is None else limit, "offset": offset}
    rows = snapshot.rows(CHUNKS_OF, page)
    chunks: list[StoredChunk] = []
    for start in range(0, len(rows), IDS_PER_STATEMENT):
        batch = rows[start : start + IDS_PER_STATEMENT]
        ids = [row["id"] for row in batch]
        reefs, islands = reefs_of(snapshot, ids, n_reefs), _islands_of(snapshot, ids)
        labels = {} if label_threshold is None else labels_of(snapshot, ids, label_threshold)
        chunks += [_chunk(row, reefs, labels, islands, data_checksum) for row in batch]
    return ChunkPage(tuple(chunks), total)


def get_chunk(
    snapshot: Snapshot, chunk_id: int, *, label_threshold: float, data_checksum: str, context: int = 0
) -> ChunkDetail:
    """Read a chunk with its document and `context` neighbours on each side. Raises NotFoundError."""
    row = snapshot.first(GET_CHUNK, {"chunk_id": chunk_id})
    if row is None:
        raise NotFoundError(f"there is no chunk {chunk_id}")
    reefs, islands = reefs_of(snapshot, [chunk_id]), _islands_of(snapshot, [chunk_id])
    chunk = _chunk(row, reefs, labels_of(snapshot, [chunk_id], label_threshold), islands, data_checksum)
    before, after = (
        get_neighbours(snapshot, chunk.document_id, chunk.chunk_index, context) if context else ((), ())
    )
    return ChunkDetail(chunk, get_document(snapshot, chunk.document_id), before, after)


def reefs_of(
    snapshot: Snapshot, chunk_ids: Sequence[int], n_reefs: int = ALL_REEFS
) -> dict[int, tuple[ReefScore, ...]]:
    """Read the strongest reefs by chunk id, strongest first; chunks without reefs are missing."""
    ids, parameters = listed("id", chunk_ids)
    by_chunk: dict[int, list[ReefScore]] = {}
    for chunk_id, *reef in snapshot.rows(REEFS_OF.format(ids=ids), {**parameters, "n_reefs": n_reefs}):
        by_chunk.setdefault(chunk_id, []).append(ReefScore(*reef))
    return {chunk_id: tuple(reefs) for chunk_id, reefs in by_chunk.items()}


def labels_of(
    snapshot: Snapshot, chunk_ids: Sequence[int], label_threshold: float
) -> dict[int, tuple[Label, ...]]:
    """Read the labels by chunk id, most probable first; chunks without labels are missing."""
    ids, parameters = listed("id", chunk_ids)
    by_chunk: dict[int, list[Label]] = {}
    for chunk_id, *label in snapshot.rows(
        LABELS_OF.format(ids=ids), {**parameters, "label_threshold": label_threshold}
    ):
        by_chunk.setdefault(chunk_id, []).append(Label(*label))
    return {chunk_id: tuple(labels) for chunk_id, labels in by_chunk.items()}


def get_neighbours(
    snapshot: Snapshot, document_id: int, chunk_index: int, n: int
) -> tuple[tuple[ContextChunk, ...], tuple[ContextChunk, ...]]:
    """Read up to `n` chunks before and `n` after the given chunk, in text order."""
    parameters = {
        "document_id": document_id,
        "first": chunk_index - n,
        "last": chunk_index + n,
        "middle": chunk_index,
    }
    neighbours = [ContextChunk(*row) for row in snapshot.rows(NEIGHBOURS, parameters)]
    before = tuple(chunk for chunk in neighbours if chunk.chunk_index < chunk_index)
    return before, tuple(neighbours[len(before) :])


def _islands_of(snapshot: Snapshot, chunk_ids: Sequence[int]) -> dict[int, tuple[IslandScore, ...]]:
    ids, parameters = listed("id", chunk_ids)
    by_chunk: dict[int, list[IslandScore]] = {}
    for chunk_id, *island in snapshot.rows(ISLANDS_OF.format(ids=ids), parameters):
        by_chunk.setdefault(chunk_id, []).append(IslandScore(*island))
    return {chunk_id: tuple(islands) for chunk_id, islands in by_chunk.items()}


def _chunk(
    row: Any,
    reefs: Mapping[int, tuple[ReefScore, ...]],
    labels: Mapping[int, tuple[Label, ...]],
    islands: Mapping[int, tuple[IslandScore, ...]],
    data_checksum: str | None,
) -> StoredChunk:
    own_labels = labels.get(row["id"], ())
    first = own_labels[0] if own_labels else None
    return StoredChunk(
        id=row["id"],
        document_id=row["document_id"],
        chunk_index=row["chunk_index"],
        section_index=row["section_index"],
        section_path=tuple(json.loads(row["path"])),
        text=row["text"],
        start_char=row["start_char"],
        end_char=row["end_char"],
        start_line=row["start_line"],
        end_line=row["end_line"],
        sentence_count=row["sentence_count"],
        confidence=row["confidence"],
        coverage=row["coverage"],
        matched_words=row["matched_words"],
        arch_scores=(row["arch_score_0"], row["arch_score_1"], row["arch_score_2"], row["arch_score_3"]),
        top_reef_id=first.reef_id if first else None,
        top_reef_name=first.reef_name if first else None,
        labels=own_labels,
        awaits_rescore=data_checksum not in (None, row["data_checksum"]),
        vocabulary_version=row["vocabulary_version"],
        data_checksum=row["data_checksum"],
        reefs=reefs.get(row["id"], ()),
        islands=islands.get(row["id"], ()),
    )
