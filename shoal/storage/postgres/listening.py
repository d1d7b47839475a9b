"""Waiting for notifications of PostgreSQL, which a commit sends. They only make things quicker: one may be
lost with its connection, so callers that wait also look now and then.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable

import psycopg

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
