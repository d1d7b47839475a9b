"""Near terms: which stems of an index a mistyped word may have meant.

The index has stems, and a word is typed with its ending, in which an error is as likely. So a stem is
compared with the beginnings of the word, and what follows with the endings of English. An edit inserts,
deletes or replaces a letter, or swaps two neighbours (Damerau, "A technique for computer detection and
correction of spelling errors", CACM 7(3), 1964).

Few stems are compared. Those with the first letter of the word are a range of a segment's sorted terms, and
two sets of letters as bits rule out most of them: an edit adds or removes at most one letter. Stems with
another first letter count only if none of these is one edit away.
"""

from __future__ import annotations

import functools
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.stems import stem_many
from lagoon.tokens import STOP_WORDS
from shoal.index.index import Index
from shoal.index.matching import count_roughly
from shoal.index.segment import Field, letter_bits
from shoal.index.terms import MAX_LETTERS

ONE_EDIT_FROM, TWO_EDITS_FROM = 4, 8
"""Letters of a word from which it is compared within one and two edits. A shorter word is one edit away from
too many others."""
MIN_STEM = 2
MAX_COMPARED = 256
"""Stems that are compared letter by letter: those with the fewest letters that differ."""
MAX_VERIFIED = 32
"""The forms of this many nearest stems are compared with the word."""
SHORT_STEM = 5
"""Letters of a stem that may have got an e that the word lacks: *use* of *using*."""
_ONE, _MANY = np.int8(1), np.int8(MAX_LETTERS // 2)
_I, _Y = ord("i"), ord("y")

ENDINGS = """
s e ed es ic ing y al ation ion er ate ated ive ly ical able ions ers ically ating ity ations ates ally
ous ent ized ics ization ant d ence ness ative ment ance izing ional ings als ize ively ator ities ism
ability ely ible ants izes ement icity ivity ered ently ators eal ency ational ably ents ments alization
ionally ists ful ously ality ences ately ibility alized ies ering iveness erative ances eous ements ives
atively ications ication ingly ist eable izations izer ancy icated or antly alize ors edly ibly fully
"""
"""What follows the stem in 97 of 100 distinct words of four collections, beside nothing."""
_ENDINGS = sorted(
    {"", *ENDINGS.split()}
    | {letter + ending for letter in "bdgklmnprt" for ending in ("ed", "ing", "er", "ers")}
)
"""The last letter of a stem may be doubled: *stopped*."""

_BACKWARDS = [ending[::-1] for ending in _ENDINGS]
LONGEST_ENDING = max(map(len, _ENDINGS))


class NearTerm(NamedTuple):
    """A stem of the index near a word.

    edits        between the word and the stem with some ending
    keeps_first  whether it has the first letter of the word
    n_postings   roughly, the chunks that contain it; deleted ones count
    form         the stem with that ending; the index may have others
    """

    stem: str
    edits: int
    keeps_first: bool
    n_postings: int
    form: str

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """The key that sorts near terms, nearest first."""
        return self.edits, not self.keeps_first, -self.n_postings, self.stem


def max_edits(word: str) -> int:
    """Return within how many edits a word is compared."""
    return (len(word) >= ONE_EDIT_FROM) + (len(word) >= TWO_EDITS_FROM)


def near_terms(index: Index, word: str, limit: int) -> list[NearTerm]:
    """Return the stems near a folded word, nearest first, those of equal distance by their chunks, at most
    `limit`.

    None for a word of fewer than 4 letters or more than 64.
    """
    allowed = max_edits(word)
    if not allowed or len(word) > MAX_LETTERS:
        return []
    # Row e, column j: the edits between ending e and the word from its letter j.
    endings = _compared(_BACKWARDS, word[::-1])[:, ::-1]
    found = _near(index, word, endings, allowed, word[0])
    if not any(near.edits == 1 for near in found):
        found += (
            _near(index, word, endings, allowed, "")
            if allowed > 1
            else _with_another_first_letter(index, word)
        )
    nearest: dict[str, NearTerm] = {}
    for near in sorted(found, key=lambda near: near.order):
        nearest.setdefault(near.stem, near)
    return list(nearest.values())[:limit]


def _near(index: Index, word: str, endings: NDArray[np.int8], allowed: int, start: str) -> list[NearTerm]:
    """The stems within some edits of a word that start with a text."""
    tails = endings.min(axis=0)
    candidates = _candidates(index, word, tails, allowed, start)
    if not candidates:
        return []
    stems, sizes = list(candidates), list(candidates.values())
    edits = _compared(stems, word, are_stems=True)
    nearest = (edits + tails).min(axis=1)
    order = np.flatnonzero(nearest <= allowed)
    order = order[np.argsort(nearest[order], kind="stable")][:MAX_VERIFIED]
    together = (edits[order][:, None, :] + endings[None, :, :]).min(axis=2)
    forms = [
        (int(order[place]), form)
        for place, ending in np.argwhere(together <= allowed).tolist()
        for form in _forms(stems[order[place]], _ENDINGS[ending])
    ]
    stem_of = stem_many([form for _, form in forms])
    forms = [each for each, stem in zip(forms, stem_of, strict=True) if stem == stems[each[0]]]
    exact = count_edits([form for _, form in forms], word)
    return [
        NearTerm(stems[number], n_edits, form[0] == word[0], sizes[number], form)
        for (number, form), n_edits in zip(forms, exact, strict=True)
        if 0 < n_edits <= allowed
    ]


def _forms(stem: str, ending: str) -> Iterator[str]:
    """The forms of a stem with an ending, and others that the index may have under another stem."""
    yield stem + ending
    if stem.endswith("i"):
        yield stem[:-1] + "y" + ending
    elif stem.endswith("e") and len(stem) <= SHORT_STEM:
        yield stem[:-1] + ending


def _candidates(index: Index, word: str, tails: NDArray[np.int8], allowed: int, start: str) -> dict[str, int]:
    """The stems that start with a text and may be near a word, each with its number of postings."""
    budgets, least, most = _bounds(word, tails, allowed)
    counts: Counter[bytes] = Counter()
    differences: dict[bytes, int] = {}
    for field in _fields(index):
        low, high = field.starting_with(start.encode())
        lengths = np.minimum(field.n_letters[low:high], len(budgets) - 1)
        letters, budget = field.letters[low:high], budgets[lengths]
        extra = np.bitwise_count(letters & ~most[lengths])
        missing = np.bitwise_count(least[lengths] & ~letters)
        numbers = np.flatnonzero((extra <= budget) & (missing <= budget) & (budget >= 0))
        differing = (extra + missing)[numbers].astype(np.int16) - budget[numbers]
        order = np.argsort(differing, kind="stable")[:MAX_COMPARED]
        sizes = _sizes(field, numbers[order] + low)
        counts.update(sizes)
        differences.update(zip(sizes, differing[order].tolist(), strict=True))
    stems = sorted(counts, key=lambda stem: (differences[stem], stem))[:MAX_COMPARED]
    return {stem.decode(errors="replace"): counts[stem] for stem in stems}


def _sizes(field: Field, numbers: NDArray[np.int64]) -> dict[bytes, int]:
    """The number of postings of terms."""
    sizes = field.posting_starts[numbers + 1] - field.posting_starts[numbers]
    return dict(zip(map(field.term, numbers.tolist()), sizes.tolist(), strict=True))


def _bounds(
    word: str, tails: NDArray[np.int8], allowed: int
) -> tuple[NDArray[np.int8], NDArray[np.uint32], NDArray[np.uint32]]:
    """By the length of a stem: the edits that it may have, or -1; the letters that it should have; the
    letters that it may have."""
    n = len(word) + allowed + 2
    budgets = np.full(n, -1, dtype=np.int8)
    least, most = np.zeros(n, dtype=np.uint32), np.zeros(n, dtype=np.uint32)
    for length in range(MIN_STEM, n - 1):
        may_add_e = length <= SHORT_STEM
        first = length - allowed - may_add_e
        ends = range(max(first, 1), min(length + allowed, len(word)) + 1)
        budget = max((allowed - int(tails[end]) for end in ends), default=-1)
        budgets[length] = max(budget, -1)
        least[length] = letter_bits(word[: max(length - may_add_e - max(budget, 0), 0)])
        most[length] = letter_bits(word[: length + allowed] + ("e" if may_add_e else ""))
    return budgets, least, most


def _compared(texts: Sequence[str], word: str, *, are_stems: bool = False) -> NDArray[np.int8]:
    """i8 (texts, letters + 1): the edits between each text and each beginning of a word.

    Optimal string alignment, of all texts at once. With `are_stems`, an i at the end of a stem equals y, and
    an e at the end of a short one may be missing: *happi*, and *use* of *using*.
    """
    width = max(map(len, texts))
    letters = np.array(texts, dtype=f"U{max(width, 1)}").view(np.uint32).reshape(len(texts), -1)
    lengths = np.array([len(text) for text in texts])
    ends = lengths.copy()
    if are_stems:
        ends -= [text.endswith("e") and len(text) <= SHORT_STEM for text in texts]
    typed = np.array([word]).view(np.uint32)
    columns = np.arange(len(word) + 1, dtype=np.int8)
    same = letters[:, :, None] == typed
    if are_stems and "y" in word:
        is_end = lengths[:, None] == np.arange(1, width + 1)
        same |= (letters[:, :, None] == _I) & (typed == _Y) & is_end[:, :, None]
    replacing = np.ascontiguousarray((~same).view(np.int8).transpose(1, 0, 2))
    swapping = np.where(same[:, 1:, :-1] & same[:, :-1, 1:], _ONE, _MANY).transpose(1, 0, 2)
    rows = np.empty((width + 1, len(texts), len(columns)), dtype=np.int8)
    rows[0] = columns
    for i in range(width):
        row = np.add(rows[i], _ONE, out=rows[i + 1])
        np.minimum(row[:, 1:], rows[i, :, :-1] + replacing[i], out=row[:, 1:])
        if i:
            np.minimum(row[:, 2:], rows[i - 1, :, :-2] + swapping[i - 1], out=row[:, 2:])
        # An insertion costs one for each column.
        row -= columns
        np.minimum.accumulate(row, axis=1, out=row)
        row += columns
    places = np.arange(len(texts))
    result: NDArray[np.int8] = rows[lengths, places]
    return np.minimum(result, rows[ends, places]) if are_stems else result


def _with_another_first_letter(index: Index, word: str) -> Iterator[NearTerm]:
    """The stems of the words that differ by one edit of the first letter."""
    variants = {word[1] + word[0] + word[2:], word[1:]}
    variants.update(letter + rest for letter in string.ascii_lowercase for rest in (word, word[1:]))
    forms = sorted(each for each in variants if each[0] != word[0])
    form_of = dict(zip(stem_many(forms), forms, strict=True))
    for stem, size in count_stems(index, form_of).items():
        yield NearTerm(stem, 1, False, size, form_of[stem])


def count_stems(index: Index, stems: Iterable[str]) -> dict[str, int]:
    """Return roughly in how many chunks' texts each of some stems is, without those that are in none."""
    counts = {stem: count_roughly(index, stem) for stem in sorted(stems)}
    return {stem: count for stem, count in counts.items() if count}


def stems_starting_with(index: Index, prefix: str, limit: int) -> list[str]:
    """Return the stems of the words that begin with a folded text, those in most chunks first.

    A stem may be shorter than the text: *reproducti* begins words of the stem *reproduct*. Stems of stop
    words that begin so are left out: there would be little else for *th*.
    """
    encoded = prefix.encode()
    stopped = {stem for stem in _stop_stems() if stem.startswith(prefix)}
    n = limit + len(stopped)
    counts: Counter[str] = Counter()
    for field in _fields(index):
        low, high = field.starting_with(encoded)
        sizes = np.diff(field.posting_starts[low : high + 1].astype(np.int64))
        if len(sizes) > n:
            chosen = np.argpartition(sizes, len(sizes) - n)[len(sizes) - n :]
        else:
            chosen = np.arange(len(sizes))
        for stem, size in _sizes(field, chosen + low).items():
            counts[stem.decode(errors="replace")] += size
    forms = {
        prefix[:end] + ending
        for end in range(max(MIN_STEM, len(prefix) - LONGEST_ENDING), len(prefix))
        for ending in _ENDINGS
        if ending.startswith(prefix[end:])
    }
    counts.update(count_stems(index, set(stem_many(sorted(forms)))))
    ranked = sorted(counts.keys() - stopped, key=lambda stem: (-counts[stem], stem))
    return ranked[:limit]


@functools.cache
def _stop_stems() -> frozenset[str]:
    return frozenset(stem_many(sorted(STOP_WORDS)))


def count_edits(texts: Sequence[str], word: str) -> list[int]:
    """Return the edits between each text and a word."""
    return _compared(texts, word)[:, -1].tolist() if texts else []


def _fields(index: Index) -> Iterator[Field]:
    """The fields of each part that have terms."""
    return (field for part in index.parts for field in part.segment.fields if field.n_terms)
