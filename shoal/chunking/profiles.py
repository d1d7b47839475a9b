"""Build chunks from segments: offsets and lines, the strongest reefs and islands, and the norm of the
profile."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.models import Chunk, IslandScore, ReefScore, SentenceSpan
from shoal.support.columns import Columns

# lagoon rounds scores to this many digits. Values computed from them are rounded alike, so that the same
# document gives the same rows on every machine.
SCORE_DIGITS = 6
# Islands serve browsing only; the specification stores the ten strongest.
ISLANDS_PER_CHUNK = 10

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


def build_chunks(
    content: str, sentences: Sequence[SentenceSpan], segments: Sequence[Any]
) -> tuple[Chunk, ...]:
    """Build one chunk from each segment of a draft, in order."""
    starts = np.array([sentences[segment.start_idx].start_char for segment in segments], dtype=np.int64)
    ends = np.array([sentences[segment.end_idx - 1].end_char for segment in segments], dtype=np.int64)
    line_starts = _line_starts(content)
    first_lines = np.searchsorted(line_starts, starts, side="right").tolist()
    last_lines = np.searchsorted(line_starts, ends - 1, side="right").tolist()
    spans = zip(starts.tolist(), ends.tolist(), first_lines, last_lines, segments, strict=True)
    return tuple(
        _chunk(index, sentences[segment.start_idx].section, content[start:end], (start, end), lines, segment)
        for index, (start, end, *lines, segment) in enumerate(spans)
    )


def _line_starts(content: str) -> NDArray[np.int64]:
    """Start offsets of lines; a line ends with a line feed, a carriage return, or both."""
    return np.array([0, *(match.end() for match in _LINE_BREAK.finditer(content))], dtype=np.int64)


def _chunk(
    index: int, section: int, text: str, span: tuple[int, int], lines: Sequence[int], segment: Any
) -> Chunk:
    topic = segment.topic
    reefs, islands = _reefs(topic), _islands(topic)
    z_scores = reefs.fields[_Z_SCORE]
    natural, physical, abstract, social = topic.arch_scores
    return Chunk(
        chunk_index=index,
        section=section,
        text=text,
        start_char=span[0],
        end_char=span[1],
        start_line=lines[0],
        end_line=lines[1],
        sentence_count=segment.end_idx - segment.start_idx,
        confidence=topic.confidence,
        coverage=topic.coverage,
        matched_words=topic.matched_words,
        arch_scores=(natural, physical, abstract, social),
        reefs=reefs,
        islands=islands,
        norm=round(math.sqrt(math.fsum(map(operator.mul, z_scores, z_scores))), SCORE_DIGITS),
    )


_Z_SCORE = ReefScore._fields.index("z_score")


def _reefs(topic: Any) -> Columns[ReefScore]:
    """The reefs of a chunk with z above 0, strongest first."""
    columns = topic.reef_columns
    fields = columns.reef_ids, columns.names, columns.z_scores, columns.raw_bm25, columns.n_contributing_words
    return Columns(ReefScore, fields)


def _islands(topic: Any) -> Columns[IslandScore]:
    """The islands of a chunk with an aggregate above 0, strongest first."""
    columns = topic.island_columns(ISLANDS_PER_CHUNK)
    fields = columns.island_ids, columns.names, columns.aggregate_z, columns.n_contributing_reefs
    return Columns(IslandScore, fields)
