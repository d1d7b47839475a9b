"""Passages of recordings: what they are, and those around a result. Times are HH:MM:SS."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Modality(enum.StrEnum):
    """What a passage is: read, said in a recording, or seen in a picture or a video."""

    text = "text"
    ocr = "ocr"
    image_caption = "image_caption"
    audio_transcript = "audio_transcript"
    video_transcript = "video_transcript"
    video_frame = "video_frame"


@dataclass(frozen=True, slots=True)
class EvidenceChunk:
    """A passage of a recording near a result. Times are HH:MM:SS."""

    chunk_id: int
    chunk_index: int
    modality: Modality
    time_start: str
    time_end: str
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    is_anchor: bool = False

    @property
    def line(self) -> str:
        """The passage in one line, as `00:01:05–00:01:18 (Audio): "Every wave has a crest."`."""
        return evidence_line(self.modality, self.time_start, self.time_end, self.text)


def evidence_line(modality: str, time_start: str, time_end: str, text: str) -> str:
    """Return a passage of a recording in one line, with its times and whether it is heard or seen."""
    times = time_start if time_end == time_start else f"{time_start}–{time_end}"
    is_seen = modality in (Modality.video_frame, Modality.image_caption, Modality.ocr)
    return f'{times} ({"Screen" if is_seen else "Audio"}): "{" ".join(text.split())}"'


@dataclass(frozen=True, slots=True)
class EvidenceBundle:
    """The passages of a recording around a result, in time order; the result itself is one of them.

    `time_start` and `time_end`, HH:MM:SS: the time of the result with 15 seconds before and after it, 10 for
    a frame, within the recording. The passages overlap it.
    """

    time_start: str
    time_end: str
    chunks: tuple[EvidenceChunk, ...]

    @property
    def text(self) -> str:
        """The passages, one a line."""
        return "\n".join(chunk.line for chunk in self.chunks)
