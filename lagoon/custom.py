"""Learned words, in addition to a base vocabulary, and the keys of unknown words.

A learned word matches its normal form and the regular genitive and plural of it, from the moment it is added.
Results do not depend on the order of adding. Learned compounds score in addition to their parts, which need
not be in the base vocabulary.

Each token that the base vocabulary lacks has a key for every normal form that it could match. So a text can
only contain a learned word if they share a key, which is a hash: few texts share one by chance. A learned
compound has at least one unknown word, so its parts have the keys; the keys of its other parts are those of
no text.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lagoon.bm25 import (
    IDF_SCALE,
    WEIGHT_SCALE,
    quantise_bm25,
    quantise_idf,
    quantise_weights,
    reef_bm25,
    reef_idf,
)
from lagoon.compounds import CompoundMatcher, CompoundMatches, CompoundTrie
from lagoon.errors import LagoonError
from lagoon.keys import fnv1a64, fnv1a64_many
from lagoon.model import SUPPORT_STEPS, Model
from lagoon.tokens import TokenStream, singular, without_clitic
from lagoon.vocabulary import WordInfo

# Words above the median weight are rare; a learned word gets the median weight of the rare words.
_DEFAULT_WEIGHT_QUANTILE = 0.75

SPECIFICITIES = range(-2, 3)


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


Keys = NDArray[np.uint32]


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
