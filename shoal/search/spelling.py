"""Spelling suggestions for unknown words: words one edit away that are known or occur in the library.

An edit inserts, deletes or replaces a letter, or swaps two neighbours, which covers four of five typing
errors (Damerau, "A technique for computer detection and correction of spelling errors", CACM 7(3), 1964). A
word has few neighbours one edit away, so they are generated and looked up, rather than comparing the word
with the whole vocabulary.
"""

from __future__ import annotations

import string

from shoal.scorer import Scorer
from shoal.search.lexical_ranking import expression
from shoal.search.query_language import MAX_PHRASE_WORDS, Term, stems_of, tokens_of
from shoal.storage import vocabulary_queries
from shoal.storage.database import Snapshot

MAX_SUGGESTIONS = 3
"""Most suggestions for a word."""
SHORTEST, LONGEST = 4, 32
"""Lengths of words that get suggestions. A shorter word is one edit away from too many others; a longer one
has thousands of candidates."""

COUNT_WITH_WORD = "SELECT COUNT(*) FROM chunk_fts WHERE chunk_fts MATCH :word"
HAS_WORD = "SELECT 1 FROM chunk_fts WHERE chunk_fts MATCH :word LIMIT 1"


def suggest(word: str, snapshot: Snapshot, scorer: Scorer) -> tuple[str, ...]:
    """Return suggestions for an unknown word in its normal form: those in most chunks first, then known
    words.

    Of several inflections of a word, one is returned.
    """
    if not (SHORTEST <= len(word) <= LONGEST and word.isascii() and word.isalpha()):
        return ()
    candidates = sorted(one_edit_away(word), key=lambda candidate: (len(candidate), candidate))
    unknown = set(scorer.filter_unknown(candidates))
    version = vocabulary_queries.newest(snapshot).number
    learned = {
        entry.word
        for entry in vocabulary_queries.find_words(snapshot, candidates, version)
        if entry.learned is not None
    }
    by_stem: dict[str, tuple[bool, str]] = {}
    for candidate in candidates:
        is_known = candidate not in unknown or candidate in learned
        if not is_known and snapshot.first(HAS_WORD, {"word": f'"{candidate}"'}) is None:
            continue
        # Prefer the dictionary form to a rare inflection.
        is_headword = candidate in learned or (is_known and _headword(candidate, scorer) == candidate)
        (stem,) = stems_of((candidate,))
        if stem not in by_stem or (is_headword and not by_stem[stem][0]):
            by_stem[stem] = (is_headword, candidate)
    counted = [
        (-count_chunks(snapshot, candidate), not is_headword, candidate)
        for is_headword, candidate in by_stem.values()
    ]
    return tuple(candidate for _, _, candidate in sorted(counted)[:MAX_SUGGESTIONS])


def _headword(word: str, scorer: Scorer) -> str | None:
    matches = scorer.explain_words(word)
    headword: str | None = matches[0].word if matches else None
    return headword


def count_chunks(snapshot: Snapshot, words: str) -> int:
    """Count the chunks with these words side by side, in any inflection; only the first MAX_PHRASE_WORDS
    count."""
    term = Term(tuple(tokens_of(words)[:MAX_PHRASE_WORDS]))
    count: int = snapshot.value(COUNT_WITH_WORD, {"word": expression(term)})
    return count


def one_edit_away(word: str) -> set[str]:
    """Return all strings of lower-case letters one edit away from a word, without the word itself."""
    splits = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    letters = string.ascii_lowercase
    edits: set[str] = set()
    edits.update(a + b[1:] for a, b in splits if b)
    edits.update(a + b[1] + b[0] + b[2:] for a, b in splits if len(b) > 1)
    edits.update(a + c + b[1:] for a, b in splits if b for c in letters)
    edits.update(a + c + b for a, b in splits for c in letters)
    return edits - {word}
