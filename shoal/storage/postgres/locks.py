"""Advisory locks of a schema: their keys, and how a transaction sees that its thread still holds its locks.

The server frees a lock when the connection that holds it ends, and tells nobody. So every write transaction
of a thread looks first whether the thread still holds its locks, and a new holder waits for the transaction
that may have looked before: no two holders of a lock store anything side by side.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
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
