"""The rows of tables: read in the order of their keys, digested, and written in bulk."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from shoal.storage.copies.tables import LONGEST_KEY, MAX_KEY_BYTES, Table

if TYPE_CHECKING:
    import psycopg

BATCH_ROWS, BATCH_BYTES = 5_000, 8 << 20
"""Bounds of a batch: it ends with the row that reaches one of them."""
FETCHED_ROWS, FETCHED_LARGE_ROWS = 500, 1
"""Rows that PostgreSQL sends at once."""

Row = tuple[Any, ...]
Key = tuple[Any, ...]
Filter = Callable[[Table], str]
"""The condition of the rows of a table that are copied."""


class Digest:
    """A digest of a set of rows, independent of their order: the sum of their hashes, 128 bits."""

    def __init__(self, text: str = "0") -> None:
        self._sum = int(text, 16)

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows. Equal values must have equal types, as both stores return them."""
        total = self._sum
        for row in rows:
            text = repr(row).encode()
            total += int.from_bytes(hashlib.blake2b(text, digest_size=16).digest())
        self._sum = total & (1 << 128) - 1

    def __str__(self) -> str:
        return f"{self._sum:x}"


def count(connection: Any, table: Table, condition: str) -> int:
    """Count the rows that are copied."""
    statement = f"SELECT COUNT(*) FROM {table.name} WHERE {condition}"
    return int(connection.execute(statement).fetchone()[0])


def read(
    connection: Any, table: Table, condition: str, *, after: Key | None = None, up_to: Key | None = None
) -> Iterator[list[Row]]:
    """Yield batches of the rows of a table that meet a condition, in the order of their keys.

    `after`, `up_to`: only rows with keys between these, the first excluded and the second included.
    """
    is_sqlite = isinstance(connection, sqlite3.Connection)
    key, place = ", ".join(table.key), "?" if is_sqlite else "%s"
    bounds = [(">", after), ("<=", up_to)]
    parameters = [value for _, values in bounds if values is not None for value in values]
    conditions = [
        condition,
        *(
            f"({key}) {comparison} ({', '.join([place] * len(values))})"
            for comparison, values in bounds
            if values is not None
        ),
    ]
    columns = ", ".join(table.columns)
    where = " AND ".join(conditions)
    statement = f"SELECT {columns} FROM {table.name} WHERE {where} ORDER BY {key}"
    yield from _batches(
        (_sqlite_rows if is_sqlite else _postgres_rows)(connection, table, statement, parameters)
    )


def _sqlite_rows(
    connection: sqlite3.Connection, _: Table, statement: str, parameters: Sequence[Any]
) -> Iterator[Row]:
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        yield from cursor.execute(statement, parameters)


def _postgres_rows(
    connection: psycopg.Connection[Any], table: Table, statement: str, parameters: Sequence[Any]
) -> Iterator[Row]:
    from psycopg.rows import tuple_row

    with connection.cursor(name="shoal_copy", row_factory=tuple_row) as cursor:
        cursor.itersize = FETCHED_LARGE_ROWS if table.has_large_rows else FETCHED_ROWS
        yield from cursor.execute(statement.encode(), parameters)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    n_bytes = 0
    for row in rows:
        batch.append(row)
        n_bytes += size(row)
        if len(batch) >= BATCH_ROWS or n_bytes >= BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def size(row: Row) -> int:
    """The approximate size of a row in bytes."""
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


def storable(table: Table, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows without those whose keys are too long for PostgreSQL."""
    if table.name not in LONGEST_KEY:
        return rows
    place = table.columns.index(LONGEST_KEY[table.name])
    return [row for row in rows if len(row[place].encode()) <= MAX_KEY_BYTES]


def write(connection: Any, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows in bulk, within the open transaction of a connection."""
    columns = ", ".join(table.columns)
    if isinstance(connection, sqlite3.Connection):
        places = ", ".join("?" * len(table.columns))
        connection.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)
        return
    from shoal.storage.postgres.values import escaped

    texts = frozenset(i for i, sql_type in enumerate(table.types) if sql_type == "text")
    statement = f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.set_types(table.types)
        for row in rows:
            copy.write_row(
                [escaped(value) if i in texts and value is not None else value for i, value in enumerate(row)]
            )
