"""Chart of a document's topics: a strip of chunks coloured by island, and one row for each main reef.

`read_ribbon` reads the database; all other functions are pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from shoal.charts.reef_map import OTHER, UNKNOWN, island_colours
from shoal.errors import NotFoundError
from shoal.scorer import Scorer
from shoal.storage.database import Snapshot
from shoal.storage.profiles import Profiles

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

WIDTH = 1000
"""Width of every SVG in its own units; the x position of a character is proportional to its offset."""
STRIP_HEIGHT = 48
N_COLUMNS = 2000
"""Columns of the strip of a document with more chunks: each shows the chunk at its left edge. More would be
narrower than the pixels of most screens."""
ROW_HEIGHT = 18
N_BINS = 120
"""Bins of equal length in which the presence of a reef is shown."""
N_ROWS = 8
"""Reefs shown below the strip."""
N_ISLANDS = 12
"""Largest islands with a colour of their own, beside those of the rows. A long book has dozens of islands,
whose colours nobody could tell apart."""
GAP_OPACITY = 0.25
"""Opacity of `UNKNOWN` where no passage is."""
UNSCORED_OPACITY = 0.6
"""Opacity of `UNKNOWN` for passages that wait for a rescore."""
N_LEVELS = 5
"""Shades of presence in a row."""
NO_SUBJECT = "no clear subject"
NOT_SCORED = "not scored yet"

DOCUMENT = "SELECT title, LENGTH(text_after) AS n_after FROM documents WHERE id = :document_id"
CHUNKS = """
    SELECT start_char, end_char, CASE WHEN top_reef_probability >= :label_threshold THEN top_reef_id END,
           data_checksum <> :data_checksum, profile
    FROM chunks WHERE document_id = :document_id ORDER BY chunk_index
"""


class Piece(NamedTuple):
    """A chunk on the strip: its span in characters, the island of its first label, and whether it was scored
    with other data."""

    start_char: int
    end_char: int
    island_id: int | None
    awaits_rescore: bool = False

    @property
    def is_unscored(self) -> bool:
        return self.island_id is None and self.awaits_rescore


@dataclass(frozen=True, slots=True)
class Row:
    """Presence of a reef over the document: `levels` (N_BINS) from 0, absent, to N_LEVELS."""

    reef_id: int
    reef_name: str
    colour: str
    levels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A colour of the strip: its meaning, and its share of the document, 0..1."""

    name: str
    share: float
    colour: str
    opacity: float = 1.0

    @property
    def label(self) -> str:
        """The name with the share."""
        percent = f"{self.share:.0%}" if self.share >= 0.005 else "under 1%"
        return f"{self.name} {percent.replace('%', ' %')}"


@dataclass(frozen=True, slots=True)
class Ribbon:
    """Chart data of a document. `colours` maps islands to colours, and `legend` names every colour of the
    strip."""

    title: str
    n_chars: int
    pieces: tuple[Piece, ...]
    colours: Mapping[int, str]
    rows: tuple[Row, ...]
    legend: tuple[LegendEntry, ...]


def read_ribbon(snapshot: Snapshot, document_id: int, scorer: Scorer, label_threshold: float) -> Ribbon:
    """Read the ribbon of a document. Raises NotFoundError."""
    document = snapshot.first(DOCUMENT, {"document_id": document_id})
    if document is None:
        raise NotFoundError(f"there is no document {document_id}")
    island_of = {reef.id: reef.island_id for reef in scorer.reefs}
    parameters = {"document_id": document_id, "label_threshold": label_threshold}
    chunks = snapshot.tuples(CHUNKS, {**parameters, "data_checksum": scorer.data_checksum})
    starts, ends, reefs, is_other, packed = list(zip(*chunks, strict=True)) or [()] * 5
    n_chars = (ends[-1] if ends else 0) + document["n_after"]
    islands = [island_of.get(reef) for reef in reefs]
    pieces = tuple(map(Piece._make, zip(starts, ends, islands, map(bool, is_other), strict=True)))
    presences = _presences(pieces, Profiles.of(packed), label_threshold, n_chars)
    names = {reef.id: reef.name for reef in scorer.reefs}
    strongest_reefs = sorted(presences, key=lambda reef: (-presences[reef].sum(), reef))[:N_ROWS]
    lengths = _lengths(pieces)
    shown = {*list(lengths)[:N_ISLANDS], *(island_of[reef] for reef in strongest_reefs if reef in names)}
    # Only islands that are shown divide the hues, or neighbours would look the same.
    own_colours = island_colours([island for island in scorer.islands if island.id in shown])
    rows = tuple(
        Row(reef, names[reef], own_colours[island_of[reef]], levels(presences[reef]))
        for reef in strongest_reefs
        if reef in names
    )
    colours = {island: own_colours.get(island, OTHER) for island in lengths}
    legend = tuple(_legend(lengths, colours, pieces, scorer, n_chars))
    return Ribbon(document["title"], n_chars, pieces, colours, rows, legend)


def _presences(
    pieces: Sequence[Piece], profiles: Profiles, label_threshold: float, n_chars: int
) -> dict[int, Doubles]:
    """`presence_by_reef` of the labels of a document's chunks."""
    chances = profiles.probabilities
    is_label = chances >= label_threshold
    chunks = profiles.chunks[is_label]
    starts, ends = (column[chunks] for column in _edges(pieces))
    return presence_by_reef(starts, ends, profiles.reef_ids[is_label], chances[is_label], n_chars)


def presence_by_reef(
    starts: Ints, ends: Ints, reef_ids: NDArray[Any], probabilities: Doubles, n_chars: int
) -> dict[int, Doubles]:
    """Sum probability times characters for each reef and bin, (N_BINS,).

    The arguments describe labels: start and end of the chunk, its reef, and the probability.
    """
    length = max(1, n_chars) / N_BINS
    first = (starts / length).astype(np.int64)
    last = np.minimum(((ends - 1) / length).astype(np.int64), N_BINS - 1)
    n_bins = np.maximum(last + 1 - first, 0)
    label = np.repeat(np.arange(len(starts)), n_bins)
    place = np.arange(len(label)) - np.repeat(np.cumsum(n_bins) - n_bins, n_bins) + first[label]
    overlap = np.minimum(ends[label], (place + 1) * length) - np.maximum(starts[label], place * length)
    reefs, row = np.unique(reef_ids, return_inverse=True)
    amounts = probabilities[label] * np.maximum(0.0, overlap)
    sums = np.bincount(row[label] * N_BINS + place, weights=amounts, minlength=len(reefs) * N_BINS)
    return dict(zip(reefs.tolist(), sums.reshape(len(reefs), N_BINS), strict=True))


def levels(presence: Doubles) -> tuple[int, ...]:
    """Map presences to levels: N_LEVELS equal steps up to the largest; every presence above 0 is at least
    1."""
    greatest = presence.max(initial=0.0)
    if greatest <= 0:
        return (0,) * len(presence)
    steps = np.maximum(np.rint(N_LEVELS * presence / greatest), 1).astype(np.int64)
    return tuple(np.where(presence > 0, steps, 0).tolist())


def strip_svg(ribbon: Ribbon) -> str:
    """Render the strip alone; it stretches to any width."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {STRIP_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label={quoteattr("The topics of " + ribbon.title)}>'
        f"{_strip(ribbon)}</svg>"
    )


def row_svg(row: Row) -> str:
    """Render one row alone; it stretches to any width."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label={quoteattr("Where it is about " + row.reef_name)}>'
        f"{_row(row, 0)}</svg>"
    )


def ribbon_svg(ribbon: Ribbon) -> str:
    """Render the whole chart with its labels, for a file."""
    label_width, margin = 240, 16
    top = 40
    rows_top = top + STRIP_HEIGHT + 14
    legend_top = rows_top + (ROW_HEIGHT + 4) * len(ribbon.rows) + 22
    height = legend_top + 22 * ((len(ribbon.legend) + 2) // 3) + margin
    width = label_width + WIDTH + 2 * margin
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{margin}" y="26" font-size="18" font-weight="600">{escape(ribbon.title)}</text>',
        f'<text x="{margin}" y="{top + STRIP_HEIGHT / 2 + 5}">passages by island</text>',
        f'<g transform="translate({margin + label_width} {top})">{_strip(ribbon)}</g>',
    ]
    for i, row in enumerate(ribbon.rows):
        y = rows_top + i * (ROW_HEIGHT + 4)
        parts.append(f'<text x="{margin}" y="{y + 14}">{escape(row.reef_name)}</text>')
        parts.append(f'<g transform="translate({margin + label_width} {y})">{_row(row, 0)}</g>')
    for i, entry in enumerate(ribbon.legend):
        x = margin + label_width + (i % 3) * (WIDTH // 3)
        y = legend_top + 22 * (i // 3)
        fill = f'fill="{entry.colour}" fill-opacity="{entry.opacity}"'
        parts.append(f'<rect x="{x}" y="{y}" width="14" height="14" {fill}/>')
        parts.append(f'<text x="{x + 20}" y="{y + 12}">{escape(entry.label)}</text>')
    return "".join([*parts, "</svg>\n"])


def _strip(ribbon: Ribbon) -> str:
    """Render one path for each colour, so that thousands of chunks need a few elements."""
    scale = WIDTH / max(1, ribbon.n_chars)
    step = WIDTH / N_COLUMNS if len(ribbon.pieces) > N_COLUMNS else None
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, piece in enumerate(ribbon.pieces):
        colour = UNKNOWN if piece.island_id is None else ribbon.colours[piece.island_id]
        fill = f'fill="{colour}"' + (f' fill-opacity="{UNSCORED_OPACITY}"' if piece.is_unscored else "")
        places[fill].append(place)
    starts, ends = _edges(ribbon.pieces)
    gap_starts, gap_ends = _gaps(starts, ends, ribbon.n_chars)
    gaps = _path(gap_starts * scale, gap_ends * scale, step)
    background = f'<path fill="{UNKNOWN}" fill-opacity="{GAP_OPACITY}" d="{gaps}"/>' if gaps else ""
    paths = (
        (fill, _path(starts[own] * scale, ends[own] * scale, step)) for fill, own in sorted(places.items())
    )
    return background + "".join(f'<path {fill} d="{d}"/>' for fill, d in paths if d)


def _path(starts: NDArray[Any], ends: NDArray[Any], step: float | None) -> str:
    """Outline spans of the strip; with `step`, only those that cover the left edge of a column."""
    if step is not None:
        return "".join(
            f"M{left:g} 0H{right:g}v{STRIP_HEIGHT}H{left:g}z" for left, right in _columns(starts, ends, step)
        )
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return "".join(
        f"M{left:.2f} 0h{max(right - left, 0.05):.2f}v{STRIP_HEIGHT}H{left:.2f}z" for left, right in spans
    )


def _columns(starts: NDArray[Any], ends: NDArray[Any], step: float) -> Iterator[tuple[float, float]]:
    """Extend spans that cover the left edges of columns to whole columns; join those that touch."""
    lefts, rights = np.ceil(starts / step) * step, np.ceil(ends / step) * step
    lefts, rights = lefts[lefts < rights], rights[lefts < rights]
    is_apart = lefts[1:] != rights[:-1]
    is_first = np.append(True, is_apart)[: len(lefts)]
    is_last = np.append(is_apart, True)[: len(lefts)]
    return zip(lefts[is_first].tolist(), rights[is_last].tolist(), strict=True)


def _edges(pieces: Sequence[Piece]) -> tuple[Ints, Ints]:
    """Starts and ends of chunks in characters."""
    edges = np.array([piece[:2] for piece in pieces], dtype=np.int64).reshape(-1, 2)
    return edges[:, 0], edges[:, 1]


def _gaps(starts: Ints, ends: Ints, n_chars: int) -> tuple[Ints, Ints]:
    """Starts and ends of the spans of a document that no chunk covers."""
    starts, ends = np.insert(ends, 0, 0), np.append(starts, n_chars)
    return starts[starts < ends], ends[starts < ends]


def _row(row: Row, y: int) -> str:
    step = WIDTH / N_BINS
    parts = [f'<rect y="{y}" width="{WIDTH}" height="{ROW_HEIGHT}" fill="{row.colour}" fill-opacity="0.08"/>']
    for level in range(1, N_LEVELS + 1):
        d = "".join(
            f"M{i * step:.2f} {y}h{step:.2f}v{ROW_HEIGHT}h-{step:.2f}z"
            for i, row_level in enumerate(row.levels)
            if row_level == level
        )
        if d:
            parts.append(f'<path fill="{row.colour}" fill-opacity="{level / N_LEVELS:.2f}" d="{d}"/>')
    return "".join(parts)


def _lengths(pieces: Iterable[Piece]) -> dict[int, int]:
    """Characters by island, longest first."""
    lengths: defaultdict[int, int] = defaultdict(int)
    for piece in pieces:
        if piece.island_id is not None:
            lengths[piece.island_id] += piece.end_char - piece.start_char
    return dict(sorted(lengths.items(), key=lambda item: (-item[1], item[0])))


def _legend(
    lengths: Mapping[int, int],
    colours: Mapping[int, str],
    pieces: Sequence[Piece],
    scorer: Scorer,
    n_chars: int,
) -> Iterator[LegendEntry]:
    names = {island.id: island.name for island in scorer.islands}
    others = [island for island in lengths if colours[island] == OTHER]
    for island, length in lengths.items():
        if island not in others:
            yield LegendEntry(names[island], length / n_chars, colours[island])
    if others:
        name = "1 other island" if len(others) == 1 else f"{len(others)} other islands"
        yield LegendEntry(name, sum(lengths[island] for island in others) / n_chars, OTHER)
    without_label = [piece for piece in pieces if piece.island_id is None]
    for name, is_unscored, opacity in ((NO_SUBJECT, False, 1.0), (NOT_SCORED, True, UNSCORED_OPACITY)):
        spans = (piece for piece in without_label if piece.is_unscored is is_unscored)
        if length := sum(piece.end_char - piece.start_char for piece in spans):
            yield LegendEntry(name, length / n_chars, UNKNOWN, opacity)
    starts, ends = _gaps(*_edges(pieces), n_chars)
    if gaps := int((ends - starts).sum()):
        yield LegendEntry("headings and space between passages", gaps / n_chars, UNKNOWN, GAP_OPACITY)
