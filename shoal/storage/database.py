"""What every database offers: snapshots, write transactions, locks, a clock, and deadlines for reads.

`snapshot()` reads, `write()` also writes; writers take turns, and readers do not wait for them. `opening.py`
opens the database of a URL; `sqlite/` has the store in one file.

A thread interrupts statements that run too long. SQLite checks the interrupt flag in all of its loops: the
worst statements end within a quarter of a second. A progress handler would do the same, but needs Python's
interpreter lock thousands of times per search, and waits up to 5 ms for it when threads are busy.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from shoal.errors import ReadTimeoutError

MAX_IDLE = 12
"""Unused connections kept open. More are opened on demand, at most one per thread and transaction."""
IDS_PER_STATEMENT = 500
"""Most ids in one statement; longer lists are split."""
TICK_S = 0.1
"""Interval at which the thread checks the deadlines, seconds."""
IDLE_TICKS = 50
"""Ticks without a read after which the thread ends; the next read starts a new one."""


class ConstraintError(Exception):
    """A statement violates a constraint of the schema; its transaction must end."""


class Query(NamedTuple):
    """A statement that reads, with its parameters."""

    statement: str
    parameters: Mapping[str, Any] = {}


class Row(Protocol):
    """A row of a result; its columns are accessible by position and by name."""

    def __getitem__(self, key: Any, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...

    def keys(self) -> Iterable[str]:
        """The names of the columns."""
        ...


class Listener(Protocol):
    """Waits for notifications of a database. Belongs to one thread."""

    def wait(self, what: str, seconds: float) -> bool:
        """Wait until `what` ("index" or "work") may have changed, for `seconds` at most; whether it may."""
        ...

    def close(self) -> None: ...


class Snapshot(ABC):
    """A read transaction. Statements take named parameters (`:name`).

    Every method raises ReadTimeoutError after the deadline. Long work between two statements checks it too.
    `connection`: that of the driver, for migrations.
    """

    connection: Any
    deadline: Deadline
    is_sqlite: ClassVar[bool] = False

    @abstractmethod
    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Fetch all rows; columns are accessible by position and by name."""

    @abstractmethod
    def tuples(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows as plain tuples, for results of up to millions of rows."""

    @abstractmethod
    def now(self) -> float:
        """The time of the database, in seconds since the epoch (`Database.now`)."""

    @abstractmethod
    def first(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Fetch the first row, or None."""

    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Fetch the first column of the first row, or None."""
        row = self.first(statement, parameters)
        return None if row is None else row[0]

    def prefetch(self, queries: Iterable[Query]) -> None:  # noqa: B027 - a store without a server needs none
        """Run queries whose few rows will be read in this snapshot, on a server in one round trip."""


class Transaction(Snapshot):
    """A write transaction; reads see its changes. A statement with RETURNING is read with `first` or
    `value`."""

    @abstractmethod
    def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement; return the number of changed rows."""

    @abstractmethod
    def write_many(self, statement: str, rows: Sequence[Mapping[str, Any] | Sequence[Any]]) -> int:
        """Run a statement once per row, with named or positional parameters (`?`); return the number of
        changed rows."""


def listed(name: str, values: Iterable[Any]) -> tuple[str, dict[str, Any]]:
    """Build the inside of `IN (...)` for `values`, and its parameters: `:name_0, :name_1`."""
    parameters = {f"{name}_{i}": value for i, value in enumerate(values)}
    return ", ".join(f":{key}" for key in parameters), parameters


def listed_in_parts(name: str, values: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what `listed` returns for each IDS_PER_STATEMENT of `values`."""
    for start in range(0, len(values), IDS_PER_STATEMENT):
        yield listed(name, values[start : start + IDS_PER_STATEMENT])


class Database(ABC):
    """A pool of connections to one database. Safe to share between threads, not across a fork.

    `has_index_records`: whether the records of the index are among its tables; otherwise each machine has its
    own. `url`: as it was opened. `read_timeout`: longest duration of a read transaction in seconds, None for
    no limit; services set it. `max_idle`: unused connections that stay open. `write_guard`: called at the
    start of each write transaction; it may raise a StorageError, and then nothing is stored.
    """

    is_sqlite: ClassVar[bool]
    has_index_records: ClassVar[bool] = False
    url: str
    read_timeout: float | None = None
    max_idle: int = MAX_IDLE
    write_guard: Callable[[Transaction], None] | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call the database: the name of its file, or of the database and the schema."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The path of the file, or the URL without the password."""

    @property
    @abstractmethod
    def index_folder(self) -> Path:
        """The folder of this machine for files that are derived from the database."""

    @abstractmethod
    def snapshot(self, *, limited: bool = True) -> AbstractContextManager[Snapshot]:
        """Open a read transaction: every statement sees the same state.

        Raises ReadTimeoutError after the `read_timeout`; `limited=False` disables the timeout.
        """

    @abstractmethod
    def write(self, *, seconds: float | None = None) -> AbstractContextManager[Transaction]:
        """Open a write transaction: commit at the end of the block, roll back if it raises.

        `seconds`: longest wait for the turn; by default half a minute. Raises DatabaseUnavailableError if
        other writers leave no turn in time, DiskFullError, and ConstraintError; nothing is stored then.
        """

    @abstractmethod
    def alone(self, what: str) -> AbstractContextManager[None]:
        """Hold the exclusive lock for the operation `what`; wait for other processes. Not inside of `write`.

        A lock on a server ends with its connection. So each write transaction of the same thread in the block
        raises DatabaseUnavailableError, and stores nothing, once the lock is lost. Raises
        ReadOnlyDatabaseError and DatabaseUnavailableError.
        """

    @abstractmethod
    def alone_if_free(self, what: str) -> AbstractContextManager[bool]:
        """Hold the exclusive lock for the operation `what`, or yield False at once if another process or
        thread holds it. Raises ReadOnlyDatabaseError and DatabaseUnavailableError."""

    @abstractmethod
    def now(self) -> float:
        """The time of the database, in seconds since the epoch: one clock for all machines that share it."""

    def listener(self) -> Listener | None:
        """Return what waits for notifications of changes; None if the database sends none."""
        return None

    @abstractmethod
    def check_usable(self) -> None:
        """Raise StorageError if writes would be lost or refused."""

    @abstractmethod
    def is_state_common(self) -> bool:
        """Whether no process reads a state older than the newest at the time of the call."""

    @abstractmethod
    def free_pages(self) -> int:
        """Count the pages that the database holds without content and could return to the file system."""

    @abstractmethod
    def return_pages(self, pages: int = 2000) -> bool:
        """Return up to `pages` free pages to the file system; True if free pages remain."""

    @abstractmethod
    def vacuum(self, tables: Sequence[str]) -> None:
        """Make tables that were filled at once fast to read. Not inside of `write`. Raises StorageError."""

    @abstractmethod
    def size(self) -> int:
        """The size of the database in bytes, with what is not yet in its place."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""


class Deadline:
    """The time at which a read must end; None for no deadline."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def remaining(self) -> float:
        """Seconds that are left, at least 0; infinite without a deadline."""
        return math.inf if self._end is None else max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise ReadTimeoutError after the deadline."""
        if self.is_over:
            raise self.error()

    @contextlib.contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock within the block. Raises ReadTimeoutError if it is not free before the deadline."""
        if not lock.acquire(timeout=min(self.remaining(), threading.TIMEOUT_MAX)):
            raise self.error()
        try:
            yield
        finally:
            lock.release()

    def error(self) -> ReadTimeoutError:
        return ReadTimeoutError(self._seconds or 0.0)


UNLIMITED = Deadline(None)


class Interrupter:
    """Interrupts statements of connections past their deadlines. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deadlines: dict[sqlite3.Connection, Deadline] = {}
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self, connection: sqlite3.Connection, deadline: Deadline) -> Iterator[None]:
        """Within the block, interrupt the connection's statements (SQLITE_INTERRUPT) after the deadline."""
        if deadline is UNLIMITED:
            yield
            return
        with self._lock:
            self._deadlines[connection] = deadline
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            # Under the lock, so that no interrupt hits the next user of the connection.
            with self._lock:
                del self._deadlines[connection]

    def _run(self) -> None:
        n_idle = 0
        while True:
            time.sleep(TICK_S)
            with self._lock:
                n_idle = 0 if self._deadlines else n_idle + 1
                if n_idle >= IDLE_TICKS:
                    self._thread = None
                    return
                # At every tick: an interrupt between two statements has no effect.
                for connection, deadline in self._deadlines.items():
                    if deadline.is_over:
                        connection.interrupt()
