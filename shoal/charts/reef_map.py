"""The map of a library: four archipelagos side by side, their islands one below the other, their reefs in a row,
each as large as the share of chunks that it leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from shoal.charts.palette import island_colours

WIDTH, HEIGHT = 1200, 640
HEADING = 24
"""Height of the line that names the archipelagos."""
LEAST_SHARE = 0.35
"""What an empty part is given of an average one, so that it can be seen and clicked."""
CHAR_WIDTH = 7.0
"""Of the labels, in units of the picture."""
LEAST_LABEL = 6
"""Characters; less of a name says nothing."""


@dataclass(frozen=True, slots=True)
class Box:
    """A reef on the map."""

    reef_id: int
    name: str
    island: str
    n_chunks: int
    colour: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Heading:
    """The name of an archipelago above its column."""

    name: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class ReefMap:
    headings: tuple[Heading, ...]
    boxes: tuple[Box, ...]


def lay_out(scorer: Any, n_chunks: Mapping[int, int]) -> ReefMap:
    """Places of all reefs of lagoon's hierarchy. `n_chunks`: chunks that a reef leads, by reef id."""
    colours = island_colours(scorer.islands)
    reefs_of: dict[int, list[Any]] = {island.id: [] for island in scorer.islands}
    for reef in scorer.reefs:
        reefs_of[reef.island_id].append(reef)
    weights = _raised([n_chunks.get(reef.id, 0) for reef in scorer.reefs])
    weight = dict(zip((reef.id for reef in scorer.reefs), weights, strict=True))
    of_island = {island: sum(weight[reef.id] for reef in reefs) for island, reefs in reefs_of.items()}
    boxes: list[Box] = []
    headings: list[Heading] = []
    x = 0.0
    for archipelago in scorer.archipelagos:
        islands = [island for island in scorer.islands if island.archipelago_id == archipelago.id]
        total = sum(of_island[island.id] for island in islands)
        width = WIDTH * total / sum(of_island.values())
        headings.append(Heading(archipelago.name, x, width))
        y = float(HEADING)
        for island in islands:
            height = (HEIGHT - HEADING) * of_island[island.id] / total
            left = x
            for reef in reefs_of[island.id]:
                share = width * weight[reef.id] / of_island[island.id]
                count, colour = n_chunks.get(reef.id, 0), colours[island.id]
                boxes.append(Box(reef.id, reef.name, island.name, count, colour, left, y, share, height))
                left += share
            y += height
        x += width
    return ReefMap(tuple(headings), tuple(boxes))


def map_svg(reefs: ReefMap, address: str) -> str:
    """The map; each reef links to `address` with its id in the place of `{}`."""
    most = max((box.n_chunks for box in reefs.boxes), default=0) or 1
    frame = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="11"'
    parts = [f'<svg {frame} font-family="system-ui, sans-serif" role="group" aria-label="Map of the reefs">']
    for heading in reefs.headings:
        name = _fitting(heading.name, heading.width)
        parts.append(f'<text class="archipelago" x="{heading.x + 4:.1f}" y="16">{escape(name)}</text>')
    for box in reefs.boxes:
        noun = "chunk" if box.n_chunks == 1 else "chunks"
        about = f"{box.name} ({box.island}): {box.n_chunks:,} {noun}"
        opacity = 0.12 if not box.n_chunks else 0.25 + 0.35 * (box.n_chunks / most) ** 0.5
        parts.append(
            f"<a href={quoteattr(address.format(box.reef_id))} aria-label={quoteattr(about)}>"
            f"<title>{escape(about)}</title>"
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{max(box.width - 1, 0.5):.1f}" '
            f'height="{max(box.height - 1, 0.5):.1f}" fill="{box.colour}" fill-opacity="{opacity:.2f}"/>'
            f"{_label(box)}</a>"
        )
    return "".join([*parts, "</svg>"])


def _label(box: Box) -> str:
    text = _fitting(box.name, box.width)
    if box.height < 14 or len(text) < min(LEAST_LABEL, len(box.name)):
        return ""
    return f'<text x="{box.x + 4:.1f}" y="{box.y + 12:.1f}">{escape(text)}</text>'


def _fitting(name: str, width: float) -> str:
    """As much of a name as fits into a width."""
    room = max(0, int((width - 8) / CHAR_WIDTH))
    return name if len(name) <= room else name[: max(0, room - 1)].rstrip() + "…"


def _raised(counts: Sequence[int]) -> list[float]:
    """Counts with a floor in proportion to their average."""
    floor = LEAST_SHARE * (sum(counts) / max(1, len(counts)) or 1.0)
    return [max(float(count), floor) for count in counts]
