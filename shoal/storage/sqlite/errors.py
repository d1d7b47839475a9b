"""Translation of SQLite's errors by result code (https://www.sqlite.org/rescode.html)."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from shoal.errors import (
    DamagedDatabaseError,
    DatabaseUnavailableError,
    DiskFullError,
    ReadOnlyDatabaseError,
    SchemaError,
    StorageError,
)

PRIMARY = 0xFF
"""The bits of an extended result code that hold the primary code."""
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_MISMATCH}
"""Includes `datatype mismatch`."""
UNREADABLE = {
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_FSTAT,
}
"""I/O errors that are not caused by a full disk."""


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds a lock that the operation needs."""
    return _primary_code(error) in BUSY


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk is full."""
    return _primary_code(error) == sqlite3.SQLITE_FULL


def _primary_code(error: sqlite3.Error) -> int | None:
    extended = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & PRIMARY


def translate_error(error: sqlite3.Error, path: Path) -> StorageError:
    """Translate an error of the database at `path`. Not for an IntegrityError, which callers interpret
    themselves."""
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        return _of_module(error)
    code = extended & PRIMARY
    if code == sqlite3.SQLITE_IOERR and extended in UNREADABLE:
        return DatabaseUnavailableError("the disk of the database cannot be read; see the system's log")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return DiskFullError(
            "there is no space left on the disk of the database; nothing was stored: free some and try again"
        )
    if code == sqlite3.SQLITE_CANTOPEN and path.exists() and not os.access(path, os.R_OK):
        return DatabaseUnavailableError(f"{path.name} may not be read by this user")
    if code == sqlite3.SQLITE_READONLY or (
        code == sqlite3.SQLITE_CANTOPEN and not os.access(path.parent, os.W_OK)
    ):
        return ReadOnlyDatabaseError(path)
    if code in BUSY or code == sqlite3.SQLITE_CANTOPEN:
        return DatabaseUnavailableError("the database is busy or cannot be opened; try again")
    if code == sqlite3.SQLITE_NOTADB:
        return SchemaError(
            "the file is not a Shoal database, or is damaged; check with `PRAGMA integrity_check`"
        )
    if code in DAMAGE:
        return DamagedDatabaseError()
    return _of_statement(error)


def _of_statement(error: sqlite3.Error) -> StorageError:
    """Translate SQLITE_ERROR by its text; these prefixes are SQLite's own words."""
    text = str(error).lower()
    if text.startswith(("no such table", "no such column")):
        return SchemaError("the database is not prepared for this version; run `shoal migrate`")
    if text.startswith("malformed json"):
        return DamagedDatabaseError()
    return _refused(error)


def _of_module(error: sqlite3.Error) -> StorageError:
    """Translate an error without a code, which Python's module raises, for example for text that is not
    UTF-8."""
    if str(error).startswith("Could not decode to UTF-8"):
        return DamagedDatabaseError()
    return _refused(error)


def _refused(error: sqlite3.Error) -> StorageError:
    return StorageError(f"the database refused an operation ({type(error).__name__})")
