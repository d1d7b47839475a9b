"""Snowball stems of English words, which map inflected forms to their lemma."""

from collections.abc import Sequence
from functools import cache

import Stemmer

RELATED_CHARS = 8
"""Length from which a form that is its own stem is looked up by it. In the running text of the build, nine in
ten such forms are related to the word found ("crystallin": crystalline). Most shorter ones are names, and
they are not ("william": williams, "barrett": barrette)."""


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


def sought_stem(form: str, base: str, stemmed: str) -> str:
    """Stem by which a form is looked up, "" for none; `base` is the form without clitic, `stemmed` its stem.

    A form that is its own stem has no ending, so it is an inflection only if older spelling writes the ending
    as a clitic ("seiz'd"). A long one is related to the words of its stem nevertheless ("crystallin").
    """
    return stemmed if stemmed != base or len(base) >= RELATED_CHARS or form.endswith("'d") else ""
