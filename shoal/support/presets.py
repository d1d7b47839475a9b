"""Presets: named weights of the signals of a hybrid search, built in or defined by a setting."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

MAX_WEIGHT = 1_000_000
MIN_WEIGHT = 1e-6
"""Only the proportion of weights matters. Within these limits, their sums and quotients are finite."""
MAX_DEFINED = 32
RESERVED = frozenset({"lexical", "reef", "dense", "hybrid", "rrf", "blend"})
"""Names of modes and fusions, which `shoal evaluate --way` also takes."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class Weights(NamedTuple):
    """The weight of each signal in a hybrid search. `dense` counts only where a library has vectors."""

    lexical: Annotated[float, "words, by BM25"]
    reef: Annotated[float, "shared reefs"]
    field_boost: Annotated[float, "words in title, headings and tags"]
    dense: Annotated[float, "nearness in meaning, by vectors"] = 0.0

    def normalized(self) -> Weights:
        """Return the weights scaled to add up to 1; all 0 if all are 0."""
        total = sum(self)
        return Weights(*(weight / total for weight in self)) if total else Weights(0.0, 0.0, 0.0)


class Preset(NamedTuple):
    """`is_adaptive`: whether the reef weight counts less for a query without a clear subject, and beside
    vectors (see `shoal.search.signals.choose_weights`). `vectors_take_from_reefs`: whether vectors get most
    of the reef weight, and none beside it. The weights of other presets count as they are."""

    weights: Weights
    is_adaptive: bool = False
    vectors_take_from_reefs: bool = False


DEFAULT = "balanced"
BUILT_IN: Mapping[str, Preset] = MappingProxyType(
    {
        "balanced": Preset(Weights(lexical=0.475, reef=0.475, field_boost=0.05, dense=0.4), is_adaptive=True),
        "precise": Preset(Weights(lexical=0.75, reef=0.20, field_boost=0.05, dense=0.2), is_adaptive=True),
        "conceptual": Preset(Weights(lexical=0.20, reef=0.75, field_boost=0.05, dense=0.4), is_adaptive=True),
        "job_matching": Preset(
            Weights(lexical=0.55, reef=0.35, field_boost=0.10), vectors_take_from_reefs=True
        ),
        "corpus": Preset(Weights(lexical=0.35, reef=0.55, field_boost=0.10), vectors_take_from_reefs=True),
    }
)
"""The weights of `balanced` scored best on four collections (docs/search-quality.md), before the trust
factor, which lowers its reef weight by a third for a typical query. `precise` and `conceptual` favour one
signal. Their dense weights count beside the others, which add up to 1: on the same collections 0.4 was best
(benchmarks/dense_blend.py). The last two are fixed blends for matching requirements and for long-lived
writing: words, meaning and field boost have the same weights with and without vectors.
"""


def parse_presets(text: str) -> dict[str, Preset]:
    """Parse `NAME=LEXICAL,REEF,FIELD_BOOST` or `NAME=LEXICAL,REEF,FIELD_BOOST,DENSE`, separated by
    semicolons.

    Raises ValueError, which says what is wrong with the first invalid preset.
    """
    presets: dict[str, Preset] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, _, numbers = (piece.strip() for piece in part.partition("="))
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name[:40]!r} is not a name: a lower-case letter, then at most 39 letters, digits, - and _"
            )
        if name in BUILT_IN or name in RESERVED or name in presets:
            raise ValueError(f"{name!r} is taken; choose another name")
        presets[name] = Preset(_parse_weights(name, numbers))
    if len(presets) > MAX_DEFINED:
        raise ValueError(f"must have at most {MAX_DEFINED} presets")
    return presets


def all_presets(defined: str) -> dict[str, Preset]:
    """Return the built-in presets and those that the setting `presets` defines, by name."""
    return {**BUILT_IN, **parse_presets(defined)}


def _parse_weights(name: str, text: str) -> Weights:
    try:
        weights = Weights(*map(float, text.split(",")))
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be written as {name}=0.55,0.35,0.10: words, reefs, field boost, and if wanted a "
            "fourth number for vectors"
        ) from None
    if not all(math.isfinite(weight) and 0 <= weight <= MAX_WEIGHT for weight in weights):
        raise ValueError(f"{name} must have weights between 0 and {MAX_WEIGHT:,}")
    if max(weights[:3]) < MIN_WEIGHT:
        raise ValueError(f"{name} must give at least one signal a weight above 0, besides that of vectors")
    return weights
