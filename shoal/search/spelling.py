"""Words that may have been meant, for one that nobody knows: one slip away, and known or found in the library.

A slip is a letter too many, too few, another one, or two in the wrong order, which is what four typing errors of five
are (Damerau, "A technique for computer detection and correction of spelling errors", CACM 7(3), 1964). All words a
slip away are few, so they are made and looked up, rather than compared with all words there are.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any

from shoal.search.lexical_ranking import expression
from shoal.search.query_language import MAX_PHRASE_WORDS, Term, stems_of, tokens_of
from shoal.storage import vocabulary_queries
from shoal.storage.database import Snapshot

MOST = 3
"""Suggestions for a word."""
SHORTEST, LONGEST = 4, 32
"""Of shorter words any three letters are a slip away; of longer ones there would be thousands."""

COUNT_WITH = "SELECT COUNT(*) FROM chunk_fts WHERE chunk_fts MATCH :word"
HAS = "SELECT 1 FROM chunk_fts WHERE chunk_fts MATCH :word LIMIT 1"


def suggest(word: str, snapshot: Snapshot, scorer: Any) -> tuple[str, ...]:
    """Words for an unknown one in its normal form: those in most chunks of the library first, then known ones. Of
    several inflections of a word, one."""
    if not (SHORTEST <= len(word) <= LONGEST and word.isascii() and word.isalpha()):
        return ()
    near = sorted(one_edit_away(word), key=lambda one: (len(one), one))
    unknown = set(scorer.filter_unknown(near))
    version = vocabulary_queries.newest(snapshot).number
    learned = {
        one.word for one in vocabulary_queries.find_words(snapshot, near, version) if one.learned is not None
    }
    by_stem: dict[str, tuple[bool, str]] = {}
    for one in near:
        is_known = one not in unknown or one in learned
        if not is_known and snapshot.first(HAS, {"word": f'"{one}"'}) is None:
            continue
        # The form that dictionaries have, rather than an inflection of it that nobody writes.
        is_form = one in learned or (is_known and _headword(one, scorer) == one)
        (stem,) = stems_of((one,))
        if stem not in by_stem or (is_form and not by_stem[stem][0]):
            by_stem[stem] = (is_form, one)
    counted = [(count_chunks(snapshot, one), is_form, one) for is_form, one in by_stem.values()]
    in_order = sorted(counted, key=lambda each: (-each[0], not each[1], each[2]))
    return tuple(one for _, _, one in in_order[:MOST])


def _headword(word: str, scorer: Any) -> str | None:
    matches = scorer.explain_words(word)
    found: str | None = matches[0].word if matches else None
    return found


def count_chunks(snapshot: Snapshot, words: str) -> int:
    """How many chunks hold these words, the first MAX_PHRASE_WORDS of them, side by side and in any inflection."""
    term = Term(tuple(tokens_of(words)[:MAX_PHRASE_WORDS]))
    count: int = snapshot.value(COUNT_WITH, {"word": expression(term)})
    return count


def one_edit_away(word: str) -> set[str]:
    """All strings of small letters that one slip makes of a word, without the word."""
    splits = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    letters = string.ascii_lowercase
    found: set[str] = set()
    found.update(_less(splits))
    found.update(a + b[1] + b[0] + b[2:] for a, b in splits if len(b) > 1)
    found.update(a + c + b[1:] for a, b in splits if b for c in letters)
    found.update(a + c + b for a, b in splits for c in letters)
    return found - {word}


def _less(splits: Iterable[tuple[str, str]]) -> Iterable[str]:
    return (a + b[1:] for a, b in splits if b)
