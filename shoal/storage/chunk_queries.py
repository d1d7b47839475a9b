"""Queries for chunks: those of a document with their profiles, the neighbours of one, and what they are.

What a chunk is follows from its place, its headings and its document; nothing of it is stored. The modality
and the times of a passage are those of its recording, whose passages around it are its neighbours.

The types of documents are conditions on a row `d` of `documents`. A type is the kind of the file that a
document was converted from (`pdf`), `markdown` or `text` for one that was sent as text, what the passages are
(`audio`, `video`, `image`), or the end of its source path (`.py`).
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from shoal.errors import NotFoundError
from shoal.models.documents import DocFormat
from shoal.models.files import FilePlace, LocatorKind, timecode
from shoal.models.recordings import EvidenceBundle, EvidenceChunk, Modality
from shoal.models.search import ContextChunk
from shoal.models.stored import ChunkDetail, ChunkPage, StoredChunk
from shoal.models.vocabulary import IslandScore, Label, ReefScore
from shoal.scorer import Scorer
from shoal.storage.database import Snapshot, listed
from shoal.storage.document_queries import get_document, literal, place_from_json
from shoal.storage.profiles import Profiles, ReefsById, names_by_data, reefs_by_data

COUNT_CHUNKS = "SELECT n_chunks FROM documents WHERE id = :document_id"
_STORED = """
    SELECT c.id, c.document_id, c.chunk_index, s.section_index, s.path, c.text, c.start_char, c.end_char,
           c.start_line, c.end_line, c.sentence_count, c.confidence, c.coverage, c.matched_words,
           c.arch_score_0, c.arch_score_1, c.arch_score_2, c.arch_score_3, c.profile, c.vocabulary_version,
           c.data_checksum, c.locator, c.language
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
SPEECH_MARGIN = 15.0
FRAME_MARGIN = 10.0
"""Seconds before and after a passage that belong to its evidence."""
MAX_EVIDENCE_CHUNKS = 50
"""Passages of one bundle, nearest first: a file can give the same time to all of its lines."""
_FRAME = re.compile(r"(?:visual\s+)?frame\s+at\s+\d", re.IGNORECASE)
AUDIO_SUFFIXES = frozenset(
    (".mp3", ".m4a", ".m4b", ".wav", ".ogg", ".oga", ".opus", ".flac", ".aac", ".wma", ".aiff")
)
# The times of a medium are read from its own chunks, which the index of chunks by document finds. The
# distance between two spans is 0 if they overlap.
EVIDENCE = """
    WITH
    anchors AS (
        SELECT CAST(json_extract(value, '$[0]') AS BIGINT) AS id,
               CAST(json_extract(value, '$[1]') AS BIGINT) AS document_id,
               CAST(json_extract(value, '$[2]') AS DOUBLE PRECISION) AS start_s,
               CAST(json_extract(value, '$[3]') AS DOUBLE PRECISION) AS end_s,
               CAST(json_extract(value, '$[4]') AS DOUBLE PRECISION) AS margin
        FROM json_each(:anchors) j
    ),
    timed AS (
        SELECT id, document_id, CAST(json_extract(locator, '$.first') AS DOUBLE PRECISION) AS start_s,
               CAST(json_extract(locator, '$.last') AS DOUBLE PRECISION) AS end_s
        FROM chunks
        WHERE document_id IN (SELECT document_id FROM anchors) AND json_extract(locator, '$.kind') = 'time'
    ),
    media AS (SELECT document_id, MAX(end_s) AS end_s FROM timed GROUP BY document_id),
    near AS (
        SELECT a.id AS anchor_id, a.document_id, t.id AS chunk_id,
               ROW_NUMBER() OVER (
                   PARTITION BY a.id
                   ORDER BY t.id <> a.id, MAX(t.start_s - a.end_s, a.start_s - t.end_s, 0), t.start_s, t.id
               ) AS place
        FROM anchors a JOIN timed t ON t.document_id = a.document_id
        WHERE t.id = a.id OR (t.start_s <= a.end_s + a.margin AND t.end_s >= a.start_s - a.margin)
    )
    SELECT n.anchor_id, m.end_s AS medium_end, c.id, c.chunk_index, c.text, c.start_char, c.end_char,
           c.start_line, c.end_line, c.locator, s.path AS section_path
    FROM near n
    JOIN media m ON m.document_id = n.document_id
    JOIN chunks c ON c.id = n.chunk_id
    JOIN sections s ON s.id = c.section_id
    WHERE n.place <= :n
"""
AUDIO, VIDEO, IMAGE = "audio", "video", "image"
MEDIA = (AUDIO, VIDEO, IMAGE)
"""Types that say what the passages of a document are, whatever its file is."""
TEXT_TYPES = {"markdown": DocFormat.markdown, "text": DocFormat.plaintext}
_HAS_FILE = "EXISTS (SELECT 1 FROM document_files f WHERE f.document_id = d.id{})"
_IS_RECORDING = _HAS_FILE.format(" AND f.kind IN ('subtitles', 'transcript')")
# As `timed_media.modality_of` decides for a passage with times.
_MODALITY = "json_extract(d.metadata, '$.modality')"
_KNOWN = ", ".join(f"'{modality}'" for modality in Modality)
_OF_AUDIO = " OR ".join(f"d.source_path LIKE '%{suffix}.%'" for suffix in sorted(AUDIO_SUFFIXES))
_UNDECLARED = f"({_MODALITY} IS NULL OR {_MODALITY} NOT IN ({_KNOWN}))"
_MEDIA = {
    AUDIO: f"({_MODALITY} = 'audio_transcript' OR {_UNDECLARED} AND {_IS_RECORDING} AND ({_OF_AUDIO}))",
    VIDEO: f"({_MODALITY} IN ('video_transcript', 'video_frame') OR {_UNDECLARED} AND {_IS_RECORDING} "
    f"AND NOT COALESCE({_OF_AUDIO}, FALSE))",
    IMAGE: f"{_MODALITY} IN ('image_caption', 'ocr')",
}


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
        language=row["language"],
    )


class Anchor(NamedTuple):
    """A passage whose evidence is wanted. `metadata`, `source_path`: of its document."""

    chunk_id: int
    document_id: int
    place: FilePlace | None
    modality: Modality
    metadata: Mapping[str, Any]
    source_path: str | None


def modality_of(
    place: FilePlace | None, section_path: Sequence[str], metadata: Mapping[str, Any], source_path: str | None
) -> Modality:
    """Return the modality of a passage.

    A section of a frame is one. Otherwise the document's metadata can name it as `modality`. Else a passage
    with times is speech: of a video, unless the path names an audio file, as `talk.mp3.vtt` does.
    """
    is_timed = place is not None and place.kind is LocatorKind.time
    if is_timed and section_path and _FRAME.match(section_path[-1]):
        return Modality.video_frame
    declared = metadata.get("modality")
    if isinstance(declared, str) and declared in Modality.__members__:
        return Modality(declared)
    if not is_timed:
        return Modality.text
    inner = PurePosixPath(PurePosixPath(source_path or "").stem).suffix.lower()
    return Modality.audio_transcript if inner in AUDIO_SUFFIXES else Modality.video_transcript


def times_of(place: FilePlace | None) -> tuple[str | None, str | None]:
    """Return start and end of a passage as HH:MM:SS; None for one without times."""
    if place is None or place.kind is not LocatorKind.time:
        return None, None
    return timecode(place.first), timecode(place.last)


def find_evidence_bundles(snapshot: Snapshot, anchors: Iterable[Anchor]) -> dict[int, EvidenceBundle]:
    """Return the evidence of each anchor that has times, by chunk id, with one query for all.

    A bundle has the chunks of the document that overlap the anchor's time with a margin, in time order, and
    always the anchor.
    """
    timed = {
        anchor.chunk_id: anchor
        for anchor in anchors
        if anchor.place is not None and anchor.place.kind is LocatorKind.time
    }
    if not timed:
        return {}
    places = {chunk_id: anchor.place for chunk_id, anchor in timed.items() if anchor.place is not None}
    wanted = [
        [chunk_id, timed[chunk_id].document_id, place.first, place.last, _margin(timed[chunk_id])]
        for chunk_id, place in places.items()
    ]
    parameters = {"anchors": json.dumps(wanted), "n": MAX_EVIDENCE_CHUNKS}
    members: dict[int, list[tuple[float, float, EvidenceChunk]]] = {}
    medium_ends: dict[int, float] = {}
    for row in snapshot.rows(EVIDENCE, parameters):
        anchor = timed[row["anchor_id"]]
        place = place_from_json(row["locator"])
        assert place is not None, "the query selects chunks with times"
        medium_ends[anchor.chunk_id] = row["medium_end"]
        members.setdefault(anchor.chunk_id, []).append(
            (place.first, place.last, _evidence_chunk(row, place, anchor))
        )
    return {
        chunk_id: _bundle(timed[chunk_id], places[chunk_id], medium_ends[chunk_id], chunks)
        for chunk_id, chunks in members.items()
    }


def _margin(anchor: Anchor) -> float:
    return FRAME_MARGIN if anchor.modality is Modality.video_frame else SPEECH_MARGIN


def _bundle(
    anchor: Anchor,
    place: FilePlace,
    medium_end: float,
    chunks: Sequence[tuple[float, float, EvidenceChunk]],
) -> EvidenceBundle:
    in_order = sorted(chunks, key=lambda chunk: (chunk[0], chunk[1], chunk[2].chunk_index))
    margin = _margin(anchor)
    return EvidenceBundle(
        time_start=timecode(max(0.0, place.first - margin)),
        time_end=timecode(min(medium_end, place.last + margin)),
        chunks=tuple(chunk for _, _, chunk in in_order),
    )


def _evidence_chunk(row: Any, place: FilePlace, anchor: Anchor) -> EvidenceChunk:
    return EvidenceChunk(
        chunk_id=row["id"],
        chunk_index=row["chunk_index"],
        modality=modality_of(place, json.loads(row["section_path"]), anchor.metadata, anchor.source_path),
        time_start=timecode(place.first),
        time_end=timecode(place.last),
        text=row["text"],
        start_char=row["start_char"],
        end_char=row["end_char"],
        start_line=row["start_line"],
        end_line=row["end_line"],
        is_anchor=row["id"] == anchor.chunk_id,
    )


def is_of_type(file_type: str, name: str) -> tuple[str, dict[str, str]]:
    """Return the condition that a document is of a type, and its parameter, whose name is `name`."""
    if file_type in MEDIA:
        return _MEDIA[file_type], {}
    if file_type in TEXT_TYPES:
        is_text = f"(d.format = :{name} AND NOT {_HAS_FILE.format('')})"
        return is_text, {name: TEXT_TYPES[file_type].value}
    if file_type.startswith("."):
        return f"d.source_path LIKE :{name} ESCAPE '!'", {name: f"%{literal(file_type)}"}
    return _HAS_FILE.format(f" AND f.kind = :{name}"), {name: file_type}
