"""Reader of `reefs.toml`, the list of reefs named by people.

Many automatic clusters match what a person would call a topic, but some mix two topics, and two builds never
give the same clusters. So the list of reefs is maintained by hand: a name, an island, an archipelago, and
typical words, from which the build computes the position of the reef among the word vectors.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

REEFS_FILE = Path(__file__).with_name("reefs.toml")

ARCHIPELAGOS = (
    "natural sciences & taxonomy",
    "physical world & materiality",
    "abstract processes & systems",
    "social order & assessment",
)
FEWEST_ANCHORS = 8
"""With fewer typical words, the position of a reef would depend too much on noise in their vectors."""
_NAME_WORDS = range(2, 5)


class TaxonomyError(ValueError):
    """The list of reefs is invalid; the message names the entry."""


@dataclass(frozen=True, slots=True)
class NamedIsland:
    """``archipelago`` is an index of ARCHIPELAGOS."""

    name: str
    archipelago: int


@dataclass(frozen=True, slots=True)
class NamedReef:
    """``island`` is an index of the taxonomy's islands; ``anchors`` are words typical of the reef."""

    name: str
    island: int
    anchors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Islands in the order of their archipelagos, reefs in the order of their islands."""

    islands: tuple[NamedIsland, ...]
    reefs: tuple[NamedReef, ...]


def read_taxonomy(path: Path = REEFS_FILE) -> Taxonomy:
    """Islands and reefs of a file like ``reefs.toml``.

    Raises:
        TaxonomyError: if a name does not have 2 to 4 words or is not unique, an archipelago is unknown or its
            islands are not consecutive, or a reef has too few typical words.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["island"]
        read = [(island["name"], island["archipelago"], island["reefs"]) for island in entries]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise TaxonomyError(
            f"{path.name} is not a list of islands with name, archipelago, reefs: {error}"
        ) from None
    unknown = [archipelago for _, archipelago, _ in read if archipelago not in ARCHIPELAGOS]
    if unknown:
        raise TaxonomyError(f"unknown archipelago {unknown[0]!r}; archipelagos are {', '.join(ARCHIPELAGOS)}")
    islands = tuple(NamedIsland(name, ARCHIPELAGOS.index(archipelago)) for name, archipelago, _ in read)
    reefs = tuple(
        NamedReef(name, number, tuple(words.split()))
        for number, (_, _, reefs) in enumerate(read)
        for name, words in reefs.items()
    )
    _check(islands, reefs)
    return Taxonomy(islands, reefs)


def _check(islands: tuple[NamedIsland, ...], reefs: tuple[NamedReef, ...]) -> None:
    order = [island.archipelago for island in islands]
    if order != sorted(order):
        raise TaxonomyError(
            "the islands of an archipelago must be consecutive, and archipelagos in their order"
        )
    names = Counter([island.name for island in islands] + [reef.name for reef in reefs])
    for name, uses in names.items():
        if uses > 1:
            raise TaxonomyError(f"{name!r} is the name of {uses} reefs or islands")
        if len(name.split()) not in _NAME_WORDS:
            raise TaxonomyError(f"{name!r} is not a name of 2 to 4 words")
    for reef in reefs:
        if len(set(reef.anchors)) < FEWEST_ANCHORS:
            raise TaxonomyError(f"{reef.name!r} has fewer than {FEWEST_ANCHORS} distinct typical words")
