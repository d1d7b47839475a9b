"""Passages of recordings: what they are, and those around a result. Times are HH:MM:SS."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, TypedDict


class Modality(enum.StrEnum):
    """What a passage is: read, said in a recording, or seen in a picture or a video."""

    text = "text"
    ocr = "ocr"
    image_caption = "image_caption"
    audio_transcript = "audio_transcript"
    video_transcript = "video_transcript"
    video_frame = "video_frame"


class ShownChunk(TypedDict):
    """A passage of a recording as it is shown: the members of an EvidenceChunk that a line needs."""

    chunk_id: int
    modality: str
    time_start: str
    time_end: str
    text: str
    is_anchor: bool


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
    is_anchor: Annotated[bool, "whether it is the result itself"] = False

    def shown(self, text: str | None = None) -> ShownChunk:
        """Return what a line of this passage needs, with `text` in place of its own if given."""
        return ShownChunk(
            chunk_id=self.chunk_id,
            modality=self.modality,
            time_start=self.time_start,
            time_end=self.time_end,
            text=self.text if text is None else text,
            is_anchor=self.is_anchor,
        )

    @property
    def line(self) -> str:
        """The passage in one line, as `00:01:05–00:01:18 (Audio): "Every wave has a crest."`."""
        return evidence_line(self.modality, self.time_start, self.time_end, self.text)


def evidence_line(modality: str, time_start: str, time_end: str, text: str) -> str:
    """Return a passage of a recording in one line, with its times and whether it is heard or seen."""
    return f'{_times(modality, time_start, time_end)}: "{" ".join(text.split())}"'


def _times(modality: str, time_start: str, time_end: str) -> str:
    times = time_start if time_end == time_start else f"{time_start}–{time_end}"
    is_seen = modality in (Modality.video_frame, Modality.image_caption, Modality.ocr)
    return f"{times} ({'Screen' if is_seen else 'Audio'})"


class ShownEvidence:
    """The passages of recordings that a list of results has shown: results close in time share passages, and
    each is shown once."""

    def __init__(self) -> None:
        self._number_of: dict[int, int | str] = {}

    def lines(self, number: int | str, chunks: Iterable[ShownChunk]) -> list[str]:
        """Return the passages around result `number` that no earlier result has shown, one a line.

        Where an earlier one has shown the result itself, its line has the number of that one.
        """
        lines = []
        for chunk in chunks:
            times = chunk["modality"], chunk["time_start"], chunk["time_end"]
            first = self._number_of.get(chunk["chunk_id"])
            if first is None:
                self._number_of[chunk["chunk_id"]] = number
                lines.append(evidence_line(*times, chunk["text"]))
            elif chunk["is_anchor"]:
                lines.append(f"{_times(*times)}: see [{first}]")
        return lines


@dataclass(frozen=True, slots=True)
class EvidenceBundle:
    """The passages of a recording around a result: those that overlap its time, with 15 seconds before and
    after it, 10 for a frame."""

    time_start: Annotated[str, "start of the time that the passages overlap, HH:MM:SS"]
    time_end: Annotated[str, "its end, HH:MM:SS, not after that of the recording"]
    chunks: Annotated[tuple[EvidenceChunk, ...], "in time order, always with the result itself; at most 50"]

    @property
    def text(self) -> str:
        """The passages, one a line."""
        return "\n".join(chunk.line for chunk in self.chunks)
