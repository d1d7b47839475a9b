"""Forms: which words an index has, as they are written, that are near a typed word or begin with it.

An edit inserts, deletes or replaces a letter, or swaps two neighbours (Damerau, "A technique for computer
detection and correction of spelling errors", CACM 7(3), 1964).

Few forms are compared letter by letter. Those with the first letter of the word are a range of a segment's
sorted forms, and a set of letters as bits rules out most of them: an edit adds or removes at most one letter.
Forms with another first letter count only if none of these is one edit away.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import STOP_WORDS
from shoal.index.index import FormCount, Index
from shoal.index.segment import NO_TERM, letter_bits
from shoal.words.terms import MAX_LETTERS

ONE_EDIT_FROM, TWO_EDITS_FROM = 4, 8
"""Letters of a word from which it is compared within one and two edits. A shorter word is one edit away from
too many others."""
MAX_COMPARED = 256
"""Forms that are compared letter by letter: those with the fewest letters that differ."""
NAME_SHARE = 0.8
"""Share of the occurrences of a name that begin with a capital letter."""
MAX_OF_TERM = 10_000
"""Forms that begin like a term and are looked at."""
KEPT_FORMS = 4_096
"""Forms whose numbers are kept for an index: words of some hundred searches."""
MAX_CHECKED = 64
"""Further forms with a beginning that are looked up in what a viewer sees."""
_ONE, _MANY = np.int8(1), np.int8(MAX_LETTERS // 2)


class NearForm(NamedTuple):
    """A form of the index near a word.

    edits        between the word and the form
    keeps_first  whether it has the first letter of the word
    n            occurrences; those in deleted documents may count
    """

    form: str
    edits: int
    keeps_first: bool
    n: int

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """The key that sorts near forms, nearest first."""
        return self.edits, not self.keeps_first, -self.n, self.form


def max_edits(word: str) -> int:
    """Return within how many edits a word is compared."""
    return (len(word) >= ONE_EDIT_FROM) + (len(word) >= TWO_EDITS_FROM)


def count_form(index: Index, form: str) -> int:
    """Return how often a form occurs in an index; occurrences in deleted documents may count."""
    return _counts(index, form)[0]


def is_name(index: Index, form: str) -> bool:
    """Return whether an index has a form mostly with a capital letter."""
    if not stored_count(index, form).n_capitals:
        return False
    n, n_capitals = _counts(index, form)
    return n_capitals > NAME_SHARE * n


def stored_count(index: Index, form: str) -> FormCount:
    """Return how often a form occurs in all documents of the segments: also in deleted ones, and in those
    that a viewer does not see. It does not occur more often in what is seen."""
    kept: dict[str, FormCount] = (index.whole or index).cached.setdefault(stored_count, {})
    count = kept.get(form)
    if count is None:
        encoded, n, n_capitals = form.encode(), 0, 0
        for part in index.parts:
            forms = part.segment.forms
            number = forms.number(encoded)
            if number != NO_TERM:
                n += int(forms.counts(number, number + 1)[0])
                n_capitals += int(forms.capitals(number, number + 1)[0])
        if len(kept) >= KEPT_FORMS:
            kept.clear()
        kept[form] = count = FormCount(n, n_capitals)
    return count


def near_codes(index: Index, code: str, limit: int) -> list[str]:
    """Return the forms with digits that differ from a folded code by one edit, the most frequent first, at
    most `limit`."""
    if len(code) > MAX_LETTERS:
        return []
    near = [each for each in _near(index, code, 1, code[:1], are_codes=True) if each.edits]
    return [each.form for each in sorted(near, key=lambda each: each.order)[:limit]]


def near_forms(index: Index, word: str, limit: int) -> list[NearForm]:
    """Return the forms of letters near a folded word, nearest first, those of equal distance by their
    occurrences, at most `limit`; no stop words, and not the word itself.

    If there are none, its plurals are compared. None for a word of fewer than 4 letters or more than 64.
    """
    allowed = max_edits(word)
    if not allowed or len(word) > MAX_LETTERS:
        return []
    found = _near(index, word, allowed, word[0])
    if not any(near.edits == 1 for near in found):
        found += _near(index, word, allowed, "") if allowed > 1 else _with_another_first_letter(index, word)
    for plural in (word + "s", word + "es"):
        found += [] if found else _near(index, plural, allowed, word[0])
    nearest = {near.form: near for near in sorted(found, key=lambda near: near.order)}
    return [near for near in nearest.values() if near.edits][:limit]


def forms_starting_with(index: Index, prefix: str, limit: int) -> list[tuple[str, int]]:
    """Return the most frequent forms that begin with a folded text, at most `limit`, each with its number of
    occurrences; no stop words."""
    n = limit + sum(word.startswith(prefix) for word in STOP_WORDS)
    if index.count_form is not None:
        n += MAX_CHECKED
    counts: Counter[str] = Counter()
    for part in index.parts:
        forms = part.segment.forms
        low, high = forms.starting_with(prefix.encode())
        sizes = forms.counts(low, high)
        if len(sizes) > n:
            # Of equally frequent forms, the first by their letters.
            least = np.partition(sizes, len(sizes) - n)[len(sizes) - n]
            more = np.flatnonzero(sizes > least)
            chosen = np.concatenate([more, np.flatnonzero(sizes == least)[: n - len(more)]])
        else:
            chosen = np.arange(len(sizes))
        for place in chosen.tolist():
            counts[forms.text(low + place).decode(errors="replace")] += int(sizes[place])
    counts = _visible(index, counts)
    ranked = sorted(counts.keys() - STOP_WORDS, key=lambda form: (-counts[form], form))
    return [(form, counts[form]) for form in ranked[:limit]]


def forms_of_term(index: Index, term: str, stem_of: Callable[[Sequence[str]], Sequence[str]]) -> list[str]:
    """Return the forms with a term, in ascending order, also those that a viewer does not see. `stem_of`
    returns the terms of forms.

    A stem and its forms have all but their last letters in common.
    """
    prefix = term[: max(len(term) - 1, 1)].encode()
    forms: set[str] = set()
    for part in index.parts:
        dictionary = part.segment.forms
        low, high = dictionary.starting_with(prefix)
        forms.update(
            form.decode(errors="replace") for form in dictionary.between(low, min(high, low + MAX_OF_TERM))
        )
    ordered = sorted(forms)
    return [form for form, own in zip(ordered, stem_of(ordered), strict=True) if own == term]


def _visible(index: Index, counts: Counter[str]) -> Counter[str]:
    """The occurrences of forms; of what a viewer sees, those of visible forms in visible passages."""
    if index.count_form is None:
        return counts
    visible = ((form, count_form(index, form)) for form in counts)
    return Counter({form: n for form, n in visible if n})


def count_edits(texts: Sequence[str], word: str) -> list[int]:
    """Return the edits between each text and a word."""
    return _compared(texts, word).tolist() if texts else []


def _counts(index: Index, form: str) -> FormCount:
    """How often a form occurs in an index, and how often with a capital letter."""
    stored = stored_count(index, form)
    return stored if index.count_form is None or not stored.n else index.count_form(index, form)


def _near(index: Index, word: str, allowed: int, start: str, *, are_codes: bool = False) -> list[NearForm]:
    """The forms of letters within some edits of a word that start with a text, or those with digits."""
    counts: Counter[str] = Counter()
    differences: dict[str, int] = {}
    bits = np.uint32(letter_bits(word))
    for part in index.parts:
        forms = part.segment.forms
        low, high = forms.starting_with(start.encode())
        sizes = forms.counts(low, high)
        lengths = forms.n_letters[low:high].astype(np.int16)
        letters = forms.letters[low:high]
        extra, missing = np.bitwise_count(letters & ~bits), np.bitwise_count(bits & ~letters)
        is_near = (np.abs(lengths - len(word)) <= allowed) & (np.maximum(extra, missing) <= allowed)
        numbers = np.flatnonzero(is_near)
        differing = (extra + missing)[numbers]
        order = np.argsort(differing, kind="stable")[:MAX_COMPARED]
        for number, difference in zip(numbers[order].tolist(), differing[order].tolist(), strict=True):
            form = forms.text(low + number).decode(errors="replace")
            counts[form] += int(sizes[number])
            differences[form] = difference
    chosen = sorted(counts, key=lambda form: (differences[form], form))[:MAX_COMPARED]
    chosen = [form for form in chosen if form.isalpha() != are_codes and form not in STOP_WORDS]
    edits_of = dict(zip(chosen, count_edits(chosen, word), strict=True))
    near = Counter({form: counts[form] for form in chosen if edits_of[form] <= allowed})
    return [
        NearForm(form, edits_of[form], form[0] == word[0], n) for form, n in _visible(index, near).items()
    ]


def _with_another_first_letter(index: Index, word: str) -> Iterator[NearForm]:
    """The forms that differ by one edit of the first letter."""
    variants = {word[1] + word[0] + word[2:], word[1:]}
    variants.update(letter + rest for letter in string.ascii_lowercase for rest in (word, word[1:]))
    for form in sorted(each for each in variants - STOP_WORDS if each[0] != word[0]):
        count = count_form(index, form)
        if count:
            yield NearForm(form, 1, False, count)


def _compared(texts: Sequence[str], word: str) -> NDArray[np.int8]:
    """i8 (texts,): the edits between each text and a word, by optimal string alignment of all texts at
    once."""
    width = max(map(len, texts))
    letters = np.array(texts, dtype=f"U{max(width, 1)}").view(np.uint32).reshape(len(texts), -1)
    lengths = np.array([len(text) for text in texts])
    typed = np.array([word]).view(np.uint32)
    columns = np.arange(len(word) + 1, dtype=np.int8)
    same = letters[:, :, None] == typed
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
    edits: NDArray[np.int8] = rows[lengths, np.arange(len(texts)), -1]
    return edits
