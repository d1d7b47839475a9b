"""Find compounds of the corpus: two or three adjacent words that form a term, at least one of them unknown.

A sequence is a candidate in a document that repeats it: a thing that is named again by the same words is a
    term
(Justeson and Katz, "Technical terminology: some linguistic properties and an algorithm for identification in
text", 1995). These documents also decide whether its parts occur together more often than by chance: their
counts of the sequence, of its parts and of all tokens are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.analysis import ObservedText
from lagoon.tokens import without_clitic

MIN_REPEATS = 2
LENGTHS = (2, 3)

# "sars cov 2", "il 6": a short number may end a compound.
_MAX_DIGITS = 3

Ints = NDArray[np.int64]


class PartCounts(NamedTuple):
    """Counts in the documents that repeat a sequence: all tokens, and occurrences of its head (all but the
    last token), its last token, its first token and its tail (all but the first)."""

    tokens: int
    head: int
    last: int
    first: int
    tail: int


class Sequence(NamedTuple):
    """A sequence that a text repeats: the index of the text, the words, their counts, and the first token of
    each occurrence."""

    text: int
    words: tuple[str, ...]
    parts: PartCounts
    occurrences: Ints


def repeated_sequences(text: ObservedText, is_candidate: NDArray[np.bool_]) -> list[Sequence]:
    """Find candidate compounds of each text; `is_candidate` (forms,) marks the unknown forms that may be
    words.

    The last word loses its genitive; no other word may have one ("darcy's sister" is not a term).
    """
    tokens = _Tokens.of(text, is_candidate)
    sequences: list[Sequence] = []
    for length in LENGTHS:
        sequences += tokens.repeated(length)
    return sequences


def independence(occurrences: Ints, left: Ints, right: Ints, tokens: Ints) -> NDArray[np.float64]:
    """Normalised pointwise mutual information, elementwise: 0 by chance, 1 always together, below 0 mostly
    apart.

    ln(p(xy) / (p(x) p(y))) / -ln p(xy); Bouma, "Normalized (pointwise) mutual information in collocation
    extraction", 2009.
    """
    both, total = occurrences.astype(np.float64), tokens.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(both * total / (left.astype(np.float64) * right)) / np.log(total / both)
    return np.where(both < total, value, 1.0)


def cohesion(occurrences: Ints, parts: Ints) -> NDArray[np.float64]:
    """Cohesion of each sequence: the least association over its splits into two. `parts` (n, 5) as
    PartCounts."""
    tokens, head, last, first, tail = parts.T
    return np.minimum(
        independence(occurrences, head, last, tokens), independence(occurrences, first, tail, tokens)
    )


@dataclass(frozen=True)
class _Tokens:
    """Tokens as words without genitives: token t is names[words[t]], and in text text_of[t] of n_texts.

    unknown  whether the token is an unknown candidate; a sequence needs at least one
    within   whether the token may be in a sequence before its end
    joined   whether the token and the next are adjacent and may be in the same sequence
    """

    names: list[str]
    words: Ints
    unknown: NDArray[np.bool_]
    within: NDArray[np.bool_]
    joined: NDArray[np.bool_]
    text_of: Ints
    n_texts: int

    @staticmethod
    def of(text: ObservedText, is_candidate: NDArray[np.bool_]) -> _Tokens:
        bare = [without_clitic(form) if "'" in form else form for form in text.forms]
        numbers: dict[str, int] = {}
        word_of = np.array([numbers.setdefault(name, len(numbers)) for name in bare], dtype=np.int64)
        plain = np.array([name is form for name, form in zip(bare, text.forms, strict=True)], dtype=np.bool_)
        number = np.array(
            [form.isdigit() and len(form) <= _MAX_DIGITS for form in text.forms], dtype=np.bool_
        )
        unknown = text.unknown & is_candidate[text.form_of]
        usable = text.is_word & ~text.consumed & (~text.unknown | unknown)
        within = usable & plain[text.form_of]
        ending = usable | (number[text.form_of] & ~text.consumed)
        joined = np.zeros(len(within), dtype=np.bool_)
        joined[:-1] = text.joined[:-1] & within[:-1] & ending[1:]
        text_of = text.text_of_sentence[text.sentence_of]
        words = word_of[text.form_of]
        return _Tokens(list(numbers), words, unknown, within, joined, text_of, text.n_texts)

    def repeated(self, length: int) -> list[Sequence]:
        """Sequences of `length` words that occur at least MIN_REPEATS times."""
        at, keys = self._sequences(length)
        at, keys = self._with_unknown(at, keys, length)
        if len(at) < MIN_REPEATS:
            return []
        order = np.argsort(keys, kind="stable")
        at, keys = at[order], keys[order]
        # Starts of runs of equal keys. Most sequences occur once, so return early if nothing repeats.
        is_equal = keys[1:] == keys[:-1]
        if not is_equal.any():
            return []
        borders = np.flatnonzero(np.concatenate(([True], ~is_equal, [True])))
        repeated = borders[1:] - borders[:-1] >= MIN_REPEATS
        starts, ends = borders[:-1][repeated], borders[1:][repeated]
        members, texts = self.words[at[starts][:, None] + np.arange(length)], self.text_of[at[starts]]
        parts = self._parts(members, texts)
        return [
            Sequence(of_text, tuple(self.names[word] for word in words), PartCounts(*counts), at[start:end])
            for of_text, words, counts, start, end in zip(
                texts.tolist(), members.tolist(), parts.tolist(), starts.tolist(), ends.tolist(), strict=True
            )
        ]

    def _sequences(self, length: int) -> tuple[Ints, Ints]:
        """(first token, key) of every sequence of words, by position."""
        n = max(len(self.words) - length + 1, 0)
        fits = np.ones(n, dtype=np.bool_)
        for offset in range(length - 1):
            fits &= self.joined[offset : offset + n]
        at = np.flatnonzero(fits)
        return at, self._keys(self.words[at[:, None] + np.arange(length)], self.text_of[at])

    def _with_unknown(self, at: Ints, keys: Ints, length: int) -> tuple[Ints, Ints]:
        unknown = self.unknown[at[:, None] + np.arange(length)].any(axis=1)
        return at[unknown], keys[unknown]

    def _keys(self, words: Ints, texts: Ints) -> Ints:
        """A unique number for each row of words of a text.

        It fits into 64 bits: a document has far fewer than 2**21 distinct words, and several texts are only
            read at
        once if they are short.
        """
        keys = texts
        for column in words.T:
            keys = keys * len(self.names) + column
        return keys

    def _parts(self, sequences: Ints, texts: Ints) -> Ints:
        n_names = len(self.names)
        counts = np.bincount(self.text_of * n_names + self.words, minlength=self.n_texts * n_names)
        columns = [counts[texts * n_names + sequences[:, place]] for place in (0, -1)]
        head = columns[0] if sequences.shape[1] == 2 else self._occurrences(sequences[:, :-1], texts)
        tail = columns[1] if sequences.shape[1] == 2 else self._occurrences(sequences[:, 1:], texts)
        n_tokens = np.bincount(self.text_of, minlength=self.n_texts)[texts]
        return np.stack((n_tokens, head, columns[1], columns[0], tail), axis=1)

    def _occurrences(self, sequences: Ints, texts: Ints) -> Ints:
        """Number of occurrences of each sequence in its text."""
        _, keys = self._sequences(sequences.shape[1])
        keys = np.sort(keys)
        sequence_keys = self._keys(sequences, texts)
        return np.searchsorted(keys, sequence_keys, side="right") - np.searchsorted(keys, sequence_keys)
