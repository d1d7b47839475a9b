"""The door to the database: connections, transactions, and driver errors turned into ours.

Readers use `read()` or `snapshot()`, one consistent state each. `snapshot()` works on the driver itself: a search
from the command line would otherwise spend half its time importing SQLAlchemy. Writers use `write()`, which takes
SQLite's write lock at once (BEGIN IMMEDIATE), so that a transaction never fails half-way for want of it. WAL lets
readers go on meanwhile; `synchronous=FULL` makes a commit survive a power cut, which is what a 202 promises.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shoal.errors import (
    DatabaseUnavailableError,
    DiskFullError,
    ReadOnlyDatabaseError,
    SchemaError,
    StorageError,
)

if TYPE_CHECKING:
    import sqlalchemy as sa

BUSY_TIMEOUT_MS = 30_000
"""How long a writer waits for the lock. Our own transactions hold it for about a second at most."""

_INHERITED: list[sqlite3.Connection] = []
"""Connections of the parent process, kept from being closed here: closing would drop the parent's file locks."""

CACHE_KIB = 65_536
"""Page cache of a connection; the narrow retrieval table of 50,000 chunks fits."""

MAX_ID = 2**63 - 1
"""The largest id that a database can be asked for."""

FREE_PAGES = "PRAGMA freelist_count"
_WAL_RETRY_S = 0.005
"""Pause before asking for WAL mode again, seconds."""

IDS_PER_STATEMENT = 500
"""Ids asked for at a time where there may be any number of them."""

# Pages that are given back then shrink the file. It can only be set before the first page is written; afterwards
# the statement has no effect, but would wait for the write lock.
_PRAGMA_OF_EMPTY = "PRAGMA auto_vacuum = INCREMENTAL"
_PRAGMA_OF_WAITING = f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}"
_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    "PRAGMA temp_store = MEMORY",
)


class Snapshot:
    """One consistent state of the database, for reading. Statements take named parameters (`:name`)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """All rows; a row's columns are had by position and by name."""
        return self._execute(statement, parameters).fetchall()

    def tuples(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows one by one as plain tuples, where there may be a million of them."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(statement, parameters or {})

    def first(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first row, None if there is none."""
        return self._execute(statement, parameters).fetchone()

    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first column of the first row, None if there is none."""
        row = self.first(statement, parameters)
        return None if row is None else row[0]

    def _execute(self, statement: str, parameters: Mapping[str, Any] | None) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(statement, parameters or {})


def snapshot_of(connection: sa.Connection) -> Snapshot:
    """What a transaction sees, with its own changes, for reading on the driver itself: five times as quick for a row."""
    return Snapshot(cast(sqlite3.Connection, connection.connection.driver_connection))


def listed(name: str, values: Iterable[Any]) -> tuple[str, dict[str, Any]]:
    """`values` as the inside of `IN (...)` and the parameters it names: `:name_0, :name_1`."""
    parameters = {f"{name}_{i}": value for i, value in enumerate(values)}
    return ", ".join(f":{key}" for key in parameters), parameters


class Database:
    """A pool of connections to one database. Safe to share between threads, not across a fork."""

    def __init__(self, url: str) -> None:
        """`url` is `sqlite:///PATH`. The file is made on first use, its folder is not."""
        self.url = url
        self.path = Path(url.removeprefix("sqlite:///")).absolute()
        if not self.path.parent.is_dir():
            raise DatabaseUnavailableError(f"there is no folder {self.path.parent} to hold the database")
        self._pid = os.getpid()
        self._engine: sa.Engine | None = None
        self._readers: list[sqlite3.Connection] = []

    def _connect(self) -> sa.Engine:
        import sqlalchemy as sa

        # The connection used last comes first: each has a cache of its own, which is to be filled once.
        engine = sa.create_engine(
            f"sqlite:///{self.path}",
            pool_size=16,
            max_overflow=16,
            pool_reset_on_return=None,
            pool_use_lifo=True,
        )
        sa.event.listen(engine, "connect", _prepare)
        sa.event.listen(engine, "begin", _begin)
        return engine

    @property
    def engine(self) -> sa.Engine:
        """The SQLAlchemy engine of this process, made on first use."""
        self._leave_parent()
        if self._engine is None:
            self._engine = self._connect()
        return self._engine

    def _leave_parent(self) -> None:
        """A forked child gets connections of its own; those it inherited stay open for the parent."""
        if self._pid == os.getpid():
            return
        if self._engine is not None:
            self._engine.dispose(close=False)
        _INHERITED.extend(self._readers)
        self._engine, self._readers, self._pid = None, [], os.getpid()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # SQLAlchemy wraps the driver's error; asked this way, it need not have been imported.
            cause = getattr(error, "orig", error)
            if not isinstance(cause, sqlite3.Error) or isinstance(cause, sqlite3.IntegrityError):
                raise
            raise _translate(cause, self.path) from error

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """A read transaction on the driver itself: every statement sees the same state."""
        self._leave_parent()
        with self._translated():
            try:
                connection, is_kept = self._readers.pop(), True
            except IndexError:
                connection, is_kept = self._open_reader()
            try:
                connection.execute("BEGIN")
                yield Snapshot(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if is_kept:
                    self._readers.append(connection)
                else:
                    connection.close()

    def _open_reader(self) -> tuple[sqlite3.Connection, bool]:
        """A connection for reading, and whether it may be used again."""
        # Passed from thread to thread, but used by one at a time.
        connection = sqlite3.connect(self.path, check_same_thread=False)
        try:
            _prepare(connection, None)
        except sqlite3.OperationalError:
            connection.close()
            if not self._is_read_only():
                raise
            return self._open_unchanging(), False
        return connection, True

    def _is_read_only(self) -> bool:
        """Whether the file is there, but it or its folder can't be written to: no log can be made beside it then."""
        return self.path.exists() and not (
            os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        )

    def _open_unchanging(self) -> sqlite3.Connection:
        """A connection that reads the file as it stands. Raises DatabaseUnavailableError where that is not all: a log
        beside it holds what was written last.

        SQLite takes the file for one that never changes. So nobody may use the connection for longer than a snapshot:
        whoever may write could come meanwhile.
        """
        log = Path(f"{self.path}-wal")
        if log.exists() and log.stat().st_size:
            raise DatabaseUnavailableError(
                f"{log.name} holds what was written last; whoever may write to the folder has to open {self.path.name} once"
            )
        address = f"{self.path.as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        connection.isolation_level = None
        for pragma in _PRAGMAS:
            connection.execute(pragma).fetchall()
        return connection

    @contextlib.contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A read transaction: every statement sees the same snapshot."""
        with self._translated(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A write transaction, committed at the end of the block, rolled back if it raises.

        Raises DatabaseUnavailableError when the lock is not to be had within BUSY_TIMEOUT_MS and
        DiskFullError when there is no space; nothing is stored then.
        """
        with self._translated(), self.engine.connect() as plain:
            connection = plain.execution_options(shoal_write=True)
            with connection.begin():
                yield connection

    def give_back_space(self, pages: int = 2000) -> bool:
        """Return up to `pages` free pages to the file system; whether there are more to return."""
        with self._translated(), self.engine.connect() as connection:
            raw = connection.connection.cursor()
            before = raw.execute(FREE_PAGES).fetchone()[0]
            # The pragma frees a page a step and has no columns, so `execute` stops after one; a script runs to its end.
            raw.executescript(f"PRAGMA incremental_vacuum({int(pages)})")
            after = raw.execute(FREE_PAGES).fetchone()[0]
            raw.close()
        return bool(0 < after < before)

    def close(self) -> None:
        """Close every connection. The last one to leave folds the WAL back into the file."""
        if self._pid != os.getpid():
            return
        while self._readers:
            self._readers.pop().close()
        if self._engine is not None:
            self._engine.dispose()


def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver must not begin transactions of its own: _begin decides how each one starts.
    connection.isolation_level = None
    connection.execute(_PRAGMA_OF_WAITING).fetchall()
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        connection.execute(_PRAGMA_OF_EMPTY)
    _enter_wal(connection)
    for pragma in _PRAGMAS:
        connection.execute(pragma).fetchall()


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Put the database into WAL mode, which lasts. Of several who do so first at once, SQLite refuses all but one
    without waiting, whatever the busy timeout is; they see the mode set when they ask again.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(_WAL_RETRY_S)


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("shoal_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _translate(error: sqlite3.Error, path: Path) -> StorageError:
    """Our error for a driver's. An IntegrityError is never asked about: callers decide what it means."""
    text = str(error).lower()
    if "disk is full" in text or "disk i/o" in text:
        return DiskFullError("there is no space left on the disk of the database; nothing was stored")
    if "unable to open" in text and path.exists() and not os.access(path, os.R_OK):
        return DatabaseUnavailableError(f"{path.name} may not be read by this user")
    if "readonly" in text or ("unable to open" in text and not os.access(path.parent, os.W_OK)):
        return ReadOnlyDatabaseError(path)
    if "locked" in text or "busy" in text or "unable to open" in text:
        return DatabaseUnavailableError("the database is busy or cannot be opened; try again")
    if "no such table" in text or "no such column" in text:
        return SchemaError("the database is not prepared for this version; run `shoal migrate`")
    if "not a database" in text or "malformed" in text:
        return SchemaError("the file is not a Shoal database, or is damaged; `PRAGMA integrity_check` tells")
    return StorageError(f"the database refused an operation ({type(error).__name__})")
