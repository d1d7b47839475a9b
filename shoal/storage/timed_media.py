"""The modality and the times of passages, and the passages around one in its recording.

Nothing of it is stored: it follows from the place of the passage, its headings and its document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from shoal.models.files import FilePlace, LocatorKind, timecode
from shoal.models.recordings import EvidenceBundle, EvidenceChunk, Modality
from shoal.storage.database import Snapshot
from shoal.storage.source_files import place_from_json

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
