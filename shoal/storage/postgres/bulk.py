"""Many rows at once: COPY for new ones, otherwise statements that take many rows or are sent together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

from shoal.storage.postgres.statements import copy_of_insert, rows_of_insert, translated

ROWS_COPIED = 32
"""From so many rows on, they are copied: COPY takes a round trip more."""
STATEMENT_BYTES = 1 << 20
"""Rows that one statement writes, as text."""
ROWS_TOGETHER = 1_000
"""Rows that one statement writes."""

Connection = psycopg.Connection[Any]
Cursor = psycopg.ClientCursor[Any]
Rows = Sequence[Mapping[str, Any] | Sequence[Any]]


def write_rows(connection: Connection, statement: str, rows: Rows) -> int:
    """Run a statement once per row, as `Transaction.write_many`; return the number of changed rows."""
    if not rows:
        return 0
    copy = copy_of_insert(statement) if len(rows) >= ROWS_COPIED else None
    if copy is not None:
        return _copied(connection, *copy, rows)
    cursor = psycopg.ClientCursor(connection)
    parts = rows_of_insert(statement)
    if parts is None:
        query = translated(statement)
        return sum(_changed(cursor, "; ".join(batch)) for batch in _batches(cursor, query, rows))
    before, row, after = parts
    start, end = cursor.mogrify(before, {}), cursor.mogrify(after, {})
    return sum(_changed(cursor, f"{start}{', '.join(batch)}{end}") for batch in _batches(cursor, row, rows))


def _copied(connection: Connection, statement: str, names: Sequence[str], rows: Sequence[Any]) -> int:
    """Store rows with COPY, which the server takes about twice as fast as an INSERT."""
    cursor = psycopg.Cursor(connection)
    with cursor.copy(statement.encode()) as copy:
        for row in rows:
            copy.write_row([row[name] for name in names] if names else row)
    return cursor.rowcount


def _batches(cursor: Cursor, query: str, rows: Sequence[Any]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for row in rows:
        text = cursor.mogrify(query, row)
        if batch and (size + len(text) > STATEMENT_BYTES or len(batch) == ROWS_TOGETHER):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    yield batch


def _changed(cursor: Cursor, statements: str) -> int:
    cursor.execute(statements.encode())
    n_changed = cursor.rowcount
    while cursor.nextset():
        n_changed += cursor.rowcount
    return n_changed
