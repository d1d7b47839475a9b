"""Results of scoring: the strongest reefs and islands of a text, with confidence, coverage and labels.

A label has the probability that a reader would say that the text is about the reef. A z-score says how
unusual a reef is in a text, and rankings use it. Many unusual reefs are second senses of the words of the
text. So labels count each word only as far as its support goes (`build.counting`): with s(w, r) the support
of an association,

    label_raw = sum over words of repetition * weight(w) * bm25(w, r) * s(w, r),

standardized like z with a background of its own. The probability is a logistic function of this label z, of
the rank of the reef among all label z of the text, of the length of the text, of what the other reefs of the
same island add, and of the label z of the passages around it in its document: a subject usually lasts
longer than a passage, and an accident of its words does not. Readers trust some reefs more than others as
the name of a subject, so each reef has a constant of its own (`Model.reef_trust`), and some are never labels.
The most probable reef of a passage is raised, and its further ones are lowered.
`benchmarks/label_truth.py` fits all to judged labels and prints the constants and their calibration.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lagoon.reef_table import DIGITS, ReefTable
from lagoon.vocabulary import Keys

Doubles = NDArray[np.float64]

_STEPS = 10.0**DIGITS

# Factor that combines a rounded score and a reef id in an integer; ids are bytes.
_ID_ROOM = 256
_IDS = np.arange(_ID_ROOM)


class ScoredReef(NamedTuple):
    """A reef of a text: `z_score` as defined in `scoring`, `raw_bm25` its weighted sum,
    `n_contributing_words` the number of distinct words of the text that are associated with the reef."""

    reef_id: int
    z_score: float
    raw_bm25: float
    n_contributing_words: int
    name: str


class ScoredIsland(NamedTuple):
    """An island of a text. `aggregate_z`: sum of the z-scores of its reefs over the square root of their
    number (Stouffer); `n_contributing_reefs`: number of reefs with z above 0."""

    island_id: int
    aggregate_z: float
    n_contributing_reefs: int
    name: str


class ReefColumns(NamedTuple):
    """Fields of several `ScoredReef`s, a list for each field."""

    reef_ids: list[int]
    z_scores: list[float]
    raw_bm25: list[float]
    n_contributing_words: list[int]
    names: list[str]


class ReefArrays(NamedTuple):
    """Fields of the strongest reefs of a text with their probabilities, an array (reefs,) for each field."""

    reef_ids: NDArray[np.int64]
    z_scores: NDArray[np.float64]
    raw_bm25: NDArray[np.float64]
    n_contributing_words: NDArray[np.int64]
    probabilities: NDArray[np.float64]


class IslandColumns(NamedTuple):
    """Fields of several `ScoredIsland`s, a list for each field."""

    island_ids: list[int]
    aggregate_z: list[float]
    n_contributing_reefs: list[int]
    names: list[str]


# Same as ScoredReef(*row), but without a Python function call: a book has 100,000 of them.
_scored_reef = partial(tuple.__new__, ScoredReef)
_scored_island = partial(tuple.__new__, ScoredIsland)


class Texts(Protocol):
    """Texts as the results need them; texts are numbered from 0."""

    @property
    def table(self) -> ReefTable: ...

    @property
    def top_k(self) -> int: ...

    def contributions(self, first: int, last: int) -> NDArray[np.int64]:
        """Number of distinct words of each of texts first..last-1 that are associated with each reef."""
        ...

    def label_scores(self, first: int, last: int) -> LabelScores:
        """Evidence of the labels of texts first..last-1."""
        ...

    def word_counts(self, first: int, last: int) -> tuple[list[int], list[int]]:
        """(words, known words) of each of texts first..last-1."""
        ...

    def unknown_words(self, index: int) -> list[str]: ...

    def unknown_keys(self, first: int, last: int) -> list[Keys]: ...

    def word_ids(self, index: int) -> frozenset[int]: ...


class Profiles:
    """Profiles of texts first, first + 1 and so on: `raw` and `z` (texts, reefs), z rounded here. Derived
    values are computed for all of these texts at once."""

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
    def top_fields(self) -> tuple[NDArray[np.int64], Doubles, Doubles, NDArray[np.int64]]:
        """(ids, z, raw, contributing words) of the strongest reefs of each text, including those with z <= 0:
        arrays (texts, top_k)."""
        ids = _ranked(self._steps)[:, : self.texts.top_k]
        counts = self.texts.contributions(self.first, self.first + len(self.z))
        at = ids + np.arange(len(ids))[:, None] * self.z.shape[1]
        return ids, self.z.take(at), self.raw.take(at).round(DIGITS), counts.take(at)

    @cached_property
    def top_probabilities(self) -> Doubles:
        """Probability of each of `top_fields`, (texts, top_k); see `labels`."""
        texts = self.texts
        scores = texts.label_scores(self.first, self.first + len(self.z))
        table = texts.table
        return probabilities(scores, self.top_fields[0], table.islands.group_of, table.model.reef_trust)

    @cached_property
    def top_reefs(self) -> tuple[list[list[int]], list[list[float]], list[list[float]], list[list[int]]]:
        """`top_fields` in lists, by text."""
        ids, z, raw, counts = self.top_fields
        return ids.tolist(), z.tolist(), raw.tolist(), counts.tolist()

    @cached_property
    def n_positive(self) -> list[int]:
        """Number of `top_fields` with z above 0, by text."""
        counts: list[int] = (self.top_fields[1] > 0).sum(axis=1).tolist()
        return counts

    @cached_property
    def probabilities(self) -> list[list[float]]:
        """Probability of each of `top_reefs`, by text; see `labels`."""
        chances: list[list[float]] = self.top_probabilities.tolist()
        return chances

    @cached_property
    def top_islands(self) -> tuple[list[list[int]], list[list[float]], list[list[int]]]:
        """(ids, aggregate z, active reefs) of the strongest islands of each text, including those with z <=
        0."""
        islands = self.texts.table.islands
        aggregate = islands.aggregate(self.z)
        steps = np.rint(aggregate * _STEPS).astype(np.int64)
        ids = _ranked(steps)[:, : self.texts.top_k]
        at = ids + np.arange(len(ids))[:, None] * aggregate.shape[1]
        return ids.tolist(), aggregate.take(at).tolist(), islands.active(self.z).take(at).tolist()

    @cached_property
    def word_counts(self) -> tuple[list[int], list[int]]:
        """(words, known words) of each text."""
        return self.texts.word_counts(self.first, self.first + len(self.z))

    @cached_property
    def unknown_keys(self) -> list[Keys]:
        """Keys of the unknown words of each text; see `unknown`."""
        return self.texts.unknown_keys(self.first, self.first + len(self.z))

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
        largest = np.partition(self.z, -2)[:, -2:]
        differences: list[float] = (largest[:, 1] - largest[:, 0]).round(DIGITS).tolist()
        return differences


class TopicResult:
    """Topic of a text. Values are computed on first access.

    n_words        number of tokens that are words but not stop words
    matched_words  number of these that are known or part of a known compound
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
        """`top_reefs` in columns, which is faster for callers that only store them."""
        row = self._row
        all_ids, z, raw, counts = self._profiles.top_reefs
        n = self._profiles.n_positive[row]
        ids = all_ids[row][:n]
        names = self._profiles.texts.table.reef_names
        return ReefColumns(ids, z[row][:n], raw[row][:n], counts[row][:n], [names[reef] for reef in ids])

    @property
    def probabilities(self) -> list[float]:
        """Probability that the text is about each of `top_reefs`, in their order; see `labels`."""
        row = self._row
        return self._profiles.probabilities[row][: self._profiles.n_positive[row]]

    @property
    def reef_arrays(self) -> ReefArrays:
        """`top_reefs` with their probabilities in arrays, for callers that store many texts at once."""
        row = self._row
        n = self._profiles.n_positive[row]
        ids, z, raw, counts = self._profiles.top_fields
        chances = self._profiles.top_probabilities
        return ReefArrays(ids[row, :n], z[row, :n], raw[row, :n], counts[row, :n], chances[row, :n])

    @property
    def label_scores(self) -> LabelScores:
        """Evidence of the labels of this text; see `labels`."""
        return self._profiles.texts.label_scores(self._index, self._index + 1)

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
        """z of the strongest reef minus z of the second; high if the text has a single clear topic."""
        return self._profiles.confidences[self._row]

    @property
    def coverage(self) -> float:
        """matched_words / n_words, 0 for a text without words."""
        return round(self.matched_words / self.n_words, DIGITS) if self.n_words else 0.0

    @property
    def n_words(self) -> int:
        return self._profiles.word_counts[0][self._row]

    @property
    def matched_words(self) -> int:
        return self._profiles.word_counts[1][self._row]

    @cached_property
    def unknown_words(self) -> list[str]:
        """Distinct unknown words, normal forms, in order of appearance."""
        return self._profiles.texts.unknown_words(self._index)

    @property
    def unknown_keys(self) -> Keys:
        """Keys of the words that the base vocabulary lacks, learned or not; see `unknown`."""
        return self._profiles.unknown_keys[self._row]

    @cached_property
    def matched_word_ids(self) -> frozenset[int]:
        return self._profiles.texts.word_ids(self._index)

    @property
    def _index(self) -> int:
        return self._profiles.first + self._row

    def __repr__(self) -> str:
        reefs = ", ".join(f"{reef.name} {reef.z_score:.1f}" for reef in self.top_reefs[:3])
        return f"<TopicResult {reefs or 'nothing known'}; coverage {self.coverage:.2f}>"


def _n_positive(descending: list[float]) -> int:
    """Number of values above 0."""
    n = len(descending)
    while n and descending[n - 1] <= 0:
        n -= 1
    return n


def _ranked(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Columns of each row by descending value; ties by column.

    Sorting integers that combine value and column is several times faster than argsort.
    """
    keys = values * -_ID_ROOM
    keys += _IDS[: values.shape[1]]
    keys.sort(axis=1)
    keys &= _ID_ROOM - 1
    return keys


PROBABILITY_DIGITS = 3

REACH = 4
"""Passages on either side that count as around a passage."""

AROUND = 4
"""Place of the passages around among the inputs of the logistic function."""

ALONE = np.array([-5.84, 1.24, -0.31, 0.45, 0.13, 0.0, 0.76])
"""For a text without passages around it: intercept, and coefficients of ln(1 + label z), ln(1 + rank),
ln(1 + M1), ln(1 + sum of the label z of the other reefs of the island), ln(1 + mean label z around), where z
below 0 counts as 0, and of the sense z."""
AMONG_OTHERS = np.array([-5.68, 0.9, -0.34, 0.41, 0.08, 0.97, 0.73])
"""The same for a passage among others of its document."""


FIRST, FURTHER = 0.6, -0.84
"""What the logit of the most probable reef of a passage among others is raised by, and that of its further
ones: readers name one subject of a passage more readily than a second one."""


class LabelScores(NamedTuple):
    """Evidence of labels of several texts.

    m1        (texts,): sum of the repetition weights
    z         (texts, reefs): label z
    sense     (texts, reefs): sense z; see `ReefTable.sense_z`
    around    (texts, reefs): mean label z of the passages around each, without their context; 0 for none
    n_around  (texts,): number of these passages
    """

    m1: Doubles
    z: Doubles
    sense: Doubles
    around: Doubles
    n_around: NDArray[np.int64]

    @staticmethod
    def of_text_alone(m1: Doubles, z: Doubles, sense: Doubles) -> LabelScores:
        return LabelScores(m1, z, sense, np.zeros_like(z), np.zeros(len(z), dtype=np.int64))


def mean_around(z: Doubles, document_of: NDArray[np.int64]) -> tuple[Doubles, NDArray[np.int64]]:
    """(mean label z of the passages around each, their number); `z` (passages, reefs) of consecutive ones.

    `document_of` (passages,): document of each, ascending. The order of adding does not depend on where `z`
    begins and ends, so the result does not either.
    """
    total = np.zeros_like(z)
    n_around = np.zeros(len(z), dtype=np.int64)
    for distance in range(1, min(REACH, len(z) - 1) + 1):
        same = document_of[distance:] == document_of[:-distance]
        factor = same[:, None]
        total[distance:] += z[:-distance] * factor
        total[:-distance] += z[distance:] * factor
        n_around[distance:] += same
        n_around[:-distance] += same
    total /= np.maximum(n_around, 1)[:, None]
    return total, n_around


def features(scores: LabelScores, ids: NDArray[np.int64], group_of: NDArray[np.int64]) -> Doubles:
    """Inputs of the logistic function, (texts, ids of each text, 6).

    `ids` (texts, n): reefs; `group_of` (reefs,): island of each reef.
    """
    n_texts, n_reefs = scores.z.shape
    positive = np.maximum(scores.z, 0.0)
    places = ids + np.arange(n_texts)[:, None] * n_reefs
    rank = _ranks_of(positive[0], ids[0]) if n_texts == 1 else _ranks(positive).take(places)
    n_groups = int(group_of.max(initial=-1)) + 1
    cells = np.add.outer(np.arange(n_texts) * n_groups, group_of)
    of_islands = np.bincount(cells.ravel(), weights=positive.ravel(), minlength=n_texts * n_groups)
    own = positive.take(places)
    others = np.maximum(of_islands.take(cells.take(places)) - own, 0.0)
    length = np.broadcast_to(scores.m1[:, None], ids.shape)
    around = np.maximum(scores.around.take(places), 0.0)
    grown = np.log1p(np.stack((own, rank, length, others, around), axis=-1))
    inputs: Doubles = np.concatenate((grown, scores.sense.take(places)[..., None]), axis=-1)
    return inputs


def _ranks_of(positive: Doubles, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """`_ranks` of some label z above 0 of a single text, (1, ids): several times as fast."""
    own = positive[ids, None]
    before = (positive > own) | ((positive == own) & (_IDS[: len(positive)] < ids[:, None]))
    ranks: NDArray[np.int64] = np.count_nonzero(before, axis=1)[None]
    return ranks


def _ranks(positive: Doubles) -> NDArray[np.int64]:
    """Rank of each label z above 0 in its row, from 0; of equal ones, the lower column comes first."""
    n_texts, n_reefs = positive.shape
    # A stable sort takes several times as long, and rows with equal values are rare.
    order = np.argsort(-positive, axis=1)
    ordered = np.take_along_axis(positive, order, axis=1)
    tied = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] > 0)).any(axis=1)
    if tied.any():
        order[tied] = np.argsort(-positive[tied], axis=1, kind="stable")
    ranks = np.empty((n_texts, n_reefs), dtype=np.int64)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(n_reefs), order.shape), axis=1)
    return ranks


def probabilities(
    scores: LabelScores, ids: NDArray[np.int64], group_of: NDArray[np.int64], trust: Doubles
) -> Doubles:
    """Probability of each reef `ids` of each text, (texts, n), rounded; 0 for a label z of at most 0.

    `trust` (reefs,): what the logit of each reef is raised by.
    """
    inputs = features(scores, ids, group_of)
    constants = np.where(scores.n_around[:, None] > 0, AMONG_OTHERS, ALONE)
    logit = constants[:, :1] + (inputs * constants[:, None, 1:]).sum(axis=-1) + trust[ids]
    is_shown = inputs[..., 0] > 0
    among_others = np.flatnonzero(scores.n_around)
    first = np.where(is_shown, logit, -np.inf)[among_others].argmax(axis=1) if ids.shape[1] else among_others
    logit[among_others] += FURTHER
    logit[among_others, first] += FIRST - FURTHER
    chances = 1.0 / (1.0 + np.exp(-logit))
    rounded: Doubles = np.where(is_shown, chances, 0.0).round(PROBABILITY_DIGITS)
    return rounded
