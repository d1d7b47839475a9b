"""Stems of words whose script says how they are inflected: Greek, Cyrillic, Arabic and Devanagari.

Such a word has the same stem in every text, so index, queries, highlights and notes need not know the
language of the text around it. Words of other scripts have none here; those in Latin letters are stemmed as
English (`lagoon.tokens`), and by the language of their passage (`shoal.words.inflections`).

The stemmers are those of Snowball for Greek, Russian, Arabic and Hindi. A word with letters that these lack
(*ї*, *љ*, *گ*) is of another language, and stands as it is. Forms have no diacritics
(`lagoon.tokens.fold`), so *й* is written *и*; it is put back where Russian endings have it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import Stemmer

_SCRIPTS = (
    ("greek", re.compile("[\u0370-\u03ff]+")),
    ("russian", re.compile("[а-я]+")),
    ("arabic", re.compile("[\u0621-\u064a]+")),
    ("hindi", re.compile("[\u0900-\u0963\u0971-\u097f]+")),
)
_FIRST = "\u0370"
"""The first letter of these scripts."""
_SHORT_I = re.compile("(?<=[аеиоуыэюя])и(?=ш|те|\\Z)")
_TATWEEL = "\u0640"
"""A line that stretches an Arabic word; it is no letter."""


@functools.cache
def _stemmer(name: str) -> Stemmer.Stemmer:
    # Size 0: each distinct form is stemmed once, and a cache would share state between concurrent calls.
    return Stemmer.Stemmer(name, 0)


def has_script_stem(form: str) -> bool:
    """Return whether a folded form is of one of these scripts."""
    return form[:1] >= _FIRST and any(pattern.fullmatch(form) for _, pattern in _SCRIPTS)


def stems_by_script(forms: Sequence[str]) -> dict[str, str]:
    """Return the stem of each form of one of these scripts; others are left out. Forms are folded.

    A stem of one letter says nothing, so such a word is its own stem: *का* is not *की*.
    """
    found: dict[str, str] = {}
    others = [form for form in forms if form[:1] >= _FIRST]
    for name, pattern in _SCRIPTS:
        own = [form for form in others if pattern.fullmatch(form)]
        if own:
            spelled = list(map(_spelled, own))
            stems = zip(own, spelled, _stemmer(name).stemWords(spelled), strict=True)
            found.update((form, stem if len(stem) > 1 else word) for form, word, stem in stems)
    return found


def _spelled(form: str) -> str:
    """A form as its stemmer expects it."""
    if _TATWEEL in form:
        form = form.replace(_TATWEEL, "") or form
    return _SHORT_I.sub("й", form)
