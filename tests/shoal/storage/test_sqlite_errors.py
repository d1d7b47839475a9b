"""SQLite's errors are translated by their codes, whatever their texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import (
    DamagedDatabaseError,
    DatabaseUnavailableError,
    DiskFullError,
    SchemaError,
    ShoalError,
    StorageError,
)
from shoal.storage.database import Database
from shoal.storage.sqlite.database import translate_error


def _damage_text(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO workers VALUES ('a', 'host', 1, 1, '1', 'then', 0)")
    # Invalid UTF-8, with words from the errors of a busy or full database.
    connection.execute("UPDATE workers SET name = CAST(X'6c6f636b6564206469736b2066756c6cff' AS TEXT)")


def _damage_metadata(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO workers VALUES ('{locked', 'host', 1, 1, '1', 'then', 0)")


@pytest.mark.parametrize(
    ("damage", "statement"),
    [
        (_damage_text, "SELECT name FROM workers"),
        (_damage_metadata, "SELECT key FROM workers, json_each(name)"),
    ],
)
def test_a_damaged_value_raises_damaged_database_error(
    database: Database, damage: Callable[[sqlite3.Connection], None], statement: str
) -> None:
    with sqlite3.connect(database.path) as connection:
        damage(connection)
    connection.close()
    with pytest.raises(DamagedDatabaseError, match="shoal doctor"), database.snapshot() as snapshot:
        snapshot.rows(statement)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, DatabaseUnavailableError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, DatabaseUnavailableError),
        (sqlite3.SQLITE_LOCKED, DatabaseUnavailableError),
        (sqlite3.SQLITE_FULL, DiskFullError),
        (sqlite3.SQLITE_IOERR_WRITE, DiskFullError),
        (sqlite3.SQLITE_IOERR_SHMSIZE, DiskFullError),
        (sqlite3.SQLITE_IOERR_READ, DatabaseUnavailableError),
        (sqlite3.SQLITE_IOERR_SHORT_READ, DatabaseUnavailableError),
        (sqlite3.SQLITE_CORRUPT, DamagedDatabaseError),
        (sqlite3.SQLITE_CORRUPT_VTAB, DamagedDatabaseError),
        (sqlite3.SQLITE_MISMATCH, DamagedDatabaseError),
        (sqlite3.SQLITE_NOTADB, SchemaError),
        (sqlite3.SQLITE_TOOBIG, StorageError),
        (sqlite3.SQLITE_ERROR, StorageError),
        (None, StorageError),
    ],
)
def test_the_code_of_an_error_decides_its_class(
    tmp_path: Path, code: int | None, kind: type[ShoalError]
) -> None:
    (tmp_path / "shoal.db").touch()
    for text in ("", "locked", "disk is full", "unable to open", "malformed", "no such words"):
        error = sqlite3.OperationalError(text)
        if code is not None:
            error.sqlite_errorcode = code
        assert type(translate_error(error, tmp_path / "shoal.db")) is kind
