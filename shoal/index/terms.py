"""Terms: what the index stores for words. Documents and queries are turned into terms by the same functions.

The tokens are those of `lagoon.tokens`: runs of letters and digits with their marks, in lower case, with
diacritics folded. At an apostrophe or a stop inside a token the index splits it, so "o'clock" has two terms,
and "U.S." has two. Such a part is a *word*: `word_pattern` finds the words of a text as written. A term is
the stem of a word, cut to `MAX_LETTERS`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence

from lagoon.stems import stem_many
from lagoon.tokens import marks_of, token_list

MAX_LETTERS = 64
"""Longer parts are encoded data or scripts without spaces."""
MAX_CACHED = 200_000
"""Forms whose terms are kept: twice the distinct words of a hundred books, in 40 MB."""

StemMany = Callable[[Sequence[str]], Sequence[str]]

_PART = re.compile(r"[^'.]+")
_LETTERS = "[^\\W_ʼ]+"  # without the apostrophe that is a letter in Unicode


def word_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of the words of a text: letters and digits with the combining marks on them.

    A word is its only group, so that `split` returns the words and what is between them.
    """
    return _pattern("" if text.isascii() else "".join(sorted(marks_of(text))))


@functools.lru_cache(maxsize=64)
def _pattern(marks: str) -> re.Pattern[str]:
    """Compiled with the marks of one text alone: there are 2,400 in all, and each word would be compared with
    them."""
    return re.compile(f"({_LETTERS}(?:[{marks}]+(?:{_LETTERS})?)*)" if marks else f"({_LETTERS})")


class Terms:
    """Turns normal forms of tokens into terms, with a cache. One object serves a whole process."""

    def __init__(self, stem: StemMany = stem_many) -> None:
        """`stem` returns the stem of each of some parts of words."""
        self._stem = stem
        self._cached: dict[str, tuple[str, ...]] = {}

    def of_forms(self, forms: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the terms of each form, one after the other if it has several."""
        cached = self._cached
        terms = list(map(cached.get, forms))
        missing = {form for form, found in zip(forms, terms, strict=True) if found is None}
        if missing:
            new = self._stemmed(missing)
            if len(cached) + len(new) > MAX_CACHED:
                # Another thread may still read the former one.
                self._cached = cached = {}
            if len(new) <= MAX_CACHED:
                cached.update(new)
            return [new[form] if found is None else found for form, found in zip(forms, terms, strict=True)]
        return terms  # type: ignore[return-value]

    def of_text(self, text: str) -> list[str]:
        """Return the terms of a text, in order."""
        return [term for terms in self.of_forms(token_list(text)) for term in terms]

    def _stemmed(self, forms: Iterable[str]) -> dict[str, tuple[str, ...]]:
        parts = {
            form: [form[:MAX_LETTERS]]
            if form.isalnum()
            else [part[:MAX_LETTERS] for part in _PART.findall(form)]
            for form in forms
        }
        distinct = list({part for form_parts in parts.values() for part in form_parts})
        stems = dict(zip(distinct, self._stem(distinct), strict=True))
        return {form: tuple([stems[part] for part in form_parts]) for form, form_parts in parts.items()}
