"""Spelling suggestions for unknown words: words of the library that are a few edits away.

They are found like the words that a search takes typing errors for (`shoal.index.forms`).
"""

from __future__ import annotations

from shoal.index.forms import near_forms
from shoal.search.lexical_ranking import find_matches
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import MAX_PHRASE_WORDS, Term
from shoal.words.typed import stems_of, tokens_of

MAX_SUGGESTIONS = 3
"""Most suggestions for a word."""
MAX_CANDIDATES = 12
"""Near forms that suggestions are chosen from; some are inflections of others."""


def suggest(word: str, library: LibraryIndex) -> tuple[str, ...]:
    """Return suggestions for an unknown word in its normal form: words of the library, nearest first, those
    of equal distance by their occurrences.

    Of several inflections of a word, one is returned. None for a word with digits, or of fewer than 4 letters
    or more than 64.
    """
    if not word.isalpha():
        return ()
    near = [each.form for each in near_forms(library.index, word, MAX_CANDIDATES)]
    of_term: dict[str, str] = {}
    for form, term in zip(near, stems_of(near), strict=True):
        of_term.setdefault(term, form)
    return tuple(of_term.values())[:MAX_SUGGESTIONS]


def count_chunks(library: LibraryIndex, words: str) -> int:
    """Count the chunks with these words side by side, in any inflection; only the first MAX_PHRASE_WORDS
    count."""
    term = Term(tuple(tokens_of(words)[:MAX_PHRASE_WORDS]))
    return find_matches(library, [term])[term].n_chunks
