"""Terms: what the index stores for the forms of words.

The term of a form of letters is its stem, so that inflections meet. A form with digits or signs is its own
term, and so is one in capitals (`shoal.words.analysis`). Terms are cut to `MAX_LETTERS`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence

from lagoon.tokens import fold, marks_of, stem_many

MAX_LETTERS = 64
"""Longer forms are encoded data."""
MAX_CACHED = 200_000
"""Forms whose terms are kept: twice the distinct words of a hundred books, in 40 MB."""

StemMany = Callable[[Sequence[str]], Sequence[str]]

_LETTERS = "[^\\W_ʼ]+"  # without the apostrophe that is a letter in Unicode


def word_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of the runs of letters and digits of a text, with the combining marks on them.

    A run is its only group, so that `split` returns the runs and what is between them.
    """
    return _pattern("" if text.isascii() else "".join(sorted(marks_of(text))))


@functools.lru_cache(maxsize=64)
def _pattern(marks: str) -> re.Pattern[str]:
    """Compiled with the marks of one text alone: there are 2,400 in all, and each word would be compared with
    them."""
    return re.compile(f"({_LETTERS}(?:[{marks}]+(?:{_LETTERS})?)*)" if marks else f"({_LETTERS})")


def form_of(surface: str) -> str:
    """Return the normal form of a word as written: lower case, with diacritics folded."""
    return surface.lower() if surface.isascii() else fold(surface)


class Terms:
    """Turns forms into terms, with a cache. One object serves a whole process."""

    def __init__(self, stem: StemMany = stem_many) -> None:
        """`stem` returns the stem of each of some words."""
        self._stem = stem
        self._cached: dict[str, str] = {}

    def of_forms(self, forms: Sequence[str]) -> list[str]:
        """Return the term of each form."""
        cached = self._cached
        terms = list(map(cached.get, forms))
        if None in terms:
            missing = {form for form, found in zip(forms, terms, strict=True) if found is None}
            new = self._stemmed(missing)
            if len(cached) + len(new) > MAX_CACHED:
                # Another thread may still read the former one.
                self._cached = cached = {}
            if len(new) <= MAX_CACHED:
                cached.update(new)
            return [new[form] if found is None else found for form, found in zip(forms, terms, strict=True)]
        return terms  # type: ignore[return-value]

    def _stemmed(self, forms: Iterable[str]) -> dict[str, str]:
        terms = {form: form[:MAX_LETTERS] for form in forms}
        words = {form: term for form, term in terms.items() if term.isalpha() and term.islower()}
        terms.update(zip(words, self._stem(list(words.values())), strict=True))
        return terms


TERMS = Terms()
"""The terms of this process; their cache is worth sharing."""
