"""Chart of a document's topics: a strip of chunks coloured by island, and one row for each main reef.

`read_ribbon` reads the database; all other functions are pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from shoal.charts.palette import UNKNOWN, island_colours
from shoal.errors import NotFoundError
from shoal.scorer import Scorer
from shoal.storage.database import Snapshot

WIDTH = 1000
"""Width of every SVG in its own units; the x position of a character is proportional to its offset."""
STRIP_HEIGHT = 48
ROW_HEIGHT = 18
N_BINS = 120
"""Bins of equal length in which the presence of a reef is shown."""
N_ROWS = 8
"""Reefs shown below the strip."""
N_LEVELS = 5
"""Shades of presence in a row."""
REEFS_PER_CHUNK = 6
"""Strongest reefs of a chunk that count for the rows; weaker reefs do not locate a topic."""

DOCUMENT = "SELECT title, LENGTH(content) AS n_chars FROM documents WHERE id = :document_id"
CHUNKS = """
    SELECT chunk_index, start_char, end_char, top_reef_id FROM chunks
    WHERE document_id = :document_id ORDER BY chunk_index
"""
STRONGEST = """
    SELECT c.chunk_index, r.reef_id, r.z_score
    FROM chunks c JOIN chunk_reefs r ON r.chunk_id = c.id
    WHERE c.document_id = :document_id AND r.rank < :n_reefs
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk on the strip: its span in characters, and the island of its strongest reef."""

    start_char: int
    end_char: int
    island_id: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """Presence of a reef over the document: `levels` (N_BINS) from 0, absent, to N_LEVELS."""

    reef_id: int
    reef_name: str
    colour: str
    levels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ribbon:
    """Chart data of a document. `islands`: (name, colour, share of the text), largest first."""

    title: str
    n_chars: int
    pieces: tuple[Piece, ...]
    colours: Mapping[int, str]
    rows: tuple[Row, ...]
    islands: tuple[tuple[str, str, float], ...]


def read_ribbon(snapshot: Snapshot, document_id: int, scorer: Scorer) -> Ribbon:
    """Read the ribbon of a document. Raises NotFoundError."""
    document = snapshot.first(DOCUMENT, {"document_id": document_id})
    if document is None:
        raise NotFoundError(f"there is no document {document_id}")
    island_of = {reef.id: reef.island_id for reef in scorer.reefs}
    chunks = list(snapshot.tuples(CHUNKS, {"document_id": document_id}))
    pieces = tuple(
        Piece(start, end, None if reef is None else island_of.get(reef)) for _, start, end, reef in chunks
    )
    spans = {index: (start, end) for index, start, end, _ in chunks}
    strongest = snapshot.tuples(STRONGEST, {"document_id": document_id, "n_reefs": REEFS_PER_CHUNK})
    presences = presence_by_reef(((spans[i], reef, z) for i, reef, z in strongest), document["n_chars"])
    colours = island_colours(scorer.islands)
    names = {reef.id: reef.name for reef in scorer.reefs}
    strongest_reefs = sorted(presences, key=lambda reef: (-sum(presences[reef]), reef))[:N_ROWS]
    rows = tuple(
        Row(reef, names[reef], colours[island_of[reef]], levels(presences[reef]))
        for reef in strongest_reefs
        if reef in names
    )
    return Ribbon(
        document["title"], document["n_chars"], pieces, colours, rows, _islands(pieces, colours, scorer)
    )


def presence_by_reef(
    scored: Iterable[tuple[tuple[int, int], int, float]], n_chars: int
) -> dict[int, list[float]]:
    """Sum z times characters for each reef and bin. `scored`: ((start, end), reef id, z) of chunks."""
    presences: defaultdict[int, list[float]] = defaultdict(lambda: [0.0] * N_BINS)
    length = max(1, n_chars) / N_BINS
    for (start, end), reef_id, z in scored:
        bins = presences[reef_id]
        for place in range(int(start / length), min(N_BINS, int((end - 1) / length) + 1)):
            overlap = min(end, (place + 1) * length) - max(start, place * length)
            bins[place] += z * max(0.0, overlap)
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
    shown = ribbon.islands[:12]
    height = legend_top + 22 * ((len(shown) + 2) // 3) + margin
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
    for i, (name, colour, share) in enumerate(shown):
        x = margin + label_width + (i % 3) * (WIDTH // 3)
        y = legend_top + 22 * (i // 3)
        parts.append(f'<rect x="{x}" y="{y}" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="{y + 12}">{escape(name)} ({share:.0%})</text>')
    return "".join([*parts, "</svg>\n"])


def _strip(ribbon: Ribbon) -> str:
    """Render one path for each island, so that thousands of chunks need a few dozen elements."""
    scale = WIDTH / max(1, ribbon.n_chars)
    paths: defaultdict[str, list[str]] = defaultdict(list)
    for piece in ribbon.pieces:
        colour = UNKNOWN if piece.island_id is None else ribbon.colours.get(piece.island_id, UNKNOWN)
        left, right = piece.start_char * scale, piece.end_char * scale
        paths[colour].append(f"M{left:.2f} 0h{max(right - left, 0.05):.2f}v{STRIP_HEIGHT}H{left:.2f}z")
    return "".join(f'<path fill="{colour}" d="{"".join(d)}"/>' for colour, d in sorted(paths.items()))


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


def _islands(
    pieces: Sequence[Piece], colours: Mapping[int, str], scorer: Scorer
) -> tuple[tuple[str, str, float], ...]:
    names = {island.id: island.name for island in scorer.islands}
    lengths: defaultdict[int, int] = defaultdict(int)
    for piece in pieces:
        if piece.island_id is not None:
            lengths[piece.island_id] += piece.end_char - piece.start_char
    total = sum(piece.end_char - piece.start_char for piece in pieces) or 1
    largest = sorted(lengths, key=lambda island: (-lengths[island], island))
    return tuple((names[island], colours[island], lengths[island] / total) for island in largest)
