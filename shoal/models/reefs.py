"""The reefs of the scorer's data, and those of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple, Protocol


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
    """A reef of a chunk, as stored: `z_score` in steps of 0.004, `raw_bm25` of 0.1, `probability`
    (`lagoon.results`) of 0.005."""

    reef_id: int
    reef_name: str
    z_score: Annotated[float, "how far the reef stands out from ordinary text of this length"]
    raw_bm25: Annotated[float, "sum of the contributions of the chunk's words to the reef"]
    n_contributing_words: Annotated[int, "number of different words that contribute to it"]
    probability: float


class Label(NamedTuple):
    """A reef that a text is about: its probability is at least `SHOAL_LABEL_THRESHOLD`."""

    reef_id: int
    reef_name: str
    probability: float


class IslandScore(NamedTuple):
    """An island of a chunk. `aggregate_z`: the sum of the z-scores of its reefs in the chunk, over the square
    root of the number of the island's reefs, rounded to three digits."""

    island_id: int
    island_name: str
    aggregate_z: Annotated[float, "how far the island stands out, from its reefs together"]
    n_contributing_reefs: Annotated[int, "number of the chunk's reefs on the island"]
