"""Statements as PostgreSQL understands them, and its errors as those of Shoal.

Shoal has one text of a statement for both stores wherever both can say it. This module translates what
differs in form only: parameters, the hints of SQLite's planner, the empty list, and LIKE, which SQLite
compares without regard to the case of ASCII letters. Functions of SQLite that PostgreSQL lacks are functions
of the schema (`schema/functions.sql`).

Errors are translated by SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html).
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.bool import BoolDumper
from psycopg.types.string import StrDumperUnknown, TextLoader

from shoal.errors import (
    DamagedDatabaseError,
    DatabaseUnavailableError,
    DiskFullError,
    ReadOnlyDatabaseError,
    SchemaError,
    StorageError,
)

ESCAPE = "\U0010fffe"
"""A code point that Unicode reserves for the internal use of programs; text seldom has it."""
_TOKEN = re.compile(
    r"""
    '(?:[^']|'')*'                      # a literal
    | --[^\n]*                          # a comment
    | ::
    | :(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<position>\?)
    | (?P<percent>%)
    | (?P<hint>\bINDEXED\ BY\ \w+|\bNOT\ INDEXED\b)
    | \b(?P<before_plus>WHERE|AND|ON|OR)\ \+(?=[a-z])
    | (?P<not_in>\bNOT\ IN\ \(\))
    | (?P<in>\bIN\ \(\))
    | \bLIMIT\ :(?P<limit>\w+)
    | (?P<like>\bLIKE\b)
    | \bIS\ NOT\ :(?P<differs>\w+)
    | \bIS\ :(?P<same>\w+)
    """,
    re.VERBOSE,
)
_INSERTED = re.compile(
    r"\s*INSERT\s+INTO\s+\w+\s*\([^()]*\)\s*VALUES\s*"
    r"(?P<values>\((?:[^()]|\([^()]*\))*\))\s*(?:ON\s+CONFLICT\s*(?:\([^()]*\)\s*)?DO\s+NOTHING\s*)?$"
)
_COPIED = re.compile(
    r"\s*INSERT\s+INTO\s+(?P<table>\w+)\s*\((?P<columns>[^()]*)\)\s*"
    r"VALUES\s*\((?P<values>(?:\s*(?::\w+|\?)\s*,)*\s*(?::\w+|\?)\s*)\)\s*$"
)
MAX_CACHED = 4_000
ROWS_COPIED = 32
"""From so many rows on, they are copied: COPY takes a round trip more."""
STATEMENT_BYTES = 1 << 20
"""Rows that one statement writes, as text."""
ROWS_TOGETHER = 1_000
"""Rows that one statement writes."""
Connection = psycopg.Connection[Any]
Cursor = psycopg.ClientCursor[Any]
Rows = Sequence[Mapping[str, Any] | Sequence[Any]]
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


def escaped(text: str) -> str:
    """Return a text as PostgreSQL can hold it."""
    if "\0" in text or ESCAPE in text:
        return text.replace(ESCAPE, f"{ESCAPE}1").replace("\0", f"{ESCAPE}0")
    return text


def unescaped(text: str) -> str:
    """Return the text that `escaped` was given."""
    if ESCAPE in text:
        return text.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE)
    return text


class _StrDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escaped(obj))


class _TextLoader(TextLoader):
    def load(self, data: Buffer) -> bytes | str:
        text = super().load(data)
        return unescaped(text) if isinstance(text, str) else text


class _BoolDumper(BoolDumper):
    oid = 20  # bigint

    def dump(self, obj: bool) -> Buffer | None:
        return b"1" if obj else b"0"

    def quote(self, obj: bool) -> Buffer:
        return b"1" if obj else b"0"


class _BoolLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _NumberLoader(Loader):
    """Loads a NUMERIC, the type of sums of BIGINT."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


def adapt(connection: Connection) -> None:
    """Let a connection exchange values like this."""
    adapters = connection.adapters
    adapters.register_dumper(str, _StrDumper)
    adapters.register_dumper(bool, _BoolDumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("bool", _BoolLoader)
    adapters.register_loader("numeric", _NumberLoader)


class NamedRow(tuple[Any, ...]):
    """A row of a result; its columns are accessible by position and by name."""

    __slots__ = ()
    _places: dict[str, int]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self._places[key] if isinstance(key, str) else key)

    def keys(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self._places)


@functools.lru_cache(maxsize=2_000)
def row_class(names: tuple[str, ...]) -> Callable[[Sequence[Any]], NamedRow]:
    """Return the class of rows with these columns."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    return type("NamedRow", (NamedRow,), {"__slots__": (), "_places": places})


@functools.lru_cache(maxsize=MAX_CACHED)
def translated(statement: str) -> str:
    """Return a statement with parameters in the form of psycopg."""
    return _TOKEN.sub(_replacement, statement)


@functools.lru_cache(maxsize=MAX_CACHED)
def rows_of_insert(statement: str) -> tuple[str, str, str] | None:
    """Split an INSERT of one row, translated, into what stands before the row, the row, and what follows it.

    None for another statement, and for one that may change a row twice: its rows must be written one by one.
    """
    found = _INSERTED.match(statement)
    if found is None:
        return None
    start, end = found.span("values")
    return translated(statement[:start]), translated(statement[start:end]), translated(statement[end:])


@functools.lru_cache(maxsize=MAX_CACHED)
def copy_of_insert(statement: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the COPY that stores the rows of an INSERT of parameters alone, and the names of its parameters
    in the order of the columns; no names if they are positional. None for another statement."""
    found = _COPIED.match(statement)
    if found is None:
        return None
    values = [value.strip() for value in found["values"].split(",")]
    names = tuple(value[1:] for value in values) if values[0] != "?" else ()
    return f"COPY {found['table']} ({found['columns']}) FROM STDIN", names


def _replacement(match: re.Match[str]) -> str:
    kind, text = match.lastgroup, match.group()
    if kind is None:
        return text.replace("%", "%%")
    value = match.group(kind)
    if kind == "name":
        return f"%({value})s"
    if kind == "position":
        return "%s"
    if kind == "percent":
        return "%%"
    if kind == "before_plus":
        return f"{value} "
    if kind == "limit":
        # A negative limit is none.
        return f"LIMIT NULLIF(%({value})s::bigint, -1)"
    if kind == "differs":
        return f"IS DISTINCT FROM %({value})s"
    if kind == "same":
        return f"IS NOT DISTINCT FROM %({value})s"
    return {"hint": "", "not_in": "<> ALL ('{}')", "in": "= ANY ('{}')", "like": "ILIKE"}[kind]


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
