"""Exact matches: names that are the query, and passages with all identifiers of the query, come before
others.

Both are named parts of the score. The index marks where a name begins and ends (`shoal.index.names`), so a
title, heading or file name that is the query is a phrase of the marks and all words of the query.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.index.building import FIRST, LAST
from shoal.index.matching import HEADINGS, TITLE, IndexTerm, Matches, find
from shoal.search.library_index import LibraryIndex
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.query_language import MAX_PHRASE_WORDS, ParsedQuery
from shoal.words.typed import stems_of, tokens_of

OF_NAME = 1.0
"""What an exact name adds to a score, in parts of the best score in all signals."""
OF_IDENTIFIERS = 0.25
"""What all identifiers of the query add to a score, in the same parts; chosen with
`benchmarks/identifiers.py`."""
MOST_IDENTIFIED = 10
"""Passages with the rarest identifier; in more, it singles out none."""


@dataclass(frozen=True, slots=True)
class ExactMatches:
    """What exact matches add to the score of each place of an index.

    named       bool (n,): whether a name of the passage is the query; None if none is
    identified  bool (n,): whether it has all identifiers that the library has; None without any
    unit        the best score
    """

    named: NDArray[np.bool_] | None
    identified: NDArray[np.bool_] | None
    unit: float

    def added_to(self, keys: NDArray[Any], scale: float) -> NDArray[Any]:
        """Return keys with what is added, in units of 1 / scale."""
        for mask, share in ((self.named, OF_NAME), (self.identified, OF_IDENTIFIERS)):
            if mask is not None:
                keys = keys + (mask * (self.unit * share * scale)).astype(keys.dtype)
        return keys

    def of_name(self, place: int) -> float:
        """Return what an exact name adds to the score of a place."""
        return OF_NAME * self.unit if self.named is not None and self.named[place] else 0.0

    def of_identifiers(self, place: int) -> float:
        """Return what the identifiers add to the score of a place."""
        return OF_IDENTIFIERS * self.unit if self.identified is not None and self.identified[place] else 0.0


def find_exact_matches(
    library: LibraryIndex, analyzed_query: AnalyzedQuery, is_found: NDArray[np.bool_], unit: float
) -> ExactMatches | None:
    """Return the exact matches among those that a signal found; None if there are none."""
    named = _named(library, analyzed_query.parsed)
    identified = _identified(analyzed_query)
    if named is None and identified is None:
        return None
    return ExactMatches(
        None if named is None else named & is_found,
        None if identified is None else identified & is_found,
        unit,
    )


def _named(library: LibraryIndex, parsed: ParsedQuery) -> NDArray[np.bool_] | None:
    tokens = tokens_of(parsed.plain)
    if not tokens or len(tokens) > MAX_PHRASE_WORDS or parsed.required or parsed.excluded:
        return None
    name = IndexTerm((FIRST, *stems_of(tokens), LAST), frozenset({TITLE, HEADINGS}))
    (found,) = find(library.index, [name])
    return found.mask() if found.n_chunks else None


def _identified(analyzed_query: AnalyzedQuery) -> NDArray[np.bool_] | None:
    matches = analyzed_query.matches
    present: list[Matches] = [
        matches[term]
        for term in analyzed_query.parsed.identifiers
        if term in matches and matches[term].n_chunks
    ]
    if not present or min(found.n_chunks for found in present) > MOST_IDENTIFIED:
        return None
    return functools.reduce(np.logical_and, (found.mask() for found in present))
