"""The vocabulary: from tokens to words, those of the base data and learned ones.

A token is looked up in its full form, then without its clitic, then by its stem if it has an ending
("william" is no inflection of "williams"). Learned words are looked up last, so that adding one never
changes the meaning of a known token.

A learned word matches its normal form and the regular genitive and plural of it, from the moment it is added.
Results do not depend on the order of adding. Learned compounds score in addition to their parts, which need
not be in the base vocabulary.

Each token that the base vocabulary lacks has a key for every normal form that it could match. So a text can
only contain a learned word if they share a key, which is a hash: few texts share one by chance. A learned
compound has at least one unknown word, so its parts have the keys; the keys of its other parts are those of
no text.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagoon.bm25 import (
    IDF_SCALE,
    WEIGHT_SCALE,
    quantise_bm25,
    quantise_idf,
    quantise_weights,
    quantised_reef_idf,
    reef_bm25,
    reef_idf,
    specificity_of,
)
from lagoon.compounds import (
    CompoundMatcher,
    CompoundMatches,
    CompoundTrie,
    find_sorted,
    fnv1a64,
    fnv1a64_many,
)
from lagoon.errors import LagoonError
from lagoon.model import SUPPORT_STEPS, Model
from lagoon.tokens import (
    TokenStream,
    has_letter,
    is_stop_word,
    singular,
    sought_stem,
    stem,
    stem_many,
    without_clitic,
)

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
# Words above the median weight are rare; a learned word gets the median weight of the rare words.
_DEFAULT_WEIGHT_QUANTILE = 0.75
SPECIFICITIES = range(-2, 3)
Keys = NDArray[np.uint32]


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


def custom_word_scores(
    model: Model, n_associated_reefs: int, associations: Iterable[tuple[int, float]]
) -> tuple[int, list[tuple[int, int]]]:
    """(idf_q, [(reef id, bm25_q)]) of a word associated with `n_associated_reefs` reefs.

    `associations` are (reef id, strength in 0..1). The idf is used in its stored precision (idf_q / 51).
    """
    pairs = [(int(reef), float(strength)) for reef, strength in associations]
    if not 1 <= n_associated_reefs <= model.n_reefs:
        raise LagoonError(f"a word must have 1 to {model.n_reefs} associated reefs, not {n_associated_reefs}")
    for reef, strength in pairs:
        if not 0 <= reef < model.n_reefs:
            raise LagoonError(f"there is no reef {reef}; reefs are 0 to {model.n_reefs - 1}")
        if not 0.0 <= strength <= 1.0:
            raise LagoonError(f"an association strength must be between 0 and 1, not {strength}")
    reefs = [reef for reef, _ in pairs]
    if len(set(reefs)) != len(reefs):
        raise LagoonError("a reef is associated more than once")
    idf_q = quantise_idf(reef_idf(n_associated_reefs, model.n_reefs))
    strengths = np.array([strength for _, strength in pairs], dtype=np.float64)
    lengths = model.reef_words[reefs].astype(np.float64) if reefs else np.empty(0)
    bm25_q = quantise_bm25(reef_bm25(idf_q / IDF_SCALE, strengths, lengths, model.bm25))
    return idf_q, list(zip(reefs, bm25_q.tolist(), strict=True))


def custom_word_rows(
    model: Model, lengths: NDArray[np.int64], reefs: NDArray[np.int64], strengths: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
    """Compute `custom_word_scores` of many words: (words,) idf_q and (entries,) bm25_q. Word i has
    `lengths[i]` consecutive entries."""
    idf_of = {n: quantise_idf(reef_idf(n, model.n_reefs)) for n in np.unique(lengths).tolist()}
    idf_q = np.array([idf_of[n] for n in lengths.tolist()], dtype=np.uint8)
    idf = np.repeat(idf_q.astype(np.float64) / IDF_SCALE, lengths)
    reef_words = model.reef_words[reefs].astype(np.float64)
    return idf_q, quantise_bm25(reef_bm25(idf, strengths, reef_words, model.bm25))


def corpus_rarity(
    model: Model, n_holding: NDArray[np.int64], n_texts: NDArray[np.int64] | int
) -> NDArray[np.float64]:
    """Weights of words that are not in the base vocabulary; `n_holding` of the `n_texts` chunks of a corpus
    have each.

    The inverse document frequency over the corpus and the running text that base words are weighted by, which
    has none of these words.
    """
    rarest = float(model.weights.max(initial=WEIGHT_SCALE)) / WEIGHT_SCALE
    n_windows = math.expm1(rarest) / 2 - 0.5  # of a word in none of n: ln((n + 0.5) / 0.5 + 1)
    holding = n_holding.astype(np.float64)
    return np.log((n_windows + n_texts - holding + 0.5) / (holding + 0.5) + 1.0)


def default_weight(model: Model) -> float:
    """Default weight of a learned word: the third quartile of the weights of single words."""
    singles = model.weights[: model.n_words - model.n_compounds]
    if not len(singles):
        return 1.0
    return float(np.quantile(singles, _DEFAULT_WEIGHT_QUANTILE, method="nearest")) / WEIGHT_SCALE


class CustomWords:
    """The learned words of one scorer. Internally, the k-th added word has the index `n_base + k`;
    `public_id` gives its word id."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._n_base = model.n_words
        self._by_form: dict[str, int] = {}
        self._by_id: dict[int, int] = {}
        self._compounds: dict[tuple[str, ...], int] = {}
        # First token -> number of tokens of its longest compound.
        self._longest: dict[str, int] = {}
        self._infos: list[WordInfo] = []
        self._rows = CustomRows.of([])
        self._matcher = LearnedCompounds({})
        self.next_word_id = model.n_words

    def __len__(self) -> int:
        return len(self._infos)

    def add(
        self,
        tokens: Sequence[str],
        associations: Iterable[tuple[int, float]],
        specificity: int,
        weight: float,
        word_id: int | None,
    ) -> WordInfo:
        word = " ".join(tokens)
        if word in self._by_form:
            raise LagoonError(f"{word!r} is already a custom word")
        if specificity not in SPECIFICITIES:
            raise LagoonError(f"specificity must be -2 to 2, not {specificity}")
        if not (math.isfinite(weight) and weight > 0):
            raise LagoonError(f"a weight must be positive, not {weight}")
        public = self.next_word_id if word_id is None else word_id
        if public < self._n_base or public in self._by_id:
            raise LagoonError(f"word id {public} is taken")
        pairs = list(associations)
        idf_q, scores = custom_word_scores(self._model, len(pairs), pairs)
        order = sorted(range(len(scores)), key=lambda i: (-scores[i][1], scores[i][0]))
        info = WordInfo(
            word=word,
            word_id=public,
            word_hash=fnv1a64(word),
            specificity=specificity,
            idf_q=idf_q,
            weight=int(quantise_weights(np.array([weight]))[0]) / WEIGHT_SCALE,
            is_compound=len(tokens) > 1,
            is_custom=True,
            reefs=[scores[i] for i in order],
            support=[round(SUPPORT_STEPS * pairs[i][1]) for i in order],
        )
        self._insert(info)
        return info

    @staticmethod
    def of(model: Model, infos: Iterable[WordInfo]) -> "CustomWords":
        """Build from words with computed scores, such as stored words."""
        words = CustomWords(model)
        for info in infos:
            words._insert(info)
        return words

    def _insert(self, info: WordInfo) -> None:
        if info.word_id < self._n_base or info.word_id in self._by_id or info.word in self._by_form:
            raise LagoonError(f"word id {info.word_id} or word {info.word!r} is taken")
        index = self._n_base + len(self._infos)
        self._infos.append(info)
        self._by_id[info.word_id] = index
        self.next_word_id = max(self.next_word_id, info.word_id + 1)
        self._by_form[info.word] = index
        if info.is_compound:
            self.add_compound(info.word.split(), info.word_id)

    def add_compound(self, tokens: Sequence[str], word_id: int) -> None:
        """Register a sequence of tokens as a spelling of a learned or base word, given by its id."""
        index = word_id if 0 <= word_id < self._n_base else self._by_id.get(word_id)
        if index is None:
            raise LagoonError(f"there is no word {word_id}")
        if len(tokens) < 2:
            raise LagoonError(f"a compound must have at least two words, not {' '.join(tokens)!r}")
        if self._compounds.setdefault(tuple(tokens), index) != index:
            raise LagoonError(f"the compound {' '.join(tokens)!r} already stands for another word")
        self._longest[tokens[0]] = max(self._longest.get(tokens[0], 0), len(tokens))

    def find(self, tokens: Sequence[str]) -> int:
        """Index of the learned word with these tokens; -1 if there is none. The last may be inflected."""
        if len(tokens) == 1:
            return self.find_form(tokens[0])
        index = self._compounds.get(tuple(tokens), -1)
        return index if index >= 0 else self._compounds.get((*tokens[:-1], base_form(tokens[-1])), -1)

    def find_form(self, form: str) -> int:
        """Index of the learned single word of a form, which may be a genitive or plural; -1 if there is
        none."""
        index = self._by_form.get(form, -1)
        if index < 0 and (form.endswith("s") or "'" in form):  # other forms are not inflected
            bare = without_clitic(form)
            index = self._by_form.get(bare, -1)
            if index < 0 and (head := singular(bare)) is not None:
                index = self._by_form.get(head, -1)
        return index

    def info(self, index: int) -> WordInfo:
        return self._infos[index - self._n_base]

    def row(self, index: int) -> tuple[int, list[int], list[int]]:
        """(weight_q, reefs, bm25_q of each) of a learned word."""
        info = self.info(index)
        pairs = info.reefs
        return round(info.weight * WEIGHT_SCALE), [reef for reef, _ in pairs], [bm25_q for _, bm25_q in pairs]

    def support(self, index: int) -> list[int]:
        """Support of each reef of a learned word, in the order of `row`."""
        return self.info(index).support

    def are_in_base(self, words: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each index is that of a word of the base vocabulary."""
        return (words >= 0) & (words < self._n_base)

    def public_id(self, index: int) -> int:
        return index if index < self._n_base else self.info(index).word_id

    def compounds(
        self, forms: Sequence[str], ids: NDArray[np.int32], joined: NDArray[np.bool_]
    ) -> CompoundMatches | None:
        """Find learned compounds among the tokens `forms[ids]`; None if the scorer has no learned
        compounds."""
        if not self._compounds:
            return None
        matcher = self._matcher
        if matcher.count != len(self._compounds):
            matcher = self._matcher = LearnedCompounds(dict(self._compounds))
        return matcher.find(forms, ids, joined)

    def few_compounds(self, forms: Sequence[str], joined: Sequence[bool]) -> list[tuple[int, int, int]]:
        """Like `compounds` for few tokens, without numpy: (first token, word, number of tokens) by first
        token."""
        matches: list[tuple[int, int, int]] = []
        if not self._compounds:
            return matches
        compounds = self._compounds
        for first, form in enumerate(forms):
            last = first
            most = self._longest.get(form, 0)
            while joined[last] and last - first + 1 < most:
                last += 1
                head = tuple(forms[first:last])
                for ending in (base_form(forms[last]), forms[last]):
                    word = compounds.get((*head, ending), -1)
                    if word >= 0:
                        matches.append((first, word, last - first + 1))
        return matches

    def occur_in(self, tokens: TokenStream) -> bool:
        """Whether a form, or a sequence of forms, matches a learned word, even if the base vocabulary has
        precedence."""
        if any(self.find_form(form) >= 0 for form in tokens.forms):
            return True
        compounds = self.compounds(tokens.forms, tokens.ids, tokens.joined)
        return compounds is not None and len(compounds.starts) > 0

    def rows(self) -> "CustomRows":
        """Rows of all learned words, as arrays."""
        rows = self._rows
        if rows.count != len(self._infos):
            rows = self._rows = rows.followed_by(CustomRows.of(self._infos[rows.count :]))
        return rows


class CustomRows:
    """Reefs of learned words, in the layout of the model: `starts` (n+1,), `reefs`, `bm25` and `support`
    (entries,), `weights` (n,)."""

    def __init__(
        self,
        starts: NDArray[np.int64],
        reefs: NDArray[np.uint8],
        bm25: NDArray[np.uint16],
        support: NDArray[np.uint8],
        weights: NDArray[np.uint16],
    ) -> None:
        self.count = len(weights)
        self.starts = starts
        self.reefs = reefs
        self.bm25 = bm25
        self.support = support
        self.weights = weights

    def followed_by(self, more: "CustomRows") -> "CustomRows":
        return CustomRows(
            np.concatenate((self.starts, more.starts[1:] + self.starts[-1])),
            np.concatenate((self.reefs, more.reefs)),
            np.concatenate((self.bm25, more.bm25)),
            np.concatenate((self.support, more.support)),
            np.concatenate((self.weights, more.weights)),
        )

    @staticmethod
    def of(infos: Sequence[WordInfo]) -> "CustomRows":
        lengths = [0, *(len(info.reefs) for info in infos)]
        return CustomRows(
            np.cumsum(lengths, dtype=np.int64),
            np.array([reef for info in infos for reef, _ in info.reefs], dtype=np.uint8),
            np.array([bm25 for info in infos for _, bm25 in info.reefs], dtype=np.uint16),
            np.array([level for info in infos for level in info.support], dtype=np.uint8),
            quantise_weights(np.array([info.weight for info in infos], dtype=np.float64)),
        )


def base_form(form: str) -> str:
    """The form without its genitive, or else its singular; empty for a form without either."""
    if not form.endswith("s") and "'" not in form:
        return ""
    bare = without_clitic(form)
    return bare if bare != form else singular(form) or ""


class LearnedCompounds:
    """Finds compounds given as tokens. The last word may be a genitive or a regular plural.

    All occurrences count: "monte cristo" is also found within "count monte cristo".
    """

    def __init__(self, compounds: Mapping[tuple[str, ...], int]) -> None:
        self.count = len(compounds)
        trie = CompoundTrie.build(compounds.items())
        # Each part is its own "word", so that an inflected token matches it too.
        self._matcher = CompoundMatcher(trie, np.arange(len(trie.part_hashes)))
        tokens = list({token for compound in compounds for token in compound})
        parts = trie.parts_of(fnv1a64_many(tokens))
        self._part_of: dict[str, int] = dict(zip(tokens, parts.tolist(), strict=True))

    def find(
        self, forms: Sequence[str], ids: NDArray[np.int32], joined: NDArray[np.bool_]
    ) -> CompoundMatches:
        """Find all occurrences among the tokens `forms[ids]`, by length, then by position."""
        return self._matcher.find_all(
            self._parts(forms), self._parts(list(map(base_form, forms))), ids, joined
        )

    def _parts(self, forms: Sequence[str]) -> NDArray[np.int64]:
        part_of = self._part_of
        return np.array([part_of.get(form, -1) for form in forms], dtype=np.int64)


def keys_of_words(words: Iterable[str]) -> Keys:
    """Keys of learned words and of the parts of compounds, ascending."""
    return np.unique(_hashes(sorted({part for word in words for part in word.split()})))


def keys_of_forms(forms: Sequence[str]) -> tuple[Keys, NDArray[np.int64]]:
    """Keys of the normal forms that each form could match, and how many each has (forms,)."""
    normal = [_normal_forms(form) for form in forms]
    counts = np.fromiter(map(len, normal), dtype=np.int64, count=len(normal))
    return _hashes([form for some in normal for form in some]), counts


def _normal_forms(form: str) -> list[str]:
    """The normal forms of learned words that a form may match, as in `CustomWords.find_form`."""
    if not form.endswith("s") and "'" not in form:
        return [form]
    bare = without_clitic(form)
    head = singular(bare)
    return list(dict.fromkeys((form, bare) if head is None else (form, bare, head)))


def _hashes(forms: Sequence[str]) -> Keys:
    hashes = fnv1a64_many(forms)
    return (hashes ^ (hashes >> np.uint64(32))).astype(np.uint32)
