"""Reefs as scoring uses them: the reefs of words, groups of reefs, and the parameters of z-scores."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lagoon.bm25 import BM25_SCALE, WEIGHT_SCALE
from lagoon.compounds import expand_spans
from lagoon.model import SUPPORT_STEPS, Model
from lagoon.reading import REPETITION_SCALE
from lagoon.vocabulary import CustomRows

# Scores are rounded, so that they compare equal for every way of computing them.
DIGITS = 6

# From this many words on, marking them in a table of all words is faster than sorting them.
_MANY = 8192

# Sense z are bounded: passages of several words rarely exceed this, and a single word often does.
_MOST_SENSE = 5.0
_SENSE_STEPS = 1024.0
"""Mean sense vectors are rounded to 1/1024."""
_TEXTS_TOGETHER = 12
"""Texts whose product with the 96 sense directions of 207 reefs stays below the 4 * 65,536 multiplications
from which OpenBLAS starts threads."""

_UNIT = 1.0 / (REPETITION_SCALE * WEIGHT_SCALE * BM25_SCALE)


class Groups:
    """Islands or archipelagos as groups of reefs; `group_of` (reefs,) is the group of each reef."""

    def __init__(self, group_of: Sequence[int], n_groups: int) -> None:
        self.group_of = np.array(group_of, dtype=np.int64)
        self._n_groups = n_groups
        sizes = np.bincount(self.group_of, minlength=n_groups)
        self._roots = np.sqrt(np.maximum(sizes, 1))

    def aggregate(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Stouffer's z of each group, (texts, groups), from z (texts, reefs)."""
        shape = (len(z), self._n_groups)
        sums = np.bincount(self._cells(len(z)).ravel(), weights=z.ravel(), minlength=shape[0] * shape[1])
        return (sums.reshape(shape) / self._roots).round(DIGITS)

    def active(self, z: NDArray[np.float64]) -> NDArray[np.int64]:
        """Number of reefs with z above 0 in each group, (texts, groups)."""
        shape = (len(z), self._n_groups)
        return np.bincount(self._cells(len(z))[z > 0], minlength=shape[0] * shape[1]).reshape(shape)

    def _cells(self, n_texts: int) -> NDArray[np.int64]:
        """text * groups + group of each reef of each text."""
        return np.add.outer(np.arange(n_texts) * self._n_groups, self.group_of)


class ReefTable:
    """Reefs of base and learned words, and the parameters of z-scores."""

    def __init__(self, model: Model) -> None:
        hierarchy = model.hierarchy
        archipelago_of = [island.archipelago_id for island in hierarchy.islands]
        self.model = model
        self.n_reefs = model.n_reefs
        self.islands = Groups([reef.island_id for reef in hierarchy.reefs], len(hierarchy.islands))
        self.archipelagos = Groups(
            [archipelago_of[reef.island_id] for reef in hierarchy.reefs], len(hierarchy.archipelagos)
        )
        self.reef_names = [reef.name for reef in hierarchy.reefs]
        self.island_names = [island.name for island in hierarchy.islands]
        self.sense_rows = np.zeros(model.n_words, dtype=np.int64)
        self.sense_rows[model.sense_words] = np.arange(1, len(model.sense_words) + 1)
        self._sense_directions = model.sense_directions.astype(np.float64)
        self.name_words = np.unpackbits(model.name_words, count=model.n_words).astype(np.bool_)
        self._mean = np.asarray(model.background[0])
        self._deviation = np.sqrt(model.background[1])
        self._rate, self._exponent = model.dispersion.tolist()
        self.scale = _UNIT / self._deviation
        self.scaled_mean = self._mean / self._deviation
        self._label_mean = np.asarray(model.label_background[0])
        self._label_deviation = np.sqrt(model.label_background[1])

    def rows(self, words: NDArray[np.int64], custom: CustomRows) -> "Rows":
        """Reefs of base and learned words."""
        model = self.model
        distinct, place = _distinct(words, model.n_words + custom.count)
        split = int(np.searchsorted(distinct, model.n_words))
        base, learned = distinct[:split], distinct[split:] - model.n_words
        columns = model.row_reefs, model.row_bm25, model.row_support
        lengths, reefs, values, support = _rows(base, model.row_starts, columns, model.weights)
        if len(learned):
            more = _rows(learned, custom.starts, (custom.reefs, custom.bm25, custom.support), custom.weights)
            lengths = np.concatenate((lengths, more[0]))
            reefs = np.concatenate((reefs, more[1]))
            values = np.concatenate((values, more[2]))
            support = np.concatenate((support, more[3]))
        return Rows(distinct, place, np.cumsum(lengths) - lengths, lengths, reefs, values, support)

    def sense_z(
        self, words: NDArray[np.int64], repetition: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """What the words of texts say for or against each reef as their subject, (texts, reefs): the mean of
        their sense vectors, by direction, standardised over the reefs of a text; 0 for a text without known
        words. Learned words say nothing.

        `words`, `repetition` (entries,): text i has entries starts[i]..starts[i+1]-1.
        """
        model = self.model
        known = np.minimum(words, model.n_words - 1)
        is_base = words < model.n_words
        mass = repetition * np.where(is_base, model.weights[known], 0)
        rows = np.where(is_base, self.sense_rows[known], 0)
        means = np.zeros((len(starts) - 1, len(self._sense_directions)))
        is_known = np.zeros(len(means), dtype=np.bool_)
        # Sums and products of whole numbers are exact, so neither their order nor other texts matter.
        for text, (first, last) in enumerate(pairwise(starts.tolist())):
            total = int(mass[first:last].sum())
            if total:
                share = mass[first:last].astype(np.float64)
                vectors = model.sense_vectors[rows[first:last]].astype(np.float64)
                means[text] = np.rint(np.einsum("i,ij->j", share, vectors) * (_SENSE_STEPS / total))
                is_known[text] = True
        sums = np.empty((len(means), self.n_reefs))
        # Larger products start threads of the linear algebra library, which then wait by computing.
        for first in range(0, len(means), _TEXTS_TOGETHER):
            own = slice(first, first + _TEXTS_TOGETHER)
            np.matmul(means[own], self._sense_directions, out=sums[own])
        sums /= _SENSE_STEPS
        sums += model.sense_offsets
        sums -= sums.mean(axis=1, keepdims=True)
        deviation = np.sqrt(np.einsum("ij,ij->i", sums, sums) / self.n_reefs)
        is_known &= deviation > 0
        sums *= np.divide(1.0, deviation, out=np.zeros_like(deviation), where=is_known)[:, None]
        return sums.clip(-_MOST_SENSE, _MOST_SENSE, out=sums)

    def standardise(
        self,
        sums: NDArray[np.float64],
        m1: NDArray[np.float64] | float,
        text_deviation: NDArray[np.float64] | float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute (raw, z) from the sums of repetition_q * weight_q * bm25_q, all (texts, reefs), or (reefs,)
        for one text.

        `m1` and `text_deviation` as from `text_moments`. `sums` is overwritten with raw.
        """
        sums *= _UNIT
        z = np.multiply.outer(m1, self._mean)
        np.subtract(sums, z, out=z)
        z /= np.multiply.outer(text_deviation, self._deviation)
        return sums, z

    def label_z(
        self, sums: NDArray[np.float64], total: NDArray[np.int64], squares: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute (M1, label z) from the sums of repetition_q * weight_q * bm25_q * support, (texts, reefs);
        see `labels`. `total` and `squares` as for `text_moments`."""
        m1, spread = _moments(total, squares, self.model.label_dispersion)
        z = sums * (_UNIT / SUPPORT_STEPS) - np.multiply.outer(m1, self._label_mean)
        return m1, z / np.multiply.outer(spread, self._label_deviation)

    def text_moments(
        self, total: NDArray[np.int64], squares: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(M1, sqrt(M2 * D(M1))) of texts from the sums of their repetition_q and of its squares."""
        return _moments(total, squares, self.model.dispersion)

    def single_text_moments(self, total: int, squares: int) -> tuple[float, float]:
        """Like `text_moments` for one text."""
        m1, m2 = total / REPETITION_SCALE, squares / REPETITION_SCALE**2
        # Python's power may differ from numpy's in the last bit.
        dispersion = 1.0 + self._rate * float(np.power(max(m1 - 1.0, 0.0), self._exponent))
        return m1, math.sqrt((m2 if m2 > 0 else 1.0) * dispersion)


def _moments(
    total: NDArray[np.int64], squares: NDArray[np.int64], dispersion: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(M1, sqrt(M2 * D(M1))) of texts, with the rate and the exponent of D."""
    rate, exponent = dispersion.tolist()
    m1, m2 = total / REPETITION_SCALE, squares / REPETITION_SCALE**2
    growth = 1.0 + rate * np.power(np.maximum(m1 - 1.0, 0.0), exponent)
    return m1, np.sqrt(np.where(m2 > 0, m2, 1.0) * growth)


@dataclass(frozen=True)
class Rows:
    """Reefs of the words of a document.

    words    i64 (rows,) ascending
    place    i64 (all words,): row of each word; None for few words
    starts, lengths   i64 (rows,): position of each row in `reefs` and `values`
    reefs    i64;  values  f64: weight_q * bm25_q;  support  u8, in 1/SUPPORT_STEPS
    """

    words: NDArray[np.int64]
    place: NDArray[np.int64] | None
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    reefs: NDArray[np.int64]
    values: NDArray[np.float64]
    support: NDArray[np.uint8]

    def of(self, words: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each word."""
        return np.searchsorted(self.words, words) if self.place is None else self.place[words]


def _distinct(words: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """(distinct words ascending, index among them by word id 0..n-1, None for few words)."""
    if len(words) < _MANY:
        return np.unique(words), None
    seen = np.zeros(n, dtype=np.bool_)
    seen[words] = True
    distinct = np.flatnonzero(seen)
    place = np.empty(n, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place


def _rows(
    words: NDArray[np.int64],
    starts: NDArray[np.uint32] | NDArray[np.int64],
    columns: tuple[NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint8]],
    weights: NDArray[np.uint16],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.uint8]]:
    """(lengths, reefs, weight_q * bm25_q, support) of the CSR rows `words`; `columns` are reefs, bm25_q and
    support."""
    reefs, bm25, support = columns
    begins = starts[words].astype(np.int64)
    lengths = starts[words + 1].astype(np.int64) - begins
    at, _ = expand_spans(begins, lengths)
    values = np.repeat(weights[words].astype(np.float64), lengths)
    values *= bm25[at]
    return lengths, reefs[at].astype(np.int64), values, support[at]
