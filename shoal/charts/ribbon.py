"""Chart of a document's topics: a strip of chunks coloured by island, and one row for each main reef.

`read_ribbon` reads the database; all other functions are pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from shoal.charts.palette import OTHER, UNKNOWN, island_colours
from shoal.errors import NotFoundError
from shoal.scorer import Scorer
from shoal.storage.database import Snapshot
from shoal.storage.profiles import Profiles

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

DOCUMENT = "SELECT title, LENGTH(content) AS n_chars FROM documents WHERE id = :document_id"
CHUNKS = """
    SELECT start_char, end_char, CASE WHEN top_reef_probability >= :label_threshold THEN top_reef_id END,
           data_checksum <> :data_checksum, profile
    FROM chunks WHERE document_id = :document_id ORDER BY chunk_index
"""


@dataclass(frozen=True, slots=True)
class Piece:
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
    chunks = list(snapshot.tuples(CHUNKS, {**parameters, "data_checksum": scorer.data_checksum}))
    pieces = tuple(
        Piece(start, end, None if reef is None else island_of.get(reef), bool(is_other))
        for start, end, reef, is_other, _ in chunks
    )
    profiles = Profiles.of([profile for *_, profile in chunks])
    columns = profiles.chunks, profiles.reef_ids, profiles.probabilities
    is_label = profiles.probabilities >= label_threshold
    labels = zip(*(column[is_label].tolist() for column in columns), strict=True)
    presences = presence_by_reef(
        ((chunks[place][:2], reef, chance) for place, reef, chance in labels), document["n_chars"]
    )
    names = {reef.id: reef.name for reef in scorer.reefs}
    strongest_reefs = sorted(presences, key=lambda reef: (-sum(presences[reef]), reef))[:N_ROWS]
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
    legend = tuple(_legend(lengths, colours, pieces, scorer, document["n_chars"]))
    return Ribbon(document["title"], document["n_chars"], pieces, colours, rows, legend)


def presence_by_reef(
    labels: Iterable[tuple[tuple[int, int], int, float]], n_chars: int
) -> dict[int, list[float]]:
    """Sum probability times characters for each reef and bin. `labels`: ((start, end), reef id, probability)
    of chunks."""
    presences: defaultdict[int, list[float]] = defaultdict(lambda: [0.0] * N_BINS)
    length = max(1, n_chars) / N_BINS
    for (start, end), reef_id, probability in labels:
        bins = presences[reef_id]
        for place in range(int(start / length), min(N_BINS, int((end - 1) / length) + 1)):
            overlap = min(end, (place + 1) * length) - max(start, place * length)
            bins[place] += probability * max(0.0, overlap)
    return dict(presences)


def levels(presence: Sequence[float]) -> tuple[int, ...]:
    """Map presences to levels: N_LEVELS equal steps up to the largest; every presence above 0 is at least
    1."""
    greatest = max(presence, default=0.0)
    if greatest <= 0:
        return (0,) * len(presence)
    return tuple(0 if value <= 0 else max(1, round(N_LEVELS * value / greatest)) for value in presence)


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
    spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for piece in ribbon.pieces:
        colour = UNKNOWN if piece.island_id is None else ribbon.colours[piece.island_id]
        fill = f'fill="{colour}"' + (f' fill-opacity="{UNSCORED_OPACITY}"' if piece.is_unscored else "")
        spans[fill].append((piece.start_char * scale, piece.end_char * scale))
    gaps = [(start * scale, end * scale) for start, end in _gaps(ribbon.pieces, ribbon.n_chars)]
    background = _path(gaps, step)
    if background:
        background = f'<path fill="{UNKNOWN}" fill-opacity="{GAP_OPACITY}" d="{background}"/>'
    paths = ((fill, _path(spans[fill], step)) for fill in sorted(spans))
    return background + "".join(f'<path {fill} d="{d}"/>' for fill, d in paths if d)


def _path(spans: Iterable[tuple[float, float]], step: float | None) -> str:
    """Outline spans of the strip; with `step`, only those that cover the left edge of a column."""
    if step is not None:
        spans = _columns(spans, step)
        return "".join(f"M{left:g} 0H{right:g}v{STRIP_HEIGHT}H{left:g}z" for left, right in spans)
    return "".join(
        f"M{left:.2f} 0h{max(right - left, 0.05):.2f}v{STRIP_HEIGHT}H{left:.2f}z" for left, right in spans
    )


def _columns(spans: Iterable[tuple[float, float]], step: float) -> list[tuple[float, float]]:
    """Extend spans that cover the left edges of columns to whole columns; join those that touch."""
    joined: list[tuple[float, float]] = []
    for start, end in spans:
        left, right = math.ceil(start / step) * step, math.ceil(end / step) * step
        if joined and joined[-1][1] == left:
            joined[-1] = joined[-1][0], right
        elif left < right:
            joined.append((left, right))
    return joined


def _gaps(pieces: Sequence[Piece], n_chars: int) -> list[tuple[int, int]]:
    """The spans of a document that no chunk covers."""
    starts = [0, *(piece.end_char for piece in pieces)]
    ends = [*(piece.start_char for piece in pieces), n_chars]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


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
    if gaps := sum(end - start for start, end in _gaps(pieces, n_chars)):
        yield LegendEntry("headings and space between passages", gaps / n_chars, UNKNOWN, GAP_OPACITY)
