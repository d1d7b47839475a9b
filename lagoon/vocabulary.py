"""The base vocabulary: map tokens to words.

A token is looked up in its full form, then without its clitic, then by its stem if it has an ending
("william" is no inflection of "williams"). Learned words are looked up last, so that adding one never
changes the meaning of a known token.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagoon.bm25 import WEIGHT_SCALE, quantised_reef_idf, specificity_of
from lagoon.compounds import CompoundMatcher, CompoundMatches, find_sorted
from lagoon.keys import fnv1a64, fnv1a64_many
from lagoon.model import Model
from lagoon.tokens import has_letter, is_stop_word, sought_stem, stem, stem_many, without_clitic

# All tokens of the vocabulary are much shorter; longer ones (encoded data) are unknown without hashing.
MAX_WORD_CHARS = 64

# Kinds of tokens.
WORD, STOP, NUMBER = range(3)

# Bit fields of a code: a form's kind, word + 1 and part + 1.
_KIND_MASK = 0b11
_WORD_SHIFT, _PART_SHIFT = 2, 32
_ENTRY_MASK = (1 << _PART_SHIFT - _WORD_SHIFT) - 1

# Up to this many forms are looked up one by one rather than with numpy.
_FEW = 16

# Cached forms: enough for a small library of English books. About 200 bytes each.
_MOST_CODES = 50_000


@dataclass(frozen=True)
class WordInfo:
    """A word of the vocabulary. `idf_q` in 1/51, `reefs` (reef id, bm25 in 1/8192) strongest first, `support`
    of each reef in 1/SUPPORT_STEPS, `weight` the inverse document frequency in running text, `specificity` -2
    (generic) to 2."""

    word: str
    word_id: int
    word_hash: int
    specificity: int
    idf_q: int
    weight: float
    is_compound: bool
    is_custom: bool
    reefs: list[tuple[int, int]]
    support: list[int]


@dataclass(frozen=True)
class Resolution:
    """Kind (WORD, STOP, NUMBER), word (-1 unknown) and compound part (-1 none) of each form; each
    (forms,)."""

    kinds: NDArray[np.uint8]
    words: NDArray[np.int64]
    parts: NDArray[np.int64]


class BaseVocabulary:
    """The vocabulary of a model; it never changes, and all scorers of the model share it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        trie = model.compounds
        self._forms = _HashTable(model.form_hashes, model.form_words)
        self._stems = _HashTable(model.stem_hashes, model.stem_words)
        self._parts = _HashTable(trie.part_hashes, np.arange(len(trie.part_hashes), dtype=np.uint32))
        self._matcher = CompoundMatcher(trie, self._forms.find(trie.part_hashes))
        # Cache of codes by form: most of a text consists of few common words. Threads may fill it
        # concurrently, because they write the same values.
        self._codes: dict[str, int] = {}

    def codes(self, forms: Sequence[str]) -> Sequence[int]:
        """Code of each form: kind, word and part in one number; see `unpack`."""
        cache = self._codes
        codes = [cache.get(form, -1) for form in forms]
        if -1 in codes:
            missing = [index for index, code in enumerate(codes) if code < 0]
            if len(cache) + len(missing) > _MOST_CODES:
                cache = self._codes = {}
            for index, code in zip(missing, self._look_up([forms[i] for i in missing]), strict=True):
                codes[index] = code
                if len(forms[index]) <= MAX_WORD_CHARS:
                    cache[forms[index]] = code
        return codes

    def resolve(self, forms: Sequence[str]) -> Resolution:
        """Look up forms; stop words and numbers have no word but may be compound parts."""
        codes = np.array(self.codes(forms), dtype=np.int64)
        return Resolution(
            (codes & _KIND_MASK).astype(np.uint8),
            (codes >> _WORD_SHIFT & _ENTRY_MASK) - 1,
            (codes >> _PART_SHIFT) - 1,
        )

    def compounds(
        self, forms: Resolution, ids: NDArray[np.int32], joined: NDArray[np.bool_]
    ) -> CompoundMatches:
        """Find compounds in a sequence of tokens, which are indices of `forms`."""
        return self._matcher.find(forms.parts, forms.words, ids, joined)

    def few_compounds(
        self, parts: Sequence[int], words: Sequence[int], joined: Sequence[bool]
    ) -> list[tuple[int, int, int]]:
        """Like `compounds` for few tokens, without numpy: (first token, number of tokens, word)."""
        return self._matcher.find_few(parts, words, joined)

    def find(self, tokens: Sequence[str]) -> int:
        """Word id of a word or compound given as tokens, -1 if unknown."""
        _, words, parts = unpack(self.codes(tokens))
        if len(tokens) == 1:
            return words[0]
        joined = [True] * (len(tokens) - 1) + [False]
        matches = self.few_compounds(parts, words, joined)
        return matches[0][2] if len(matches) == 1 and matches[0][1] == len(tokens) else -1

    def row(self, word_id: int) -> tuple[int, list[int], list[int]]:
        """(weight_q, reefs, bm25_q of each) of a word."""
        weights, starts, reefs, bm25 = self._rows
        row = slice(starts[word_id], starts[word_id + 1])
        return weights[word_id], reefs[row].tolist(), bm25[row].tolist()

    def stem_row(self, stem: str) -> tuple[float, list[int], list[int]] | None:
        """(weight, reefs, bm25_q of each) of the word that a stem is looked up as, None if there is none."""
        word_id = self._stems.get(fnv1a64(_short(stem)))
        if word_id < 0:
            return None
        weight_q, reefs, bm25_q = self.row(word_id)
        return weight_q / WEIGHT_SCALE, reefs, bm25_q

    def support(self, word_id: int) -> list[int]:
        """Support of each reef of a word, in the order of `row`."""
        starts = self.model.row_starts
        levels: list[int] = self.model.row_support[int(starts[word_id]) : int(starts[word_id + 1])].tolist()
        return levels

    @cached_property
    def _rows(self) -> tuple[memoryview, memoryview, memoryview, memoryview]:
        # Slices and single items of memoryviews are three times as fast as those of arrays.
        model = self.model
        return model.weights.data, model.row_starts.data, model.row_reefs.data, model.row_bm25.data

    def info(self, word_id: int) -> WordInfo:
        model = self.model
        row = slice(int(model.row_starts[word_id]), int(model.row_starts[word_id + 1]))
        columns = model.row_reefs[row], model.row_bm25[row], model.row_support[row]
        reefs = sorted(
            zip(*(column.tolist() for column in columns), strict=True),
            key=lambda entry: (-entry[1], entry[0]),
        )
        word = model.words[word_id]
        return WordInfo(
            word=word,
            word_id=word_id,
            word_hash=fnv1a64(word),
            specificity=specificity_of(len(reefs)),
            idf_q=quantised_reef_idf(len(reefs), model.n_reefs),
            weight=int(model.weights[word_id]) / WEIGHT_SCALE,
            is_compound=word_id >= model.n_words - model.n_compounds,
            is_custom=False,
            reefs=[(reef, bm25_q) for reef, bm25_q, _ in reefs],
            support=[level for _, _, level in reefs],
        )

    def _look_up(self, forms: Sequence[str]) -> list[int]:
        """Codes of forms. For few forms, the overhead of numpy exceeds the work."""
        return list(map(self._code, forms)) if len(forms) <= _FEW else self._codes_of_many(forms)

    def _code(self, form: str) -> int:
        kind = _kind(form)
        hashed = fnv1a64(_short(form))
        word = self._forms.get(hashed) if kind == WORD else -1
        if kind == WORD and word < 0:
            base = _short(without_clitic(form))
            word = self._forms.get(fnv1a64(base))
            if word < 0:
                word = self._stems.get(fnv1a64(sought_stem(form, base, stem(base))))
        return kind | (word + 1) << _WORD_SHIFT | (self._parts.get(hashed) + 1) << _PART_SHIFT

    def _codes_of_many(self, forms: Sequence[str]) -> list[int]:
        kinds = np.fromiter(map(_kind, forms), dtype=np.uint8, count=len(forms))
        hashes = fnv1a64_many(list(map(_short, forms)))
        words = np.where(kinds == WORD, self._forms.find(hashes), -1)
        missing = np.flatnonzero((kinds == WORD) & (words < 0))
        unknown = [forms[index] for index in missing.tolist()]
        bases = [_short(without_clitic(form)) for form in unknown]
        by_base = self._forms.find(fnv1a64_many(bases))
        roots = list(map(sought_stem, unknown, bases, stem_many(bases)))
        words[missing] = np.where(by_base >= 0, by_base, self._stems.find(fnv1a64_many(roots)))
        parts = self._parts.find(hashes)
        codes: list[int] = (kinds | (words + 1) << _WORD_SHIFT | (parts + 1) << _PART_SHIFT).tolist()
        return codes


def unpack(codes: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """(kinds, words, parts) as in Resolution."""
    return (
        [code & _KIND_MASK for code in codes],
        [(code >> _WORD_SHIFT & _ENTRY_MASK) - 1 for code in codes],
        [(code >> _PART_SHIFT) - 1 for code in codes],
    )


class _HashTable:
    """Map from hashes, sorted, to values, for many at once or for a single one."""

    def __init__(self, hashes: NDArray[np.uint64], values: NDArray[np.uint32]) -> None:
        self._hashes = hashes
        self._values = values
        self._views = hashes.data, values.data

    def find(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Value of each hash, -1 if it is absent."""
        at = find_sorted(self._hashes, hashes)
        values = np.full(len(hashes), -1, dtype=np.int64)
        hit = at >= 0
        values[hit] = self._values[at[hit]]
        return values

    def get(self, hashed: int) -> int:
        """Value of a single hash, -1 if it is absent."""
        hashes, values = self._views
        at = bisect_left(hashes, hashed)
        return int(values[at]) if at < len(hashes) and hashes[at] == hashed else -1


def _short(form: str) -> str:
    return form if len(form) <= MAX_WORD_CHARS else ""


def _kind(form: str) -> int:
    if is_stop_word(form):
        return STOP
    return WORD if form.isalpha() or has_letter(form) else NUMBER
