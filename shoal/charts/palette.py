"""Colours of islands: each archipelago has a range of hues of its own, in which its islands stand side by side."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import Any

UNKNOWN = "#8a8f98"
"""Text of which no word is known."""

_HUES = ((75, 165), (15, 60), (190, 265), (285, 355))
"""Degrees from the first to the last island of natural, physical, abstract and social, in this order."""
_SATURATION = 0.52
_LUMINANCES = (0.16, 0.27)
"""Relative luminance as WCAG defines it. Neighbours take turns, so that they differ in more than hue, for those who see
few hues too. Between 0.12 and 0.29 a colour has a contrast of 3 to the light and to the dark ground of the console."""
_HALVINGS = 20
"""Of the interval in which a lightness is looked for; eight would do for eight bits."""


def island_colours(islands: Sequence[Any]) -> dict[int, str]:
    """`#rrggbb` by island id. `islands` have `id` and `archipelago_id` (from 0), as lagoon's do."""
    colours: dict[int, str] = {}
    for archipelago in sorted({island.archipelago_id for island in islands}):
        members = sorted(island.id for island in islands if island.archipelago_id == archipelago)
        first, last = _HUES[archipelago % len(_HUES)]
        for place, island_id in enumerate(members):
            hue = first + (last - first) * place / max(1, len(members) - 1)
            colours[island_id] = _hex(_of_luminance(hue, _LUMINANCES[place % 2]))
    return colours


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0..1 (WCAG 2.2)."""
    return _luminance([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def _of_luminance(hue: float, wanted: float) -> Sequence[float]:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _luminance(colorsys.hls_to_rgb(hue / 360, middle, _SATURATION)) < wanted:
            low = middle
        else:
            high = middle
    return colorsys.hls_to_rgb(hue / 360, high, _SATURATION)


def _luminance(parts: Sequence[float]) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _hex(parts: Sequence[float]) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)
