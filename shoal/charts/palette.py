"""Colours of islands: each archipelago has its own range of hues, and its islands divide that range
evenly."""

from __future__ import annotations

import colorsys
import functools
from collections.abc import Sequence
from typing import Any

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
