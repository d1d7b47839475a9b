"""Topic segmentation.

TextTiling (Hearst 1997) with reef profiles instead of word counts: at every gap between sentences, the
windows on both sides are compared, and a deep local minimum of their cosine is a boundary.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.errors import LagoonError

# Gaps compared at once: with 207 float64 each, a block and its sums fit into the cache of a core.
_BLOCK = 256
_SCALES = (1, 2)
_DIGITS = 6
MAX_SMOOTH_WINDOW = 1000


@dataclass(frozen=True)
class SegmentationOptions:
    """Options of topic segmentation.

    sensitivity    standard deviations below the mean at which a minimum is a boundary
    smooth_window  further sentences in the window on each side of a gap
    min_chunk_sentences  shorter segments are merged into their predecessor
    max_chunk_sentences  longer segments are split at their lowest cosine; 0 = no limit
    max_chunk_chars      likewise for the span in code points; 0 = no limit
    """

    sensitivity: float = 1.0
    smooth_window: int = 2
    min_chunk_sentences: int = 2
    max_chunk_sentences: int = 30
    max_chunk_chars: int = 8000

    def __post_init__(self) -> None:
        if not np.isfinite(self.sensitivity):
            raise LagoonError(f"sensitivity must be a finite number, not {self.sensitivity}")
        if not 0 <= self.smooth_window <= MAX_SMOOTH_WINDOW:
            raise LagoonError(f"smooth_window must be 0 to {MAX_SMOOTH_WINDOW}, not {self.smooth_window}")
        if self.min_chunk_sentences < 1:
            raise LagoonError(f"min_chunk_sentences must be at least 1, not {self.min_chunk_sentences}")
        for name in ("max_chunk_sentences", "max_chunk_chars"):
            if getattr(self, name) < 0:
                raise LagoonError(f"{name} must be 0 (no limit) or more, not {getattr(self, name)}")


def may_be_cut(
    section_starts: NDArray[np.int64], spans: NDArray[np.int64], options: SegmentationOptions
) -> bool:
    """Whether the number of sentences or characters allows more segments than sections; a note of three
    sentences is always one segment. `spans` (sentences, 2)."""
    n = len(spans)
    if n == 0:
        return False
    most = int(np.diff(np.append(section_starts, n)).max())
    limit, most_chars = options.max_chunk_sentences, options.max_chunk_chars
    long = 0 < most_chars < int(spans[-1, 1] - spans[0, 0])
    return most >= 2 * options.min_chunk_sentences or 0 < limit < most or (long and most > 1)


def gap_cosines(
    profiles: Callable[[int, int], NDArray[np.float64]],
    section_starts: NDArray[np.int64],
    n: int,
    window: int,
) -> NDArray[np.float64]:
    """Cosine of the windows before and after each gap between sentences i and i + 1, (n - 1,).

    `profiles(first, last)` returns the z-scores of sentences first..last-1; each sentence counts with unit
    length. A window averages `window` + 1 sentences before or after the gap, a second window twice as many.
    The result is the mean
    of both cosines: short windows locate a change of topic, long windows confirm it
        (`benchmarks/topic_boundaries.py`).
    Windows do not cross section starts (ascending, the first is 0). The cosine of two sides without known
    words is 1; that of one side with and one without known words is 0.
    """
    cosines = np.empty(max(n - 1, 0))
    lengths = np.diff(np.append(section_starts, n))
    begins = np.repeat(section_starts, lengths)
    ends = begins + np.repeat(lengths, lengths)
    reach = (window + 1) * _SCALES[-1]
    block = _block(window)
    for first in range(0, n - 1, block):
        last = min(first + block, n - 1)  # gaps first..last-1
        low, high = max(first + 1 - reach, 0), min(last + reach, n)
        running = _running_votes(profiles(low, high))
        after = np.arange(first + 1 - low, last + 1 - low)
        cosines[first:last] = _mean_cosines(
            running, after, begins[first:last] - low, ends[first + 1 : last + 1] - low, window
        )
    return np.round(cosines, _DIGITS)


def cut_texts(
    profiles: Callable[[int, int], NDArray[np.float64]],
    firsts: Sequence[int],
    sections: Sequence[NDArray[np.int64]],
    spans: NDArray[np.int64],
    options: SegmentationOptions,
) -> list[list[int]]:
    """Segment starts of each of several texts; the results equal those of each text alone.

    `profiles` and `spans` cover the sentences of all texts; text i begins at sentence `firsts[i]`. Its
    section starts `sections[i]` and its result count sentences from 0.
    """
    ends = [*firsts[1:], len(spans)]
    cuts = [starts.tolist() for starts in sections]
    candidates = [
        place
        for place, (first, last) in enumerate(zip(firsts, ends, strict=False))
        if may_be_cut(sections[place], spans[first:last], options)
    ]
    runs = _runs_of([(firsts[place], ends[place]) for place in candidates], options.smooth_window)
    for run in (candidates[start:end] for start, end in runs):
        parts = [_Part(firsts[place], ends[place], sections[place]) for place in run]
        part_cosines = _gap_cosines_of_parts(profiles, parts, options.smooth_window)
        for place, (first, last, starts), cosines in zip(run, parts, part_cosines, strict=True):
            own = spans[first:last]
            cuts[place] = segment_starts(cosines, starts, own[:, 0], own[:, 1], options)
    return cuts


class _Part(NamedTuple):
    """Sentences first..last-1 of all texts; section starts count from `first`."""

    first: int
    last: int
    section_starts: NDArray[np.int64]


def _runs_of(spans: Sequence[tuple[int, int]], window: int) -> list[tuple[int, int]]:
    """Runs of texts first..last-1 to compare at once: as many as fit a block, or a single longer text."""
    most = _block(window) + 1
    runs: list[tuple[int, int]] = []
    begin = 0
    for place in range(1, len(spans) + 1):
        if place == len(spans) or spans[place][1] - spans[begin][0] > most:
            runs.append((begin, place))
            begin = place
    return runs


def _gap_cosines_of_parts(
    profiles: Callable[[int, int], NDArray[np.float64]], parts: Sequence[_Part], window: int
) -> list[NDArray[np.float64]]:
    """`gap_cosines` of each part. Running sums restart at each part, so that results are bit-identical to
    those of the part alone."""
    low, high = parts[0].first, parts[-1].last
    if len(parts) == 1:

        def own(first: int, last: int) -> NDArray[np.float64]:
            return profiles(low + first, low + last)

        return [gap_cosines(own, parts[0].section_starts, high - low, window)]
    lengths = np.array([part.last - part.first for part in parts], dtype=np.int64)
    n = int(lengths.sum())
    z = profiles(low, high)
    running = np.empty((n + len(parts), z.shape[1]))
    at = 0
    for part in parts:
        size = part.last - part.first + 1
        running[at : at + size] = _running_votes(z[part.first - low : part.last - low])
        at += size
    # Positions are rows of `running`: a part has one row more than sentences.
    rows_before = np.cumsum(lengths + 1) - (lengths + 1)
    starts = np.concatenate([part.section_starts + row for part, row in zip(parts, rows_before, strict=True)])
    section_ends = np.concatenate(
        [
            np.append(part.section_starts[1:], length) + row
            for part, length, row in zip(parts, lengths, rows_before, strict=True)
        ]
    )
    sizes = section_ends - starts
    begins, ends = np.repeat(starts, sizes), np.repeat(section_ends, sizes)
    is_first = np.zeros(n, dtype=np.bool_)
    is_first[np.cumsum(lengths) - lengths] = True
    sentences = np.flatnonzero(~is_first)
    after = sentences + np.repeat(np.arange(len(parts)), lengths - 1)
    cosines = _mean_cosines(running, after, begins[sentences - 1], ends[sentences], window)
    return np.split(np.round(cosines, _DIGITS), np.cumsum(lengths - 1)[:-1])


def _mean_cosines(
    running: NDArray[np.float64],
    after: NDArray[np.int64],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    window: int,
) -> NDArray[np.float64]:
    """Mean cosine, over the scales, of the gaps before rows `after` of the running sums; windows are limited
    to rows `begins` to `ends`."""
    middle = _rows(running, after)
    scales = [(window + 1) * factor for factor in _SCALES]
    total = np.zeros(len(after))
    for size in scales:
        from_, to = np.maximum(after - size, begins), np.minimum(after + size, ends)
        total += _cosines(middle - _rows(running, from_), _rows(running, to) - middle)
    mean: NDArray[np.float64] = total / len(scales)
    return mean


def _block(window: int) -> int:
    """Number of gaps to compare at once."""
    return max(_BLOCK, (window + 1) * _SCALES[-1])


def _running_votes(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of the unit-length profiles before each sentence."""
    norms = np.sqrt(np.einsum("ij,ij->i", z, z))
    running = np.zeros((len(z) + 1, z.shape[1]))
    np.multiply(z, 1.0 / np.where(norms > 0, norms, 1.0)[:, None], out=running[1:])
    np.cumsum(running, axis=0, out=running)
    return running


def _rows(sums: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Select ascending rows; consecutive rows are not copied."""
    first, last = int(rows[0]), int(rows[-1])
    consecutive = last - first == len(rows) - 1 and bool((np.diff(rows) == 1).all())
    chosen: NDArray[np.float64] = sums[first : last + 1] if consecutive else sums[rows]
    return chosen


def _cosines(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of each pair of rows; 1 for two rows of zeros."""
    squares = np.einsum("ij,ij->i", left, left), np.einsum("ij,ij->i", right, right)
    product = np.sqrt(squares[0] * squares[1])
    dots = np.einsum("ij,ij->i", left, right)
    empty = (squares[0] == 0) & (squares[1] == 0)
    cosines: NDArray[np.float64] = np.where(product > 0, dots / np.where(product > 0, product, 1.0), empty)
    return cosines


def topic_boundaries(
    cosines: NDArray[np.float64], section_starts: NDArray[np.int64], sensitivity: float, margin: int = 1
) -> NDArray[np.int64]:
    """Sentences that begin a new topic: the cosine of the gap before is a local minimum below mean -
    sensitivity * std of all cosines within sections.

    Gaps less than `margin` sentences from an end of their section are ignored: their windows are short and
    their cosines low, so they would hide minima beside them.
    """
    n = len(cosines) + 1
    lengths = np.diff(np.append(section_starts, n))
    begins = np.repeat(section_starts, lengths)
    ends = begins + np.repeat(lengths, lengths)
    after = np.arange(1, n)
    inside = (after - begins[1:] >= margin) & (ends[1:] - after >= margin)
    if not inside.any():
        return np.empty(0, dtype=np.int64)
    threshold = cosines[inside].mean() - sensitivity * cosines[inside].std()
    padded = np.full(n + 1, np.inf)
    padded[1:-1] = np.where(inside, cosines, np.inf)
    here = padded[1:-1]
    # If neighbours are equal, the first is the minimum.
    minimum = (here < padded[:-2]) & (here <= padded[2:])
    return np.flatnonzero(minimum & (here < threshold)) + 1


def segment_starts(
    cosines: NDArray[np.float64],
    section_starts: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    options: SegmentationOptions,
) -> list[int]:
    """First sentences of the segments, ascending; `starts` and `ends` are the spans of the sentences.

    Maximum sizes always hold; the minimum size holds where they and the sections allow it.
    """
    n = len(starts)
    if n == 0:
        return []
    margin = options.min_chunk_sentences
    boundaries = topic_boundaries(cosines, section_starts, options.sensitivity, margin)
    cuts = _merge_short(boundaries.tolist(), section_starts.tolist(), n, options.min_chunk_sentences)

    def oversize(first: int, last: int) -> bool:
        too_many = 0 < options.max_chunk_sentences < last - first
        return too_many or 0 < options.max_chunk_chars < int(ends[last - 1] - starts[first])

    for margin in (options.min_chunk_sentences, 1):
        for first, last in zip(cuts.copy(), [*cuts[1:], n], strict=True):
            if oversize(first, last):
                cuts.extend(_split(cosines, first, last, margin, oversize))
        cuts.sort()
    return cuts


def _merge_short(boundaries: list[int], sections: list[int], n: int, minimum: int) -> list[int]:
    """Drop boundaries until every segment has `minimum` sentences, if its section has that many.

    A short segment is merged into its predecessor, the first of a section into its successor.
    """
    forced = set(sections)
    kept: list[int] = []
    candidates = sorted(forced.union(boundaries))
    for start, end in zip(candidates, [*candidates[1:], n], strict=True):
        if start in forced or (
            end - start >= minimum and (start - kept[-1] >= minimum or kept[-1] not in forced)
        ):
            kept.append(start)
    return kept


def _split(
    cosines: NDArray[np.float64],
    first: int,
    last: int,
    margin: int,
    oversize: Callable[[int, int], bool],
) -> list[int]:
    """Cut sentences first..last-1 at the lowest cosines until no piece is oversize; pieces have at least
    `margin` sentences.

    Visiting positions by ascending cosine, and cutting those in an oversize piece, equals cutting every piece
    at its lowest cosine, but takes n log n. Among equal cosines (a text without known words), multiples of
    high powers of two come first, which halves pieces evenly.
    """
    positions = np.arange(first + margin, last - margin + 1)
    offsets = positions - first
    order = np.lexsort((positions, -(offsets & -offsets), cosines[positions - 1]))
    borders = [first, last]
    for position in positions[order].tolist():
        at = bisect_right(borders, position)
        before, after = borders[at - 1], borders[at]
        if position - before >= margin and after - position >= margin and oversize(before, after):
            insort(borders, position)
    return borders[1:-1]
