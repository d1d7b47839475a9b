"""Rows written and read on the driver itself, inside a transaction of SQLAlchemy: a note takes a dozen statements and a
book a million rows, and SQLAlchemy's part of each is longer than SQLite's."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, cast

import sqlalchemy as sa

ROWS_PER_STATEMENT = (500, 50)
"""Rows of a long table written by one statement: as many as can be, first by the longer statement."""


def driver(connection: sa.Connection) -> sqlite3.Connection:
    """The driver's own connection."""
    return cast(sqlite3.Connection, connection.connection.driver_connection)


def execute(
    connection: sa.Connection, statement: str, parameters: Mapping[str, Any] | Sequence[Any]
) -> sqlite3.Cursor:
    return driver(connection).execute(statement, parameters)


def write_many(connection: sa.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Run a statement of positional parameters once a row."""
    if rows:
        driver(connection).executemany(statement, rows)


def write_wide(connection: sa.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write rows at the place `{rows}` of a statement, many at a time: for each run of a statement the driver gives up
    the interpreter and takes it back, which costs as much as the row. The rest go one by one, because a statement of
    another length would have to be prepared."""
    if not rows:
        return
    one = f"({places(rows[0])})"
    start = 0
    for n in ROWS_PER_STATEMENT:
        while len(rows) - start >= n:
            many = statement.format(rows=", ".join([one] * n))
            driver(connection).execute(many, list(chain.from_iterable(rows[start : start + n])))
            start += n
    write_many(connection, statement.format(rows=one), rows[start:])


def places(values: Sequence[Any]) -> str:
    """Places for positional parameters, one a value."""
    return ", ".join("?" * len(values))
