"""The languages of a query, and the inflections of its words in them (`shoal.words.inflections`).

A query has the language that it is given, or the one that its script or its stop words say. If they do not
say it, as of a few words, it is analysed in all languages of the library. A query in one language other than
English has no stop words of it, and no reefs, which are of English words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lagoon.tokens import fold
from shoal.index.matching import count_roughly, has_form
from shoal.search.across_languages import languages_with_words, with_translations
from shoal.search.library_index import LibraryIndex
from shoal.search.passage_languages import languages_of_library
from shoal.search.query_language import ParsedQuery, Term, parse_query
from shoal.search.request import SearchRequest
from shoal.search.signals import find_matches
from shoal.support.languages import ENGLISH, LANGUAGES
from shoal.words.analysis import folded, tokens_of
from shoal.words.detection import language_of_script, stop_words
from shoal.words.inflections import inflections
from shoal.words.terms import MAX_LETTERS

LEAST_STOP_WORDS = 2
"""Stop words of one language more than of any other, from which a query is in it; one is enough if no other
language has any."""
NOUNS_IN_CAPITALS = frozenset({"de"})
"""Languages that write all nouns with a capital letter, which says nothing of names then."""

COMPOUNDING = frozenset({"da", "de", "fi", "hu", "nl", "no", "sv"})
"""Languages that write compounds as one word."""
JOINTS = ("", "s", "es", "n", "en", "er", "e")
"""Letters between the parts of a compound."""
SHORTEST_PART = 4

PREFIXES: Mapping[str, Sequence[str]] = {
    "he": (*"הובכלמש", "וה", "וב", "וכ", "ול", "ומ", "וש", "שה", "שב", "של", "כש", "מה", "לכ")
}
"""What is written as one word with the next one: the, and, in, as, to, from, that."""
SHORTEST_BARE = 3
"""Letters of a word without a prefix that was typed."""
MAX_PREFIXED = 16

PART_WEIGHT = 0.7
"""Factor of the BM25 of a part of a compound (benchmarks/languages.py)."""
MAX_SPLIT_WORDS = 16
"""Words of a query that are split; each takes some ten look-ups."""


def read_query(library: LibraryIndex, request: SearchRequest, max_words: int) -> ParsedQuery:
    """Return the query of a request, parsed in its languages, with the inflections of its words. `max_words`:
    of its terms."""
    parsed = parse_query(request.query, max_words=max_words, syntax=request.syntax)
    of_library = languages_of_library(library)
    languages = languages_of_query(parsed.about, request.language, of_library)
    if request.languages:
        for codes in (tuple(LANGUAGES), languages_with_words(of_library)):
            known = languages_of_query(parsed.about, request.language, codes)
            if len(known) == 1:
                languages = known
                break
    if languages != (ENGLISH,):
        if len(languages) == 1:
            parsed = parse_query(
                request.query, max_words=max_words, syntax=request.syntax, language=languages[0]
            )
        parsed = with_prefixes(library, with_parts(library, with_inflections(parsed, languages)))
    return with_translations(library, parsed, request.languages, of_library)


def languages_of_query(query: str, given: str | None, of_library: Sequence[str]) -> tuple[str, ...]:
    """Return the languages that a query is analysed in: one if it is known, else all of the library."""
    if given is not None:
        return (given,)
    if len(of_library) < 2:
        return tuple(of_library) or (ENGLISH,)
    by_script = language_of_script(query)
    if by_script is not None:
        return (by_script,)
    words = [fold(token) for token in tokens_of(query)]
    counts = sorted(
        ((sum(map(stop_words(code).__contains__, words)), code) for code in of_library), reverse=True
    )
    (most, code), (second, _) = counts[:2]
    if most - second >= LEAST_STOP_WORDS or (most and not second):
        return (code,)
    return tuple(of_library)


def with_inflections(parsed: ParsedQuery, languages: Sequence[str]) -> ParsedQuery:
    """Return a query whose words also stand for their inflections in some languages."""
    synonyms = dict(parsed.synonyms)
    for term in parsed.terms:
        if len(term.tokens) > 1 or term.in_title or term in parsed.required or term in parsed.identifiers:
            continue
        forms = [Term((form,)) for form in inflections(term.text, languages)]
        if forms:
            synonyms[term] = tuple(dict.fromkeys((*synonyms.get(term, ()), *forms)))
    names = () if NOUNS_IN_CAPITALS.issuperset(languages) else parsed.names
    return dataclasses.replace(parsed, synonyms=synonyms, names=names, languages=tuple(languages))


def with_parts(library: LibraryIndex, parsed: ParsedQuery) -> ParsedQuery:
    """Return a query whose compounds also rank by their parts, in any inflection, in languages that write
    compounds as one word."""
    codes = [code for code in parsed.languages if code in COMPOUNDING]
    if not codes:
        return parsed
    also = dict(parsed.also)
    own = {form for others in parsed.synonyms.values() for form in others}
    for term in parsed.terms[:MAX_SPLIT_WORDS]:
        if term in parsed.synonyms and len(term.tokens) == 1:
            for part in split_compound(library, folded(term.text), codes):
                forms = [Term((form,)) for form in inflections(part, codes)]
                also.update((form, PART_WEIGHT) for form in forms if form not in own)
    return dataclasses.replace(parsed, also=also)


def with_prefixes(library: LibraryIndex, parsed: ParsedQuery) -> ParsedQuery:
    """Return a query whose words also stand for the same words with and without prefixes, as far as the
    library has them, in languages that write articles, prepositions and conjunctions as one word with the
    next."""
    prefixes = [prefix for code in parsed.languages for prefix in PREFIXES.get(code, ())]
    if not prefixes:
        return parsed
    synonyms = dict(parsed.synonyms)
    for term in parsed.terms[:MAX_SPLIT_WORDS]:
        if len(term.tokens) > 1 or term.in_title or term in parsed.required:
            continue
        word = folded(term.text)
        bare = [word.removeprefix(prefix) for prefix in prefixes if word.startswith(prefix)]
        bare = [each for each in bare if len(each) >= SHORTEST_BARE and has_form(library.index, each)]
        others = [prefix + each for each in (word, *bare) for prefix in ("", *prefixes)]
        forms = [Term((other,)) for other in others if other != word and has_form(library.index, other)]
        if forms:
            synonyms[term] = tuple(dict.fromkeys((*synonyms.get(term, ()), *forms[:MAX_PREFIXED])))
    return dataclasses.replace(parsed, synonyms=synonyms)


def split_compound(library: LibraryIndex, word: str, codes: Sequence[str]) -> tuple[str, ...]:
    """Return the two words that a folded word is made of, without the letters that join them; none if the
    library does not have both, in some inflection of these languages.

    Of several splits, the one whose parts are most frequent counts, by their geometric mean (Koehn and
    Knight, "Empirical methods for compound splitting", EACL 2003).
    """
    if not 2 * SHORTEST_PART <= len(word) <= MAX_LETTERS:
        return ()

    def count(part: str) -> int:
        return sum(count_roughly(library.index, form) for form in inflections(part, codes))

    best: tuple[int, tuple[str, ...]] = (0, ())
    for at in range(SHORTEST_PART, len(word) - SHORTEST_PART + 1):
        n_last = count(word[at:])
        for joint in JOINTS if n_last else ():
            first = word[:at].removesuffix(joint)
            if len(first) >= SHORTEST_PART and (not joint or len(first) < at):
                best = max(best, (n_last * count(first), (first, word[at:])))
    return best[1] if best[0] else ()


def found_inflected(library: LibraryIndex, parsed: ParsedQuery) -> frozenset[Term]:
    """Return the terms of a query that some passage has in another form."""
    forms = dict.fromkeys(form for others in parsed.synonyms.values() for form in others)
    matches = find_matches(library, list(forms))
    return frozenset(
        term for term, others in parsed.synonyms.items() if any(matches[form].n_chunks for form in others)
    )
