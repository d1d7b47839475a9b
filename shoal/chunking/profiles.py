"""Build chunks from segments: offsets and lines, places in the original file, the packed profile and its
labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from lagoon.keys import code_points
from shoal.models.documents import Chunk, SentenceSpan
from shoal.models.files import FilePlace, Locator, LocatorKind
from shoal.models.vocabulary import Reef
from shoal.scorer import Topic
from shoal.storage.profiles import PROBABILITY_STEPS, Profiles

# lagoon rounds scores to this many digits. Values computed from them are rounded alike, so that the same
# document gives the same rows on every machine.
SCORE_DIGITS = 6


def build_chunks(
    content: str,
    sentences: Sequence[SentenceSpan],
    firsts: Sequence[int],
    topics: Sequence[Topic],
    profiles: Iterable[Profile],
    locators: Sequence[Locator] = (),
) -> tuple[Chunk, ...]:
    """Build one chunk from each segment of a draft, in order. `firsts`: the first sentence of each;
    `profiles` begins with theirs; `locators`: those of the file that the content was converted from. If they
    are lines, the lines of a chunk are those of the file, otherwise those of the content."""
    segments = [sentences[first:end] for first, end in pairwise([*firsts, len(sentences)])]
    starts = np.array([segment[0].start_char for segment in segments], dtype=np.int64)
    ends = np.array([segment[-1].end_char for segment in segments], dtype=np.int64)
    line_starts = _line_starts(content)
    first_lines = np.searchsorted(line_starts, starts, side="right").tolist()
    last_lines = np.searchsorted(line_starts, ends - 1, side="right").tolist()
    places = file_places(locators, list(zip(starts.tolist(), ends.tolist(), strict=True)))
    # `profiles` is last, so that none is taken beyond the last segment.
    parts = zip(segments, first_lines, last_lines, topics, places, profiles, strict=False)
    return tuple(_chunk(content, index, *part) for index, part in enumerate(parts))


def _line_starts(content: str) -> NDArray[np.int64]:
    """Start offsets of lines; a line ends with a line feed, a carriage return, or both."""
    codes = code_points(content)
    is_end = codes == ord("\n")
    if "\r" in content:
        is_end[:-1] |= (codes[:-1] == ord("\r")) & ~is_end[1:]
        is_end[-1:] |= codes[-1:] == ord("\r")
    ends = np.flatnonzero(is_end)
    starts = np.zeros(len(ends) + 1, dtype=np.int64)
    np.add(ends, 1, out=starts[1:])
    return starts


def _chunk(
    content: str,
    index: int,
    segment: Sequence[SentenceSpan],
    first_line: int,
    last_line: int,
    topic: Topic,
    place: FilePlace | None,
    profile: Profile,
) -> Chunk:
    start, end = segment[0].start_char, segment[-1].end_char
    if place is not None and place.kind is LocatorKind.line:
        first_line, last_line = int(place.first), int(place.last)
    natural, physical, abstract, social = topic.arch_scores
    return Chunk(
        chunk_index=index,
        section=segment[0].section,
        text=content[start:end],
        start_char=start,
        end_char=end,
        start_line=first_line,
        end_line=last_line,
        sentence_count=len(segment),
        confidence=topic.confidence,
        coverage=topic.coverage,
        matched_words=topic.matched_words,
        arch_scores=(natural, physical, abstract, social),
        place=place,
        **profile,
    )


class Profile(TypedDict):
    """The fields of a chunk that hold its profile or follow from it."""

    profile: bytes
    norm: float
    top_reef_id: int | None
    top_reef_name: str | None
    top_reef_probability: float


def profiles_of(topics: Sequence[Topic], reefs: Sequence[Reef]) -> Iterator[Profile]:
    """The profiles of chunks, from their reefs with z above 0. `reefs`: all reefs of the scorer."""
    profiles = Profiles.from_scores([topic.reef_arrays for topic in topics])
    norms = profiles.norms.round(SCORE_DIGITS).tolist()
    for packed, norm, top in zip(profiles.packed(), norms, profiles.top_records.tolist(), strict=True):
        record = None if top < 0 else profiles.records[top]
        reef = None if record is None else int(record["reef_id"])
        yield Profile(
            profile=packed,
            norm=norm,
            top_reef_id=reef,
            top_reef_name=None if reef is None else reefs[reef].name,
            top_reef_probability=0.0 if record is None else int(record["probability"]) / PROBABILITY_STEPS,
        )


def file_places(locators: Sequence[Locator], spans: Sequence[tuple[int, int]]) -> list[FilePlace | None]:
    """Return the place of each span, given by start and end in code points; None if no locator covers any of
    it.

    Locators and spans are in order, and neither overlap. A span over several units has the first and the
    last of them, and their name if all have the same. Sheets of other names are not joined: a span belongs
    to the first one.
    """
    places: list[FilePlace | None] = []
    at = 0
    for start, end in spans:
        while at < len(locators) and locators[at].end_char <= start:
            at += 1
        # The last locator of this span may be the first of the next.
        last = at
        while last < len(locators) and locators[last].start_char < end:
            last += 1
        places.append(_joined(locators[at:last]))
    return places


def _joined(locators: Sequence[Locator]) -> FilePlace | None:
    if not locators:
        return None
    kind, name = locators[0].kind, locators[0].name
    same = [one for one in locators if one.kind is kind]
    if kind is LocatorKind.sheet:
        same = [one for one in same if one.name == name]
    elif any(one.name != name for one in same):
        name = ""
    return FilePlace.of(kind, name, min(one.first for one in same), max(one.last for one in same))
