"""Choose the tokens, and the compounds of two or three adjacent tokens, that may be learned as words.

A candidate is a token the base vocabulary doesn't know, in its normal form: lower case, diacritics folded,
without a genitive ("darcy's" counts for "darcy"). Names are candidates like any other word. An inner
apostrophe belongs to the word ("o'brien"). Hyphens separate tokens that are still adjacent, so a hyphenated
form is a candidate compound. Regular plurals are observed as separate forms; `vocabulary` adds them to their
singular if the corpus has both.

A compound has at least one unknown word. It is a candidate in a document that repeats it: a thing that is
named again by the same words is a term (Justeson and Katz, "Technical terminology: some linguistic properties
and an algorithm for identification in text", 1995). These documents also decide whether its parts occur
together more often than by chance: their counts of the sequence, of its parts and of all tokens are added up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.analysis import ObservedText
from lagoon.tokens import without_clitic

Ints = NDArray[np.int64]


# A longer word is encoded data; the longest words of medical and chemical English have about 45 letters.
MAX_WORD_CHARS = 48

# Words of closed classes and of web markup that are neither in WordNet nor in the stop words. They occur in
# every context, or only in text that was not cleaned.
_FUNCTION_WORDS = """
    'tis 'twas ah albeit alongside although alway amid amidst among amongst anybody anyhow anyone anything
    anytime anyway anywhere aught aye because beneath beside besides beyond could've couldn't couldst despite
    didst dost doth e'er eh ere everybody everyone everything everywhere hadst hast hath hee hence hereafter
    hereby herein hereof hereto heretofore hereupon himselfe hither hitherto howbeit howsoever inasmuch
    insofar insomuch lest lo might've mine moreover must've nary naught ne'er nevertheless nobody nonetheless
    nothing notwithstanding nought o'er oh oneself onto ought oughtn't ours ourself quoth saith seldom self
    selfe shalt shee should've shouldst since somebody someone something sometime somewhere thee theirs
    themselves thence thereafter thereat thereby therefrom therein thereof thereon thereto theretofore
    thereunto thereupon therewith thine thither thou though thy thyself till tis toward towards twas
    underneath unless unlike unto upwards versus via vis wast whatever whatsoever whence whenever whensoever
    whereas whereat whereby wherefore wherein whereof whereon wheresoever whereto whereupon wherever wherewith
    whether whichever whilst whither whoever whomever whomsoever whosoever wilt would've wouldst y'all ye yon
    yours
"""
_MARKUP = "amp com edu gov gt href html htm http https img lt nbsp org pdf php quot src url utf www xml"
_EXCLUDED = frozenset((_FUNCTION_WORDS + _MARKUP).split())

_INDEXED = re.compile(r"[a-z]\d|\d[a-z]")
_ROMAN = re.compile(r"m{0,4}(?:cm|cd|d?c{0,4})(?:xc|xl|l?x{0,4})(?:ix|iv|v?i{0,4})(?:th|st|nd|rd)?")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s|d)")
_PAGE_MARK = re.compile(r"(?:pp|pg|pgs|page|fig|figs|vol|chap|ch|sec|art|no|nos|col)\d+[a-z]?")
_QUANTITY = re.compile(
    r"\d+(?:x\d+)*(?:mm|cm|km|m|in|ft|g|kg|mg|ml|l|hz|khz|mhz|kb|mb|gb|am|pm|h|hr|hrs|min|sec|deg|degree|x"
    r"|year|day)?"
)
_HEX = re.compile(r"0x[0-9a-f]+|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}")
_LONG_DIGITS = re.compile(r"\d{5}")
_RUN = re.compile(r"(.)\1\1")
_CHANGE = re.compile(r"\d(?=[a-z])|[a-z](?=\d)")

# "il17ra" and "h1n1" change between letters and digits up to three times, serial numbers more often.
_MOST_CHANGES = 3


def is_candidate(form: str) -> bool:
    """Whether an unknown normal form may be a word.

    Excludes single letters, also with an index ("x1"), roman numerals, ordinals, quantities, page marks,
    hexadecimal and long numbers, remains of markup, letters repeated three times ("aaargh"), and function
    words.
    """
    letters = sum(map(str.isalpha, form))
    if letters < 1 or not 2 <= len(form) <= MAX_WORD_CHARS or form in _EXCLUDED:
        return False
    if form.isalpha():
        return not (_ROMAN.fullmatch(form) or _RUN.search(form))
    return not (
        _RUN.search(form.strip("0123456789"))
        or _INDEXED.fullmatch(form)
        or _ORDINAL.fullmatch(form)
        or _PAGE_MARK.fullmatch(form)
        or _QUANTITY.fullmatch(form)
        or _HEX.fullmatch(form)
        or _ROMAN.fullmatch(form)
        or _LONG_DIGITS.search(form)
        or len(_CHANGE.findall(form)) > _MOST_CHANGES
        or (letters == 1 and form.replace(".", "").isalpha())
    )


def candidate_words(forms: Sequence[str], indices: Sequence[int]) -> dict[int, str]:
    """Map those of the unknown forms `indices` (into `forms`) that may be words to the word they count
    for."""
    words: dict[int, str] = {}
    for index in indices:
        word = without_clitic(forms[index]).rstrip("'")
        if is_candidate(word):
            words[index] = word
    return words


MIN_REPEATS = 2
LENGTHS = (2, 3)

# "sars cov 2", "il 6": a short number may end a compound.
_MAX_DIGITS = 3


class PartCounts(NamedTuple):
    """Counts in the documents that repeat a sequence: all tokens, and occurrences of its head (all but the
    last token), its last token, its first token and its tail (all but the first)."""

    tokens: int
    head: int
    last: int
    first: int
    tail: int


class TokenSequence(NamedTuple):
    """A sequence that a text repeats: the index of the text, the words, their counts, and the first token of
    each occurrence."""

    text: int
    words: tuple[str, ...]
    parts: PartCounts
    occurrences: Ints


def repeated_sequences(text: ObservedText, is_candidate: NDArray[np.bool_]) -> list[TokenSequence]:
    """Find candidate compounds of each text; `is_candidate` (forms,) marks the unknown forms that may be
    words.

    The last word loses its genitive; no other word may have one ("darcy's sister" is not a term).
    """
    tokens = _Tokens.of(text, is_candidate)
    sequences: list[TokenSequence] = []
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

    def repeated(self, length: int) -> list[TokenSequence]:
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
            TokenSequence(
                of_text, tuple(self.names[word] for word in words), PartCounts(*counts), at[start:end]
            )
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
