"""Advisory locks of a schema: their keys, and how a transaction sees that its thread still holds its locks.

The server frees a lock when the connection that holds it ends, and tells nobody. So every write transaction
of a thread looks first whether the thread still holds its locks, and a new holder waits for the transaction
that may have looked before: no two holders of a lock store anything side by side.
"""

from __future__ import annotations

import contextlib
import hashlib
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from shoal.storage.postgres import errors

Connection = psycopg.Connection[Any]

_IS_HELD = """
    SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = %(pid)s AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint << 32) | objid::bigint = %(key)s
"""


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
                raise errors.lock_lost(what)


CHANNEL = "shoal_{schema}"
"""The triggers of revision 0030 notify it; the payload says what has changed."""
RECONNECT_SECONDS = 5.0
CONNECT_SECONDS = 5


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
