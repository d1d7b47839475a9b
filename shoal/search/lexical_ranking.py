"""The lexical signal: BM25 over title, headings and text, from SQLite's full-text index.

The index holds Porter stems, without case and diacritics. All matches are fetched, not only the best: finding
the best requires the BM25 of every match anyway. All matches as one row of two long texts cost no more than
the best thousand as rows (docs/search.md). So the ranking is exact at any depth.
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
"""Weight of each column in BM25."""

UNIT = 1_000_000_000_000
"""Scores are whole multiples of 1 / UNIT, so that equal scores compare as equal. The unit is this small
because SQLite's BM25 of a word in most chunks is about a millionth, and still distinguishes chunks."""

# The score of every match, at least 1. SQLite's rank is the negative BM25.
MATCHES = f"""
    SELECT group_concat(rowid), group_concat(MAX(1, CAST(ROUND(-rank * {UNIT}) AS INTEGER)))
    FROM chunk_fts
    WHERE chunk_fts MATCH :expression AND rank MATCH :weights
"""


class Matches(NamedTuple):
    """The chunks that match.

    chunk_ids  i64 (n,), ascending
    scores     i64 (n,): BM25 in units of `UNIT`, at least 1
    """

    chunk_ids: NDArray[np.int64]
    scores: NDArray[np.int64]


NO_MATCHES = Matches(np.empty(0, np.int64), np.empty(0, np.int64))


def match_scores(snapshot: Snapshot, terms: Sequence[Term]) -> Matches:
    """Return the BM25 of every chunk that contains any of the terms."""
    if not terms:
        return NO_MATCHES
    weights = f"bm25({TITLE_WEIGHT}, {HEADINGS_WEIGHT}, {TEXT_WEIGHT})"
    parameters = {"expression": any_of(terms), "weights": weights}
    return Matches(*packed_columns(snapshot, MATCHES, parameters))


def any_of(terms: Iterable[Term], columns: str = "") -> str:
    """Return a full-text expression for chunks that contain any of the terms, in `columns` or anywhere."""
    return " OR ".join(expression(term, columns) for term in terms)


def all_of(terms: Iterable[Term]) -> str:
    """Return a full-text expression for chunks that contain all of the terms."""
    return " AND ".join(expression(term) for term in terms)


def expression(term: Term, columns: str = "") -> str:
    """Return a full-text expression for one term. Tokens have no characters that need escaping."""
    column = "title" if term.in_title else columns
    return f'{{{column}}} : "{term.text}"' if column else f'"{term.text}"'
