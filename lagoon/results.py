"""What texts are about, as people and programs read it: the strongest reefs and islands, how clear and how
complete the picture is."""

from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lagoon.scoring import ReefTable

# Scores are rounded here, so that they compare equal however they were computed.
DIGITS = 6

_STEPS = 10.0**DIGITS

# Room for the id of a reef beside a rounded score in one integer; ids are bytes.
_ID_ROOM = 256
_IDS = np.arange(_ID_ROOM)


class ScoredReef(NamedTuple):
    """`z_score` as `scoring` defines it, `raw_bm25` the weighted sum it came from, `n_contributing_words` the
    distinct words of the text associated with the reef."""

    reef_id: int
    z_score: float
    raw_bm25: float
    n_contributing_words: int
    name: str


class ScoredIsland(NamedTuple):
    """`aggregate_z`: sum of the z-scores of the island's reefs over the root of their number
    (Stouffer); `n_contributing_reefs`: those with z above 0."""

    island_id: int
    aggregate_z: float
    n_contributing_reefs: int
    name: str


class ReefColumns(NamedTuple):
    """The fields of many a `ScoredReef`, a list of each."""

    reef_ids: list[int]
    z_scores: list[float]
    raw_bm25: list[float]
    n_contributing_words: list[int]
    names: list[str]


class IslandColumns(NamedTuple):
    """The fields of many a `ScoredIsland`, a list of each."""

    island_ids: list[int]
    aggregate_z: list[float]
    n_contributing_reefs: list[int]
    names: list[str]


# As ScoredReef(*row), without a call of a Python function: a book has 100,000 of them.
_scored_reef = partial(tuple.__new__, ScoredReef)
_scored_island = partial(tuple.__new__, ScoredIsland)


class Texts(Protocol):
    """Texts that were read, as far as their results need them; texts are numbered from 0."""

    @property
    def table(self) -> "ReefTable": ...

    @property
    def top_k(self) -> int: ...

    def contributions(self, first: int, last: int) -> NDArray[np.int64]:
        """Number of distinct words of each of texts first..last-1 that are associated with each reef."""
        ...

    def n_words(self, index: int) -> int: ...

    def n_matched(self, index: int) -> int: ...

    def unknown_words(self, index: int) -> list[str]: ...

    def word_ids(self, index: int) -> frozenset[int]: ...


class Profiles:
    """The profiles of texts first, first + 1 and so on: `raw` and `z` (texts, reefs), z rounded here. What is
    made of them is made for all of these texts at once."""

    def __init__(self, texts: Texts, first: int, raw: NDArray[np.float64], z: NDArray[np.float64]) -> None:
        self.texts = texts
        self.first = first
        self.raw = raw
        z *= _STEPS
        self._steps = np.rint(z, out=z).astype(np.int64)
        z /= _STEPS
        z.flags.writeable = False
        self.z = z

    @cached_property
    def top_reefs(self) -> tuple[list[list[int]], list[list[float]], list[list[float]], list[list[int]]]:
        """(ids, z, raw, contributing words) of the strongest reefs of each text, those with z up to 0 too."""
        ids = _ranked(self._steps)[:, : self.texts.top_k]
        counts = self.texts.contributions(self.first, self.first + len(self.z))
        at = ids + np.arange(len(ids))[:, None] * self.z.shape[1]
        return (
            ids.tolist(),
            self.z.take(at).tolist(),
            self.raw.take(at).round(DIGITS).tolist(),
            counts.take(at).tolist(),
        )

    @cached_property
    def top_islands(self) -> tuple[list[list[int]], list[list[float]], list[list[int]]]:
        """(ids, aggregate z, active reefs) of the strongest islands of each text, those up to 0 too."""
        islands = self.texts.table.islands
        aggregate = islands.aggregate(self.z)
        steps = np.rint(aggregate * _STEPS).astype(np.int64)
        ids = _ranked(steps)[:, : self.texts.top_k]
        at = ids + np.arange(len(ids))[:, None] * aggregate.shape[1]
        return ids.tolist(), aggregate.take(at).tolist(), islands.active(self.z).take(at).tolist()

    @cached_property
    def archipelagos(self) -> list[list[float]]:
        """Aggregate z of each archipelago, by text."""
        scores: list[list[float]] = self.texts.table.archipelagos.aggregate(self.z).tolist()
        return scores

    @cached_property
    def confidences(self) -> list[float]:
        """z of the strongest reef minus z of the second, by text."""
        if self.z.shape[1] < 2:
            return [0.0] * len(self.z)
        two = np.partition(self.z, -2)[:, -2:]
        differences: list[float] = (two[:, 1] - two[:, 0]).round(DIGITS).tolist()
        return differences


class TopicResult:
    """What a text is about. Everything is computed when first asked for.

    n_words        tokens that are words and no stop words
    matched_words  of these, those known or part of a known compound
    """

    def __init__(self, profiles: Profiles, row: int) -> None:
        self._profiles = profiles
        self._row = row

    @property
    def z_scores(self) -> NDArray[np.float64]:
        """z of every reef, (reefs,)."""
        z: NDArray[np.float64] = self._profiles.z[self._row]
        return z

    @cached_property
    def top_reefs(self) -> list[ScoredReef]:
        """The strongest reefs with z above 0, strongest first, at most `top_k`."""
        return list(map(_scored_reef, zip(*self.reef_columns, strict=False)))

    @property
    def reef_columns(self) -> ReefColumns:
        """`top_reefs` in columns, for who stores a library of them and looks at none."""
        row = self._row
        all_ids, z, raw, counts = self._profiles.top_reefs
        n = _n_positive(z[row])
        ids = all_ids[row][:n]
        names = self._profiles.texts.table.reef_names
        return ReefColumns(ids, z[row][:n], raw[row][:n], counts[row][:n], [names[reef] for reef in ids])

    @cached_property
    def top_islands(self) -> list[ScoredIsland]:
        """The strongest islands with an aggregate above 0, strongest first, at most `top_k`."""
        return list(map(_scored_island, zip(*self.island_columns(self._profiles.texts.top_k), strict=False)))

    def island_columns(self, most: int) -> IslandColumns:
        """The first `most` of `top_islands` in columns."""
        row = self._row
        all_ids, aggregate, active = self._profiles.top_islands
        n = min(_n_positive(aggregate[row]), most)
        ids = all_ids[row][:n]
        names = self._profiles.texts.table.island_names
        return IslandColumns(ids, aggregate[row][:n], active[row][:n], [names[island] for island in ids])

    @property
    def arch_scores(self) -> list[float]:
        """Aggregate z of each archipelago."""
        return self._profiles.archipelagos[self._row].copy()

    @property
    def confidence(self) -> float:
        """z of the strongest reef minus z of the second: how clearly the text is about one thing."""
        return self._profiles.confidences[self._row]

    @property
    def coverage(self) -> float:
        """matched_words / n_words, 0 for a text without words."""
        return round(self.matched_words / self.n_words, DIGITS) if self.n_words else 0.0

    @cached_property
    def n_words(self) -> int:
        return self._profiles.texts.n_words(self._index)

    @cached_property
    def matched_words(self) -> int:
        return self._profiles.texts.n_matched(self._index)

    @cached_property
    def unknown_words(self) -> list[str]:
        """Distinct unknown words, normal forms, in order of appearance."""
        return self._profiles.texts.unknown_words(self._index)

    @cached_property
    def matched_word_ids(self) -> frozenset[int]:
        return self._profiles.texts.word_ids(self._index)

    @property
    def _index(self) -> int:
        return self._profiles.first + self._row

    def __repr__(self) -> str:
        reefs = ", ".join(f"{reef.name} {reef.z_score:.1f}" for reef in self.top_reefs[:3])
        return f"<TopicResult {reefs or 'nothing known'}; coverage {self.coverage:.2f}>"


def _n_positive(falling: list[float]) -> int:
    """How many values are above 0, the largest first."""
    n = len(falling)
    while n and falling[n - 1] <= 0:
        n -= 1
    return n


def _ranked(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Columns of each row by falling value, equal ones by number.

    Value and column in one integer are sorted several times faster than an order is found.
    """
    keys = values * -_ID_ROOM
    keys += _IDS[: values.shape[1]]
    keys.sort(axis=1)
    keys &= _ID_ROOM - 1
    return keys
