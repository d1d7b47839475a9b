"""Values of the query log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from shoal.models.described import Time

CLICKS_OF_GRADES = ((10, 3), (3, 2), (1, 1))
"""Fewest clicks of a grade, as (clicks, grade)."""
_FEWEST = {grade: fewest for fewest, grade in CLICKS_OF_GRADES}


MAX_FREQUENT = 1_000
"""Most frequent queries of a list."""
MAX_PREFIX_CHARS = 200


@dataclass(frozen=True, slots=True)
class QueryClick:
    """A result that somebody opened."""

    document_id: Annotated[int, "the document that was opened"]
    chunk_id: Annotated[int | None, "null: the document as a whole"]
    rank: Annotated[int | None, "from 1; null beyond the logged results"]
    created_at: Annotated[Time, "when, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A search."""

    trace_id: Annotated[str, "of the search"]
    query: Annotated[str, "as it was sent"]
    arguments: Annotated[Mapping[str, Any], "those that differ from the defaults, long values cut"]
    n_results: Annotated[int, "results on the page"]
    best_relevance: Annotated[float | None, "of the most relevant result; null without"]
    took_ms: Annotated[float, "time of the search, milliseconds"]
    results: Annotated[
        tuple[tuple[int, int], ...],
        "[chunk, document] of the first 100 results, of each passage if they are documents",
    ]
    clicks: Annotated[tuple[QueryClick, ...], "results that were opened"]
    created_at: Annotated[Time, "when, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class LoggedQueryPage:
    """A page of logged queries."""

    queries: Annotated[tuple[LoggedQuery, ...], "a page, newest first"]
    total: int


@dataclass(frozen=True, slots=True)
class FrequentQuery:
    """A query and how often it was searched, without regard to case and spaces."""

    query: Annotated[str, "one of its spellings"]
    n_searches: Annotated[int, "how often it was searched"]
    n_empty: Annotated[int, "of them, without results"]
    n_clicks: Annotated[int, "clicks on its results"]
    last_at: Annotated[Time, "the last search, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class FrequentQueries:
    """Frequent queries."""

    queries: Annotated[tuple[FrequentQuery, ...], "most frequent first"]


@dataclass(frozen=True, slots=True)
class ClickedQuery:
    """A query and the documents that were clicked for it."""

    query: Annotated[str, "one of its spellings"]
    relevant: Annotated[
        Mapping[str, int],
        f"grade by source path, or by title: 1, 2 from {_FEWEST[2]} clicks and 3 from {_FEWEST[3]}",
    ]


@dataclass(frozen=True, slots=True)
class ClickedQueries:
    """Judged queries made from clicks."""

    queries: Annotated[tuple[ClickedQuery, ...], "at most 10,000, by text"]


@dataclass(frozen=True, slots=True)
class ClearedQueries:
    """What a deletion of the query log did."""

    n_deleted: Annotated[int, "queries that were deleted"]
