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

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from lagoon.custom import CustomWords
from lagoon.labels import REACH, LabelScores, mean_around
from lagoon.reading import Bags, Context, Reading, count
from lagoon.reef_table import ReefTable, Rows
from lagoon.results import Profiles, TopicResult
from lagoon.spans import expand_spans

# Texts scored at once: 512 rows of 207 float64 fit into the cache of a core.
BLOCK = 512


class ScoredTexts(Sequence[TopicResult]):
    """Results of many texts: tokens bounds[i]..bounds[i+1]-1 of one reading, scored on access, a block at a
    time.

    `like`: other texts of the same reading, which share their rows. `document_of` (texts,): document of each,
    ascending; without it each text is a document of its own.
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
        document_of: NDArray[np.int64] | None = None,
    ) -> None:
        self.table = table
        self.reading = reading
        self.bounds = bounds
        like_sums = None if like is None else like._sums
        self._sums: TextSums = TextSums(
            table, custom, reading, bounds, top_k, context, like_sums, document_of
        )
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

    def of_same_words(
        self, parts: NDArray[np.int64], context: Context | None, document_of: NDArray[np.int64]
    ) -> "ScoredTexts":
        """Group these texts into larger ones: text i consists of texts parts[i]..parts[i+1]-1."""
        return ScoredTexts(
            self.table,
            self._sums.custom,
            self.reading,
            self.bounds[parts],
            self._sums.top_k,
            context,
            like=self,
            document_of=document_of,
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
        document_of: NDArray[np.int64] | None,
    ) -> None:
        self.table = table
        self.top_k = top_k
        self._reading = reading
        self._bounds = bounds
        self.custom = custom
        self._context = context
        self._like = like
        self._document_of = document_of

    def raw_z(self, first: int, last: int) -> NDArray[np.float64]:
        """z of texts first..last-1, (texts, reefs), not rounded.

        Terms are scaled before they are added up: for the sentences of a book, scaling the dense result would
            take longer
        than all other steps.
        """
        m1, text_deviation, repetition, sizes = self._moments(first, last)
        sums = self._add_up(
            self._bags, first, last, repetition / np.repeat(text_deviation, sizes), self._scaled
        )
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
    def _scaled(self) -> NDArray[np.float64]:
        """Values of the rows in units of z."""
        scaled: NDArray[np.float64] = self._rows.values * self.table.scale[self._rows.reefs]
        return scaled

    @cached_property
    def _supported(self) -> NDArray[np.float64]:
        """Values of the rows times their support."""
        supported: NDArray[np.float64] = self._rows.values * self._rows.support
        return supported

    def profiles(self, first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        m1, text_deviation, repetition, _ = self._moments(first, last)
        sums = self._add_up(self._bags, first, last, repetition.astype(np.float64), self._rows.values)
        return self.table.standardise(sums, m1, text_deviation)

    def label_scores(self, first: int, last: int) -> LabelScores:
        """Evidence of the labels of texts first..last-1."""
        m1, z = self._label_z(self._bags, first, last)
        if self._document_of is None or len(self._document_of) == 1:
            return LabelScores.of_text_alone(m1, z)
        begin, end = max(first - REACH, 0), min(last + REACH, len(self._document_of))
        # Without context: titles and headings repeat in all passages, and so do accidents of their words.
        _, own_z = self._label_z(self._own, begin, end)
        around, n_around = mean_around(own_z, self._document_of[begin:end])
        wanted = slice(first - begin, last - begin)
        return LabelScores(m1, z, around[wanted], n_around[wanted])

    def _label_z(self, bags: Bags, first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(M1, label z) of texts first..last-1, (texts,) and (texts, reefs)."""
        starts = bags.starts[first : last + 1]
        repetition = bags.repetition[int(starts[0]) : int(starts[-1])]
        borders = starts - starts[0]
        sums = self._add_up(bags, first, last, repetition.astype(np.float64), self._supported)
        return self.table.label_z(sums, _sums(repetition, borders), _sums(repetition * repetition, borders))

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
        self, bags: Bags, first: int, last: int, factors: NDArray[np.float64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Sums of factor * value by reef for texts first..last-1, (texts, reefs). `factors`: one for each
        word; `values`: one for each entry of the rows."""
        at, lengths, cells = self._entries(bags, first, last)
        weights = np.repeat(factors, lengths)
        weights *= values[at]
        shape = (last - first, self.table.n_reefs)
        sums = np.bincount(cells, weights=weights, minlength=shape[0] * shape[1])
        return sums.astype(np.float64, copy=False).reshape(shape)

    def contributions(self, first: int, last: int) -> NDArray[np.int64]:
        _, _, cells = self._entries(self._bags, first, last)
        shape = (last - first, self.table.n_reefs)
        return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)

    def _entries(
        self, bags: Bags, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """For all words of texts first..last-1: (positions of their entries in the rows, number of entries of
        each word, text * reefs + reef of each entry)."""
        starts, rows = bags.starts, self._rows
        row_of = rows.of(bags.words[int(starts[first]) : int(starts[last])])
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


def _sums(values: NDArray[np.int64], borders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of values[borders[i]:borders[i+1]]."""
    running = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=running[1:])
    return np.diff(running[borders])
