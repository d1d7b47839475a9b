"""Ranking by words: BM25 over title, headings and text, by SQLite's full-text index.

The index knows words by their Porter stem, without case and diacritics. All matches are fetched, not the best of them:
BM25 of every match has to be computed to know which are best, and as one row of two long texts they come at no more
cost than the best thousand come as rows (docs/search.md). So the ranking is exact at any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.search.query_language import Term
from shoal.storage.database import Snapshot
from shoal.storage.packed_columns import packed_columns

TITLE_WEIGHT = 2.0
HEADINGS_WEIGHT = 1.5
TEXT_WEIGHT = 1.0
"""How much a word counts in each column."""

UNIT = 1_000_000_000_000
"""Scores are whole numbers, this many to 1, so equal scores are equal everywhere. Not fewer: the BM25 of words that most
passages hold is about a millionth in SQLite, and they still tell passages apart."""

# The score of every match. SQLite's rank is the negative BM25; a match never counts as nothing.
MATCHES = f"""
    SELECT group_concat(rowid), group_concat(MAX(1, CAST(ROUND(-rank * {UNIT}) AS INTEGER)))
    FROM chunk_fts
    WHERE chunk_fts MATCH :expression AND rank MATCH :weights
"""


class Matches(NamedTuple):
    """chunk_ids  i64 (n,), ascending
    scores     i64 (n,): BM25 in units of `UNIT`, at least 1
    """

    chunk_ids: NDArray[np.int64]
    scores: NDArray[np.int64]


NO_MATCHES = Matches(np.empty(0, np.int64), np.empty(0, np.int64))


def match_scores(snapshot: Snapshot, terms: Sequence[Term]) -> Matches:
    """The BM25 of every chunk that holds any of the terms."""
    if not terms:
        return NO_MATCHES
    weights = f"bm25({TITLE_WEIGHT}, {HEADINGS_WEIGHT}, {TEXT_WEIGHT})"
    asked = {"expression": any_of(terms), "weights": weights}
    return Matches(*packed_columns(snapshot, MATCHES, asked))


def any_of(terms: Iterable[Term], columns: str = "") -> str:
    """A full-text expression for chunks that hold one of the terms, in certain columns."""
    return " OR ".join(expression(term, columns) for term in terms)


def all_of(terms: Iterable[Term]) -> str:
    """A full-text expression for chunks that hold all of the terms."""
    return " AND ".join(expression(term) for term in terms)


def expression(term: Term, columns: str = "") -> str:
    """A full-text expression for one term. Tokens hold letters, digits and marks, so nothing needs escaping."""
    column = "title" if term.in_title else columns
    return f'{{{column}}} : "{term.text}"' if column else f'"{term.text}"'
