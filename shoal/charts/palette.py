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
_LIGHTNESS = (0.42, 0.58)
"""Neighbours take turns, so that they differ in more than hue; both show on a light and on a dark ground."""


def island_colours(islands: Sequence[Any]) -> dict[int, str]:
    """`#rrggbb` by island id. `islands` have `id` and `archipelago_id` (from 0), as lagoon's do."""
    colours: dict[int, str] = {}
    for archipelago in sorted({island.archipelago_id for island in islands}):
        members = sorted(island.id for island in islands if island.archipelago_id == archipelago)
        first, last = _HUES[archipelago % len(_HUES)]
        for place, island_id in enumerate(members):
            hue = first + (last - first) * place / max(1, len(members) - 1)
            colours[island_id] = _hex(hue, _LIGHTNESS[place % 2])
    return colours


def _hex(hue: float, lightness: float) -> str:
    parts = colorsys.hls_to_rgb(hue / 360, lightness, _SATURATION)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)
