"""Transactions of a library on PostgreSQL: messages of statements, streams of rows, time of reads, and locks.

Locks are advisory locks of a schema. The server frees one when the connection that holds it ends, and tells
nobody. So every write transaction of a thread looks first whether the thread still holds its locks, and a new
holder waits for the transaction that may have looked before: no two holders of a lock store anything side by
side.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg

from shoal.storage.database import UNLIMITED, Deadline, Query, Snapshot, Transaction
from shoal.storage.postgres.statements import is_connection_lost, lock_lost, row_class, translated, write_rows

FIRST_ROWS, MOST_ROWS = 64, 20_000
BATCH_BYTES = 4 << 20
"""A stream fetches rows of about this size at once, as far as the rows before tell."""
SAMPLED_ROWS = 8

NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"
# Each statement of a message has the whole `statement_timeout`: here, what those before it have left.
_TIME_LEFT = """
    SELECT set_config('statement_timeout', GREATEST(1, {milliseconds} - floor(1000 * extract(epoch FROM
        clock_timestamp() - statement_timestamp())))::text, true)
"""

Connection = psycopg.Connection[Any]
Cursor = psycopg.ClientCursor[Any]
Parameters = Mapping[str, Any] | None
Rows = Callable[[psycopg.Cursor[Any]], Callable[[Sequence[Any]], Any]]
Renew = Callable[[Connection], Connection]
_IS_HELD = """
    SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = %(pid)s AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint << 32) | objid::bigint = %(key)s
"""
CHANNEL = "shoal_{schema}"
"""The triggers of revision 0030 notify it; the payload says what has changed."""
RECONNECT_SECONDS = 5.0
CONNECT_SECONDS = 5


def _named(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], Any]:
    return row_class(tuple(column.name for column in cursor.description or ()))


def _plain(_: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return tuple


class PostgresSnapshot(Snapshot):
    """A read transaction of one connection. It begins in one message with its first statement."""

    def __init__(
        self,
        connection: Connection,
        begin: str = "",
        deadline: Deadline = UNLIMITED,
        renew: Renew | None = None,
    ) -> None:
        """`begin`: the statement that begins the transaction; empty if it was begun. `renew` replaces the
        connection if the server closed it while it was kept; None for a new one."""
        self.own_connection = connection
        self._before = [begin] if begin else []
        self._renew = renew
        self.deadline = deadline
        self._timeout = math.inf
        self._numbers = itertools.count()
        self._read_cursors: list[str] = []
        self._prefetched: dict[str, list[tuple[Mapping[str, Any], list[Any]]]] = {}

    @property
    def connection(self) -> Connection:
        """The connection, on which the transaction was begun."""
        if self._before:
            self._run([], _plain)
        return self.own_connection

    def rows(self, statement: str, parameters: Parameters = None) -> list[Any]:
        known = self._known(statement, parameters)
        if known is not None:
            return list(known)
        cursor = self._execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []

    def tuples(self, statement: str, parameters: Parameters = None) -> Iterator[tuple[Any, ...]]:
        known = self._known(statement, parameters)
        if known is not None:
            return map(tuple, known)
        query = self._text(statement, parameters)
        if not query.lstrip().startswith(("SELECT", "WITH")):
            return iter(self._run([query], _plain).fetchall())
        name = f"rows_{next(self._numbers)}"
        closing = [f"CLOSE {each}" for each in self._read_cursors]
        self._read_cursors.clear()
        declaring = f"DECLARE {name} NO SCROLL CURSOR FOR {query}"
        cursor = self._run([*closing, declaring, f"FETCH {FIRST_ROWS} FROM {name}"], _plain)
        while cursor.nextset():
            pass
        return self._stream(name, cursor.fetchall())

    def _stream(self, name: str, rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        n_asked = FIRST_ROWS
        try:
            while True:
                yield from rows
                if len(rows) < n_asked:
                    return
                n_asked = _rows_at_once(rows)
                rows = self._run([f"FETCH {n_asked} FROM {name}"], _plain).fetchall()
        finally:
            self._read_cursors.append(name)

    def now(self) -> float:
        moment: float = self.value(NOW)
        return moment

    def first(self, statement: str, parameters: Parameters = None) -> Any:
        known = self._known(statement, parameters)
        if known is not None:
            return known[0] if known else None
        cursor = self._execute(statement, parameters)
        return cursor.fetchone() if cursor.description else None

    def prefetch(self, queries: Iterable[Query]) -> None:
        missing = [query for query in queries if self._known(*query) is None]
        if not missing:
            return
        # The time of a message is that of all of its statements.
        limits = [] if self.deadline is UNLIMITED else [_time_left(self.deadline.remaining())]
        texts = [text for query in missing for text in (*limits, self._text(*query))]
        cursor = self._run(texts[len(limits) :], _named)
        for query in missing:
            kept = self._prefetched.setdefault(query.statement, [])
            kept.append((query.parameters, cursor.fetchall()))
            for _ in (*limits, query):
                cursor.nextset()

    def _known(self, statement: str, parameters: Parameters) -> list[Any] | None:
        """The rows of a query that was run by `prefetch`."""
        for given, rows in self._prefetched.get(statement, ()):
            if given == (parameters or {}):
                return rows
        return None

    def _execute(self, statement: str, parameters: Parameters) -> Cursor:
        return self._run([translated(statement)], _named, parameters or {})

    def _text(self, statement: str, parameters: Parameters) -> str:
        """A statement with its parameters in place."""
        return psycopg.ClientCursor(self.own_connection).mogrify(translated(statement), parameters or {})

    def _run(self, statements: Sequence[str], rows: Rows, parameters: Parameters = None) -> Cursor:
        """Run statements in one message; the cursor is at the result of the first.

        Raises ReadTimeoutError after the deadline, and lets the statements end soon after it.
        """
        before, self._before = self._before, []
        if self.deadline is not UNLIMITED:
            self.deadline.check()
            remaining = self.deadline.remaining()
            if remaining < self._timeout / 2:
                self._timeout = remaining
                before = [*before, _timeout(remaining)]
        message = "; ".join([*before, *statements])
        query = message.encode() if parameters is None else message

        def send() -> Cursor:
            return psycopg.ClientCursor(self.own_connection, row_factory=rows).execute(query, parameters)

        renew, self._renew = self._renew, None
        try:
            cursor = send()
        except psycopg.Error as error:
            if renew is None or not is_connection_lost(error):
                raise
            self.own_connection = renew(self.own_connection)
            cursor = send()
        for _ in before:
            cursor.nextset()
        return cursor


class PostgresTransaction(PostgresSnapshot, Transaction):
    """A write transaction of one connection."""

    def __init__(self, connection: Connection, begun: float) -> None:
        """`begun`: the time of the database when it was asked, which was just now."""
        super().__init__(connection)
        self._begun, self._began_here = begun, time.monotonic()

    def execute(self, statement: str, parameters: Parameters = None) -> int:
        return self._execute(statement, parameters).rowcount

    def prefetch(self, queries: Iterable[Query]) -> None:
        """Do nothing: a later read sees the changes of this transaction."""

    def write_many(self, statement: str, rows: Sequence[Mapping[str, Any] | Sequence[Any]]) -> int:
        return write_rows(self.connection, statement, rows)

    def now(self) -> float:
        return self._begun + time.monotonic() - self._began_here


def _rows_at_once(rows: Sequence[tuple[Any, ...]]) -> int:
    """How many rows like these are fetched at once."""
    sample = rows[-SAMPLED_ROWS:]
    size = sum(sys.getsizeof(value) for row in sample for value in row) / len(sample)
    return max(1, min(MOST_ROWS, int(BATCH_BYTES / (size + 1)), 8 * len(rows)))


def _timeout(seconds: float) -> str:
    return f"SET LOCAL statement_timeout = {max(1, round(1000 * seconds))}"


def _time_left(seconds: float) -> str:
    return _TIME_LEFT.format(milliseconds=round(1000 * seconds))


def lock_key(schema: str, what: str) -> int:
    """The key of an advisory lock: 64 bits, signed."""
    digest = hashlib.blake2b(f"shoal/{schema}/{what}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class ThreadLocks(threading.local):
    """The locks that a thread holds in a schema, each with the process of the server that holds it."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._turn = lock_key(schema, "write")
        self._held: list[tuple[str, int]] = []

    @contextlib.contextmanager
    def holding(self, connection: Connection, what: str) -> Iterator[None]:
        """Note that `connection` holds the lock for `what`, until the end of the block."""
        # A former holder may be in a transaction that saw its lock: it ends first.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [self._turn])
        self._held.append((what, connection.info.backend_pid))
        try:
            yield
        finally:
            self._held.pop()

    def check(self, connection: Connection) -> None:
        """Raise DatabaseUnavailableError if a lock was lost. `connection`: in a write transaction."""
        for what, pid in self._held:
            row = {"key": lock_key(self._schema, what), "pid": pid}
            if connection.execute(_IS_HELD, row).fetchone() is None:
                raise lock_lost(what)


class PostgresListener:
    """Listens to one schema, on a connection of its own. Belongs to one thread."""

    def __init__(self, url: str, schema: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`url`: for libpq."""
        self._url = url
        self._channel = CHANNEL.format(schema=schema)
        self._clock = clock
        self._connection: psycopg.Connection[object] | None = None
        self._next_try = 0.0

    def wait(self, what: str, seconds: float) -> bool:
        """Wait until `what` is notified, for `seconds` at most; whether it was, or may have been unheard."""
        until = self._clock() + seconds
        try:
            connection, is_new = self._open()
            if connection is None:
                time.sleep(seconds)
                return False
            if is_new:
                return True
            server = connection.pgconn
            while True:
                server.consume_input()
                # Those that came together are answered together.
                payloads = []
                while (notice := server.notifies()) is not None:
                    payloads.append(notice.extra.decode())
                left = until - self._clock()
                if what in payloads or left <= 0:
                    return what in payloads
                # `select` refuses descriptors from 1,024 on.
                with selectors.PollSelector() as selector:
                    selector.register(server.socket, selectors.EVENT_READ)
                    selector.select(left)
        except (psycopg.Error, OSError):
            self.close()
            time.sleep(max(0.0, until - self._clock()))
            return False

    def _open(self) -> tuple[psycopg.Connection[object] | None, bool]:
        if self._connection is not None and not self._connection.closed:
            return self._connection, False
        if self._clock() < self._next_try:
            return None, False
        self._next_try = self._clock() + RECONNECT_SECONDS
        self._connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="shoal listener"
        )
        self._connection.execute(f'LISTEN "{self._channel}"'.encode())
        return self._connection, True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
