"""The tables of a library as a copy reads and writes them: both stores have the same names and columns."""

from __future__ import annotations

import functools
import sqlite3
from contextlib import closing
from typing import NamedTuple

from shoal.storage import migrate

LEFT_OUT = frozenset(
    {
        *("schema_revision", "sqlite_sequence"),
        *("ranks", "all_bytes"),  # the same in every library
        *("index_segments", "changed_documents", "index_state"),  # the index, which is built again
        "workers",  # which run on the source
    }
)
CONTENT = (
    *("documents", "notes", "jobs", "custom_words", "observed_documents", "synonyms", "pins"),
    *("saved_searches", "logged_queries"),
)
"""Tables without a row in an empty library; the rows of most others depend on theirs."""
TYPES = {"INTEGER": "int8", "REAL": "float8", "TEXT": "text", "BLOB": "bytea"}
"""The types of PostgreSQL by those of SQLite."""

LONGEST_KEY = {"file_stamps": "path", "fetched_pages": "url", "note_tag_set_matches": "tag_set"}
"""Columns whose values PostgreSQL does not store if they have more than MAX_KEY_BYTES bytes
(`migrations/0034_initial.postgresql.sql`)."""
MAX_KEY_BYTES = 2600

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
COLUMNS = "SELECT name, type, pk FROM pragma_table_info(:table) ORDER BY cid"
PARENTS = 'SELECT DISTINCT "table" FROM pragma_foreign_key_list(:table)'


class Table(NamedTuple):
    """A table, its columns with their types on PostgreSQL, and the columns of its primary key."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def has_large_rows(self) -> bool:
        """Whether single rows can have many megabytes, so that few of them are fetched at once."""
        return self.name in ("document_files", "job_item_files", "job_item_contents", "job_item_cuts")


@functools.cache
def copied_tables() -> tuple[Table, ...]:
    """List the tables of this version that a copy has, each after those that its foreign keys refer to."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate.create_in(connection)
        names = [name for (name,) in connection.execute(TABLES) if name not in LEFT_OUT]
        parents = {
            name: {parent for (parent,) in connection.execute(PARENTS, {"table": name})} for name in names
        }
        return tuple(_table(connection, name) for name in _ordered(parents))


def _table(connection: sqlite3.Connection, name: str) -> Table:
    columns = connection.execute(COLUMNS, {"table": name}).fetchall()
    key = [column for column, _, place in sorted(columns, key=lambda row: row[2]) if place]
    assert key, f"{name} has no primary key"
    return Table(
        name,
        tuple(column for column, _, _ in columns),
        tuple(TYPES[sql_type] for _, sql_type, _ in columns),
        tuple(key),
    )


def _ordered(parents: dict[str, set[str]]) -> list[str]:
    ordered: list[str] = []
    while len(ordered) < len(parents):
        free = [name for name in parents if name not in ordered and parents[name] <= set(ordered)]
        assert free, "foreign keys form a circle"
        ordered.extend(free)
    return ordered
