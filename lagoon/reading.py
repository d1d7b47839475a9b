"""Read texts: resolve tokens to words, and count the words of each part of a text.

A short text is read token by token, because for a query or a note the overhead of numpy exceeds the reading
itself; the results are equal. A text that was read can be stored as bytes: scoring it again needs neither
parsing nor tokenizing.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagoon.compounds import CompoundMatches
from lagoon.tokens import TITLES, TokenStream, short_tokens, tokenise
from lagoon.vocabulary import WORD, BaseVocabulary, CustomWords, Resolution, unpack


@dataclass(frozen=True)
class BaseReading:
    """A text read with the base vocabulary only, independent of learned words: tokens, resolved forms,
    compounds."""

    tokens: TokenStream
    forms: Resolution
    compounds: CompoundMatches

    def without_places(self) -> BaseReading:
        """A copy without the offsets of tokens, which take three quarters of the memory and do not affect
        scores."""
        empty = np.empty(0, dtype=np.int64)
        return replace(self, tokens=replace(self.tokens, starts=empty, ends=empty))


@dataclass(frozen=True)
class Reading:
    """Tokens of a text resolved to words. Words are indices: base word ids, then learned words in the order
    of adding.

    kinds      u8 (tokens,): WORD, STOP or NUMBER
    words      i64 (tokens,): single word of each token, -1 for none
    consumed   bool (tokens,): part of a base compound
    hit_tokens, hit_words   i64 (hits,): first token, ascending, and word of every occurrence of a word;
               learned compounds occur in addition to their parts
    hit_lengths  i64 (hits,): number of tokens of each occurrence
    base       the reading with the base vocabulary; None for a short text
    """

    tokens: TokenStream
    kinds: NDArray[np.uint8]
    words: NDArray[np.int64]
    consumed: NDArray[np.bool_]
    hit_tokens: NDArray[np.int64]
    hit_words: NDArray[np.int64]
    hit_lengths: NDArray[np.int64]
    base: BaseReading | None = None

    @cached_property
    def words_before(self) -> NDArray[np.int64]:
        """i64 (tokens + 1,): number of WORD tokens before each token."""
        return _running_count(self.kinds == WORD)

    @cached_property
    def matched_before(self) -> NDArray[np.int64]:
        """i64 (tokens + 1,): the same for WORD tokens that are known or consumed by a compound."""
        return _running_count((self.kinds == WORD) & ((self.words >= 0) | self.consumed))

    def unknown_words(self, first: int, last: int) -> list[str]:
        """Distinct forms of the unknown words among tokens first..last-1, in order of appearance."""
        span = slice(first, last)
        unknown = (self.kinds[span] == WORD) & (self.words[span] < 0) & ~self.consumed[span]
        forms = self.tokens.forms
        return [forms[index] for index in dict.fromkeys(self.tokens.ids[span][unknown].tolist())]


def read(text: str, parts: NDArray[np.int64], base: BaseVocabulary, custom: CustomWords) -> Reading:
    """Resolve every token of `text`. No compound crosses the positions `parts` (sentence starts)."""
    if len(text) <= MOST_CHARS:
        short = read_short(text, parts.tolist, base, custom)
        if short is not None:
            return in_arrays(short)
    return read_long(text, parts, base, custom)


def in_arrays(short: ShortReading) -> Reading:
    ids: dict[str, int] = {}
    form_of = [ids.setdefault(form, len(ids)) for form in short.forms]
    starts = np.array(short.starts, dtype=np.int64)
    tokens = TokenStream(
        list(ids),
        np.array(form_of, dtype=np.int32),
        starts,
        starts + np.array([len(form) for form in short.forms], dtype=np.int64),
        np.array(short.joined, dtype=np.bool_),
        np.array(
            [
                short.text[start].isupper() or (form[1:2] == "'" and short.text[start + 2].isupper())
                for start, form in zip(short.starts, short.forms, strict=True)
            ],
            dtype=np.bool_,
        ),
    )
    hits = np.array(list(chain.from_iterable(short.hits)), dtype=np.int64).reshape(-1, 3).T.copy()
    return Reading(
        tokens,
        np.array(short.kinds, dtype=np.uint8),
        np.array(short.words, dtype=np.int64),
        np.array(short.consumed, dtype=np.bool_),
        *hits,
    )


def read_long(text: str, parts: NDArray[np.int64], base: BaseVocabulary, custom: CustomWords) -> Reading:
    tokens = tokenise(text)
    borders = np.searchsorted(tokens.starts, parts)
    tokens.joined[borders[borders > 0] - 1] = False
    forms = base.resolve(tokens.forms)
    return with_learned(BaseReading(tokens, forms, base.compounds(forms, tokens.ids, tokens.joined)), custom)


def with_learned(read: BaseReading, custom: CustomWords) -> Reading:
    """Add learned words to a reading with the base vocabulary."""
    tokens, forms, compounds = read.tokens, read.forms, read.compounds
    words = forms.words
    if len(custom):
        words = np.where(words < 0, _learned(tokens.forms, forms, custom), words)
    words = words[tokens.ids]
    consumed = np.zeros(len(tokens), dtype=np.bool_)
    for offset in range(int(compounds.lengths.max(initial=0))):
        inside = compounds.lengths > offset
        consumed[compounds.starts[inside] + offset] = True

    # The word or compound that begins at each token, then only the tokens where one begins.
    word_at = np.where(consumed, -1, words)
    word_at[compounds.starts] = compounds.words
    hit_tokens = np.flatnonzero(word_at >= 0)
    lengths = np.ones(len(tokens), dtype=np.int64)
    lengths[compounds.starts] = compounds.lengths
    hit_words, hit_lengths = word_at[hit_tokens], lengths[hit_tokens]
    learned = custom.compounds(tokens.forms, tokens.ids, tokens.joined)
    if learned is not None and len(learned.starts):
        order = np.argsort(learned.starts, kind="stable")
        starts = learned.starts[order]
        at = np.searchsorted(hit_tokens, starts, side="right")
        hit_tokens = np.insert(hit_tokens, at, starts)
        hit_words = np.insert(hit_words, at, learned.words[order])
        hit_lengths = np.insert(hit_lengths, at, learned.lengths[order])
    return Reading(tokens, forms.kinds[tokens.ids], words, consumed, hit_tokens, hit_words, hit_lengths, read)


@dataclass(frozen=True)
class Bags:
    """Words of n texts with their repetition weights: text i has entries starts[i]..starts[i+1]-1.

    starts  i64 (n+1,);  words i64 (entries,) ascending within a text
    repetition   i64 (entries,), in 1/REPETITION_SCALE
    occurrences  i64 (entries,)
    """

    starts: NDArray[np.int64]
    words: NDArray[np.int64]
    repetition: NDArray[np.int64]
    occurrences: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class Additions:
    """What contexts add to the bags of n texts: text i has entries starts[i]..starts[i+1]-1.

    starts  i64 (n+1,);  words i64 (entries,) ascending within a text
    repetition  i64 (entries,): what is added to the repetition weight, in 1/REPETITION_SCALE
    squares     i64 (entries,): what is added to its square
    is_new      bool (entries,): the text does not have the word itself
    """

    starts: NDArray[np.int64]
    words: NDArray[np.int64]
    repetition: NDArray[np.int64]
    squares: NDArray[np.int64]
    is_new: NDArray[np.bool_]


# Repetition weights are rounded to 1/1024 so that scores are sums of integers, exact in float64 and the same
# in any order: 16 bits of weight, 16 of bm25 and 13 of repetition leave room for 256 words with maximum
# values, and for thousands with typical values.
REPETITION_SCALE = 1024


def repetition(tf: NDArray[np.int64]) -> NDArray[np.float64]:
    """Repetition weight: 1 + ln(tf), and 0 for 0 occurrences."""
    return np.where(tf > 0, 1.0 + np.log(np.maximum(tf, 1)), 0.0)


def quantise_repetition(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round repetition weights to 1/REPETITION_SCALE."""
    return np.rint(weights * REPETITION_SCALE).astype(np.int64)


@dataclass(frozen=True)
class Context:
    """Words that count into texts in which they do not occur: (text, word) pairs, one for each occurrence."""

    texts: NDArray[np.int64]
    words: NDArray[np.int64]
    weight: float

    def of(self, chosen: NDArray[np.bool_]) -> Context:
        """The chosen pairs."""
        return replace(self, texts=self.texts[chosen], words=self.words[chosen])


def count(reading: Reading, bounds: NDArray[np.int64]) -> Bags:
    """Count the words of the texts, tokens bounds[i]..bounds[i+1]-1."""
    n_texts = len(bounds) - 1
    borders = np.searchsorted(reading.hit_tokens, bounds)
    texts = np.repeat(np.arange(n_texts), np.diff(borders))
    return _counted(texts, reading.hit_words[borders[0] : borders[-1]], n_texts)


def left_out(bags: Bags, reading: Reading, bounds: NDArray[np.int64], hits: NDArray[np.bool_]) -> Bags:
    """The bags of `count` without the marked hits; words that do not occur any more have weight 0."""
    at = np.flatnonzero(hits)
    texts = np.searchsorted(bounds, reading.hit_tokens[at], side="right") - 1
    inside = (texts >= 0) & (texts < len(bags))
    at, texts = at[inside], texts[inside]
    stride = int(bags.words.max(initial=0)) + 1
    entries = np.searchsorted(_cells(bags, stride), texts * stride + reading.hit_words[at])
    occurrences = bags.occurrences - np.bincount(entries, minlength=len(bags.words))
    return replace(bags, repetition=quantise_repetition(repetition(occurrences)), occurrences=occurrences)


def _cells(bags: Bags, stride: int) -> NDArray[np.int64]:
    """text * stride + word of each entry, ascending."""
    cells: NDArray[np.int64] = np.repeat(np.arange(len(bags)) * stride, np.diff(bags.starts)) + bags.words
    return cells


def additions(bags: Bags, context: Context) -> Additions:
    """What a context of weight w adds: a repetition weight becomes (1 - w) times that of the text alone plus
    w times that of text and context together."""
    added = _counted(context.texts, context.words, len(bags))
    stride = int(max(bags.words.max(initial=0), added.words.max(initial=0))) + 1
    keys, added_keys = _cells(bags, stride), _cells(added, stride)
    at = np.searchsorted(keys, added_keys)
    at[at == len(keys)] = 0
    is_new = keys[at] != added_keys if len(keys) else np.ones(len(at), dtype=np.bool_)
    own = np.zeros(len(at), dtype=np.int64)
    own[~is_new] = bags.occurrences[at[~is_new]]
    alone = repetition(own)
    both = quantise_repetition(alone + context.weight * (repetition(own + added.occurrences) - alone))
    before = quantise_repetition(alone)
    return Additions(added.starts, added.words, both - before, both * both - before * before, is_new)


def _counted(texts: NDArray[np.int64], words: NDArray[np.int64], n_texts: int) -> Bags:
    """Count pairs of text and word."""
    stride = int(words.max(initial=0)) + 1
    keys = texts * stride + words
    keys.sort()
    first = _first_of_runs(keys)
    occurrences = np.diff(np.append(first, len(keys)))
    keys = keys[first]
    starts = np.searchsorted(keys, np.arange(n_texts + 1) * stride)
    return Bags(starts, keys % stride, quantise_repetition(repetition(occurrences)), occurrences)


def _first_of_runs(ordered: NDArray[np.int64]) -> NDArray[np.intp]:
    changes = np.ones(len(ordered), dtype=np.bool_)
    changes[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(changes)


def _running_count(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    counts = np.zeros(len(flags) + 1, dtype=np.int64)
    np.cumsum(flags, out=counts[1:])
    return counts


def _learned(forms: Sequence[str], resolved: Resolution, custom: CustomWords) -> NDArray[np.int64]:
    """Learned single word of each form that is not in the base vocabulary, -1 for none."""
    learned = np.full(len(forms), -1, dtype=np.int64)
    for index in np.flatnonzero((resolved.kinds == WORD) & (resolved.words < 0)).tolist():
        learned[index] = custom.find_form(forms[index])
    return learned


# Above about this length, arrays are faster (`benchmarks/lagoon_speed.py` prints both times).
MOST_CHARS = 1200

# White space, hyphens and underscores: tokens around these are adjacent.
_JOINING = " -_\t\n\v\f\r\x1c\x1d\x1e\x1f"

# A sentence may begin in a gap with one of these, so that its tokens are not adjacent.
_MAY_PART = re.compile(r"[\n\r.]")


@dataclass(frozen=True)
class ShortReading:
    """Tokens of a short text resolved to words: like `Reading`, but in lists.

    pairs  (form, text up to the next token) by token
    forms, joined, kinds, words, consumed   by token
    hits   (first token, word, number of tokens) of every occurrence of a word, ascending by token
    """

    text: str
    pairs: list[tuple[str, str]]
    forms: list[str]
    joined: list[bool]
    kinds: list[int]
    words: list[int]
    consumed: list[bool]
    hits: list[tuple[int, int, int]]

    @property
    def starts(self) -> list[int]:
        return _starts(self.text, self.pairs)


def read_short(
    text: str, parts: Callable[[], Sequence[int]], base: BaseVocabulary, custom: CustomWords
) -> ShortReading | None:
    """Resolve every token of `text`; None if it has characters that only `tokenise` supports.

    No compound crosses the positions `parts()` (sentence starts), which is called only if a compound might.
    """
    pairs = short_tokens(text)
    if pairs is None:
        return None
    forms = [form for form, _ in pairs]
    joined = [True] * len(pairs)
    may_part = False
    for at, (form, gap) in enumerate(pairs):
        if gap != " ":
            joined[at] = _joins(form, gap)
            may_part |= joined[at] and _MAY_PART.search(gap) is not None
    joined[-1:] = [False] * len(joined[-1:])
    if may_part:
        starts = _starts(text, pairs)
        for part in parts():
            token = bisect_left(starts, part)
            if token:
                joined[token - 1] = False
    kinds, words, part_ids = unpack(base.codes(forms))
    compounds = base.few_compounds(part_ids, words, joined)
    if len(custom):
        words = [
            custom.find_form(form) if word < 0 and kind == WORD else word
            for form, kind, word in zip(forms, kinds, words, strict=True)
        ]
    consumed = [False] * len(forms)
    for first, length, _ in compounds:
        consumed[first : first + length] = [True] * length
    hits = [(at, word, 1) for at, word in enumerate(words) if word >= 0 and not consumed[at]]
    more = [(first, word, length) for first, length, word in compounds]
    more += custom.few_compounds(forms, joined)
    if more:
        hits = sorted(hits + more, key=lambda hit: hit[0])
    return ShortReading(text, pairs, forms, joined, kinds, words, consumed, hits)


def _starts(text: str, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """Start offsets of tokens, given as pairs of form and gap up to the end of the text."""
    lengths = [len(form) + len(gap) for form, gap in pairs]
    return list(accumulate(lengths, initial=len(text) - sum(lengths)))[:-1]


def _joins(form: str, gap: str) -> bool:
    """Whether a token and the next are adjacent, given the gap between them."""
    if form in TITLES and gap.startswith("."):
        gap = gap[1:]  # the stop of "St. Louis" is part of the spelling
    return not gap.strip(_JOINING)


# Number of arrays; then type and length of each.
_N_ARRAYS = struct.Struct("<H")
_ARRAY = struct.Struct("<cQ")
_ENCODING = "utf-8", "surrogatepass"


@dataclass(frozen=True)
class ReadText:
    """Sentence i is tokens bounds[i]..bounds[i+1]-1 of `base`, which lacks the offsets of its tokens."""

    base: BaseReading
    bounds: NDArray[np.int64]

    def to_bytes(self) -> bytes:
        """The text as bytes: about half the size of an English text. Word ids are those of lagoon's data."""
        tokens, forms, compounds = self.base.tokens, self.base.forms, self.base.compounds
        return pack_arrays(
            [
                np.frombuffer("\n".join(tokens.forms).encode(*_ENCODING), dtype=np.uint8),
                tokens.ids,
                np.packbits(tokens.joined),
                np.packbits(tokens.capital),
                forms.kinds,
                forms.words + 1,
                compounds.starts,
                compounds.lengths,
                compounds.words,
                np.diff(self.bounds, prepend=0),
            ]
        )

    @staticmethod
    def from_bytes(data: bytes) -> ReadText:
        """The text that `to_bytes` of the same release has written with the same data."""
        names, ids, joined, capital, kinds, words, starts, lengths, compounds, sizes = unpack_arrays(data)
        forms = names.tobytes().decode(*_ENCODING).split("\n") if len(names) else []
        nowhere = np.empty(0, dtype=np.int64)
        tokens = TokenStream(
            forms,
            ids.astype(np.int32),
            nowhere,
            nowhere,
            np.unpackbits(joined, count=len(ids)).astype(np.bool_),
            np.unpackbits(capital, count=len(ids)).astype(np.bool_),
        )
        # Only the search for base compounds, which are found already, needs the parts of forms.
        resolution = Resolution(kinds, words.astype(np.int64) - 1, nowhere)
        matches = CompoundMatches(
            starts.astype(np.int64), lengths.astype(np.int64), compounds.astype(np.int64)
        )
        return ReadText(BaseReading(tokens, resolution, matches), np.cumsum(sizes, dtype=np.int64))


def pack_arrays(arrays: Sequence[NDArray[Any]]) -> bytes:
    """Arrays of whole numbers from 0 to 2**32 - 1 as bytes, each in the narrowest type that fits."""
    narrow = [
        array.astype(np.min_scalar_type(int(array.max(initial=0))).newbyteorder("<"), copy=False)
        for array in arrays
    ]
    heads = [_ARRAY.pack(array.dtype.char.encode(), len(array)) for array in narrow]
    return b"".join([_N_ARRAYS.pack(len(narrow)), *heads, *(array.tobytes() for array in narrow)])


def unpack_arrays(data: bytes) -> list[NDArray[Any]]:
    """The arrays that `pack_arrays` has packed. Raises ValueError if they are cut off."""
    (n_arrays,) = _N_ARRAYS.unpack_from(data)
    at = _N_ARRAYS.size + n_arrays * _ARRAY.size
    arrays: list[NDArray[Any]] = []
    for index in range(n_arrays):
        kind, length = _ARRAY.unpack_from(data, _N_ARRAYS.size + index * _ARRAY.size)
        array = np.frombuffer(data, np.dtype(kind.decode()).newbyteorder("<"), length, at)
        arrays.append(array)
        at += array.nbytes
    return arrays
