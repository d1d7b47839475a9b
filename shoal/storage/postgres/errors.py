"""Translation of PostgreSQL's errors by SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html)."""

from __future__ import annotations

import logging

import psycopg

from shoal.errors import (
    DamagedDatabaseError,
    DatabaseUnavailableError,
    DiskFullError,
    ReadOnlyDatabaseError,
    SchemaError,
    StorageError,
)

TOO_MANY_CONNECTIONS = "53300"
READ_ONLY = "25006"
IN_RECOVERY = ("0A000", "55000")
"""feature_not_supported, object_not_in_prerequisite_state: what a standby answers to a transaction that is to
write, and to a question about its own log."""
STARTING = ("57P01", "57P02", "57P03")
"""The server stops or starts: admin_shutdown, crash_shutdown, cannot_connect_now."""
ENDED = (*STARTING, "57P04", "57P05", "25P03", "25P04")
"""The server ended the connection; also database_dropped, idle_session_timeout,
idle_in_transaction_session_timeout, transaction_timeout."""
CANCELED = "57014"
BUSY = ("55P03", "40P01", "40001")
"""lock_not_available, deadlock_detected, serialization_failure"""
UNPREPARED = ("42P01", "42703", "42883", "3F000")
"""undefined_table, undefined_column, undefined_function, invalid_schema_name"""
NO_DATABASE = "3D000"
REFUSED_USER = ("28000", "28P01", "42501")
DISK_ERROR = ("58000", "58030", "58P01")
"""system_error, io_error, undefined_file"""
DISK_FULL = ("53100", "53400")
DAMAGE = ("XX001", "XX002", "22P02", "22P05")
"""data_corrupted, index_corrupted; a stored value that is no JSON or number"""

_TEXTS = (
    (TOO_MANY_CONNECTIONS, ("too many clients", "connection slots", "too many connections")),
    (NO_DATABASE, ('database "', "does not exist")),
    ("28P01", ("password authentication failed", "no password supplied", "pg_hba.conf", 'role "')),
    ("57P03", ("is starting up", "is shutting down", "in recovery mode", "not yet accepting connections")),
)
"""libpq reports a failed connection without a code: words of its messages."""

log = logging.getLogger(__name__)


def is_connection_lost(error: psycopg.Error) -> bool:
    """Whether the connection of the error ended, or was never made."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate in ENDED or error.sqlstate.startswith("08")


def is_read_only(error: psycopg.Error) -> bool:
    """Whether the server refused to write: it is a standby, or only reading is allowed."""
    is_standby = error.sqlstate in IN_RECOVERY and "recovery" in str(error)
    return is_standby or error.sqlstate == READ_ONLY


def is_timeout(error: psycopg.Error) -> bool:
    """Whether the server stopped the statement, as it does at `statement_timeout`."""
    return isinstance(error, psycopg.errors.QueryCanceled)


def state_of(error: psycopg.Error) -> str:
    """The SQLSTATE of an error; of a failed connection, the one that its message tells."""
    if error.sqlstate is not None:
        return error.sqlstate
    text = str(error)
    for state, words in _TEXTS:
        found = [word in text for word in words]
        if all(found) if state == NO_DATABASE else any(found):
            return state
    return "08000"


_UNAVAILABLE = {
    TOO_MANY_CONNECTIONS: (
        "the database server has no free connection: raise its max_connections, or run fewer processes"
    ),
    NO_DATABASE: (
        "the database server has no database of this name: create it with `createdb`, or correct "
        "SHOAL_DATABASE_URL"
    ),
    **dict.fromkeys(
        REFUSED_USER,
        "the database server refuses the user of SHOAL_DATABASE_URL: correct user and password, or grant the "
        "user the right to create and use the schema",
    ),
    **dict.fromkeys(STARTING, "the database server is stopping or starting; try again soon"),
    **dict.fromkeys(BUSY, "the database is busy; try again"),
    **dict.fromkeys(DISK_ERROR, "the disk of the database server fails; see the server's log"),
    CANCELED: "the database server was asked to stop a statement, and nothing of it was stored; try again",
}
"""Messages by SQLSTATE."""


def translate_error(error: psycopg.Error, name: str) -> StorageError:
    """Translate an error of the library that messages call `name`. Not for an IntegrityError."""
    if isinstance(error, psycopg.DataError) and error.sqlstate is None:
        return StorageError(f"the database refused a value ({type(error).__name__})")
    state = state_of(error)
    if state in _UNAVAILABLE:
        return DatabaseUnavailableError(_UNAVAILABLE[state])
    if is_read_only(error):
        return ReadOnlyDatabaseError(name)
    if state in DISK_FULL:
        return DiskFullError(
            "there is no space left on the disk of the database server; nothing was stored: free some and "
            "try again"
        )
    if state in UNPREPARED:
        return SchemaError("the database is not prepared for this version; run `shoal migrate`")
    if state in DAMAGE:
        return DamagedDatabaseError()
    if state.startswith("53"):
        return DatabaseUnavailableError("the database server is out of memory or another resource; try again")
    if is_connection_lost(error):
        return DatabaseUnavailableError(
            "the database server cannot be reached, or closed the connection: see that it runs and that "
            "SHOAL_DATABASE_URL names it, then try again"
        )
    log.warning("the database refused an operation: %s", str(error).strip())
    return StorageError(f"the database refused an operation ({type(error).__name__})")


def not_committed() -> DatabaseUnavailableError:
    """The error of a transaction whose connection ended before it was committed."""
    return DatabaseUnavailableError(
        "the connection to the database ended during a commit, and nothing was stored; try again"
    )


def lock_lost(what: str) -> DatabaseUnavailableError:
    """The error of a write transaction after the connection ended that held the lock for `what`."""
    return DatabaseUnavailableError(
        f'the connection to the database that held the lock for "{what}" ended, so another process may do '
        "the same now: the rest was not stored; repeat it"
    )
