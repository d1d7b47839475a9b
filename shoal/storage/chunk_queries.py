"""Queries for chunks: the chunks of a document with their profiles, and the neighbours of a chunk."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.errors import NotFoundError
from shoal.models.recordings import Modality
from shoal.models.search import ContextChunk
from shoal.models.stored import ChunkDetail, ChunkPage, StoredChunk
from shoal.models.vocabulary import IslandScore, Label, ReefScore
from shoal.scorer import Scorer
from shoal.storage.database import Snapshot, listed
from shoal.storage.document_queries import get_document
from shoal.storage.profiles import Profiles
from shoal.storage.reef_names import ReefsById, names_by_data, reefs_by_data
from shoal.storage.source_files import place_from_json
from shoal.storage.timed_media import modality_of, times_of

COUNT_CHUNKS = "SELECT n_chunks FROM documents WHERE id = :document_id"
_STORED = """
    SELECT c.id, c.document_id, c.chunk_index, s.section_index, s.path, c.text, c.start_char, c.end_char,
           c.start_line, c.end_line, c.sentence_count, c.confidence, c.coverage, c.matched_words,
           c.arch_score_0, c.arch_score_1, c.arch_score_2, c.arch_score_3, c.profile, c.vocabulary_version,
           c.data_checksum, c.locator
    FROM chunks c
    JOIN sections s ON s.id = c.section_id
"""
CHUNKS_OF = f"{_STORED} WHERE c.document_id = :document_id ORDER BY c.chunk_index LIMIT :limit OFFSET :offset"
DOCUMENT_OF_CHUNKS = "SELECT metadata, source_path FROM documents WHERE id = :document_id"
GET_CHUNK = f"{_STORED} WHERE c.id = :chunk_id"
PACKED_PROFILES = "SELECT profile FROM chunks WHERE document_id = :document_id ORDER BY chunk_index"
PROFILES_OF = "SELECT id, data_checksum, profile FROM chunks WHERE id IN ({ids}) ORDER BY id"
NEIGHBOURS = """
    SELECT id, chunk_index, text, start_char, end_char, start_line, end_line
    FROM chunks
    WHERE document_id = :document_id AND chunk_index BETWEEN :first AND :last AND chunk_index <> :middle
    ORDER BY chunk_index
"""

ALL_REEFS = 1 << 30
ISLANDS_PER_CHUNK = 10
"""Islands serve browsing only: the strongest are shown."""
ISLAND_DIGITS = 3


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
    """Read the chunks of a document in order, each with its `n_reefs` strongest reefs and, unless that is 0,
    its islands. Without a threshold, they have no labels, and without the checksum of the scorer's data, none
    awaits a rescore. Raises NotFoundError."""
    total = snapshot.value(COUNT_CHUNKS, {"document_id": document_id})
    if total is None:
        raise NotFoundError(f"there is no document {document_id}")
    page = {"document_id": document_id, "limit": total if limit is None else limit, "offset": offset}
    rows = snapshot.rows(CHUNKS_OF, page)
    chunks = _stored_chunks(
        snapshot, rows, n_reefs=n_reefs, label_threshold=label_threshold, data_checksum=data_checksum
    )
    return ChunkPage(tuple(chunks), total)


def get_chunk(
    snapshot: Snapshot, chunk_id: int, *, label_threshold: float, data_checksum: str, context: int = 0
) -> ChunkDetail:
    """Read a chunk with its document and `context` neighbours on each side. Raises NotFoundError."""
    row = snapshot.first(GET_CHUNK, {"chunk_id": chunk_id})
    if row is None:
        raise NotFoundError(f"there is no chunk {chunk_id}")
    [chunk] = _stored_chunks(
        snapshot, [row], n_reefs=ALL_REEFS, label_threshold=label_threshold, data_checksum=data_checksum
    )
    before, after = (
        get_neighbours(snapshot, chunk.document_id, chunk.chunk_index, context) if context else ((), ())
    )
    return ChunkDetail(chunk, get_document(snapshot, chunk.document_id), before, after)


@dataclass(frozen=True, slots=True)
class StoredProfiles:
    """The profiles of chunks. `data_checksums[i]`: the checksum of the data that chunk i was scored with."""

    chunk_ids: Sequence[int]
    profiles: Profiles
    data_checksums: Sequence[str]

    def scored_with(self, data_checksum: str) -> StoredProfiles:
        """Return the profiles of the chunks that were scored with this data."""
        chosen = [i for i, checksum in enumerate(self.data_checksums) if checksum == data_checksum]
        if len(chosen) == len(self.chunk_ids):
            return self
        packed = self.profiles.packed()
        return StoredProfiles(
            [self.chunk_ids[i] for i in chosen],
            Profiles.of([packed[i] for i in chosen]),
            [data_checksum] * len(chosen),
        )

    def labels(
        self, snapshot: Snapshot, label_threshold: float, scorer: Scorer | None = None
    ) -> dict[int, tuple[Label, ...]]:
        """Return the labels by chunk id, most probable first; chunks without labels are missing.

        `snapshot` has the names of the reefs, except those of `scorer`.
        """
        reef_ids = set(self.profiles.reef_ids[self.profiles.probabilities >= label_threshold].tolist())
        if scorer is None:
            by_data = reefs_by_data(snapshot, self.data_checksums, reef_ids)
        else:
            by_data = names_by_data(snapshot, self.data_checksums, reef_ids, scorer)
        reefs = [by_data[checksum] for checksum in self.data_checksums]
        return {
            self.chunk_ids[i]: labels for i, labels in _labels(self.profiles, reefs, label_threshold).items()
        }


def packed_profiles(snapshot: Snapshot, document_id: int) -> list[bytes]:
    """Read the profiles of a document's chunks as they are stored, in order."""
    return [row[0] for row in snapshot.tuples(PACKED_PROFILES, {"document_id": document_id})]


def profiles_of(snapshot: Snapshot, chunk_ids: Sequence[int]) -> StoredProfiles:
    """Read the profiles of chunks, ascending by id; missing chunks are left out."""
    ids, parameters = listed("id", chunk_ids)
    return as_profiles(snapshot.rows(PROFILES_OF.format(ids=ids), parameters))


def as_profiles(rows: Sequence[Any], changed: Mapping[int, bytes] | None = None) -> StoredProfiles:
    """Unpack the profiles of rows with id, data_checksum and profile of chunks; `changed` has those that
    count instead, by chunk id."""
    instead = changed or {}
    return StoredProfiles(
        [row["id"] for row in rows],
        Profiles.of([instead.get(row["id"], row["profile"]) for row in rows]),
        [row["data_checksum"] for row in rows],
    )


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


def _labels(
    profiles: Profiles, reefs: Sequence[ReefsById], label_threshold: float
) -> dict[int, tuple[Label, ...]]:
    """The labels by place of the chunk, most probable first; chunks without labels are missing."""
    chances = profiles.probabilities
    records = np.flatnonzero(chances >= label_threshold)
    # By chunk, then by probability; the sort is stable, so that the stronger of equal ones comes first.
    records = records[np.lexsort((-chances[records], profiles.chunks[records]))]
    labels: dict[int, tuple[Label, ...]] = {}
    columns = profiles.chunks[records], profiles.reef_ids[records], chances[records]
    for chunk, reef_id, chance in zip(*(column.tolist() for column in columns), strict=True):
        labels[chunk] = (*labels.get(chunk, ()), Label(reef_id, reefs[chunk][reef_id].reef_name, chance))
    return labels


def _islands(scores: Sequence[ReefScore], reefs: ReefsById) -> tuple[IslandScore, ...]:
    """The strongest islands of a chunk; none for reefs whose island is unknown."""
    members: dict[tuple[int, str, float], list[float]] = {}
    for score in scores:
        _, island_id, name, scale = reefs[score.reef_id]
        if island_id is not None:
            members.setdefault((island_id, name or "", scale or 0.0), []).append(score.z_score)
    strongest = sorted(
        (-round(math.fsum(z_scores) * scale, ISLAND_DIGITS), island_id, name, len(z_scores))
        for (island_id, name, scale), z_scores in members.items()
    )
    return tuple(
        IslandScore(island_id, name, -aggregate, n)
        for aggregate, island_id, name, n in strongest[:ISLANDS_PER_CHUNK]
    )


def _stored_chunks(
    snapshot: Snapshot,
    rows: Sequence[Any],
    *,
    n_reefs: int,
    label_threshold: float | None,
    data_checksum: str | None,
) -> Iterator[StoredChunk]:
    by_data = reefs_by_data(snapshot, (row["data_checksum"] for row in rows))
    reefs = [by_data[row["data_checksum"]] for row in rows]
    profiles = Profiles.of([row["profile"] for row in rows])
    labels = {} if label_threshold is None else _labels(profiles, reefs, label_threshold)
    scores = profiles.scores(reefs) if n_reefs else [()] * len(rows)
    document = snapshot.first(DOCUMENT_OF_CHUNKS, {"document_id": rows[0]["document_id"]}) if rows else None
    metadata = json.loads(document["metadata"]) if document else {}
    source_path = document["source_path"] if document else None
    for i, row in enumerate(rows):
        islands = _islands(scores[i], reefs[i])
        chunk = _chunk(row, scores[i][:n_reefs], labels.get(i, ()), islands, data_checksum)
        modality = modality_of(chunk.place, chunk.section_path, metadata, source_path)
        yield chunk if modality is Modality.text else dataclasses.replace(chunk, modality=modality)


def _chunk(
    row: Any,
    reefs: tuple[ReefScore, ...],
    labels: tuple[Label, ...],
    islands: tuple[IslandScore, ...],
    data_checksum: str | None,
) -> StoredChunk:
    first = labels[0] if labels else None
    place = place_from_json(row["locator"])
    time_start, time_end = times_of(place)
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
        labels=labels,
        awaits_rescore=data_checksum not in (None, row["data_checksum"]),
        vocabulary_version=row["vocabulary_version"],
        data_checksum=row["data_checksum"],
        reefs=reefs,
        islands=islands,
        place=place,
        modality=Modality.text,
        time_start=time_start,
        time_end=time_end,
    )
