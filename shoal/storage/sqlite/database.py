"""A database in one file: its connections, transactions and files, and translation of SQLite's errors.

A write takes the lock at the start (BEGIN IMMEDIATE), so that it never fails half-way because it cannot get
the lock. With WAL, readers do not wait for writers. `synchronous=FULL` makes a commit survive a power
failure, as a 202 response promises.

While a process is connected, SQLite replaces neither the file nor its `-wal` and `-shm`. If something else
removes or replaces one of them, every connected process keeps writing to an unlinked file, and its changes
end with the process. SQLite does not detect this; this module does.

Errors are translated by result code (https://www.sqlite.org/rescode.html).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from shoal.errors import (
    DamagedDatabaseError,
    DatabaseReplacedError,
    DatabaseUnavailableError,
    DiskFullError,
    ReadOnlyDatabaseError,
    SchemaError,
    StorageError,
)
from shoal.storage.database import (
    UNLIMITED,
    ConstraintError,
    Database,
    Deadline,
    Interrupter,
    Snapshot,
    Transaction,
)

BUSY_TIMEOUT_MS = 30_000
"""Longest wait of a writer for the lock. Shoal's own transactions hold it for about a second at most."""

_INHERITED: list[sqlite3.Connection] = []
"""Connections of the parent process. They stay referenced, because closing them would drop the parent's file
locks."""

CACHE_KIB = 4_096
"""Page cache of each connection. A larger one gains nothing, because the operating system caches the file's
pages for all connections: with 64 MiB, neither searches of 90,000 chunks nor their ingestion take less
processor time."""

COUNT_FREE_PAGES = "PRAGMA freelist_count"
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
_LOCK_RETRY_S, _LOCK_RETRIES = 0.001, 20
"""Pause between requests of the write lock, seconds, and their number before SQLite waits with longer ones. A
note or a part of a bulk upload holds the lock for less than that."""
_WAL_RETRY_S = 0.005
"""Pause before WAL mode is requested again, seconds."""

# Lets freed pages shrink the file. It can only be set before the first page is written; afterwards the
# statement has no effect, but would wait for the write lock.
_PRAGMA_OF_EMPTY = "PRAGMA auto_vacuum = INCREMENTAL"
_PRAGMA_OF_WAITING = f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}"
_PRAGMA_OF_TRYING = "PRAGMA busy_timeout = 0"
_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    "PRAGMA temp_store = MEMORY",
    # What is deleted is overwritten: a forgotten text must not stay in free parts of the file.
    "PRAGMA secure_delete = ON",
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
SUFFIXES = ("", "-wal", "-shm")
Identity = tuple[int, int] | None
"""Device and inode of a file; None if the file does not exist."""


class SqliteSnapshot(Snapshot):
    """A read transaction of one connection."""

    connection: sqlite3.Connection
    is_sqlite = True

    def __init__(self, connection: sqlite3.Connection, deadline: Deadline = UNLIMITED) -> None:
        self.connection = connection
        self.deadline = deadline
        self._streams: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        return self._execute(statement, parameters).fetchall()

    def tuples(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        self.deadline.check()
        cursor = self.connection.cursor()
        cursor.row_factory = None
        self._streams.add(cursor)
        return cursor.execute(statement, parameters or {})

    def first(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        return self._execute(statement, parameters).fetchone()

    def _execute(self, statement: str, parameters: Mapping[str, Any] | None) -> sqlite3.Cursor:
        self.deadline.check()
        cursor = self.connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(statement, parameters or {})

    def now(self) -> float:
        """The time of the host."""
        return time.time()

    def close(self) -> None:
        """Close results that were not read to the end: the connection would keep this state for its next
        user."""
        for cursor in self._streams:
            cursor.close()


class SqliteTransaction(SqliteSnapshot, Transaction):
    """A write transaction of one connection."""

    def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        return self._execute(statement, parameters).rowcount

    def write_many(self, statement: str, rows: Sequence[Mapping[str, Any] | Sequence[Any]]) -> int:
        return self.connection.executemany(statement, rows).rowcount if rows else 0


class SqliteDatabase(Database):
    """A pool of connections to one file, `path`."""

    is_sqlite = True
    has_index_records = True

    def __init__(self, url: str) -> None:
        """`url` is `sqlite:///PATH`. The file is created on first use; its folder must exist."""
        self.url = url
        self.path = Path(url.removeprefix("sqlite:///")).absolute()
        if not self.path.parent.is_dir():
            raise DatabaseUnavailableError(f"there is no folder {self.path.parent} to hold the database")
        self._pid = os.getpid()
        # The most recently used is last: each connection has a cache of its own, and its is the warmest.
        self._idle: list[sqlite3.Connection] = []
        self._files = DatabaseFiles(self.path)
        self._interrupter = Interrupter()

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def index_folder(self) -> Path:
        return Path(f"{self.path}-index")

    def alone(self, what: str) -> AbstractContextManager[None]:
        return alone(self.path, what)

    def alone_if_free(self, what: str) -> AbstractContextManager[bool]:
        return alone_if_free(self.path, what)

    def now(self) -> float:
        """The time of the host: processes that share a file share a machine."""
        return time.time()

    def _leave_parent(self) -> None:
        """Give a forked child its own connections; the inherited ones stay open for the parent."""
        if self._pid == os.getpid():
            return
        _INHERITED.extend(self._idle)
        self._idle, self._pid = [], os.getpid()
        self._files, self._interrupter = DatabaseFiles(self.path), Interrupter()

    @contextlib.contextmanager
    def _translated(self, deadline: Deadline = UNLIMITED) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            # Of words and texts that are stored as bytes: nothing else is decoded in a transaction.
            raise DamagedDatabaseError from error
        except sqlite3.IntegrityError as error:
            raise ConstraintError(str(error)) from error
        except sqlite3.Error as error:
            # Past the deadline every error is a timeout: an interrupt may surface as another error.
            raise (deadline.error() if deadline.is_over else translate_error(error, self.path)) from error

    def _deadline(self, *, limited: bool) -> Deadline:
        return UNLIMITED if self.read_timeout is None or not limited else Deadline(self.read_timeout)

    @contextlib.contextmanager
    def snapshot(self, *, limited: bool = True) -> Iterator[Snapshot]:
        self._leave_parent()
        deadline = self._deadline(limited=limited)
        with self._translated(deadline), self._connected(only_reads=True) as connection:
            connection.execute("BEGIN")
            snapshot = SqliteSnapshot(connection, deadline)
            with contextlib.closing(snapshot), self._interrupter.watching(connection, deadline):
                yield snapshot

    @contextlib.contextmanager
    def write(self, *, seconds: float | None = None) -> Iterator[Transaction]:
        """Open a write transaction.

        Raises DatabaseUnavailableError if the lock is not free in time. DatabaseReplacedError after the
        commit means that the changes will be lost.
        """
        self._leave_parent()
        self.check_usable()
        with self._translated(), self._connected() as connection:
            _begin_write(connection, seconds)
            with contextlib.closing(SqliteTransaction(connection)) as transaction:
                if self.write_guard is not None:
                    self.write_guard(transaction)
                yield transaction
            connection.execute("COMMIT")
        self.check_usable()

    @contextlib.contextmanager
    def _connected(self, *, only_reads: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend a connection; a transaction that is open at the end of the block is rolled back."""
        is_kept = True
        try:
            connection = self._idle.pop()
        except IndexError:
            try:
                connection = self._open()
            except sqlite3.OperationalError:
                if not (only_reads and self._is_read_only()):
                    raise
                connection, is_kept = self._open_unchanging(), False
        try:
            yield connection
        finally:
            self._leave(connection, is_kept=is_kept)

    def _leave(self, connection: sqlite3.Connection, *, is_kept: bool) -> None:
        """Return a connection to the pool; close it if the pool is full or its transaction does not end."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        finally:
            if is_kept and not connection.in_transaction and len(self._idle) < self.max_idle:
                self._idle.append(connection)
            else:
                if is_kept:
                    self._files.closed()
                connection.close()

    def _open(self) -> sqlite3.Connection:
        """Open a connection. Raises DatabaseReplacedError if its files differ from those already open."""
        self.check_usable()
        # Threads share the connection, but only one uses it at a time.
        connection = sqlite3.connect(self.path, check_same_thread=False)
        try:
            _prepare(connection)
            self._files.opened()
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_read_only(self) -> bool:
        """Whether the file exists but it or its folder is read-only, so that no WAL can be created."""
        return self.path.exists() and not (
            os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        )

    def _open_unchanging(self) -> sqlite3.Connection:
        """Open the file as immutable. Raises DatabaseUnavailableError if a WAL holds more recent changes.

        SQLite then assumes that the file never changes. So the connection must not outlive one snapshot: a
        process with write permission may change the file at any time.
        """
        log = Path(f"{self.path}-wal")
        if log.exists() and log.stat().st_size:
            raise DatabaseUnavailableError(
                f"{log.name} holds the latest changes; a user who may write to the folder must open "
                f"{self.path.name} once"
            )
        address = f"{self.path.as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        connection.isolation_level = None
        for pragma in _PRAGMAS:
            connection.execute(pragma).fetchall()
        return connection

    def check_usable(self) -> None:
        """Raise DatabaseReplacedError if a file of the database was removed or replaced while open in this
        process."""
        replaced = self._files.replaced()
        if replaced == ("-wal",):
            self._save_log()
        if replaced:
            raise DatabaseReplacedError

    def _save_log(self) -> None:
        """Copy a removed WAL into the database file, through a connection that still has both open.

        Otherwise the changes in it would be lost with this process.
        """
        with contextlib.suppress(IndexError, sqlite3.Error):
            connection = self._idle.pop()
            try:
                connection.execute(CHECKPOINT).fetchall()
            finally:
                self._leave(connection, is_kept=True)

    def is_state_common(self) -> bool:
        """Copy the WAL into the database file without waiting; True if nothing is left to copy.

        Then no process reads a state older than the newest at the time of the call.
        """
        self._leave_parent()
        with self._translated(), self._connected() as connection:
            is_busy, n_pages, n_copied = connection.execute(CHECKPOINT).fetchone()
        return not is_busy and n_pages == n_copied

    def free_pages(self) -> int:
        with self.snapshot() as snapshot:
            n_pages: int = snapshot.value(COUNT_FREE_PAGES)
        return n_pages

    def return_pages(self, pages: int = 2000) -> bool:
        self._leave_parent()
        with self._translated(), self._connected() as connection:
            (before,) = connection.execute(COUNT_FREE_PAGES).fetchone()
            # The pragma frees one page per step and has no columns, so `execute` would stop after the first
            # page; `executescript` runs to the end.
            connection.executescript(f"PRAGMA incremental_vacuum({int(pages)})")
            (after,) = connection.execute(COUNT_FREE_PAGES).fetchone()
        return bool(0 < after < before)

    def vacuum(self, tables: Sequence[str]) -> None:
        """Nothing to do: a reader of SQLite finds no work that a writer left."""

    def size(self) -> int:
        """The size of the file and its WAL in bytes."""
        files = (self.path, Path(f"{self.path}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close every connection. The last one to close copies the WAL into the database file."""
        if self._pid != os.getpid():
            return
        while self._idle:
            self._files.closed()
            self._idle.pop().close()


def _prepare(connection: sqlite3.Connection) -> None:
    # The driver must not begin transactions itself: `snapshot` and `write` decide how each one starts.
    connection.isolation_level = None
    connection.execute(_PRAGMA_OF_WAITING).fetchall()
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        connection.execute(_PRAGMA_OF_EMPTY)
    _enter_wal(connection)
    for pragma in _PRAGMAS:
        connection.execute(pragma).fetchall()
    # The first read creates the WAL.
    connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()


def _begin_write(connection: sqlite3.Connection, seconds: float | None) -> None:
    """Begin a transaction that has the write lock, after a wait of at most `seconds`.

    SQLite waits for the lock with pauses of 1, 2, 5, 10 ms and more, in which a short transaction that holds
    it is long over and the next one may have begun.
    """
    connection.execute(_PRAGMA_OF_TRYING).fetchall()
    try:
        for _ in range(_LOCK_RETRIES):
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
            time.sleep(_LOCK_RETRY_S)
        waiting = _PRAGMA_OF_WAITING if seconds is None else f"PRAGMA busy_timeout = {int(1000 * seconds)}"
        connection.execute(waiting).fetchall()
        connection.execute("BEGIN IMMEDIATE")
    finally:
        connection.execute(_PRAGMA_OF_WAITING).fetchall()


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch the database to WAL mode, which is persistent.

    If several connections switch a new database at the same time, SQLite refuses all but one immediately,
    regardless of the busy timeout. The others retry and find the mode set.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(_WAL_RETRY_S)


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


class DatabaseFiles:
    """The identities of the files when the first open connection of this process was opened. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._paths = [Path(f"{path}{suffix}") for suffix in SUFFIXES]
        self._lock = threading.Lock()
        self._n_open = 0
        self._opened: list[Identity] = []

    def opened(self) -> None:
        """Count a connection that was just opened.

        Raises DatabaseReplacedError, without counting it, if its files differ from those of earlier
        connections.
        """
        identities = self._identities()
        with self._lock:
            if not self._n_open:
                self._opened = identities
            elif identities != self._opened:
                raise DatabaseReplacedError
            self._n_open += 1

    def closed(self) -> None:
        """Discount a connection that is about to be closed. Without connections, other processes may remove
        the WAL."""
        with self._lock:
            self._n_open -= 1

    def replaced(self) -> tuple[str, ...]:
        """List the suffixes of the files that were removed or replaced."""
        with self._lock:
            opened = list(self._opened) if self._n_open else None
        if opened is None:
            return ()
        current = self._identities()
        return tuple(suffix for suffix, old, new in zip(SUFFIXES, opened, current, strict=True) if old != new)

    def _identities(self) -> list[Identity]:
        return [_identity(path) for path in self._paths]


def _identity(path: Path) -> Identity:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def alone(database: Path, what: str) -> Iterator[None]:
    """Hold the exclusive lock for the operation `what`; wait for other processes. Raises
    ReadOnlyDatabaseError."""
    path = database.with_name(f"{database.name}.{what}-lock")
    file = _locked(database, path)
    try:
        yield
    finally:
        # Removed before it is unlocked: a waiting process notices the removal and creates a new lock file.
        path.unlink(missing_ok=True)
        file.close()


@contextlib.contextmanager
def alone_if_free(database: Path, what: str) -> Iterator[bool]:
    """Hold the exclusive lock for the operation `what`, or yield False at once if another process or thread
    holds it. Raises ReadOnlyDatabaseError."""
    path = database.with_name(f"{database.name}.{what}-lock")
    try:
        file = _locked(database, path, fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _locked(database: Path, path: Path, flags: int = 0) -> IO[str]:
    while True:
        try:
            file = path.open("w")
        except OSError as error:
            raise ReadOnlyDatabaseError(database) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | flags)
        except BlockingIOError:
            file.close()
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
