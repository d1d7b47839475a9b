"""Near words: what a query's words are searched as if they stand nowhere, or are the beginning of a word.

A word with a typing error is in no chunk and unknown to the scorer. The nearest word of the library takes
its place, with less weight, in the ranking by words and in the query's profile. Words that a chunk contains,
words that the scorer knows, phrases, titles, exclusions and codes are never changed, so most queries have no
near words. `benchmarks/typing_errors.py` chose the weights.

With `prefix`, the last word also stands for the words that begin with it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lagoon.tokens import is_stop_word
from shoal.index.matching import IndexTerm, Matches, find
from shoal.index.near_terms import count_edits, max_edits, near_terms, stems_starting_with
from shoal.index.terms import word_pattern
from shoal.models.query_info import NearWord
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import ParsedQuery, Term, folded, stems_of, tokens_of
from shoal.storage.database import Snapshot, listed

TYPO, PREFIX = "typo", "prefix"

REPLACED_WEIGHT = 0.8
"""Factor of the BM25 of a word in place of one with a typing error."""
OTHER_WEIGHT = 0.4
"""Factor of the other words that are as near."""
MAX_OTHERS = 2
COMPLETION_WEIGHT = 0.5
"""Factor of the words that begin with the last word."""
MAX_COMPLETIONS = 8
MIN_PREFIX = 2

MAX_CORRECTED = 8
"""Words of a query that near words are looked for; each takes a millisecond or two."""
MAX_CANDIDATES = 5
CHUNKS_READ = 3
"""Chunks of a stem in which its forms are looked for."""

_INSIDE = "-'’"
"""What may be between the letters of words."""
_AROUND = "'\".,;:!?()[]{}“”‘’"

TEXTS_OF = """
    SELECT c.id, d.title, s.path, c.text
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id
    WHERE c.id IN ({ids})
"""


class Typos(enum.StrEnum):
    """What a search does with words that stand nowhere: `auto` searches for the nearest words, `off` does
    not."""

    auto = "auto"
    off = "off"


class Form(NamedTuple):
    """A word of the library by its stem."""

    edits: int
    stem: str
    word: str
    matches: Matches


def correct_typing_errors(
    snapshot: Snapshot, library: LibraryIndex, parsed: ParsedQuery, missing: Sequence[Term]
) -> tuple[ParsedQuery, tuple[NearWord, ...]]:
    """Return a query with near words in place of missing terms, and what was changed.

    `missing` are terms of the query that no chunk contains and the scorer does not know.
    """
    codes = _codes(parsed.about)
    near_words: list[NearWord] = []
    for term in missing[:MAX_CORRECTED]:
        if len(term.tokens) == 1 and term not in parsed.required and term.text not in codes:
            words = _near_words(snapshot, library, term.text)
            near_words += words
            parsed = _with_near_words(parsed, term, words)
    return parsed, tuple(near_words)


def complete_last_word(
    snapshot: Snapshot, library: LibraryIndex, parsed: ParsedQuery, counts: Mapping[Term, int]
) -> tuple[ParsedQuery, tuple[NearWord, ...]]:
    """Return a query whose last word also stands for the words that begin with it, and these words.

    If no chunk contains the last word itself, the most frequent of them takes its place. A query that ends
    with white space or punctuation is complete, and so is a phrase.
    """
    tokens = tokens_of(parsed.about)
    if not tokens or parsed.is_text or not parsed.about.endswith(tokens[-1]):
        return parsed, ()
    typed = Term((tokens[-1],))
    if Term(typed.tokens, in_title=True) in parsed.required:
        return parsed, ()
    prefix = folded(typed.text)
    if len(prefix) < MIN_PREFIX:
        return parsed, ()
    own = stems_of(typed.tokens)[0]
    stems = [stem for stem in stems_starting_with(library.index, prefix, MAX_COMPLETIONS + 1) if stem != own]
    forms = completing_forms(snapshot, library, stems[:MAX_COMPLETIONS], prefix)
    is_missing = counts.get(typed) == 0
    words = [
        NearWord(typed.text, form.word, PREFIX, 0, COMPLETION_WEIGHT, form.matches.n_chunks, replaces=False)
        for form in sorted(forms, key=lambda form: (-form.matches.n_chunks, form.word))
    ]
    words = list({word.word: word for word in words}.values())
    if words and is_missing:
        words[0] = dataclasses.replace(words[0], replaces=True)
    return _with_near_words(parsed, typed, words), tuple(words)


def describe_typing_errors(near_words: Sequence[NearWord]) -> list[str]:
    """Return a warning for each typing error that was taken for a word."""
    return [
        f"searched for {near.typed}, which stands nowhere, as {near.word}"
        for near in near_words
        if near.kind == TYPO and near.replaces
    ]


def _near_words(snapshot: Snapshot, library: LibraryIndex, typed: str) -> list[NearWord]:
    """The words of the library nearest to one that stands nowhere, the likeliest first."""
    word = folded(typed)
    near = {each.stem: each for each in near_terms(library.index, word, MAX_CANDIDATES)}
    allowed = max_edits(word)
    forms = forms_of(snapshot, library, list(near))
    edits = count_edits([form.word for form in forms], word)
    nearest: dict[str, tuple[tuple[int, bool, int, str], Form]] = {}
    for form, n_edits in zip(forms, edits, strict=True):
        order = (n_edits, form.word[0] != word[0], -form.matches.n_chunks, form.word)
        if n_edits <= allowed and (form.stem not in nearest or order < nearest[form.stem][0]):
            nearest[form.stem] = order, form
    ranked = sorted(nearest.values(), key=lambda each: each[0])
    return [
        NearWord(
            typed,
            form.word,
            TYPO,
            order[0],
            OTHER_WEIGHT if place else REPLACED_WEIGHT,
            form.matches.n_chunks,
            replaces=not place,
        )
        for place, (order, form) in enumerate(ranked[: 1 + MAX_OTHERS])
        if order[0] == ranked[0][0][0]
    ]


def forms_of(snapshot: Snapshot, library: LibraryIndex, stems: Sequence[str]) -> list[Form]:
    """The words of some stems, as far as a few chunks of each show them; the index has stems only."""
    found = dict(zip(stems, find(library.index, [IndexTerm((stem,)) for stem in stems]), strict=True))
    chunk_ids = {
        chunk_id for matches in found.values() for chunk_id in matches.first_chunks(CHUNKS_READ).tolist()
    }
    if not chunk_ids:
        return []
    ids, parameters = listed("id", sorted(chunk_ids))
    initials = {stem[0] for stem in stems}
    words: set[str] = set()
    for _, *texts in snapshot.rows(TEXTS_OF.format(ids=ids), parameters):
        for text in texts:
            words.update(tokens_of(text))
    forms = sorted({form for form in map(folded, words) if form[:1] in initials})
    return [
        Form(0, stem, form, found[stem])
        for form, stem in zip(forms, stems_of(forms), strict=True)
        if stem in found
    ]


def completing_forms(
    snapshot: Snapshot, library: LibraryIndex, stems: Sequence[str], beginning: str
) -> list[Form]:
    """The words of some stems that begin with a folded text, without stop words."""
    return [
        form
        for form in forms_of(snapshot, library, stems)
        if form.word.startswith(beginning) and not is_stop_word(form.word)
    ]


def _with_near_words(parsed: ParsedQuery, typed: Term, words: Sequence[NearWord]) -> ParsedQuery:
    """A query with near words of one of its terms."""
    own = {stems_of(term.tokens) for term in parsed.terms if not term.in_title}
    also = {
        term: word.weight
        for word in words
        if not word.replaces
        for term in (Term((word.word,)),)
        if stems_of(term.tokens) not in own
    }
    parsed = dataclasses.replace(parsed, also={**parsed.also, **also})
    if not words or not words[0].replaces:
        return parsed
    new = Term((words[0].word,))
    is_new = stems_of(new.tokens) not in own

    def replaced(terms: Iterable[Term]) -> tuple[Term, ...]:
        return tuple(new if term == typed else term for term in terms if is_new or term != typed)

    pairs = (
        Term(tuple(new.text if token == typed.text else token for token in pair.tokens))
        for pair in parsed.pairs
    )
    frequencies = {new if term == typed else term: n for term, n in parsed.frequencies.items()}
    return dataclasses.replace(
        parsed,
        about=_replace_word(parsed.about, typed.text, new.text),
        terms=replaced(parsed.terms),
        pairs=tuple(dict.fromkeys(pairs)),
        frequencies=frequencies if is_new else parsed.frequencies,
        term_weights={**parsed.term_weights, new: words[0].weight} if is_new else parsed.term_weights,
    )


def _replace_word(text: str, typed: str, word: str) -> str:
    """The text with another word in place of one, in any case."""
    pieces = word_pattern(text).split(text)
    is_typed = folded(typed)
    return "".join(
        word if place % 2 and folded(piece) == is_typed else piece for place, piece in enumerate(pieces)
    )


def _codes(about: str) -> frozenset[str]:
    """The words of a query that belong to codes: with digits, all in capitals, or identifiers."""
    return frozenset(
        token for piece in about.split() if _is_code(piece.strip(_AROUND)) for token in tokens_of(piece)
    )


def _is_code(piece: str) -> bool:
    """Whether a piece of a query is not words as people write them: NATO, camelCase, B-17, a_b, a.b."""
    words = "".join(letter for letter in piece if letter not in _INSIDE)
    return (
        piece[1:] != piece[1:].lower() or "".join(tokens_of(words)) != words or any(map(str.isdigit, words))
    )
