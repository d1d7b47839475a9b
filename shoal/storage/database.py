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

from shoal.errors import DatabaseReplacedError, DatabaseUnavailableError
from shoal.storage.database_files import DatabaseFiles
from shoal.storage.read_deadline import UNLIMITED, Deadline, Interrupter
from shoal.storage.sqlite_errors import translated

if TYPE_CHECKING:
    import sqlalchemy as sa

BUSY_TIMEOUT_MS = 30_000
"""How long a writer waits for the lock. Our own transactions hold it for about a second at most."""

_INHERITED: list[sqlite3.Connection] = []
"""Connections of the parent process, kept from being closed here: closing would drop the parent's file locks."""

CACHE_KIB = 4_096
"""Page cache of a connection. Each has its own, and the system keeps the file's pages once for all: with 64 MiB neither
searches of 90,000 chunks nor their ingestion take less processor time."""
MAX_READERS = 8
MAX_POOLED = 4
"""Connections for reading, and others, that are kept open. More are opened where more are needed at the same time."""
MAX_OVERFLOW = 28

MAX_ID = 2**63 - 1
"""The largest id that a database can be asked for."""

FREE_PAGES = "PRAGMA freelist_count"
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
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
    """One consistent state of the database, for reading. Statements take named parameters (`:name`).

    Raises ReadTimeoutError from any method once the time for reading is over.
    """

    def __init__(self, connection: sqlite3.Connection, deadline: Deadline = UNLIMITED) -> None:
        self._connection = connection
        self._deadline = deadline

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """All rows; a row's columns are had by position and by name."""
        return self._execute(statement, parameters).fetchall()

    def tuples(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows one by one as plain tuples, where there may be a million of them."""
        self._deadline.check()
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
        self._deadline.check()
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(statement, parameters or {})


def snapshot_of(connection: sa.Connection) -> Snapshot:
    """What a transaction sees, with its own changes, for reading on the driver itself: five times as quick for a row."""
    return Snapshot(_driver(connection))


def _driver(connection: sa.Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.driver_connection)


def listed(name: str, values: Iterable[Any]) -> tuple[str, dict[str, Any]]:
    """`values` as the inside of `IN (...)` and the parameters it names: `:name_0, :name_1`."""
    parameters = {f"{name}_{i}": value for i, value in enumerate(values)}
    return ", ".join(f":{key}" for key in parameters), parameters


class Database:
    """A pool of connections to one database. Safe to share between threads, not across a fork.

    `read_timeout`: seconds that a read may take, None for no limit. A service sets it.
    """

    read_timeout: float | None = None

    def __init__(self, url: str) -> None:
        """`url` is `sqlite:///PATH`. The file is made on first use, its folder is not."""
        self.url = url
        self.path = Path(url.removeprefix("sqlite:///")).absolute()
        if not self.path.parent.is_dir():
            raise DatabaseUnavailableError(f"there is no folder {self.path.parent} to hold the database")
        self._pid = os.getpid()
        self._engine: sa.Engine | None = None
        self._readers: list[sqlite3.Connection] = []
        self._files = DatabaseFiles(self.path)
        self._interrupter = Interrupter()

    def _connect(self) -> sa.Engine:
        import sqlalchemy as sa

        # The connection used last comes first: each has a cache of its own, which is to be filled once.
        engine = sa.create_engine(
            f"sqlite:///{self.path}",
            creator=self._open,
            pool_size=MAX_POOLED,
            max_overflow=MAX_OVERFLOW,
            # A Ctrl-C may fall between the begin of a transaction and the block that would roll it back.
            pool_reset_on_return="rollback",
            pool_use_lifo=True,
        )
        sa.event.listen(engine, "close", lambda *_: self._files.closed())
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
        self._files, self._interrupter = DatabaseFiles(self.path), Interrupter()

    @contextlib.contextmanager
    def _translated(self, deadline: Deadline = UNLIMITED) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # SQLAlchemy wraps the driver's error; asked this way, it need not have been imported.
            cause = getattr(error, "orig", error)
            if not isinstance(cause, sqlite3.Error) or isinstance(cause, sqlite3.IntegrityError):
                raise
            # Whatever it is called: an interrupt may end a read as another error.
            raise (deadline.error() if deadline.is_over else translated(cause, self.path)) from error

    def _deadline(self, *, limited: bool) -> Deadline:
        return UNLIMITED if self.read_timeout is None or not limited else Deadline(self.read_timeout)

    @contextlib.contextmanager
    def snapshot(self, *, limited: bool = True) -> Iterator[Snapshot]:
        """A read transaction on the driver itself: every statement sees the same state.

        Raises ReadTimeoutError after `read_timeout`, unless it is not `limited`.
        """
        self._leave_parent()
        deadline = self._deadline(limited=limited)
        with self._translated(deadline):
            try:
                connection, is_kept = self._readers.pop(), True
            except IndexError:
                connection, is_kept = self._open_reader()
            try:
                connection.execute("BEGIN")
                with self._interrupter.watching(connection, deadline):
                    yield Snapshot(connection, deadline)
            finally:
                self._leave(connection, is_kept=is_kept)

    def _leave(self, connection: sqlite3.Connection, *, is_kept: bool) -> None:
        """Put back a connection for reading, or close it if there are enough."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if is_kept and len(self._readers) < MAX_READERS:
            self._readers.append(connection)
            return
        if is_kept:
            self._files.closed()
        connection.close()

    def _open_reader(self) -> tuple[sqlite3.Connection, bool]:
        """A connection for reading, and whether it may be used again."""
        try:
            return self._open(), True
        except sqlite3.OperationalError:
            if not self._is_read_only():
                raise
            return self._open_unchanging(), False

    def _open(self) -> sqlite3.Connection:
        """A new connection. Raises DatabaseReplacedError where it would have other files than those that are open."""
        self.check_files()
        # Passed from thread to thread, but used by one at a time.
        connection = sqlite3.connect(self.path, check_same_thread=False)
        try:
            _prepare(connection)
            self._files.opened()
        except BaseException:
            connection.close()
            raise
        return connection

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
        """A read transaction: every statement sees the same snapshot. Raises ReadTimeoutError after `read_timeout`."""
        deadline = self._deadline(limited=True)
        with (
            self._translated(deadline),
            self.engine.connect() as connection,
            connection.begin(),
            self._interrupter.watching(_driver(connection), deadline),
        ):
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A write transaction, committed at the end of the block, rolled back if it raises.

        Raises DatabaseUnavailableError when the lock is not to be had within BUSY_TIMEOUT_MS,
        DiskFullError when there is no space, and DatabaseReplacedError; nothing is stored then. Raises
        DatabaseReplacedError, too, where it was stored and will be lost.
        """
        self._leave_parent()
        self.check_files()
        with self._translated(), self.engine.connect() as plain:
            connection = plain.execution_options(shoal_write=True)
            with connection.begin():
                yield connection
        self.check_files()

    def check_files(self) -> None:
        """Raise DatabaseReplacedError if a file of the database was removed or replaced while it was open here."""
        replaced = self._files.replaced()
        if replaced == ("-wal",):
            self._save_log()
        if replaced:
            raise DatabaseReplacedError

    def _save_log(self) -> None:
        """Write what is in a log that was removed to the file, by a connection that has both open: else it is lost with
        this process."""
        with contextlib.suppress(IndexError, sqlite3.Error):
            connection = self._readers.pop()
            try:
                connection.execute(CHECKPOINT).fetchall()
            finally:
                self._leave(connection, is_kept=True)

    def give_back_space(self, pages: int = 2000) -> bool:
        """Return up to `pages` free pages to the file system; whether there are more to return."""
        with self._translated(), self.engine.connect() as connection:
            raw = _driver(connection).cursor()
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
            self._files.closed()
            self._readers.pop().close()
        if self._engine is not None:
            self._engine.dispose()


def _prepare(connection: sqlite3.Connection) -> None:
    # The driver must not begin transactions of its own: _begin decides how each one starts.
    connection.isolation_level = None
    connection.execute(_PRAGMA_OF_WAITING).fetchall()
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        connection.execute(_PRAGMA_OF_EMPTY)
    _enter_wal(connection)
    for pragma in _PRAGMAS:
        connection.execute(pragma).fetchall()
    # The log is made with the first read.
    connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()


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
