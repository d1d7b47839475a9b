"""Snowball stems of English words, which map inflected forms to their lemma."""

from collections.abc import Sequence
from functools import cache

import Stemmer


@cache
def _stemmer() -> Stemmer.Stemmer:
    # Size 0: callers stem each distinct form once, and a cache would share state between concurrent calls.
    return Stemmer.Stemmer("english", 0)


def stem(token: str) -> str:
    """Stem of one normal token (lower case, folded)."""
    return str(_stemmer().stemWord(token))


def stem_many(tokens: Sequence[str]) -> list[str]:
    """Stems of normal tokens, in their order."""
    return list(_stemmer().stemWords(list(tokens)))
