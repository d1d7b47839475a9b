"""Values of the query log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class QueryClick:
    """A result that somebody opened. `rank` is from 1, None beyond the logged results; `chunk_id` is None for
    a document as a whole."""

    document_id: int
    chunk_id: int | None
    rank: int | None
    created_at: str


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A search.

    arguments       those that differ from the defaults, long values cut
    n_results       results on the page; best_relevance: of the most relevant, None without results
    results         [chunk, document] of the first 100 results, of each passage if they are documents
    """

    trace_id: str
    query: str
    arguments: Mapping[str, Any]
    n_results: int
    best_relevance: float | None
    took_ms: float
    results: tuple[tuple[int, int], ...]
    clicks: tuple[QueryClick, ...]
    created_at: str


@dataclass(frozen=True, slots=True)
class LoggedQueryPage:
    """A page of logged queries, newest first, and the number of all."""

    queries: tuple[LoggedQuery, ...]
    total: int


@dataclass(frozen=True, slots=True)
class FrequentQuery:
    """A query and how often it was searched, without regard to case and spaces.

    n_empty   searches without results; n_clicks: clicks on results
    """

    query: str
    n_searches: int
    n_empty: int
    n_clicks: int
    last_at: str


@dataclass(frozen=True, slots=True)
class FrequentQueries:
    """Queries, most frequent first."""

    queries: tuple[FrequentQuery, ...]


@dataclass(frozen=True, slots=True)
class ClickedQuery:
    """A query and the documents that were clicked for it: grades 1 to 3 by source path or title."""

    query: str
    relevant: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ClickedQueries:
    """Judged queries made from clicks, in the order of their text."""

    queries: tuple[ClickedQuery, ...]
