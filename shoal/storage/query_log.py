"""The rows of the query log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from shoal.storage.database import Row, Snapshot, Transaction, listed

LAST_CHARACTER = "\U0010ffff"

INSERT = """
    INSERT INTO logged_queries (trace_id, query, normalized, arguments, n_results, best_relevance, took_ms,
                                results, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (trace_id) DO NOTHING
"""
# Later pages of a search are logged for the clicks on their results, and are no searches of their own.
_IS_FIRST_PAGE = "json_extract(arguments, '$.offset') IS NULL AND json_extract(arguments, '$.cursor') IS NULL"
_WANTED = f"WHERE (:only_empty = 0 OR n_results = 0 AND {_IS_FIRST_PAGE})"
PAGE = f"""
    SELECT id, trace_id, query, arguments, n_results, best_relevance, took_ms, results, created_at
    FROM logged_queries {_WANTED} ORDER BY id DESC LIMIT :limit OFFSET :offset
"""
COUNT = f"SELECT COUNT(*) FROM logged_queries {_WANTED}"
CLICKS = """
    SELECT query_id, document_id, chunk_id, rank, created_at FROM query_clicks
    WHERE query_id IN ({queries}) ORDER BY id
"""
BY_TRACE = "SELECT id, arguments, n_results, results FROM logged_queries WHERE trace_id = :trace_id"
COUNT_CLICKS = "SELECT COUNT(*) FROM query_clicks WHERE query_id = :query_id"
INSERT_CLICK = """
    INSERT INTO query_clicks (query_id, document_id, chunk_id, rank, created_at)
    VALUES (:query_id, :document_id, :chunk_id, :rank, :now)
    ON CONFLICT (query_id, document_id, COALESCE(chunk_id, 0)) DO NOTHING
"""
FREQUENT = f"""
    SELECT MAX(query) AS query, COUNT(*) FILTER (WHERE {_IS_FIRST_PAGE}) AS n_searches,
        COUNT(*) FILTER (WHERE n_results = 0 AND {_IS_FIRST_PAGE}) AS n_empty,
        SUM((SELECT COUNT(*) FROM query_clicks c WHERE c.query_id = q.id)) AS n_clicks,
        MAX(created_at) AS last_at
    FROM logged_queries q
    WHERE normalized >= :first AND normalized < :last AND created_at >= :since
    GROUP BY normalized
    HAVING COUNT(*) FILTER (WHERE {_IS_FIRST_PAGE}) >= :min_searches
        AND (:only_empty = 0 OR MAX(n_results) = 0)
    ORDER BY n_searches DESC, normalized LIMIT :limit
"""
CLICKED = """
    SELECT q.normalized, MAX(q.query) AS query, d.title, d.source_path, COUNT(*) AS n_clicks
    FROM query_clicks c JOIN logged_queries q ON q.id = c.query_id JOIN documents d ON d.id = c.document_id
    GROUP BY q.normalized, d.id HAVING COUNT(*) >= :min_clicks
    ORDER BY q.normalized, n_clicks DESC, d.id
"""
PRUNE = """
    DELETE FROM logged_queries WHERE id IN (
        SELECT id FROM logged_queries WHERE created_at < :before ORDER BY created_at LIMIT :limit)
"""


class QueryRow(NamedTuple):
    """A row to insert; `arguments` and `results` are JSON."""

    trace_id: str
    query: str
    normalized: str
    arguments: str
    n_results: int
    best_relevance: float | None
    took_ms: float
    results: str
    created_at: str


def normalized(query: str) -> str:
    """Return a query without differences of case and spaces."""
    return " ".join(query.casefold().split())


def insert(transaction: Transaction, queries: Sequence[QueryRow]) -> int:
    """Store queries; return their number."""
    return transaction.write_many(INSERT, queries)


def page(
    snapshot: Snapshot, limit: int, offset: int, *, only_empty: bool
) -> tuple[Sequence[Row], dict[int, list[Row]], int]:
    """Read a page of queries, newest first, their clicks by query, and the number of all."""
    values = {"only_empty": int(only_empty)}
    queries = snapshot.rows(PAGE, {**values, "limit": limit, "offset": offset})
    ids, parameters = listed("query", (row["id"] for row in queries))
    clicks: dict[int, list[Row]] = {}
    for click in snapshot.rows(CLICKS.format(queries=ids), parameters):
        clicks.setdefault(click["query_id"], []).append(click)
    return queries, clicks, snapshot.value(COUNT, values)


def by_trace(snapshot: Snapshot, trace_id: str) -> Row | None:
    """Read id, arguments, and number and ids of the results of a logged query; None if there is none."""
    row: Row | None = snapshot.first(BY_TRACE, {"trace_id": trace_id})
    return row


def count_clicks(snapshot: Snapshot, query_id: int) -> int:
    """Count the clicks of a query."""
    number: int = snapshot.value(COUNT_CLICKS, {"query_id": query_id})
    return number


def insert_click(
    transaction: Transaction,
    *,
    query_id: int,
    document_id: int,
    chunk_id: int | None,
    rank: int | None,
    now: str,
) -> None:
    """Store a click; a second one on the same result is none."""
    values: dict[str, Any] = {"query_id": query_id, "document_id": document_id, "chunk_id": chunk_id}
    transaction.execute(INSERT_CLICK, {**values, "rank": rank, "now": now})


def frequent(
    snapshot: Snapshot,
    *,
    prefix: str = "",
    since: str = "",
    min_searches: int = 2,
    only_empty: bool = False,
    limit: int = 10,
) -> list[Row]:
    """Read the most frequent queries that begin with `prefix`, most frequent first.

    `since`: a timestamp. `only_empty`: those that never had a result. One index is read, from the prefix to
    its end, so a prefix of a few letters takes little of a large log.
    """
    first = normalized(prefix)
    values = {"first": first, "last": first + LAST_CHARACTER, "since": since, "only_empty": int(only_empty)}
    return snapshot.rows(FREQUENT, {**values, "min_searches": min_searches, "limit": limit})


def clicked(snapshot: Snapshot, min_clicks: int) -> Iterator[tuple[Any, ...]]:
    """Read (normalized, query, title, source path, clicks) of stored documents, by query, most clicks
    first."""
    return snapshot.tuples(CLICKED, {"min_clicks": min_clicks})


def prune(transaction: Transaction, before: str, limit: int) -> int:
    """Delete queries that were logged before a time, and their clicks; return their number."""
    return transaction.execute(PRUNE, {"before": before, "limit": limit})
