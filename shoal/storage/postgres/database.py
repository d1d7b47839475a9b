"""A library in a schema of PostgreSQL: connections, transactions and locks.

Writers take turns by an advisory lock of the schema, as on SQLite, so that what a transaction reads before it
writes stays true until it commits. Readers see one state and wait for nobody.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.generators import fetch_many
from psycopg.pq import TransactionStatus

from shoal.errors import CommitUnknownError, DamagedDatabaseError, DatabaseUnavailableError
from shoal.storage.database import UNLIMITED, ConstraintError, Database, Deadline, Snapshot, Transaction
from shoal.storage.postgres import statements
from shoal.storage.postgres.address import parse_address
from shoal.storage.postgres.statements import adapt
from shoal.storage.postgres.transactions import (
    NOW,
    PostgresListener,
    PostgresSnapshot,
    PostgresTransaction,
    ThreadLocks,
    lock_key,
)

LOCK_TIMEOUT_MS = 30_000
"""Longest wait of a writer for its turn. Shoal's own transactions take about a second at most."""
IDLE_TRANSACTION_MS = 300_000
"""The server ends a transaction of a process that does nothing for so long: it may be cut off."""
CONNECT_SECONDS = 10
"""Longest wait for a connection."""
OUTCOME_SECONDS = 10.0
"""How long the server is asked what became of a commit whose connection ended: longer than most restarts."""
OUTCOME_POLL_SECONDS = 0.2
CONNECTION_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses before a server without a free connection is asked again, seconds."""

UNKNOWN_PARAMETER = re.compile(r'invalid URI query parameter: ("\w{1,64}")')

_INHERITED: list[psycopg.Connection[Any]] = []
"""Connections of the parent process, which stay open for it."""

_SETTINGS = (
    f"SET lock_timeout = {LOCK_TIMEOUT_MS}; "
    # Reads of requests have a deadline. One that builds an index or checks the library takes its time.
    "SET statement_timeout = 0; "
    f"SET idle_in_transaction_session_timeout = {IDLE_TRANSACTION_MS}; "
    "SET cursor_tuple_fraction = 1; "
    "SET standard_conforming_strings = on; "
    "SET search_path = "
)
# Servers that can compress long values with lz4, which is faster than their default.
_COMPRESSION = """
    SELECT set_config('default_toast_compression', 'lz4', false) FROM pg_settings
    WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
"""
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# Another one after a failover, and after a crash, which discards the statistics. Then the number of a
# transaction that was lost may have been given to another one.
_CONTINUITY = """
    (SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || stats_reset FROM pg_stat_wal)
"""
_BEGUN = f"""
    {NOW}, pg_current_xact_id()::text, {_CONTINUITY}, current_setting('default_transaction_read_only') = 'on'
"""
_OUTCOME = f"SELECT pg_xact_status(%s::xid8), {_CONTINUITY} = %s"
_END = b"ROLLBACK"
# A connection that reads a state has a `backend_xmin`.
_OTHER_READERS = """
    SELECT EXISTS (SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend'
          AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL)
"""
_SIZE = """
    SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '{schema}' AND c.relkind = 'r'
"""

log = logging.getLogger(__name__)

Connection = psycopg.Connection[Any]
Results = psycopg.Cursor[Any]


def _last_row(results: Results) -> Any:
    """The first row of the last result of several statements, which has one."""
    while results.nextset():
        pass
    row = results.fetchone()
    assert row is not None
    return row


def _last_value(results: Results) -> Any:
    return _last_row(results)[0]


def _send_end(connection: Connection) -> None:
    """Send the end of a read transaction; close the connection if it cannot be sent at once."""
    connection.pgconn.send_query(_END)
    if connection.pgconn.flush():
        connection.close()


def _is_settled(connection: Connection) -> bool:
    """Receive the answer to the end of the last transaction; whether another one can begin."""
    try:
        if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            connection.wait(fetch_many(connection.pgconn))
        is_settled = connection.pgconn.transaction_status == TransactionStatus.IDLE
    except psycopg.Error:
        is_settled = False
    if not is_settled:
        connection.close()
    return is_settled


class PostgresDatabase(Database):
    """A pool of connections to one schema of one database."""

    is_sqlite = False

    def __init__(self, url: str, data_path: Path) -> None:
        """`url` as `parse_address` describes it; nothing is connected yet.

        `data_path`: folder below which this machine keeps files that are derived from the database.
        """
        self.url = url
        self.address = parse_address(url)
        self._check_address()
        self.schema = self.address.schema
        self._data_path = data_path
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._turn = lock_key(self.schema, "write")
        self._locks = ThreadLocks(self.schema)

    def _check_address(self) -> None:
        """Raise DatabaseUnavailableError if libpq cannot read the URL. Its own message may repeat the
        password."""
        try:
            psycopg.conninfo.conninfo_to_dict(self.address.url)
        except psycopg.ProgrammingError as error:
            unknown = UNKNOWN_PARAMETER.search(str(error))
            reason = f"it does not know {unknown[1]}" if unknown else "write special characters as %XX"
            raise DatabaseUnavailableError(
                f"PostgreSQL cannot read the database's URL, postgresql://USER@HOST:PORT/DATABASE: {reason}"
            ) from None

    @property
    def name(self) -> str:
        return self.address.name

    @property
    def location(self) -> str:
        return self.address.location

    @property
    def index_folder(self) -> Path:
        return self._data_path / "index" / self.schema

    @contextlib.contextmanager
    def snapshot(self, *, limited: bool = True) -> Iterator[Snapshot]:
        is_limited = limited and self.read_timeout is not None
        deadline = Deadline(self.read_timeout) if is_limited else UNLIMITED
        with self._translated(deadline):
            connection, is_new = self._take()
            snapshot = PostgresSnapshot(
                connection, _BEGIN_READING, deadline, None if is_new else self._renewed
            )
            try:
                yield snapshot
            finally:
                self._leave(snapshot.own_connection, waits=False)

    @contextlib.contextmanager
    def write(self, *, seconds: float | None = None) -> Iterator[Transaction]:
        # 0 would be no limit.
        limit = "" if seconds is None else f"SET LOCAL lock_timeout = {max(1, int(1000 * seconds))}; "
        begin = f"{_BEGIN_WRITING}; {limit}SELECT pg_advisory_xact_lock({self._turn}); {_BEGUN}"
        with self._translated(), self._connected(begin) as begun:
            connection = begun.connection
            now, number, continuity, is_read_only = _last_row(begun)
            if is_read_only:
                raise psycopg.errors.ReadOnlySqlTransaction("default_transaction_read_only is on")
            self._locks.check(connection)
            transaction = PostgresTransaction(connection, now)
            if self.write_guard is not None:
                self.write_guard(transaction)
            yield transaction
            try:
                connection.execute(b"COMMIT")
            except psycopg.Error as error:
                if not statements.is_connection_lost(error):
                    raise
                if not self._was_committed(number, continuity):
                    raise statements.not_committed() from error
                log.warning("the database %s: the connection ended after a commit", self.name)

    def _was_committed(self, number: str, continuity: str) -> bool:
        """Ask for the outcome of a transaction whose connection ended at its commit.

        Raises CommitUnknownError if the server does not answer within OUTCOME_SECONDS, or was interrupted so
        that it cannot know.
        """
        until = time.monotonic() + OUTCOME_SECONDS
        while True:
            try:
                with self._own_connection() as connection:
                    asked = connection.execute(_OUTCOME, [number, continuity])
                    status, is_same = asked.fetchone() or (None, None)
            except psycopg.errors.InvalidParameterValue:
                # The number was not given yet.
                return False
            except psycopg.Error as error:
                log.info("reading the outcome of a commit failed and is repeated: %s", error)
            else:
                if status == "aborted" or (status == "committed" and is_same):
                    return bool(status == "committed")
                if status != "in progress":
                    raise CommitUnknownError
            if time.monotonic() > until:
                raise CommitUnknownError
            time.sleep(OUTCOME_POLL_SECONDS)

    @contextlib.contextmanager
    def _translated(self, deadline: Deadline = UNLIMITED) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            # Of words and texts that are stored as bytes: nothing else is decoded in a transaction.
            raise DamagedDatabaseError from error
        except psycopg.IntegrityError as error:
            raise ConstraintError(str(error)) from error
        except psycopg.Error as error:
            if deadline is not UNLIMITED and (deadline.is_over or statements.is_timeout(error)):
                raise deadline.error() from error
            if statements.is_connection_lost(error):
                log.warning("the database %s: %s", self.name, str(error).strip())
            raise statements.translate_error(error, self.name) from error

    @contextlib.contextmanager
    def _connected(self, begin: str) -> Iterator[Results]:
        """Lend a connection on which a transaction was begun, with what the statements of `begin` returned,
        and roll it back if it is open at the end."""
        begun = self._begun(begin)
        connection = begun.connection
        try:
            yield begun
        except psycopg.Error as error:
            if statements.is_read_only(error):
                # The server became a standby: the next connection may lead to the primary.
                connection.close()
            raise
        finally:
            self._leave(connection)

    def _begun(self, begin: str) -> Results:
        """Begin a transaction on a connection; on a new one if the server closed a kept one."""
        while True:
            connection, is_new = self._take()
            try:
                return connection.execute(begin.encode())
            except psycopg.Error as error:
                if statements.is_read_only(error):
                    # As in `_connected`.
                    connection.close()
                self._leave(connection)
                if is_new or not (connection.closed or statements.is_connection_lost(error)):
                    raise
                self._close_idle()
            except BaseException:
                self._leave(connection)
                raise

    def _take(self) -> tuple[Connection, bool]:
        """A connection without a transaction, and whether it is new."""
        self._leave_parent()
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._open(), True
            if _is_settled(connection):
                return connection, False

    def _renewed(self, connection: Connection) -> Connection:
        """Replace a connection that the server closed, as it did with the others that are kept."""
        connection.close()
        self._close_idle()
        return self._open()

    def _leave(self, connection: Connection, *, waits: bool = True) -> None:
        """Return a connection to the pool; close it if the pool is full or its transaction does not end.

        Unless it `waits`, the next to take the connection receives the answer to the end of the transaction.
        """
        try:
            if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.IDLE:
                if waits:
                    connection.execute(_END)
                else:
                    _send_end(connection)
        except psycopg.Error:
            # The transaction ends with its connection.
            connection.close()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            is_kept = not connection.closed and len(self._idle) < self.max_idle
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def _open(self) -> Connection:
        for seconds in (*CONNECTION_WAITS, None):
            try:
                return self._connect()
            except psycopg.OperationalError as error:
                if seconds is None or statements.state_of(error) != statements.TOO_MANY_CONNECTIONS:
                    raise
            time.sleep(seconds)
        raise AssertionError("the last attempt returns or raises")

    def _connect(self) -> Connection:
        connection = psycopg.connect(
            self.address.url,
            autocommit=True,
            client_encoding="UTF8",
            connect_timeout=CONNECT_SECONDS,
            fallback_application_name="shoal",
            prepare_threshold=None,
        )
        try:
            adapt(connection)
            connection.execute(f'{_SETTINGS}"{self.schema}"; {_COMPRESSION}'.encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def _leave_parent(self) -> None:
        """Give a forked child its own connections; the inherited ones stay open for the parent."""
        if self._pid == os.getpid():
            return
        _INHERITED.extend(self._idle)
        self._idle, self._pid, self._lock = [], os.getpid(), threading.Lock()

    @contextlib.contextmanager
    def alone(self, what: str) -> Iterator[None]:
        with self._translated(), self._own_connection() as connection:
            connection.execute(b"SET lock_timeout = 0")
            connection.execute("SELECT pg_advisory_lock(%s)", [lock_key(self.schema, what)])
            connection.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}".encode())
            with self._locks.holding(connection, what):
                yield

    @contextlib.contextmanager
    def alone_if_free(self, what: str) -> Iterator[bool]:
        with self._translated(), self._own_connection() as connection:
            key = lock_key(self.schema, what)
            (is_free,) = connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone() or (0,)
            if not is_free:
                yield False
                return
            with self._locks.holding(connection, what):
                yield True

    @contextlib.contextmanager
    def _own_connection(self) -> Iterator[Connection]:
        """A connection for a lock, which ends with the connection, whatever happens."""
        self._leave_parent()
        connection = self._open()
        try:
            connection.execute(b"SET idle_session_timeout = 0")
            yield connection
        finally:
            # The server notices the end of a connection a little later; the next holder may ask at once.
            with contextlib.suppress(psycopg.Error):
                connection.execute(b"SELECT pg_advisory_unlock_all()")
            connection.close()

    def _asked(self, query: str) -> Any:
        """The value of a query outside of a transaction."""
        with self._translated(), self._connected(query) as asked:
            return _last_value(asked)

    def now(self) -> float:
        moment: float = self._asked(NOW)
        return moment

    def listener(self) -> PostgresListener:
        return PostgresListener(self.address.url, self.schema)

    def check_usable(self) -> None:
        self._asked("SELECT 1")

    def is_state_common(self) -> bool:
        return not self._asked(_OTHER_READERS)

    def free_pages(self) -> int:
        """None: the server's autovacuum reuses them."""
        return 0

    def return_pages(self, pages: int = 2000) -> bool:
        """Nothing to return: the server's autovacuum reuses free pages."""
        return False

    def vacuum(self, tables: Sequence[str]) -> None:
        # Otherwise the first searches mark each page as visible to all.
        with self._translated(), self._connected(f"VACUUM (ANALYZE) {', '.join(tables)}"):
            pass

    def size(self) -> int:
        return int(self._asked(_SIZE.format(schema=self.schema)))

    def close(self) -> None:
        if self._pid == os.getpid():
            self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
