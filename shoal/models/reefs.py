"""The reefs of the scorer's data, and those of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Reef(Protocol):
    """A named semantic neighbourhood."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def island_id(self) -> int: ...
    @property
    def typical_words(self) -> Sequence[str]: ...


class Island(Protocol):
    """A group of reefs."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def archipelago_id(self) -> int: ...


class ReefScore(NamedTuple):
    """One reef of a chunk, as stored: `z_score` in steps of 0.004, `raw_bm25` in steps of 0.1; `probability`,
    0..1, that a reader would say that the chunk is about the reef (`lagoon.results`), in steps of 0.005."""

    reef_id: int
    reef_name: str
    z_score: float
    raw_bm25: float
    n_contributing_words: int
    probability: float


class Label(NamedTuple):
    """A reef that a text is about: its probability is at least `SHOAL_LABEL_THRESHOLD`."""

    reef_id: int
    reef_name: str
    probability: float


class IslandScore(NamedTuple):
    """An island of a chunk. `aggregate_z`: the sum of the z-scores of the chunk's reefs that belong to the
    island, over the square root of the number of the island's reefs, rounded to three digits."""

    island_id: int
    island_name: str
    aggregate_z: float
    n_contributing_reefs: int
