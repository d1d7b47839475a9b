"""The lexical signal: BM25F over text, headings and title, for the words of a query and their neighbours.

A chunk's score is the sum over the query's terms of its BM25F and half of that of the block of chunks around
it, times the square root of the term's frequency in the query; and PAIR_SHARE of the BM25 of each pair of
words that are neighbours in the query and in the text. `benchmarks/lexical_ranking.py` compares formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.index import lexical
from shoal.index.lexical import WeightedTerm
from shoal.index.matching import EVERYWHERE, IN_TEXT, TITLE, IndexTerm, Matches, find
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import ParsedQuery, Term
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
