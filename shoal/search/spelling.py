"""Spelling suggestions for unknown words: words of the library that are one edit away.

An edit inserts, deletes or replaces a letter, or swaps two neighbours, which covers four of five typing
errors (Damerau, "A technique for computer detection and correction of spelling errors", CACM 7(3), 1964). A
word has few neighbours one edit away, so they are generated and looked up, rather than comparing the word
with the whole vocabulary.
"""

from __future__ import annotations

import itertools
import string
from collections import defaultdict
from collections.abc import Sequence

from shoal.search.inflections import find_inflections
from shoal.search.lexical_ranking import find_matches
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import MAX_PHRASE_WORDS, Term, folded, stems_of, tokens_of
from shoal.storage.database import Snapshot, listed

MAX_SUGGESTIONS = 3
"""Most suggestions for a word."""
SHORTEST, LONGEST = 4, 32
"""Lengths of words that get suggestions. A shorter word is one edit away from too many others; a longer one
has thousands of candidates."""

CHUNKS_READ = 100
"""Chunks of a stem in which its forms are looked for."""

TEXTS_OF = """
    SELECT d.title, s.path, c.text
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id
    WHERE c.id IN ({ids})
"""


def suggest(word: str, snapshot: Snapshot, library: LibraryIndex) -> tuple[str, ...]:
    """Return suggestions for an unknown word in its normal form: words of the library, those in most chunks
    first.

    Of several inflections of a word, one is returned.
    """
    if not (SHORTEST <= len(word) <= LONGEST and word.isascii() and word.isalpha()):
        return ()
    by_stem: defaultdict[str, list[str]] = defaultdict(list)
    candidates = sorted(one_edit_away(word), key=lambda candidate: (len(candidate), candidate))
    for candidate, stem in zip(candidates, stems_of(candidates), strict=True):
        by_stem[stem].append(candidate)
    matches = find_matches(library, [Term((forms[0],)) for forms in by_stem.values()])
    counted = sorted(
        (
            (-found.n_chunks, forms, found)
            for forms, found in zip(by_stem.values(), matches.values(), strict=True)
        ),
        key=lambda each: each[:2],
    )
    in_library = (
        _first_in_library(forms, found.first_chunks(CHUNKS_READ).tolist(), snapshot)
        for n_chunks, forms, found in counted
        if n_chunks
    )
    return tuple(itertools.islice(filter(None, in_library), MAX_SUGGESTIONS))


def _first_in_library(forms: Sequence[str], chunk_ids: Sequence[int], snapshot: Snapshot) -> str | None:
    """The first of some forms with one stem that is in the library, else the shortest inflection that is.

    The index has stems only, so the texts of some chunks with the stem are read.
    """
    ids, parameters = listed("id", chunk_ids)
    words = {
        folded(token)
        for row in snapshot.rows(TEXTS_OF.format(ids=ids), parameters)
        for text in row
        for token in tokens_of(text)
    }
    inflections = sorted(find_inflections(forms, words), key=lambda word: (len(word), word))
    return next((form for form in (*forms, *inflections) if form in words), None)


def count_chunks(library: LibraryIndex, words: str) -> int:
    """Count the chunks with these words side by side, in any inflection; only the first MAX_PHRASE_WORDS
    count."""
    term = Term(tuple(tokens_of(words)[:MAX_PHRASE_WORDS]))
    return find_matches(library, [term])[term].n_chunks


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
