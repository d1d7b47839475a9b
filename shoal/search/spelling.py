"""Spelling suggestions for unknown words: words of the library that are a few edits away.

They are found like the words that a search takes typing errors for (`shoal.index.near_terms`).
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.index.near_terms import NearTerm, count_edits, max_edits, near_terms
from shoal.search.inflections import find_inflections
from shoal.search.lexical_ranking import find_matches
from shoal.search.library_index import LibraryIndex
from shoal.search.near_words import forms_of
from shoal.search.query_language import MAX_PHRASE_WORDS, Term, tokens_of
from shoal.storage.database import Snapshot

MAX_SUGGESTIONS = 3
"""Most suggestions for a word."""
MAX_CANDIDATES = 8
"""Stems whose forms are looked for in the library; some are other words, or have none that is near."""


def suggest(word: str, snapshot: Snapshot, library: LibraryIndex) -> tuple[str, ...]:
    """Return suggestions for an unknown word in its normal form: words of the library, nearest first, those
    of equal distance by their chunks.

    Of several inflections of a word, one is returned. None for a word with digits, or of fewer than 4 letters
    or more than 64.
    """
    if not word.isalpha():
        return ()
    near = near_terms(library.index, word, MAX_CANDIDATES)
    of_stem: dict[str, list[str]] = {}
    for form in forms_of(snapshot, library, [each.stem for each in near]):
        of_stem.setdefault(form.stem, []).append(form.word)
    suggestions = (_nearest_form(word, each, of_stem.get(each.stem, ())) for each in near)
    return tuple(dict.fromkeys(filter(None, suggestions)))[:MAX_SUGGESTIONS]


def _nearest_form(word: str, near: NearTerm, forms: Sequence[str]) -> str | None:
    """The form of a stem that is nearest to a word, else the shortest inflection of what is near it.

    The index has stems only, and a stem may join other words: *ill* and *illness*.
    """
    edits = dict(zip(forms, count_edits(list(forms), word), strict=True))
    within = [form for form in forms if edits[form] <= max_edits(word)]
    if within:
        return min(within, key=lambda form: (edits[form], len(form), form))
    inflections = find_inflections([near.form], forms)
    return min(inflections, key=lambda form: (len(form), form), default=None)


def count_chunks(library: LibraryIndex, words: str) -> int:
    """Count the chunks with these words side by side, in any inflection; only the first MAX_PHRASE_WORDS
    count."""
    term = Term(tuple(tokens_of(words)[:MAX_PHRASE_WORDS]))
    return find_matches(library, [term])[term].n_chunks
