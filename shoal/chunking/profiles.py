"""Build chunks from segments: offsets and lines, the strongest reefs and islands, and the norm of the
profile."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoal.models import Chunk, IslandScore, ReefScore, SentenceSpan
from shoal.scorer import Topic
from shoal.support.columns import Columns

# lagoon rounds scores to this many digits. Values computed from them are rounded alike, so that the same
# document gives the same rows on every machine.
SCORE_DIGITS = 6
# Islands serve browsing only; the specification stores the ten strongest.
ISLANDS_PER_CHUNK = 10

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


def build_chunks(
    content: str, sentences: Sequence[SentenceSpan], firsts: Sequence[int], topics: Sequence[Topic]
) -> tuple[Chunk, ...]:
    """Build one chunk from each segment of a draft, in order. `firsts`: the first sentence of each."""
    segments = [sentences[first:end] for first, end in pairwise([*firsts, len(sentences)])]
    starts = np.array([segment[0].start_char for segment in segments], dtype=np.int64)
    ends = np.array([segment[-1].end_char for segment in segments], dtype=np.int64)
    line_starts = _line_starts(content)
    first_lines = np.searchsorted(line_starts, starts, side="right").tolist()
    last_lines = np.searchsorted(line_starts, ends - 1, side="right").tolist()
    parts = zip(segments, first_lines, last_lines, topics, strict=True)
    return tuple(_chunk(content, index, *part) for index, part in enumerate(parts))


def _line_starts(content: str) -> NDArray[np.int64]:
    """Start offsets of lines; a line ends with a line feed, a carriage return, or both."""
    return np.array([0, *(match.end() for match in _LINE_BREAK.finditer(content))], dtype=np.int64)


def _chunk(
    content: str, index: int, segment: Sequence[SentenceSpan], first_line: int, last_line: int, topic: Topic
) -> Chunk:
    start, end = segment[0].start_char, segment[-1].end_char
    reefs, islands = _reefs(topic), _islands(topic)
    z_scores = reefs.fields[_Z_SCORE]
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
        reefs=reefs,
        islands=islands,
        norm=round(math.sqrt(math.fsum(map(operator.mul, z_scores, z_scores))), SCORE_DIGITS),
    )


_Z_SCORE = ReefScore._fields.index("z_score")


def _reefs(topic: Topic) -> Columns[ReefScore]:
    """The reefs of a chunk with z above 0, strongest first."""
    columns = topic.reef_columns
    return Columns(
        ReefScore,
        (
            columns.reef_ids,
            columns.names,
            columns.z_scores,
            columns.raw_bm25,
            columns.n_contributing_words,
            topic.probabilities,
        ),
    )


def _islands(topic: Topic) -> Columns[IslandScore]:
    """The islands of a chunk with an aggregate above 0, strongest first."""
    columns = topic.island_columns(ISLANDS_PER_CHUNK)
    fields = columns.island_ids, columns.names, columns.aggregate_z, columns.n_contributing_reefs
    return Columns(IslandScore, fields)
