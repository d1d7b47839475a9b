"""Terms: what the index stores for words. Documents and queries are turned into terms by the same functions.

The tokens are those of `lagoon.tokens`: runs of letters and digits in lower case, with diacritics folded. At
an apostrophe or a stop inside a token the index splits it, so "o'clock" has two terms, and "U.S." has two. A
term is the stem of such a part, cut to `MAX_LETTERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from lagoon.stems import stem_many
from lagoon.tokens import token_list

MAX_LETTERS = 64
"""Longer parts are encoded data or scripts without spaces."""
MAX_CACHED = 200_000
"""Forms whose terms are kept: twice the distinct words of a hundred books, in 40 MB."""

StemMany = Callable[[Sequence[str]], Sequence[str]]

_PART = re.compile(r"[^'.]+")


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
        parts = {form: [part[:MAX_LETTERS] for part in _PART.findall(form)] for form in forms}
        distinct = list({part for form_parts in parts.values() for part in form_parts})
        stems = dict(zip(distinct, self._stem(distinct), strict=True))
        return {form: tuple([stems[part] for part in form_parts]) for form, form_parts in parts.items()}
