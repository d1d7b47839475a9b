"""Treemap of a library: archipelagos are columns, islands are rows of a column, reefs are boxes within an
island.

The area of a reef is its share of the chunks whose first label it is. Each archipelago has its own range of
hues, and its islands divide that range evenly.
"""

from __future__ import annotations

import colorsys
import functools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from shoal.scorer import Scorer

UNKNOWN = "#8a8f98"
"""Colour of passages without a clear subject."""
OTHER = "#5f646d"
"""Colour of islands that a legend has no room for."""

_HUES = ((75, 165), (15, 60), (190, 265), (285, 355))
"""Hue range in degrees, first to last island, of the archipelagos natural, physical, abstract and social."""
_SATURATION = 0.52
_LUMINANCES = (0.16, 0.27)
"""Relative luminance as WCAG defines it. Neighbouring islands alternate between the two values, so that
colour-blind users can tell them apart too. Between 0.12 and 0.29 a colour has a contrast of at least 3 to
both the light and the dark background of the console."""
_HALVINGS = 20
"""Steps of the binary search for a lightness; eight steps suffice for eight bits."""


def island_colours(islands: Sequence[Any]) -> dict[int, str]:
    """Map island ids to `#rrggbb`. `islands` have `id` and `archipelago_id` (from 0), as in lagoon."""
    colours: dict[int, str] = {}
    for archipelago in sorted({island.archipelago_id for island in islands}):
        members = sorted(island.id for island in islands if island.archipelago_id == archipelago)
        first, last = _HUES[archipelago % len(_HUES)]
        for place, island_id in enumerate(members):
            hue = first + (last - first) * place / max(1, len(members) - 1)
            colours[island_id] = _hex(_colour_of_luminance(hue, _LUMINANCES[place % 2]))
    return colours


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0..1 (WCAG 2.2)."""
    return _luminance([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


@functools.lru_cache(maxsize=256)
def _colour_of_luminance(hue: float, target: float) -> Sequence[float]:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _luminance(colorsys.hls_to_rgb(hue / 360, middle, _SATURATION)) < target:
            low = middle
        else:
            high = middle
    return colorsys.hls_to_rgb(hue / 360, high, _SATURATION)


def _luminance(channels: Sequence[float]) -> float:
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _hex(channels: Sequence[float]) -> str:
    return "#" + "".join(f"{round(channel * 255):02x}" for channel in channels)


WIDTH, HEIGHT = 1200, 720
HEADING = 24
"""Height of the line that names the archipelagos."""
LEAST_SHARE = 0.35
"""Smallest weight of a reef, as a share of the average weight, so that an empty reef can be seen and
clicked."""
CHAR_WIDTH = 6.9
LINE_HEIGHT = 13
MARGIN = 4
"""Margin of the labels, in units of the SVG."""
LEAST_LABEL = 6
"""Least characters of a label; fewer are not informative."""
WIDER = 2.5
"""Target ratio of a box's width to its height: reef names are wide."""


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


class Area(NamedTuple):
    """A rectangle of the SVG."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ReefMap:
    headings: tuple[Heading, ...]
    islands: tuple[Area, ...]
    boxes: tuple[Box, ...]


def lay_out(scorer: Scorer, n_chunks: Mapping[int, int]) -> ReefMap:
    """Lay out all reefs of lagoon's hierarchy. `n_chunks`: chunks by the reef of their first label."""
    colours = island_colours(scorer.islands)
    reefs_of: dict[int, list[Any]] = {island.id: [] for island in scorer.islands}
    for reef in scorer.reefs:
        reefs_of[reef.island_id].append(reef)
    weights = _with_floor([n_chunks.get(reef.id, 0) for reef in scorer.reefs])
    weight = dict(zip((reef.id for reef in scorer.reefs), weights, strict=True))
    island_weights = {island: sum(weight[reef.id] for reef in reefs) for island, reefs in reefs_of.items()}
    boxes: list[Box] = []
    headings: list[Heading] = []
    areas: list[Area] = []
    x = 0.0
    for archipelago in scorer.archipelagos:
        islands = [island for island in scorer.islands if island.archipelago_id == archipelago.id]
        total = sum(island_weights[island.id] for island in islands)
        width = WIDTH * total / sum(island_weights.values())
        headings.append(Heading(archipelago.name, x, width))
        y = float(HEADING)
        for island in islands:
            height = (HEIGHT - HEADING) * island_weights[island.id] / total
            areas.append(Area(x, y, width, height))
            reefs = sorted(reefs_of[island.id], key=lambda reef: -weight[reef.id])
            placed = squarified([weight[reef.id] for reef in reefs], areas[-1])
            for reef, area in zip(reefs, placed, strict=True):
                count, colour = n_chunks.get(reef.id, 0), colours[island.id]
                boxes.append(Box(reef.id, reef.name, island.name, count, colour, *area))
            y += height
        x += width
    return ReefMap(tuple(headings), tuple(areas), tuple(boxes))


def squarified(weights: Sequence[float], area: Area) -> list[Area]:
    """Divide an area in proportion to descending weights (Bruls, Huizing, van Wijk: Squarified Treemaps)."""
    if not weights:
        return []
    # Boxes that are square in coordinates compressed by WIDER have the target ratio after scaling back.
    x, y, width, height = area.x / WIDER, area.y, area.width / WIDER, area.height
    scale = width * height / sum(weights)
    sizes = [weight * scale for weight in weights]
    areas: list[Area] = []
    while sizes:
        side = min(width, height)
        n = 1
        while n < len(sizes) and _worst(sizes[: n + 1], side) <= _worst(sizes[:n], side):
            n += 1
        row, sizes = sizes[:n], sizes[n:]
        depth = sum(row) / side
        at = 0.0
        for size in row:
            length = size / depth
            areas.append(Area(x + at, y, length, depth) if width < height else Area(x, y + at, depth, length))
            at += length
        if width < height:
            y, height = y + depth, height - depth
        else:
            x, width = x + depth, width - depth
    return [Area(box.x * WIDER, box.y, box.width * WIDER, box.height) for box in areas]


def _worst(row: Sequence[float], side: float) -> float:
    """Largest ratio of sides among the boxes of a row."""
    total = sum(row)
    return max(side**2 * max(row) / total**2, total**2 / (side**2 * min(row)))


def map_svg(reefs: ReefMap, address: str) -> str:
    """Render the map; each reef links to `address` with its id in the place of `{}`."""
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
    for x, y, width, height in reefs.islands:
        parts.append(
            f'<rect class="island" x="{x - 0.5:.1f}" y="{y - 0.5:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" fill="none" pointer-events="none"/>'
        )
    return "".join([*parts, "</svg>"])


def _label(box: Box) -> str:
    """Render as many words of the name as fit into the box, on one or more lines."""
    room = int((box.width - 2 * MARGIN) / CHAR_WIDTH)
    n_lines = int((box.height - MARGIN) / LINE_HEIGHT)
    if n_lines < 1 or room < min(LEAST_LABEL, len(box.name)):
        return ""
    wrapped = textwrap.wrap(box.name, room, break_long_words=False, max_lines=n_lines, placeholder="…")
    lines = [_cut(line, room) for line in wrapped]
    if lines[0] == "…":
        lines = [_cut(box.name, room)]
    spans = "".join(
        f'<tspan x="{box.x + MARGIN:.1f}" y="{box.y + LINE_HEIGHT * i - 1:.1f}">{escape(line)}</tspan>'
        for i, line in enumerate(lines, start=1)
    )
    return f"<text>{spans}</text>"


def _fitting(name: str, width: float) -> str:
    """Cut a name to a width."""
    return _cut(name, max(0, int((width - 2 * MARGIN) / CHAR_WIDTH)))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(0, room - 1)].rstrip() + "…"


def _with_floor(counts: Sequence[int]) -> list[float]:
    """Raise counts to at least LEAST_SHARE of their average."""
    floor = LEAST_SHARE * (sum(counts) / max(1, len(counts)) or 1.0)
    return [max(float(count), floor) for count in counts]
