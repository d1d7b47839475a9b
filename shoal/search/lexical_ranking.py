"""The signals of words: BM25F, the field boost, and how many chunks have each term of a query.

A chunk's lexical score is the sum over the query's terms of its BM25F and half of that of the block of chunks
around it, times the square root of the term's frequency in the query; and PAIR_SHARE of the BM25 of each pair
of words that are neighbours in the query and in the text. `benchmarks/lexical_ranking.py` compares formulas.

Scores are relative to the best match of a query; term coverage is absolute. It is the share of the query's
terms that a chunk contains, each weighted by its inverse document frequency as in BM25 (Robertson and
Zaragoza, 2009). Rare terms weigh more than common ones, and terms in no chunk weigh most.

The field boost is the share of the query's terms that are in title or headings, by the stems of the index, or
equal a tag, as typed or in another case. 0..1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.index import lexical
from shoal.index.lexical import WeightedTerm, idf
from shoal.index.matching import EVERYWHERE, IN_TEXT, TITLE, IndexTerm, Matches, find
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import ParsedQuery, Term
from shoal.storage.column_values import packed_ids
from shoal.storage.database import Query, Snapshot, listed
from shoal.words.typed import stems_of

UNIT = lexical.UNIT
"""Scores are whole multiples of 1 / UNIT, so that equal scores compare as equal."""
PAIR_SHARE = 0.2

_IN_TITLE = frozenset({TITLE})


def find_matches(library: LibraryIndex, terms: Sequence[Term]) -> dict[Term, Matches]:
    """Look up which chunks contain each term, in any inflection."""
    wanted = [IndexTerm(stems_of(term.tokens), _IN_TITLE if term.in_title else EVERYWHERE) for term in terms]
    return dict(zip(terms, find(library.index, wanted), strict=True))


def score_chunks(
    library: LibraryIndex, parsed: ParsedQuery, matches: Mapping[Term, Matches]
) -> NDArray[np.int64]:
    """Return the score of every chunk, in units of 1 / UNIT; 0 for a chunk without a term of the query."""
    return lexical.scores(library.index, weighted_terms(library, parsed, matches))


def weighted_terms(
    library: LibraryIndex, parsed: ParsedQuery, matches: Mapping[Term, Matches]
) -> list[WeightedTerm]:
    """Return the terms that add to a score: those of the query, and its pairs of neighbouring words."""
    weighted = [
        WeightedTerm(found, term_weight(parsed, term), has_context=True)
        for term, found in matches.items()
        if found.n_chunks
    ]
    present = [pair for pair in parsed.pairs if all(_is_present(matches, token) for token in pair.tokens)]
    pairs = [IndexTerm(stems_of(pair.tokens), IN_TEXT) for pair in present]
    weighted += [
        WeightedTerm(found, PAIR_SHARE * _pair_weight(parsed, pair), has_context=False)
        for pair, found in zip(present, find(library.index, pairs), strict=True)
        if found.n_chunks
    ]
    weighted += [
        WeightedTerm(found, term_weight(parsed, term), has_context=True)
        for term, found in find_matches(library, list(parsed.also)).items()
        if found.n_chunks
    ]
    return weighted


def term_weight(parsed: ParsedQuery, term: Term) -> float:
    """Return the factor of the BM25 of a term."""
    if term in parsed.also:
        return parsed.also[term]
    return math.sqrt(parsed.frequencies.get(term, 1)) * parsed.term_weights.get(term, 1.0)


def _pair_weight(parsed: ParsedQuery, pair: Term) -> float:
    return min(parsed.term_weights.get(Term((token,)), 1.0) for token in pair.tokens)


def _is_present(matches: Mapping[Term, Matches], token: str) -> bool:
    found = matches.get(Term((token,)))
    return found is not None and found.n_chunks > 0


@dataclass(frozen=True)
class TermStatistics:
    """`counts`: how many of the library's `n_chunks` contain each term, in the order of the query."""

    n_chunks: int
    counts: Mapping[Term, int]

    @property
    def missing(self) -> tuple[Term, ...]:
        """The terms in no chunk."""
        return tuple(term for term, count in self.counts.items() if not count)

    @functools.cached_property
    def weights(self) -> Mapping[Term, float]:
        """The share of each term in the query, adding up to 1."""
        idfs = {term: idf(self.n_chunks, count) for term, count in self.counts.items()}
        total = math.fsum(idfs.values())
        return {term: idf / total for term, idf in idfs.items()}

    def term_coverage(
        self, library: LibraryIndex, matches: Mapping[Term, Matches], chunk_ids: Sequence[int]
    ) -> dict[int, float]:
        """Return the term coverage of each chunk over title, headings and text, 0..1; empty for a query
        without terms."""
        if not self.counts or not chunk_ids:
            return {}
        coverage = np.zeros(len(chunk_ids))
        places = library.index.places_of(chunk_ids)
        for term, weight in self.weights.items():
            coverage += weight * matches[term].are_in(places)
        # Rounding errors may lift sums slightly above 1.
        return dict(zip(chunk_ids, np.minimum(coverage.round(6), 1.0).tolist(), strict=True))


NO_STATISTICS = TermStatistics(0, {})


def find_term_statistics(
    library: LibraryIndex, matches: Mapping[Term, Matches], parts: Collection[Term] = ()
) -> TermStatistics:
    """Count the chunks that contain each term, in any inflection. `parts` of identifiers do not count beside
    these."""
    counts = {term: found.n_chunks for term, found in matches.items() if term not in parts}
    return TermStatistics(library.n_chunks, counts) if counts else NO_STATISTICS


TAGGED = "SELECT document_id AS id FROM document_tags WHERE tag IN ({tags})"
TAGS_IN_USE = "SELECT DISTINCT tag FROM document_tags WHERE tag IN ({tags})"


def field_counts(
    snapshot: Snapshot, library: LibraryIndex, matches: Mapping[Term, Matches]
) -> NDArray[np.uint16]:
    """Count, for the chunk at each place, the terms that are in title, headings or tags; outdated chunks have
    any number."""
    counts = np.zeros(len(library), dtype=np.uint16)
    tags = matching_tags(snapshot, tuple(matches)) if matches else {}
    for term, found in matches.items():
        if term not in tags:
            found.add_placed(counts)
            continue
        names, parameters = listed("tag", tags[term])
        documents = packed_ids(snapshot, TAGGED.format(tags=names), parameters)
        placed = np.zeros_like(counts)
        found.add_placed(placed)
        counts += (placed > 0) | library.index.of_documents(documents)
    return counts


def matching_tags(snapshot: Snapshot, terms: Sequence[Term]) -> dict[Term, tuple[str, ...]]:
    """Return, for each term that names tags in use, these tags."""
    term_of = _terms_by_spelling(terms)
    tags: dict[Term, tuple[str, ...]] = {}
    for (tag,) in snapshot.rows(*_tags_query(term_of)):
        tags[term_of[tag]] = (*tags.get(term_of[tag], ()), tag)
    return tags


def tags_query(terms: Sequence[Term]) -> Query:
    """Return what `matching_tags` reads."""
    return _tags_query(_terms_by_spelling(terms))


def _tags_query(tags: Iterable[str]) -> Query:
    names, parameters = listed("tag", tags)
    return Query(TAGS_IN_USE.format(tags=names), parameters)


def _terms_by_spelling(terms: Sequence[Term]) -> dict[str, Term]:
    return {spelling: term for term in terms if not term.in_title for spelling in tag_spellings(term.text)}


def tag_spellings(text: str) -> tuple[str, ...]:
    """Return the tags that a term names."""
    return text, text.lower(), text.upper(), text.capitalize(), text.title(), text.lower().replace(" ", "-")
