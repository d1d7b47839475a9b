"""The schema of an empty library, written at once: more than a thousand tests create a library, and thirty
migrations take ten times as long as their result."""

from __future__ import annotations

import sqlite3
from typing import Any

from shoal.storage import migrate

PARTS = """
    SELECT type, name, sql FROM sqlite_master
    WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type = 'trigger', rowid
"""
"""Triggers last: they would count the first rows again."""

NEW_EPOCH = "UPDATE index_state SET epoch = lower(hex(randomblob(16)))"
"""The one value that differs between empty libraries."""

Statement = tuple[str, tuple[Any, ...]]


class RecordedSchema:
    """Migrates as `migrate.apply` does. What the migrations make of the first empty database is recorded, and
    every later empty one gets it at once."""

    def __init__(self) -> None:
        self.migrate = migrate.apply
        self._recorded: dict[str, list[Statement]] = {}

    def apply(self, connection: sqlite3.Connection, revision: str = "head") -> None:
        """Migrate a database within the open transaction of `connection`."""
        is_empty = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0
        if revision != "head" or not is_empty:
            self.migrate(connection, revision)
        elif migrate.HEAD in self._recorded:
            for sql, values in self._recorded[migrate.HEAD]:
                connection.execute(sql, values)
        else:
            self.migrate(connection)
            self._recorded[migrate.HEAD] = _statements(connection)


def _statements(connection: sqlite3.Connection) -> list[Statement]:
    """What makes a database with the parts and the rows of this one."""
    parts = connection.execute(PARTS).fetchall()
    tables = [name for kind, name, _ in parts if kind == "table"]
    return [
        *((sql, ()) for kind, _, sql in parts if kind != "trigger"),
        *(row for name in (*tables, "sqlite_sequence") for row in _rows(connection, name)),
        (NEW_EPOCH, ()),
        *((sql, ()) for kind, _, sql in parts if kind == "trigger"),
    ]


def _rows(connection: sqlite3.Connection, table: str) -> list[Statement]:
    """The statements that insert the rows of a table."""
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()
    return [(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", tuple(row)) for row in rows]
