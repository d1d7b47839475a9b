"""Reading and writing rows directly on the driver, inside a transaction of SQLAlchemy.

A short document takes a dozen statements and a book a million rows, and SQLAlchemy's overhead for each is
larger than SQLite's work.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, cast

import sqlalchemy as sa

ROWS_PER_STATEMENT = (500, 50)
"""Rows per multi-row statement; the larger size is used as long as enough rows remain."""


def driver(connection: sa.Connection) -> sqlite3.Connection:
    """Return the connection of the driver."""
    return cast(sqlite3.Connection, connection.connection.driver_connection)


def execute(
    connection: sa.Connection, statement: str, parameters: Mapping[str, Any] | Sequence[Any]
) -> sqlite3.Cursor:
    return driver(connection).execute(statement, parameters)


def write_many(connection: sa.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Run a statement with positional parameters once per row."""
    if rows:
        driver(connection).executemany(statement, rows)


def write_wide(connection: sa.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write rows many at a time, as the `{rows}` of a statement.

    The driver releases and reacquires the interpreter lock for each statement, which costs as much as a row.
    The remaining rows are written one by one, because a statement of another length would have to be
    prepared.
    """
    if not rows:
        return
    row_places = f"({places(rows[0])})"
    start = 0
    for n in ROWS_PER_STATEMENT:
        while len(rows) - start >= n:
            wide_statement = statement.format(rows=", ".join([row_places] * n))
            driver(connection).execute(wide_statement, list(chain.from_iterable(rows[start : start + n])))
            start += n
    write_many(connection, statement.format(rows=row_places), rows[start:])


def places(values: Sequence[Any]) -> str:
    """Return the placeholders of positional parameters, one per value."""
    return ", ".join("?" * len(values))
