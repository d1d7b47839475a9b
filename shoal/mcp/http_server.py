"""uvicorn with the limits of connections of every server: their number, and the time that clients take."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from http import HTTPStatus
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from shoal.service import connection_limits
from shoal.service.connection_limits import (
    IDLE_SECONDS,
    MAINTENANCE_SECONDS,
    ConnectionLimits,
    Phase,
    Progress,
    is_overdue,
    longest_idle,
)
from shoal.service.open_files import TOO_MANY_FILES, SpareFile
from shoal.service.request_head import MAX_HEAD
from shoal.settings import Settings

GRACE_SECONDS = 5
"""Time that requests in progress have to finish when the service stops."""

BACKLOG = 100
"""Connections that wait to be accepted. asyncio accepts up to as many in one round."""

TICKS_PER_SECOND = 10
"""How often uvicorn calls `on_tick`."""

LATE_BODY = "the body did not arrive in time"


class Config(uvicorn.Config):
    """A configuration with limits of connections."""

    def __init__(self, app: Any, settings: Settings) -> None:
        self.connection_limits = ConnectionLimits.of(settings)
        super().__init__(
            app,
            http=Connection,
            loop="asyncio",
            ws="none",
            log_config=None,
            access_log=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=MAX_HEAD,
            # Connections never reach it; requests may, because they can run on when their client has gone.
            limit_concurrency=self.connection_limits.in_all + 1,
            timeout_keep_alive=int(IDLE_SECONDS),
            timeout_graceful_shutdown=GRACE_SECONDS,
            server_header=False,
            # The application reads X-Forwarded-For, as SHOAL_PROXIES says.
            proxy_headers=False,
        )


class Connection(H11Protocol):
    """A connection. Times are those of `time.monotonic()`."""

    config: Config

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection that is one too many, which may be this one."""
        super().connection_made(transport)
        self._began = self._last_activity = time.monotonic()
        self._received_bytes = self._unsent_bytes = 0
        # The set is typed for every protocol of uvicorn.
        surplus = self.config.connection_limits.surplus(self, cast("set[Connection]", self.connections))
        if surplus is not None:
            surplus.end()

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def progress(self) -> Progress:
        """How far the present request is."""
        return Progress(self._phase, self._began, self._last_activity, self._received_bytes)

    @property
    def _phase(self) -> Phase:
        cycle = self.cycle
        is_answered = cycle is None or cycle.response_complete
        if self.transport.get_write_buffer_size():
            return Phase.sending
        if not is_answered:
            return Phase.body if cycle.more_body and not self.flow.read_paused else Phase.working
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.lingering
        return Phase.head if self.conn.trailing_data[0] else Phase.idle

    def data_received(self, data: bytes) -> None:
        """Process data from the client."""
        self._last_activity = time.monotonic()
        phase = self._phase
        if phase is Phase.idle:
            self._begin()
        self._received_bytes += len(data)
        if phase is Phase.lingering and self._received_bytes > connection_limits.LINGER_BYTES:
            self.end()
        else:
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for the rest of a body that the response did not need."""
        self._begin()
        super().on_response_complete()

    def _begin(self) -> None:
        self._began, self._received_bytes = time.monotonic(), 0

    def end_if_slow(self, now: float) -> None:
        """Close the connection, or respond 408, if the client takes too long."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self._last_activity = now
        self._unsent_bytes = unsent_bytes
        progress = self.progress
        if not is_overdue(progress, now):
            return
        if progress.phase is Phase.body and not self.cycle.response_started:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, LATE_BODY)
        else:
            self.end()

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Respond in place of the application, and close the connection."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        body = json.dumps({"error": detail}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=status.phrase),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def end(self) -> None:
        """Close the connection at once."""
        self.connections.discard(self)
        self.transport.abort()


class Server(uvicorn.Server):
    """A server that closes the connections of slow clients, and refuses new ones if files run out."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        self._spare_file = SpareFile()
        self._listeners = sockets or []
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        await super().startup(sockets)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Make room for connections that cannot be accepted without a free file descriptor.

        asyncio accepts connections again after a second. Idle connections are closed until then; if there is
        none, the waiting connections are refused.
        """
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in TOO_MANY_FILES and "socket" in context):
            loop.default_exception_handler(context)
            return
        for n_closed in range(BACKLOG):
            idle = longest_idle(cast("set[Connection]", self.server_state.connections))
            if idle is None:
                if not n_closed:
                    self._refuse_waiting()
                return
            idle.end()

    def _refuse_waiting(self) -> None:
        for listener in self._listeners:
            for _ in range(BACKLOG):
                if not self._spare_file.refuse(listener):
                    break

    async def on_tick(self, counter: int) -> bool:
        """Look for slow clients once in MAINTENANCE_SECONDS; return whether to stop."""
        if counter % (TICKS_PER_SECOND * MAINTENANCE_SECONDS) == 0:
            now = time.monotonic()
            for connection in cast("list[Connection]", list(self.server_state.connections)):
                connection.end_if_slow(now)
        return await super().on_tick(counter)
