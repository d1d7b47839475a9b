"""Terms: what the index stores for the forms of words.

The term of a form of letters is its stem, so that inflections meet: that of the language of its script
(`shoal.words.script_stems`), for Latin letters that of English. A form with digits or signs is its own term,
and so is one in capitals (`shoal.words.analysis`). Terms are cut to `MAX_LETTERS`.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from lagoon.tokens import fold, marks_of, stem_many
from shoal.words.script_stems import stems_by_script

_PAIRS = """
    calf calves | child children | elf elves | foot feet | goose geese | half halves | hoof hooves |
    knife knives | leaf leaves | life lives | loaf loaves | louse lice | man men | mouse mice | ox
    oxen | person people | scarf scarves | self selves | sheaf sheaves | shelf shelves | thief
    thieves | tooth teeth | wharf wharves | wife wives | wolf wolves | woman women | analysis
    analyses | axis axes | basis bases | crisis crises | diagnosis diagnoses | hypothesis hypotheses
    | oasis oases | parenthesis parentheses | prognosis prognoses | synthesis syntheses | thesis
    theses | appendix appendices | helix helices | index indices | matrix matrices | vertex vertices
    | vortex vortices | bacterium bacteria | criterion criteria | curriculum curricula | memorandum
    memoranda | ovum ova | phenomenon phenomena | quantum quanta | spectrum spectra | stratum strata
    | bacillus bacilli | fungus fungi | nucleus nuclei | radius radii | stimulus stimuli
"""
PAIRS = [(one, many) for pair in _PAIRS.split("|") for one, many in [pair.split()]]
_OTHERS: dict[str, list[str]] = {}
for _one, _many in PAIRS:
    _OTHERS[_one] = _OTHERS[f"{_one}s"] = [_many]
    _OTHERS[_many] = [_one]


def other_numbers(form: str) -> Sequence[str]:
    """Return the irregular plural or the singular of a folded noun: *shelves* of *shelf*, and of the error
    *shelfs*; empty for every other word."""
    return _OTHERS.get(form, ())


HYPHENS = "-\u2010\u2011"
APOSTROPHES = "'’ʼ"
DEGREE, TIMES = "°", "×"

LINKS = frozenset(f"{HYPHENS}{APOSTROPHES}_./:@&,{DEGREE}{TIMES}")
"""Signs that may join what is on both sides of them: *node.js*, *AT&T*, *9:45*."""
PREFIXES = frozenset("@#$€£¥.-~")
"""Signs that may belong to the word behind them: *@handle*, *.NET*, *-xzf*."""
SUFFIXES = frozenset("+#%‰")
"""Signs that may belong to the word before them: *C++*, *C#*, *5%*."""
NO_WORDS = frozenset("-_.…,;:!?'\"()[]{}/\\«»‹›„“”‚‘’「」『』–—·¿¡\u2010\u2011`´")
"""Punctuation; a run of it is no word even if it stands alone."""

_WITHOUT_SPACES = (
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),
    (0x3040, 0x30FF),  # kana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x20000, 0x323AF),
)
"""Letters of scripts whose words stand side by side."""


@functools.lru_cache(maxsize=100_000)
def is_without_spaces(char: str) -> bool:
    """Return whether a character is of a script whose words stand side by side."""
    point = ord(char)
    return point >= _WITHOUT_SPACES[0][0] and any(low <= point <= high for low, high in _WITHOUT_SPACES)


@functools.lru_cache(maxsize=100_000)
def is_pictograph(char: str) -> bool:
    """Return whether a character is a picture or symbol that is searched for alone: an emoji, *☎*, *∞*."""
    return ord(char) > 0xFF and unicodedata.category(char) in ("So", "Sm")


MARK = "\x04"
"""Begins a word that stands for an inflection or a language (`shoal.words.inflections`). No text has words
with this character."""
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


def is_mark(form: str) -> bool:
    """Return whether a form is no word of a text but stands for an inflection or a language."""
    return form.startswith(MARK)


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
        others = [form for form in terms if not form.isascii() and len(form) <= MAX_LETTERS]
        terms.update(stems_by_script(others))
        return terms


TERMS = Terms()
"""The terms of this process; their cache is worth sharing."""
