"""Near words: what a query's words are searched as if they stand nowhere, or are the beginning of a word.

A word with a typing error is in no chunk, as typed or inflected, and unknown to the scorer. The nearest word
of the library takes its place, with less weight, in the ranking by words and in the query's profile. Words
that a chunk contains, words that the scorer knows, phrases, titles, exclusions and codes are never changed,
so most queries have no near words. `benchmarks/typing_errors.py` chose the weights.

With `prefix`, the last word also stands for the words that begin with it, like synonyms.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

from shoal.index.forms import (
    NearForm,
    count_form,
    forms_of_term,
    forms_starting_with,
    is_name,
    near_forms,
)
from shoal.index.matching import OTHER_SHARE, IndexTerm, find
from shoal.models.queries import NearWord
from shoal.search.library_index import LibraryIndex
from shoal.search.matched_terms import find_inflections
from shoal.search.query_language import ParsedQuery, Term
from shoal.words.terms import other_numbers, word_pattern
from shoal.words.typed import folded, stems_of, tokens_of

TYPO, PREFIX = "typo", "prefix"

REPLACED_WEIGHT = 0.8
"""Factor of the BM25 of a word in place of one with a typing error."""
OTHER_WEIGHT = 0.4
"""Factor of the other words that are as near."""
MAX_OTHERS = 2
MAX_COMPLETIONS = 8
MIN_PREFIX = 2
MAX_JOINED = 16
"""Pairs of neighbouring words that are looked up as one."""

MAX_CORRECTED = 8
"""Words of a query that near words are looked for; each takes a millisecond or two."""
MAX_CANDIDATES = 5
_ACRONYM = re.compile(r"[a-z]?[A-Z]{2,}s?")
"""An acronym or its plural. Stems do not join these: RNAs has no vowel before the *s* to a stemmer."""
_INSIDE = "-'’"
"""What may be between the letters of words."""
_AROUND = "'\".,;:!?()[]{}“”‘’"


def is_known(library: LibraryIndex, word: str) -> bool:
    """Return whether an index has a folded word of letters as it is or in another inflection. A stem joins
    other words, too: that of *invoces* is that of *invoices*."""
    if count_form(library.index, word):
        return True
    (term,) = stems_of([word])
    forms = forms_of_term(library.index, term, stems_of)
    return bool(find_inflections([word], forms))


def correct_typing_errors(
    library: LibraryIndex, parsed: ParsedQuery, missing: Sequence[Term]
) -> tuple[ParsedQuery, tuple[NearWord, ...]]:
    """Return a query with near words in place of missing terms, and what was changed.

    `missing` are terms of the query that no chunk contains as typed and the scorer does not know.
    """
    codes = _codes(parsed.about)
    near_words: list[NearWord] = []
    for term in missing[:MAX_CORRECTED]:
        is_exact = term in (*parsed.required, *parsed.identifiers) or term in parsed.parts
        if len(term.tokens) == 1 and not is_exact and term.text not in codes:
            words = _near_words(library, term.text)
            near_words += words
            parsed = _with_near_words(parsed, term, words)
    return parsed, tuple(near_words)


def complete_last_word(
    library: LibraryIndex, parsed: ParsedQuery, counts: Mapping[Term, int]
) -> tuple[ParsedQuery, tuple[NearWord, ...]]:
    """Return a query whose last word also stands for the words that begin with it, and these words, the most
    frequent first. They count as the word itself.

    If no chunk contains the last word itself, the most frequent of them takes its place. A query that ends
    with white space or punctuation is complete, and so is a phrase.
    """
    tokens = tokens_of(parsed.about)
    last = parsed.about.split()[-1:]
    # A stop word is a token in small letters: *us* of getUs.
    if not tokens or parsed.is_text or not parsed.about.lower().endswith(tokens[-1].lower()):
        return parsed, ()
    # The beginning of a code is all of it: E10 of E1042, 2.0 of 2.0.1.
    typed = Term((last[0].lstrip(_AROUND),)) if _is_code(last[0]) else Term((tokens[-1],))
    if Term(typed.tokens, in_title=True) in parsed.required:
        return parsed, ()
    prefix = folded(typed.text)
    if len(prefix) < MIN_PREFIX:
        return parsed, ()
    own = stems_of(typed.tokens)[0]
    found = [form for form, _ in forms_starting_with(library.index, prefix, 2 * MAX_COMPLETIONS)]
    forms = [
        form for form, term in zip(found, stems_of(found), strict=True) if term != own and form != prefix
    ]
    matches = dict(
        zip(forms, find(library.index, [IndexTerm(stems_of([form])) for form in forms]), strict=True)
    )
    words = [
        NearWord(typed.text, form, PREFIX, 0, OTHER_SHARE, matches[form].n_chunks, replaces=False)
        for form in sorted(forms, key=lambda form: (-matches[form].n_chunks, form))
        if matches[form].n_chunks
    ][:MAX_COMPLETIONS]
    if not words:
        return parsed, ()
    about = parsed.about
    if not counts.get(typed):
        words[0] = dataclasses.replace(words[0], replaces=True)
        about = about[: len(about) - len(typed.text)] + words[0].word
    parts = {Term((token,)) for token in tokens_of(typed.text)} - {typed}
    terms = [term for term in parsed.terms if term not in parts]
    completed = tuple(Term((word.word,)) for word in words)
    return dataclasses.replace(
        parsed,
        about=about,
        terms=tuple(terms if typed in terms else [*terms, typed]),
        synonyms={**parsed.synonyms, typed: (*parsed.synonyms.get(typed, ()), *completed)},
    ), tuple(words)


def with_joined_words(library: LibraryIndex, parsed: ParsedQuery) -> ParsedQuery:
    """Return a query whose neighbouring words also stand for the one word that they make, as far as the
    library has it, identifiers that it lacks for their parts side by side, and acronyms and irregular nouns
    for their plural and singular: *node js* for nodejs, *XR 300* for XR300, TBX90 for *TBX 90*, RNAs for RNA,
    *shelf* for shelves."""
    synonyms = {term: list(others) for term, others in parsed.synonyms.items()}
    for pair in parsed.pairs[:MAX_JOINED]:
        first, second = (Term((token,)) for token in pair.tokens)
        joined = "".join(map(folded, pair.tokens)).lower()
        # *grade D* is not *graded*.
        is_other = stems_of([joined]) != stems_of(first.tokens)
        if (
            joined.isalnum()
            and is_other
            and {first, second} <= {*parsed.terms}
            and _is_in(library, (joined,))
        ):
            for term in (first, second):
                synonyms.setdefault(term, []).append(Term((joined,)))
    for term in parsed.identifiers[:MAX_JOINED]:
        parts = parts_of(term)
        if parts and not _is_in(library, term.tokens) and _is_in(library, parts):
            synonyms.setdefault(term, []).append(Term(parts))
    for term in parsed.terms:
        others = () if len(term.tokens) > 1 or term.in_title else other_numbers(folded(term.text))
        # Both numbers of *matrix* rank worse than the one typed.
        if others and not _is_in(library, term.tokens):
            numbers = [Term((form,)) for form in others if _is_in(library, (form,))]
            synonyms.setdefault(term, []).extend(numbers)
        if len(term.tokens) == 1 and not term.in_title and _ACRONYM.fullmatch(term.text):
            other = term.text[:-1] if term.text.endswith("s") else f"{term.text}s"
            # GA has no plural in a library with the word gas.
            is_acronym = other[0].islower() or is_name(library.index, folded(other))
            if is_acronym and stems_of([other]) != stems_of(term.tokens) and _is_in(library, (other,)):
                synonyms.setdefault(term, []).append(Term((other,)))
    return dataclasses.replace(
        parsed, synonyms={term: tuple(dict.fromkeys(others)) for term, others in synonyms.items()}
    )


def parts_of(identifier: Term) -> tuple[str, ...]:
    """Return the parts of an identifier that are it if they stand side by side; none of a number, because
    *30, 31* is not 30.31."""
    parts = tuple(tokens_of(identifier.text))
    return parts if len(parts) > 1 and any(map(str.isalpha, parts)) else ()


def _is_in(library: LibraryIndex, tokens: Sequence[str]) -> bool:
    (found,) = find(library.index, [IndexTerm(stems_of(tokens))])
    return found.n_chunks > 0


def describe_typing_errors(near_words: Sequence[NearWord]) -> list[str]:
    """Return a warning for each typing error that was taken for a word."""
    return [
        f"searched for {near.typed}, which stands nowhere, as {near.word}"
        for near in near_words
        if near.kind == TYPO and near.replaces
    ]


def _near_words(library: LibraryIndex, typed: str) -> list[NearWord]:
    """The words of the library nearest to one that stands nowhere, the likeliest first; one of each stem."""
    near = near_forms(library.index, folded(typed), MAX_CANDIDATES)
    of_term: dict[str, NearForm] = {}
    for each, term in zip(near, stems_of(each.form for each in near), strict=True):
        of_term.setdefault(term, each)
    matches = dict(zip(of_term, find(library.index, [IndexTerm((term,)) for term in of_term]), strict=True))
    ranked = sorted(
        (each for each in of_term.items() if matches[each[0]].n_chunks),
        key=lambda each: (
            each[1].edits,
            not each[1].keeps_first,
            -matches[each[0]].n_chunks,
            each[1].form,
        ),
    )
    return [
        NearWord(
            typed,
            form.form,
            TYPO,
            form.edits,
            OTHER_WEIGHT if place else REPLACED_WEIGHT,
            matches[term].n_chunks,
            replaces=not place,
        )
        for place, (term, form) in enumerate(ranked[: 1 + MAX_OTHERS])
        if form.edits == ranked[0][1].edits
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
        plain=_replace_word(parsed.plain, typed.text, new.text),
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
