"""Totals that triggers maintain with every write, so that status, pages and metrics count nothing."""

from __future__ import annotations

from typing import NamedTuple

from shoal.storage.database import Snapshot, Transaction

LIBRARY = "SELECT n_documents, n_chunks, content_bytes FROM library_totals"
N_DOCUMENTS = "SELECT n_documents FROM library_totals"
N_CHUNKS = "SELECT n_chunks FROM library_totals"
N_WITH_TAG = "SELECT COALESCE(SUM(n_documents), 0) FROM tag_totals WHERE tag = :tag"
FREQUENT_TAGS = "SELECT tag, n_documents FROM tag_totals ORDER BY n_documents DESC, tag LIMIT :limit"
CHUNKS_BY_REEF = """
    SELECT reef_id, SUM(n_chunks) FROM reef_totals WHERE percent >= :percent GROUP BY reef_id
"""


class Totals(NamedTuple):
    """A table of totals, its columns, and the query that counts its rows."""

    table: str
    columns: str
    counted: str


TABLES = (
    Totals(
        "library_totals",
        "id, n_documents, n_chunks, content_bytes",
        "SELECT 1, COUNT(*), COALESCE(SUM(n_chunks), 0), COALESCE(SUM(n_bytes), 0) FROM documents",
    ),
    Totals("tag_totals", "tag, n_documents", "SELECT tag, COUNT(*) FROM document_tags GROUP BY tag"),
    Totals("stale_totals", "id, n_chunks", "SELECT 1, COALESCE(SUM(n_chunks), 0) FROM stale_documents"),
    Totals(
        "note_owners",
        "owner, n_active, n_deprecated",
        """
        SELECT owner, COUNT(*) FILTER (WHERE deprecated_at IS NULL),
            COUNT(*) FILTER (WHERE deprecated_at IS NOT NULL)
        FROM notes GROUP BY owner
        """,
    ),
    Totals(
        "note_category_totals",
        "owner, path, n_notes, n_with_subcategories",
        """
        WITH RECURSIVE above(note_id, category, path, rest) AS (
            SELECT note_id, path, substr(path, 1, 0), path || '/' FROM note_categories
            UNION ALL
            SELECT note_id, category, path || substr(rest, 1, instr(rest, '/')),
                substr(rest, instr(rest, '/') + 1)
            FROM above WHERE rest <> '')
        SELECT n.owner, substr(a.path, 1, length(a.path) - 1),
            COUNT(*) FILTER (WHERE a.path = a.category || '/'), COUNT(DISTINCT a.note_id)
        FROM above a JOIN notes n ON n.id = a.note_id
        WHERE a.path <> '' AND n.deprecated_at IS NULL GROUP BY n.owner, a.path
        """,
    ),
    Totals(
        "reef_totals",
        "reef_id, percent, n_chunks",
        """
        SELECT top_reef_id, CAST(ROUND(100 * top_reef_probability + 1e-9 - 0.5) AS INTEGER) AS percent,
            COUNT(*)
        FROM chunks WHERE top_reef_id IS NOT NULL GROUP BY top_reef_id, percent
        """,
    ),
)
DIFFERS = """
    SELECT EXISTS (SELECT {columns} FROM {table} EXCEPT SELECT * FROM ({counted}) counted)
        OR EXISTS (SELECT * FROM ({counted}) counted EXCEPT SELECT {columns} FROM {table})
"""
DELETE = "DELETE FROM {table}"
COUNT = "INSERT INTO {table} ({columns}) {counted}"


def wrong_totals(snapshot: Snapshot) -> list[Totals]:
    """Return the tables of totals that differ from a count."""
    return [totals for totals in TABLES if snapshot.value(DIFFERS.format(**totals._asdict()))]


def count_again(transaction: Transaction) -> None:
    """Correct the totals that differ from a count."""
    for totals in wrong_totals(transaction):
        for statement in (DELETE, COUNT):
            transaction.execute(statement.format(**totals._asdict()))
