"""Compute the sums and z-scores of all reefs from bags of words.

A word w adds repetition * weight(w) * bm25(w, r) to the sum `raw` of reef r. The z-score compares `raw` with
the sum that the same number of words of running text would give. With mean1 and var1 the mean and variance of
one word's contribution, and M1 and M2 the sums of the repetition weights and of their squares,

    z = (raw - M1 * mean1) / sqrt(M2 * var1 * D(M1)),    D(M) = 1 + rate * max(M - 1, 0) ** exponent.

D corrects for topics: a word makes related words more likely, so the variance grows faster than the number of
words (`benchmarks/calibration.py`). The factor is the same for all reefs, so the order within a text does not
change. `benchmarks/lagoon_table.py` measures the quality of rankings by z.

A short text is scored without arrays of tokens and words, to keep the latency of searches low. The results
are equal, because both ways add up the same integers.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from lagoon.compounds import expand_spans
from lagoon.reading import (
    MOST_CHARS,
    Additions,
    Bags,
    Context,
    Reading,
    ShortReading,
    additions,
    count,
    in_arrays,
    left_out,
    quantise_repetition,
    repetition,
)
from lagoon.reef_table import ReefTable, Rows
from lagoon.results import REACH, LabelScores, Profiles, TopicResult, mean_around
from lagoon.sentences import Names, are_english, find_names, sentence_starts
from lagoon.vocabulary import WORD, BaseVocabulary, CustomWords, Keys, keys_of_forms

# Texts scored at once: 512 rows of 207 float64 fit into the cache of a core.
BLOCK = 512


class ScoredTexts(Sequence[TopicResult]):
    """Results of many texts: tokens bounds[i]..bounds[i+1]-1 of one reading, scored on access, a block at a
    time.

    `like`: other texts of the same reading, which share their rows. `document_of` (texts,): document of each,
    ascending; without it each text is a document of its own. `names`: names of these documents.
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
        names: Names | None = None,
    ) -> None:
        self.table = table
        self.reading = reading
        self.bounds = bounds
        like_sums = None if like is None else like._sums
        self._sums: TextSums = TextSums(
            table, custom, reading, bounds, top_k, context, like_sums, document_of, names
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
        self,
        parts: NDArray[np.int64],
        context: Context | None,
        document_of: NDArray[np.int64],
        names: Names | None,
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
            names=names,
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
        names: Names | None,
    ) -> None:
        self.table = table
        self.top_k = top_k
        self._reading = reading
        self._bounds = bounds
        self.custom = custom
        self._context = context
        self._like = like
        self._document_of = document_of
        self._names = names
        self._kept: tuple[tuple[int, int], Entries] | None = None

    def raw_z(self, first: int, last: int) -> NDArray[np.float64]:
        """z of texts first..last-1, (texts, reefs), not rounded.

        Without a context, terms are scaled before they are added up: for the sentences of a book, scaling
        the dense result would take longer than all other steps.
        """
        if self._context is not None:
            return self.profiles(first, last)[1]
        own = self._scored.own
        m1, text_deviation = self.table.text_moments(*self._scored.weights(first, last))
        starts, repetition = part(own, first, last)
        factors = repetition / np.repeat(text_deviation, np.diff(starts))
        sums = self._entries_of(own, first, last).sums(factors, self._scaled)
        sums -= np.multiply.outer(m1 / text_deviation, self.table.scaled_mean)
        return sums

    @cached_property
    def _scored(self) -> "Counted":
        own = count(self._reading, self._bounds)
        return Counted(own, None if self._context is None else additions(own, self._context))

    @cached_property
    def _labelled(self) -> "Counted":
        """What counts for labels: the same without names."""
        if self._names is None:
            return self._scored
        own = left_out(self._scored.own, self._reading, self._bounds, self._names.hits)
        if self._context is None:
            return Counted(own, None)
        document_of = np.arange(len(own)) if self._document_of is None else self._document_of
        is_name = self._names.among(document_of[self._context.texts], self._context.words)
        return Counted(own, additions(own, self._context.of(~is_name)))

    @cached_property
    def _are_english(self) -> NDArray[np.bool_]:
        return are_english(self._reading, self._bounds)

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
        scored, values = self._scored, self._rows.values
        sums = self._sums(scored.own, first, last, values)
        self._add(sums, scored.added, first, last, values)
        return self.table.standardise(sums, *self.table.text_moments(*scored.weights(first, last)))

    def label_scores(self, first: int, last: int) -> LabelScores:
        """Evidence of the labels of texts first..last-1. In a text that is not English, words like those of
        English mean something else, so it has none."""
        own, added = labelled = self._labelled
        sums = self._sums(own, first, last, self._supported)
        if self._document_of is None or len(self._document_of) == 1:
            self._add(sums, added, first, last, self._supported)
            m1, z = self.table.label_z(sums, *labelled.weights(first, last))
            z[~self._are_english[first:last]] = 0.0
            return LabelScores.of_text_alone(m1, z, self._sense_z(first, last))
        begin, end = max(first - REACH, 0), min(last + REACH, len(self._document_of))
        # Without context: titles and headings repeat in all passages, and so do accidents of their words.
        parts = [(begin, first), (last, end)]
        before, after = (self._sums(own, *part, self._supported) for part in parts)
        around_sums = np.concatenate((before, sums, after))
        _, own_z = self.table.label_z(around_sums, *Counted(own, None).weights(begin, end))
        own_z[~self._are_english[begin:end]] = 0.0
        around, n_around = mean_around(own_z, self._document_of[begin:end])
        wanted = slice(first - begin, last - begin)
        self._add(sums, added, first, last, self._supported)
        m1, z = self.table.label_z(sums, *labelled.weights(first, last))
        z[~self._are_english[first:last]] = 0.0
        return LabelScores(m1, z, self._sense_z(first, last), around[wanted], n_around[wanted])

    def _sense_z(self, first: int, last: int) -> NDArray[np.float64]:
        """Sense z of texts first..last-1, (texts, reefs), without their contexts: a title may be a name."""
        own = self._labelled.own
        starts, repetition = part(own, first, last)
        begin = int(own.starts[first])
        return self.table.sense_z(own.words[begin : begin + len(repetition)], repetition, starts)

    def _sums(self, own: Bags, first: int, last: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of repetition * value by reef for texts first..last-1 without context, (texts, reefs).
        `values`: one for each entry of the rows."""
        _, repetition = part(own, first, last)
        return self._own_entries(first, last).sums(repetition.astype(np.float64), values)

    def _add(
        self,
        sums: NDArray[np.float64],
        added: Additions | None,
        first: int,
        last: int,
        values: NDArray[np.float64],
    ) -> None:
        """Add the same of the contexts. The terms are whole numbers, so their order does not matter."""
        if added is not None:
            _, repetition = part(added, first, last)
            entries = self._entries_of(added, first, last)
            sums += entries.sums(repetition.astype(np.float64), values)

    def contributions(self, first: int, last: int) -> NDArray[np.int64]:
        counts, added = self._own_entries(first, last).counts(), self._scored.added
        if added is not None:
            counts += self._entries_of(added, first, last, added.is_new).counts()
        return counts

    def _own_entries(self, first: int, last: int) -> "Entries":
        """The entries of texts first..last-1 without context; kept for the next call with the same texts."""
        if self._kept is None or self._kept[0] != (first, last):
            self._kept = (first, last), self._entries_of(self._scored.own, first, last)
        return self._kept[1]

    def _entries_of(
        self,
        bags: Bags | Additions,
        first: int,
        last: int,
        chosen: NDArray[np.bool_] | None = None,
    ) -> "Entries":
        """The entries of the words of texts first..last-1, or of those that are `chosen`."""
        starts, rows = bags.starts[first : last + 1], self._rows
        span = slice(int(starts[0]), int(starts[-1]))
        words = bags.words[span]
        texts = np.repeat(np.arange(last - first) * self.table.n_reefs, np.diff(starts))
        if chosen is not None:
            words, texts = words[chosen[span]], texts[chosen[span]]
        row_of = rows.of(words)
        lengths = rows.lengths[row_of]
        at, _ = expand_spans(rows.starts[row_of], lengths)
        cells = np.repeat(texts, lengths)
        cells += rows.reefs[at]
        return Entries(at, lengths, cells, (last - first, self.table.n_reefs))

    def word_counts(self, first: int, last: int) -> tuple[list[int], list[int]]:
        """(words, known words) of each of texts first..last-1."""
        bounds = self._bounds[first : last + 1]
        words = np.diff(self._reading.words_before[bounds])
        matched = np.diff(self._reading.matched_before[bounds])
        return words.tolist(), matched.tolist()

    def unknown_words(self, index: int) -> list[str]:
        return self._reading.unknown_words(int(self._bounds[index]), int(self._bounds[index + 1]))

    def unknown_keys(self, first: int, last: int) -> list[Keys]:
        """Keys of the words of each of texts first..last-1 that the base vocabulary lacks, without those of
        its context; see `unknown`."""
        reading, bounds = self._reading, self._bounds[first : last + 1]
        span = slice(int(bounds[0]), int(bounds[-1]))
        is_unknown = (reading.kinds[span] == WORD) & ~self.custom.are_in_base(reading.words[span])
        tokens = np.flatnonzero(is_unknown) + span.start
        texts = np.searchsorted(bounds, tokens, side="right") - 1
        n_forms = max(len(reading.tokens.forms), 1)
        cells = np.unique(texts * n_forms + reading.tokens.ids[tokens])
        forms, form_of = np.unique(cells % n_forms, return_inverse=True)
        keys, counts = keys_of_forms([reading.tokens.forms[form] for form in forms.tolist()])
        starts, lengths = (np.cumsum(counts) - counts)[form_of], counts[form_of]
        at, _ = expand_spans(starts, lengths)
        borders = np.searchsorted(np.repeat(cells // n_forms, lengths), np.arange(last - first + 1))
        return np.split(keys[at], borders[1:-1])

    def word_ids(self, index: int) -> frozenset[int]:
        """Ids of the words of one text, without its context."""
        own = self._scored.own
        words = own.words[own.starts[index] : own.starts[index + 1]]
        return frozenset(map(self.custom.public_id, words.tolist()))


class Counted(NamedTuple):
    """Words of texts, and what their contexts add."""

    own: Bags
    added: Additions | None

    def weights(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sums of the repetition weights of texts first..last-1, and of their squares."""
        starts, repetition = part(self.own, first, last)
        totals, squares = _sums(repetition, starts), _sums(repetition * repetition, starts)
        if self.added is not None:
            starts, repetition = part(self.added, first, last)
            begin = int(self.added.starts[first])
            totals += _sums(repetition, starts)
            squares += _sums(self.added.squares[begin : begin + len(repetition)], starts)
        return totals, squares


def part(bags: Bags | Additions, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(starts, repetition) of texts first..last-1."""
    starts = bags.starts[first : last + 1]
    return starts - starts[0], bags.repetition[int(starts[0]) : int(starts[-1])]


class Entries(NamedTuple):
    """Entries of the rows for all words of several texts.

    at       i64 (entries,): positions in the rows
    lengths  i64 (words,): number of entries of each word
    cells    i64 (entries,): text * reefs + reef
    shape    (texts, reefs)
    """

    at: NDArray[np.int64]
    lengths: NDArray[np.int64]
    cells: NDArray[np.int64]
    shape: tuple[int, int]

    def sums(self, factors: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of factor * value, (texts, reefs). `factors`: one for each word; `values`: one for each entry
        of the rows."""
        weights = np.repeat(factors, self.lengths)
        weights *= values[self.at]
        sums = np.bincount(self.cells, weights=weights, minlength=self.shape[0] * self.shape[1])
        return sums.astype(np.float64, copy=False).reshape(self.shape)

    def counts(self) -> NDArray[np.int64]:
        """Number of words with an entry for each reef, (texts, reefs)."""
        return np.bincount(self.cells, minlength=self.shape[0] * self.shape[1]).reshape(self.shape)


def _sums(values: NDArray[np.int64], borders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of values[borders[i]:borders[i+1]]."""
    running = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=running[1:])
    return np.diff(running[borders])


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
        reading = in_arrays(self._reading)
        starts = reading.tokens.starts
        bounds = np.array([0, len(starts)], dtype=np.int64)
        sentences = np.append(np.searchsorted(starts, sentence_starts(self._reading.text)), len(starts))
        names = find_names(reading, sentences, bounds[:1], self.table.name_words)
        sums = TextSums(self.table, self._custom, reading, bounds, self.top_k, None, None, None, names)
        return sums.label_scores(first, last)

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
