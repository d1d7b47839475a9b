"""The HTTP server: waitress, with limits for the time and the connections that a client may take.

One thread receives every request and sends every answer. A thread of a pool takes a request over only when its head and
body have arrived, and gives it back when the answer is made. So a slow client costs a connection and no thread. Pools
are separate: however many requests wait for work, the service answers whether it is well.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import structlog
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher

from shoal.settings import KIB, MIB, Settings
from shoal_api.request_parser import MAX_HEAD, Admission, Refusal, RequestParser, refusal_of

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

HEAD_SECONDS = 20.0
"""From the first byte of a request to the end of its head, which is one packet, or two."""

IDLE_SECONDS = 20.0
"""A connection on which no request begins is closed after this long."""

STALL_SECONDS = 60.0
"""A client that neither sends nor receives for so long in the middle of a request has gone."""

MIN_BYTES_PER_SECOND = 1 * KIB
RATE_GRACE_SECONDS = 30.0
"""The slowest rate of a body, as a mean since its request began, and how long a body may be slower at first."""

LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * MIB
"""After the last answer of a connection, how long and how much is still read. A client that is sending reads the
answer only then; closed at once, its connection would break off before."""

STOP_SECONDS = 30.0
"""How long requests in progress have to end when the service stops."""

MAINTENANCE_SECONDS = 1
READ_BYTES = 8 * KIB
SPOOL_FROM = 512 * KIB
"""Larger bodies go to a file."""
BUFFERED_ANSWER = 1 << 30
"""An answer is taken off a thread whole, in a file from 1 MiB on, however slowly the client reads it."""

SERVER_FAULTS = frozenset({500, 507})

STATUS_PATHS = frozenset({"/health", "/ready"})
STATUS_THREADS = 2

BROKEN_OFF = "the body broke off"

log = structlog.get_logger("shoal.api")


class ThreadPools:
    """Threads for requests: `api_threads` for work, one for each listener to events, and two that say whether the service
    is well. It stands in for waitress's dispatcher, which has one pool for everything."""

    def __init__(self, settings: Settings) -> None:
        self._work = _pool(settings.api_threads)
        # One more than there are places, for the answer to a listener who finds none free.
        self._events = _pool(settings.max_event_streams + 1)
        self._status = _pool(STATUS_THREADS)

    def add_task(self, channel: HTTPChannel) -> None:
        """Queue the first request of a channel."""
        request = channel.requests[0]
        path: str = getattr(request, "path", "")
        if request.error or path in STATUS_PATHS:
            self._status.add_task(channel)
        elif path.rstrip("/").endswith("/events"):
            self._events.add_task(channel)
        else:
            self._work.add_task(channel)

    def shutdown(self) -> None:
        """End the threads that have nothing to do; the others end with the process."""
        for pool in (self._work, self._events, self._status):
            pool.set_thread_count(0)


def _pool(n_threads: int) -> ThreadedTaskDispatcher:
    pool = ThreadedTaskDispatcher()
    pool.set_thread_count(n_threads)
    return pool


class ProblemTask(ErrorTask):  # type: ignore[misc]
    """Answers a request that never reached the application, as a problem like any other."""

    def execute(self) -> None:
        """Write the answer; the connection closes after it."""
        refusal = self.request.error = refusal_of(self.request.error)
        _log(self.request, refusal)
        super().execute()


def _log(request: RequestParser, refusal: Refusal) -> None:
    structlog.contextvars.clear_contextvars()
    log.log(
        logging.ERROR if refusal.code in SERVER_FAULTS else logging.WARNING,
        "request refused",
        # A head that cannot be parsed has neither.
        method=getattr(request, "command", ""),
        path=quote(getattr(request, "path", "")),
        status=refusal.code,
        trace_id=refusal.trace_id,
    )


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection. Its methods run in the server's thread."""

    parser_class = RequestParser
    error_task_class = ProblemTask
    request: RequestParser | None
    close_when_flushed: bool

    def __init__(self, server: Server, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:  # noqa: A002
        self.request_began = 0.0
        self.lingers_until = 0.0
        self._lingered_bytes = 0
        super().__init__(server, sock, addr, adj, map=map)
        server.limit_connections(self)

    @property
    def is_idle(self) -> bool:
        """Whether closing the connection loses nothing: no request has arrived further than its head."""
        request = self.request
        return not (self.requests or self.total_outbufs_len or (request and request.headers_finished))

    def received(self, data: bytes) -> bool:
        """Take in what the client sent."""
        if self.request is None:
            self.request_began = time.time()
        return bool(super().received(data))

    def end_if_slow(self, now: float) -> None:
        """Close the connection, or answer 408, where the client takes too long. `now` is a `time.time()`."""
        request, silence = self.request, now - self.last_activity
        # Never closed here: another connection could get the file descriptor in the same round of events.
        if self.lingers_until:
            self.will_close = now > self.lingers_until
        elif self.requests:
            # The answer is being made.
            return
        elif self.total_outbufs_len:
            self.will_close = silence > STALL_SECONDS
        elif request is None:
            self.will_close = silence > IDLE_SECONDS
        elif not request.headers_finished:
            self.will_close = now - self.request_began > HEAD_SECONDS
        elif silence > STALL_SECONDS or request.body_bytes_received < self._least_bytes(now):
            self._refuse(request, Refusal(408))

    def _least_bytes(self, now: float) -> float:
        """How much of a body must have arrived by now."""
        return (now - self.request_began - RATE_GRACE_SECONDS) * MIN_BYTES_PER_SECOND

    def _refuse(self, request: RequestParser, refusal: Refusal) -> None:
        with self.requests_lock:
            request.error, request.completed, self.request = refusal, True, None
            self.requests.append(request)
            self.server.add_task(self)

    # The end of a connection: the client reads the last answer before it is cut off.

    def readable(self) -> bool:
        """Whether to read from the client."""
        return bool(super().readable() or (self.lingers_until and not self.will_close))

    def handle_read(self) -> None:
        """Read from the client, or learn that it has gone."""
        request = self.request
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.handle_close()
            return
        if self.lingers_until:
            self._lingered_bytes += len(data)
            if not data or self._lingered_bytes > LINGER_BYTES:
                self.handle_close()
        elif data:
            self.last_activity = time.time()
            self.received(data)
        elif request is not None and request.headers_finished:
            self._refuse(request, Refusal(400, BROKEN_OFF))
        else:
            self.handle_close()

    def handle_close(self) -> None:
        """Close the connection, and log the request whose body can arrive no more."""
        request, self.request = self.request, None
        if request is not None and request.headers_finished:
            _log(request, Refusal(400, BROKEN_OFF))
        super().handle_close()

    def handle_write(self) -> None:
        """Send to the client, and begin to linger where this was the last answer."""
        is_last = self.close_when_flushed
        if is_last:
            self.close_when_flushed = False
        super().handle_write()
        if not is_last or self.will_close or not self.connected:
            return
        if self.total_outbufs_len:
            self.close_when_flushed = True
        else:
            self.lingers_until = time.time() + LINGER_SECONDS
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)


class Server(TcpWSGIServer):  # type: ignore[misc]
    """Serves an application on a listening socket."""

    channel_class = Channel

    def __init__(self, application: WSGIApplication, listener: socket.socket, settings: Settings) -> None:
        self._max_connections = settings.max_connections
        self._max_per_address = settings.max_connections_per_address
        self._stop_by: float | None = None
        adjustments = Adjustments(
            sockets=[listener],
            ident=None,
            recv_bytes=READ_BYTES,
            inbuf_overflow=SPOOL_FROM,
            outbuf_high_watermark=BUFFERED_ANSWER,
            max_request_header_size=MAX_HEAD,
            # The parser has a limit for every route.
            max_request_body_size=1 << 62,
            # A listening socket that stops accepting would shut everybody out; `limit_connections` closes instead.
            connection_limit=1 << 30,
            cleanup_interval=MAINTENANCE_SECONDS,
            asyncore_use_poll=True,
            log_socket_errors=False,
            # The application believes no header of a proxy but by SHOAL_PROXIES.
            clear_untrusted_proxy_headers=False,
        )
        adjustments.admission = Admission(settings)
        super().__init__(
            application,
            map={},
            _sock=listener,
            dispatcher=ThreadPools(settings),
            adj=adjustments,
            sockinfo=(listener.family, listener.type, listener.proto, listener.getsockname()),
            bind_socket=False,
        )

    def run(self) -> None:
        """Serve until `stop`, then until the requests in progress have ended."""
        while self._stop_by is None:
            self._poll()
        # Of the listening socket alone; `close` of this class would end the rest, too.
        wasyncore.dispatcher.close(self)
        while time.monotonic() < self._stop_by and any(
            channel.requests or channel.total_outbufs_len for channel in self.active_channels.values()
        ):
            self._poll()
        self.task_dispatcher.shutdown()

    def stop(self, grace_seconds: float = STOP_SECONDS) -> None:
        """Have `run` return. Safe to call from a signal handler, and again with less grace."""
        self._stop_by = time.monotonic() + grace_seconds
        self.pull_trigger()

    def _poll(self) -> None:
        wasyncore.loop(timeout=MAINTENANCE_SECONDS, use_poll=True, map=self._map, count=1)
        if self._stop_by is not None:
            self.maintenance(time.time())

    def maintenance(self, now: float) -> None:
        """End what takes too long. Runs every second."""
        for channel in list(self.active_channels.values()):
            channel.end_if_slow(now)

    def limit_connections(self, newest: Channel) -> None:
        """Make room for a new connection: close the one that has been idle for longest, of the same address or of all,
        or the new one where none is idle."""
        channels = list(self.active_channels.values())
        address = newest.addr[0]
        alike = [channel for channel in channels if channel.addr[0] == address]
        for group, limit in ((alike, self._max_per_address), (channels, self._max_connections)):
            if limit and len(group) > limit and newest.connected:
                idle = [channel for channel in group if channel.is_idle and channel.connected]
                min(idle, key=attrgetter("last_activity"), default=newest).handle_close()
