"""A query word by word: the status of each word, the reefs it adds to, and spelling suggestions.

Suggestions for unknown words are words of the library that are a few edits away. They are found like the
words that a search takes typing errors for (`shoal.index.forms`).
"""

from __future__ import annotations

from collections.abc import Sequence

from lagoon.tokens import without_clitic
from shoal.index.forms import near_forms
from shoal.learning.scorers import find, normal_form
from shoal.models.explanations import LEARNED, MAX_LOOKED_UP, Word, WordReef
from shoal.models.queries import NearWord
from shoal.scorer import Scorer
from shoal.search.lexical_ranking import find_matches
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import MAX_PHRASE_WORDS, Term
from shoal.storage.database import Snapshot
from shoal.words.typed import folded, stems_of, tokens_of

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


REEFS_PER_WORD = 5
"""Reefs listed for each word; a word has up to a dozen, and the weakest matter little."""
MAX_WORDS_WITH_SUGGESTIONS = 5

CUSTOM = "custom"
"""Status of a learned word in lagoon, and in Shoal."""


def explain_words(
    query: str,
    scorer: Scorer,
    snapshot: Snapshot,
    library: LibraryIndex,
    near_words: Sequence[NearWord] = (),
) -> tuple[Word, ...]:
    """Explain every word of a query, in order. `scorer` knows its learned words. A word with a near word that
    takes its place gets no suggestions."""
    searched_as = {folded(near.typed): near.word for near in near_words if near.replaces}
    names = {reef.id: reef.name for reef in scorer.reefs}
    matches = scorer.explain_words(query)
    custom = [match.word for match in matches if match.status == CUSTOM]
    learned = find(snapshot, scorer, library.count_by_document, custom) if custom else {}
    counts = _counts(library, [match.token for match in matches if match.status != "stop"])
    missing = [match.token for match in matches if match.status == "unknown" and counts.get(match.token) == 0]
    missing = [token for token in missing if folded(token) not in searched_as]
    suggestions = {
        token: suggest(without_clitic(normal_form(token)), library)
        for token in list(dict.fromkeys(missing))[:MAX_WORDS_WITH_SUGGESTIONS]
    }
    return tuple(
        Word(
            text=match.token,
            start_char=match.start,
            end_char=match.end,
            status=LEARNED if match.status == CUSTOM else match.status,
            word=match.word,
            reefs=tuple(
                WordReef(reef_id, names[reef_id], round(float(contribution), 6))
                for reef_id, contribution in sorted(match.reefs, key=lambda pair: (-pair[1], pair[0]))[
                    :REEFS_PER_WORD
                ]
            ),
            learned=learned.get(match.word),
            n_chunks=counts.get(match.token) if match.status != "stop" else None,
            suggestions=suggestions.get(match.token, ()) if match.status == "unknown" else (),
            searched_as=searched_as.get(folded(match.token)),
        )
        for match in matches
    )


def _counts(library: LibraryIndex, tokens: list[str]) -> dict[str, int]:
    return {token: count_chunks(library, token) for token in list(dict.fromkeys(tokens))[:MAX_LOOKED_UP]}
