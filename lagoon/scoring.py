"""Compute the sums and z-scores of all reefs from bags of words.

A word w adds repetition * weight(w) * bm25(w, r) to the sum `raw` of reef r. The z-score compares `raw` with
the sum that the same number of words of running text would give. With mean1 and var1 the mean and variance of
one word's contribution, and M1 and M2 the sums of the repetition weights and of their squares,

    z = (raw - M1 * mean1) / sqrt(M2 * var1 * D(M1)),    D(M) = 1 + rate * max(M - 1, 0) ** exponent.

D corrects for topics: a word makes related words more likely, so the variance grows faster than the number of
    words
(`benchmarks/calibration.py`). The factor is the same for all reefs, so the order within a text does not
change. `benchmarks/lagoon_table.py` measures the quality of rankings by z.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from lagoon.bm25 import BM25_SCALE, WEIGHT_SCALE
from lagoon.custom import CustomRows, CustomWords
from lagoon.model import Model
from lagoon.reading import REPETITION_SCALE, Bags, Context, Reading, count
from lagoon.results import DIGITS, Profiles, TopicResult
from lagoon.spans import expand_spans

# Texts scored at once: 512 rows of 207 float64 fit into the cache of a core.
BLOCK = 512

# From this many words on, marking them in a table of all words is faster than sorting them.
_MANY = 8192

_UNIT = 1.0 / (REPETITION_SCALE * WEIGHT_SCALE * BM25_SCALE)


class Groups:
    """Islands or archipelagos as groups of reefs; `group_of` (reefs,) is the group of each reef."""

    def __init__(self, group_of: Sequence[int], n_groups: int) -> None:
        self._group_of = np.array(group_of, dtype=np.int64)
        self._n_groups = n_groups
        sizes = np.bincount(self._group_of, minlength=n_groups)
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
        return np.add.outer(np.arange(n_texts) * self._n_groups, self._group_of)


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
        self._mean = np.asarray(model.background[0])
        self._deviation = np.sqrt(model.background[1])
        self._rate, self._exponent = model.dispersion.tolist()
        self.scale = _UNIT / self._deviation
        self.scaled_mean = self._mean / self._deviation

    def rows(self, words: NDArray[np.int64], custom: CustomRows) -> "Rows":
        """Reefs of base and learned words."""
        model = self.model
        distinct, place = _distinct(words, model.n_words + custom.count)
        split = int(np.searchsorted(distinct, model.n_words))
        base, learned = distinct[:split], distinct[split:] - model.n_words
        lengths, reefs, values = _rows(base, model.row_starts, model.row_reefs, model.row_bm25, model.weights)
        if len(learned):
            more = _rows(learned, custom.starts, custom.reefs, custom.bm25, custom.weights)
            both = zip((lengths, reefs, values), more, strict=True)
            lengths, reefs, values = (np.concatenate(pair) for pair in both)
        return Rows(distinct, place, np.cumsum(lengths) - lengths, lengths, reefs, values)

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

    def text_moments(
        self, total: NDArray[np.int64], squares: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(M1, sqrt(M2 * D(M1))) of texts from the sums of their repetition_q and of its squares."""
        m1, m2 = total / REPETITION_SCALE, squares / REPETITION_SCALE**2
        dispersion = 1.0 + self._rate * np.power(np.maximum(m1 - 1.0, 0.0), self._exponent)
        return m1, np.sqrt(np.where(m2 > 0, m2, 1.0) * dispersion)

    def single_text_moments(self, total: int, squares: int) -> tuple[float, float]:
        """Like `text_moments` for one text."""
        m1, m2 = total / REPETITION_SCALE, squares / REPETITION_SCALE**2
        # Python's power may differ from numpy's in the last bit.
        dispersion = 1.0 + self._rate * float(np.power(max(m1 - 1.0, 0.0), self._exponent))
        return m1, math.sqrt((m2 if m2 > 0 else 1.0) * dispersion)


@dataclass(frozen=True)
class Rows:
    """Reefs of the words of a document.

    words    i64 (rows,) ascending
    place    i64 (all words,): row of each word; None for few words
    starts, lengths   i64 (rows,): position of each row in `reefs` and `values`
    reefs    i64;  values  f64: weight_q * bm25_q
    """

    words: NDArray[np.int64]
    place: NDArray[np.int64] | None
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    reefs: NDArray[np.int64]
    values: NDArray[np.float64]

    def of(self, words: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each word."""
        return np.searchsorted(self.words, words) if self.place is None else self.place[words]


class ScoredTexts(Sequence[TopicResult]):
    """Results of many texts: tokens bounds[i]..bounds[i+1]-1 of one reading, scored on access, a block at a
    time.

    `like`: other texts of the same reading, which share their rows.
    """

    def __init__(
        self,
        table: ReefTable,
        custom: CustomWords,
        reading: Reading,
        bounds: NDArray[np.int64],
        top_k: int,
        context: Context | None = None,
        like: "ScoredTexts | None" = None,
    ) -> None:
        self.table = table
        self.reading = reading
        self.bounds = bounds
        like_sums = None if like is None else like._sums
        self._sums: TextSums = TextSums(table, custom, reading, bounds, top_k, context, like_sums)
        # Callers read the texts in order, so the last block is nearly always the next one needed.
        self._block: Profiles | None = None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, index: int) -> TopicResult: ...
    @overload
    def __getitem__(self, index: slice) -> list[TopicResult]: ...
    def __getitem__(self, index: int | slice) -> TopicResult | list[TopicResult]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        row = index % BLOCK
        block = self._block
        if block is None or block.first != index - row:
            first, last = index - row, min(index - row + BLOCK, len(self))
            block = self._block = Profiles(self._sums, first, *self._sums.profiles(first, last))
        return TopicResult(block, row)

    def of_same_words(self, parts: NDArray[np.int64], context: Context | None) -> "ScoredTexts":
        """Group these texts into larger ones: text i consists of texts parts[i]..parts[i+1]-1."""
        return ScoredTexts(
            self.table,
            self._sums.custom,
            self.reading,
            self.bounds[parts],
            self._sums.top_k,
            context,
            like=self,
        )

    def raw_z(self, first: int, last: int) -> NDArray[np.float64]:
        """z of texts first..last-1, not rounded."""
        return self._sums.raw_z(first, last)


class TextSums:
    """Sums and profiles of `ScoredTexts`. It has no reference back to the results: without a cycle, these
    large arrays are freed as soon as they are unused, and not only by the garbage collector."""

    def __init__(
        self,
        table: ReefTable,
        custom: CustomWords,
        reading: Reading,
        bounds: NDArray[np.int64],
        top_k: int,
        context: Context | None,
        like: "TextSums | None",
    ) -> None:
        self.table = table
        self.top_k = top_k
        self._reading = reading
        self._bounds = bounds
        self.custom = custom
        self._context = context
        self._like = like

    def raw_z(self, first: int, last: int) -> NDArray[np.float64]:
        """z of texts first..last-1, (texts, reefs), not rounded.

        Terms are scaled before they are added up: for the sentences of a book, scaling the dense result would
            take longer
        than all other steps.
        """
        m1, text_deviation, repetition, sizes = self._moments(first, last)
        sums = self._add_up(first, last, repetition / np.repeat(text_deviation, sizes), self._scaled)
        sums -= np.multiply.outer(m1 / text_deviation, self.table.scaled_mean)
        return sums

    @cached_property
    def _own(self) -> Bags:
        """Bags of the texts without context."""
        return count(self._reading, self._bounds)

    @cached_property
    def _bags(self) -> Bags:
        return self._own if self._context is None else count(self._reading, self._bounds, self._context)

    @cached_property
    def _rows(self) -> Rows:
        if self._context is None and self._like is not None:
            return self._like._rows
        words = self._reading.hit_words
        if self._context is not None:
            words = np.concatenate((words, self._context.words))
        return self.table.rows(words, self.custom.rows())

    @cached_property
    def _row_of(self) -> NDArray[np.int64]:
        return self._rows.of(self._bags.words)

    @cached_property
    def _scaled(self) -> NDArray[np.float64]:
        """Values of the rows in units of z."""
        scaled: NDArray[np.float64] = self._rows.values * self.table.scale[self._rows.reefs]
        return scaled

    def profiles(self, first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        m1, text_deviation, repetition, _ = self._moments(first, last)
        sums = self._add_up(first, last, repetition.astype(np.float64), self._rows.values)
        return self.table.standardise(sums, m1, text_deviation)

    def _moments(
        self, first: int, last: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """For texts first..last-1: (M1, text deviation, repetition_q of each word, number of words of each
        text)."""
        starts = self._bags.starts[first : last + 1]
        repetition = self._bags.repetition[int(starts[0]) : int(starts[-1])]
        borders = starts - starts[0]
        m1, text_deviation = self.table.text_moments(
            _sums(repetition, borders), _sums(repetition * repetition, borders)
        )
        return m1, text_deviation, repetition, np.diff(starts)

    def _add_up(
        self, first: int, last: int, factors: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Sums of factor * value by reef for texts first..last-1, (texts, reefs). `factors`: one for each
        word; `values`: one for each entry of the rows."""
        at, lengths, cells = self._entries(first, last)
        weights = np.repeat(factors, lengths)
        weights *= values[at]
        shape = (last - first, self.table.n_reefs)
        sums = np.bincount(cells, weights=weights, minlength=shape[0] * shape[1])
        return sums.astype(np.float64, copy=False).reshape(shape)

    def contributions(self, first: int, last: int) -> NDArray[np.int64]:
        _, _, cells = self._entries(first, last)
        shape = (last - first, self.table.n_reefs)
        return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)

    def _entries(
        self, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """For all words of texts first..last-1: (positions of their entries in the rows, number of entries of
        each word, text * reefs + reef of each entry)."""
        starts, rows = self._bags.starts, self._rows
        row_of = self._row_of[int(starts[first]) : int(starts[last])]
        lengths = rows.lengths[row_of]
        at, _ = expand_spans(rows.starts[row_of], lengths)
        texts = np.repeat(np.arange(last - first) * self.table.n_reefs, np.diff(starts[first : last + 1]))
        cells = np.repeat(texts, lengths)
        cells += rows.reefs[at]
        return at, lengths, cells

    def n_words(self, index: int) -> int:
        return self._growth(self._reading.words_before, index)

    def n_matched(self, index: int) -> int:
        return self._growth(self._reading.matched_before, index)

    def _growth(self, running: NDArray[np.int64], index: int) -> int:
        """Difference of a running count of tokens over one text."""
        return int(running[self._bounds[index + 1]] - running[self._bounds[index]])

    def unknown_words(self, index: int) -> list[str]:
        return self._reading.unknown_words(int(self._bounds[index]), int(self._bounds[index + 1]))

    def word_ids(self, index: int) -> frozenset[int]:
        """Ids of the words of one text, without its context."""
        words = self._own.words[self._own.starts[index] : self._own.starts[index + 1]]
        return frozenset(map(self.custom.public_id, words.tolist()))


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
    reefs: NDArray[np.uint8],
    bm25: NDArray[np.uint16],
    weights: NDArray[np.uint16],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(lengths, reefs, weight_q * bm25_q) of the CSR rows `words`."""
    begins = starts[words].astype(np.int64)
    lengths = starts[words + 1].astype(np.int64) - begins
    at, _ = expand_spans(begins, lengths)
    values = np.repeat(weights[words].astype(np.float64), lengths)
    values *= bm25[at]
    return lengths, reefs[at].astype(np.int64), values


def _sums(values: NDArray[np.int64], borders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of values[borders[i]:borders[i+1]]."""
    running = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=running[1:])
    return np.diff(running[borders])
