"""Score one short text without arrays of tokens and words, to keep the latency of searches low.

The results equal those of `scoring.ScoredTexts`, because both add up the same integers.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagoon.custom import CustomWords
from lagoon.labels import LabelScores
from lagoon.reading import quantise_repetition, repetition
from lagoon.reef_table import ReefTable
from lagoon.results import Profiles, TopicResult
from lagoon.short import MOST_CHARS, ShortReading
from lagoon.unknown import Keys, keys_of_forms
from lagoon.vocabulary import WORD, BaseVocabulary

# Repetition weight by number of occurrences. A text has fewer words than characters.
_REPETITION: list[int] = quantise_repetition(repetition(np.arange(MOST_CHARS + 1))).tolist()


class ScoredQuery:
    """A short text for `results.Profiles`."""

    def __init__(
        self, table: ReefTable, base: BaseVocabulary, custom: CustomWords, reading: ShortReading, top_k: int
    ) -> None:
        self.table = table
        self.top_k = top_k
        self._base = base
        self._custom = custom
        self._reading = reading
        tf: dict[int, int] = {}
        for _, word, _ in reading.hits:
            tf[word] = tf.get(word, 0) + 1
        self._n_base = base.model.n_words
        self._tf = tf
        self._rows = [base.row(word) if word < self._n_base else custom.row(word) for word in tf]

    def result(self) -> TopicResult:
        # The sums are integers. Floats convert to an array twice as fast and are exact below 2**53.
        sums = [0.0] * self.table.n_reefs
        total = squares = 0
        for tf, (weight_q, reefs, bm25_q) in zip(self._tf.values(), self._rows, strict=True):
            repetition_q = _REPETITION[tf]
            total += repetition_q
            squares += repetition_q * repetition_q
            factor = float(weight_q * repetition_q)
            for reef, strength in zip(reefs, bm25_q, strict=True):
                sums[reef] += factor * strength
        m1, text_deviation = self.table.single_text_moments(total, squares)
        raw, z = self.table.standardise(np.array(sums), m1, text_deviation)
        return TopicResult(Profiles(self, 0, raw.reshape(1, -1), z.reshape(1, -1)), 0)

    def contributions(self, first: int, last: int) -> NDArray[np.int64]:
        reefs = [reef for _, row, _ in self._rows for reef in row]
        counts = np.bincount(np.array(reefs, dtype=np.int64), minlength=self.table.n_reefs)
        return counts.reshape(1, -1)

    def label_scores(self, first: int, last: int) -> LabelScores:
        sums = np.zeros((1, self.table.n_reefs))
        for (word, tf), (weight_q, reefs, bm25_q) in zip(self._tf.items(), self._rows, strict=True):
            support = self._base.support(word) if word < self._n_base else self._custom.support(word)
            sums[0, reefs] += float(weight_q * _REPETITION[tf]) * np.multiply(bm25_q, support, dtype=float)
        repetition_q = np.array([_REPETITION[tf] for tf in self._tf.values()], dtype=np.int64)
        total, squares = repetition_q.sum(keepdims=True), (repetition_q**2).sum(keepdims=True)
        return LabelScores.of_text_alone(*self.table.label_z(sums, total, squares))

    def word_counts(self, first: int, last: int) -> tuple[list[int], list[int]]:
        n_words = self._reading.kinds.count(WORD)
        return [n_words], [n_words - len(self._unknown)]

    def unknown_words(self, index: int) -> list[str]:
        return list(dict.fromkeys(self._unknown))

    def unknown_keys(self, first: int, last: int) -> list[Keys]:
        reading = self._reading
        tokens = zip(reading.forms, reading.kinds, reading.words, strict=True)
        forms = {form for form, kind, word in tokens if kind == WORD and not 0 <= word < self._n_base}
        return [keys_of_forms(sorted(forms))[0]]

    @cached_property
    def _unknown(self) -> list[str]:
        reading = self._reading
        tokens = zip(reading.forms, reading.kinds, reading.words, reading.consumed, strict=True)
        return [form for form, kind, word, consumed in tokens if kind == WORD and word < 0 and not consumed]

    def word_ids(self, index: int) -> frozenset[int]:
        return frozenset(map(self._custom.public_id, self._tf))
