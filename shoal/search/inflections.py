"""Inflections: which forms are the same word, by their spelling.

The index joins words by their stem, which joins different words too: *numeral* and *numerous*.
In 22 books and 33 articles, 15,100 pairs of forms with one Porter stem differ by the endings below. The
dictionary has 5,887 of these as two words (*block* and *blocked*). It joins 539 other pairs, mostly by a
wrong stem (*goeth* and *Goethe*), so the spelling alone decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from shoal.words.typed import stems_of

# Endings of plurals, -ed and -ing, and what the base has instead.
_ENDINGS = (
    ("s", ""),
    ("es", ""),
    ("ies", "y"),
    ("ed", ""),
    ("ed", "e"),
    ("ied", "y"),
    ("ing", ""),
    ("ing", "e"),
    ("ying", "ie"),
)
_SHORTEST = 2
"""Least letters of a base."""


def find_inflections(words: Iterable[str], forms: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the words that each form is an inflection of; forms of none are left out. All are folded.

    The same word has a common base and the same stem.
    """
    words, forms = list(words), list(forms)
    by_stem: defaultdict[str, set[str]] = defaultdict(set)
    for word, stem in zip(words, stems_of(words), strict=True):
        by_stem[stem].add(word)
    inflections = {}
    for form, stem in zip(forms, stems_of(forms), strict=True):
        if stem in by_stem:
            bases = base_forms(form)
            same = frozenset(word for word in by_stem[stem] if not bases.isdisjoint(base_forms(word)))
            if same:
                inflections[form] = same
    return inflections


def base_forms(form: str) -> set[str]:
    """Return the forms that this one may be an inflection of by its spelling, and itself."""
    bases = {form}
    for ending, restored in _ENDINGS:
        base = form.removesuffix(ending)
        if base != form and len(base + restored) >= _SHORTEST:
            bases.add(base + restored)
            if not restored and base[-1] == base[-2]:
                bases.add(base[:-1])
    return bases


def is_inflection(form: str, word: str) -> bool:
    """Return whether a folded form is a word, or its regular plural, -ed or -ing, with the final consonant
    doubled where English does so: *charring*, but not *charing*, of *char*."""
    if form == word or form in (f"{word}s", f"{word}es"):
        return True
    if word.endswith("e"):
        return form in (f"{word}d", f"{word[:-1]}ing", f"{word[:-2]}ying")
    if word.endswith("y"):
        return form in (f"{word[:-1]}ies", f"{word[:-1]}ied", f"{word}ing", f"{word}ed")
    doubled = word + word[-1] if _doubles(word) else word
    return form in (f"{doubled}ed", f"{doubled}ing")


def with_doubled_letter(form: str) -> Iterator[str]:
    """Yield a form with each of its letters doubled: *running* of *runing*."""
    return (form[:i] + letter + form[i:] for i, letter in enumerate(form) if form[i - 1 : i] != letter)


def _doubles(word: str) -> bool:
    """Whether a word of one vowel ends in a vowel and a consonant that is doubled."""
    is_vowel = [letter in "aeiou" for letter in word]
    return sum(is_vowel) == 1 and len(word) > 2 and is_vowel[-2] and word[-1] not in "wxy"
