"""The expected schema of this version, for comparison with a database."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterable
from contextlib import closing

from shoal.storage import migrate
from shoal.storage.database import Snapshot
from shoal.storage.revisions import SchemaPart
from shoal.storage.sqlite.database import SqliteSnapshot
from shoal.storage.totals import TABLES

PARTS = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name"
TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"

DERIVED = (
    "index_",
    "changed_documents",
    "reefs",
    "ranks",
    "all_bytes",
    *(totals.table for totals in TABLES),
)
"""Tables whose content can be made again; also prefixes of the names of their shadow tables."""


def missing_parts(snapshot: Snapshot) -> list[SchemaPart]:
    """List tables, views, indexes and triggers (on PostgreSQL, also functions) of this version that the
    database lacks."""
    if not isinstance(snapshot.connection, sqlite3.Connection):
        from shoal.storage.postgres import migration

        return migration.missing_parts(snapshot.connection)
    present = {part[:2] for part in _parts(snapshot)}
    return [part for part in _expected_parts() if part[:2] not in present]


def tables_with_content(parts: Iterable[SchemaPart]) -> list[str]:
    """List the names of tables among `parts` whose content cannot be derived from other tables."""
    return [name for kind, name, _ in parts if kind == "table" and not name.startswith(DERIVED)]


def foreign_triggers(snapshot: Snapshot) -> list[str]:
    """List the names of triggers that are not, word for word, those of this version. These hold no comment,
    so spaces and line breaks do not matter."""
    if not isinstance(snapshot.connection, sqlite3.Connection):
        from shoal.storage.postgres import migration

        return migration.foreign_triggers(snapshot.connection)
    own = {(name, *sql.split()) for kind, name, sql in _expected_parts() if kind == "trigger"}
    return [name for name, sql in snapshot.tuples(TRIGGERS) if (name, *sql.split()) not in own]


@functools.cache
def _expected_parts() -> tuple[SchemaPart, ...]:
    # In memory: there may be no writable folder.
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate.create_in(connection)
        return tuple(_parts(SqliteSnapshot(connection)))


def _parts(snapshot: Snapshot) -> list[SchemaPart]:
    return [(kind, name, sql) for kind, name, sql in snapshot.rows(PARTS)]
