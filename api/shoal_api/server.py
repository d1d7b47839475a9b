"""The HTTP server: waitress, with a strict parser of requests and limits on time and connections of a client.

One thread receives all requests and sends all responses. A pool thread handles a request only once its head
and body have arrived, and returns it when the response is complete. So a slow client costs a connection but
no thread. The pools are separate, so that health checks respond however many other requests wait.

waitress receives the whole body, into a file if it is large, before a thread handles the request. So the
parser checks everything that depends on the head alone: its form, the declared length and the key. A caller
without a key therefore cannot fill the disk.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import structlog
from waitress import utilities, wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.receiver import ChunkedReceiver
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher

from shoal.errors import StorageError
from shoal.service import connection_limits
from shoal.service.connection_limits import (
    MAINTENANCE_SECONDS,
    MAX_HEAD,
    MAX_HEADER,
    ConnectionLimits,
    Phase,
    Progress,
    is_overdue,
    longest_idle,
    status_of_head,
)
from shoal.service.process_setup import TOO_MANY_FILES, SpareFile
from shoal.settings import Settings
from shoal.support.byte_units import KIB
from shoal_api.access import Gate
from shoal_api.drop_in.forms import form_of
from shoal_api.limits import max_body
from shoal_api.problems import CONTENT_TYPE, DETAILS, ProblemError, code_of_status, for_error
from shoal_api.spool import DISK_FULL, SPOOL_FROM
from shoal_api.trace import SECURITY_HEADERS

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

MAX_CHUNK_LINE = KIB
"""Most bytes of the line that begins a chunk. waitress buffers the line in memory until it is complete."""
MAX_TRAILER = MAX_HEADER

SMALL_CHUNKS_FROM = 8 * KIB
MIN_CHUNK_SHARE = 0.25
"""From SMALL_CHUNKS_FROM bytes on, this share of a chunked body must be content. Chunks of one byte, a share
of 1/6, would occupy the one thread that reads all requests."""
STOP_SECONDS = 30.0
"""How long requests in progress may take when the service stops."""
READ_BYTES = 8 * KIB
BUFFERED_RESPONSE = 1 << 30
"""A response up to this size is buffered whole, in a file from 1 MiB on, so that no thread waits for a slow
client."""
EXHAUSTED_SECONDS = 0.05
"""Pause without any file descriptor, in which connections wait. Polling reports them again at once."""
SERVER_FAULTS = frozenset({500, 507})
STATUS_PATHS = frozenset({"/health", "/ready"})
STATUS_THREADS = 2
BROKEN_OFF = "the body broke off"
log = structlog.get_logger("shoal.api")


@dataclass
class Refusal(utilities.Error):  # type: ignore[misc]
    """An error response sent in place of the application.

    `code` is the status, as waitress expects it. `detail` is written for the caller. `problem_code` is the
    code in the body; the default depends on the status. `form`: the body in place of a problem object.
    """

    code: int
    detail: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    problem_code: str | None = None
    trace_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    form: Mapping[str, Any] | None = None

    def problem(self) -> dict[str, Any]:
        """Return the problem object."""
        phrase = HTTPStatus(self.code).phrase
        return {
            "type": "about:blank",
            "title": phrase,
            "status": self.code,
            "code": self.problem_code or code_of_status(self.code),
            "detail": self.detail or DETAILS.get(self.code, phrase.lower()),
            "trace_id": self.trace_id,
        }

    def to_response(self, ident: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return the status line, headers and body."""
        phrase = HTTPStatus(self.code).phrase
        body = self.problem() if self.form is None else self.form
        headers = {
            "Content-Type": CONTENT_TYPE if self.form is None else "application/json",
            "X-Trace-Id": self.trace_id,
            **SECURITY_HEADERS,
            **self.headers,
        }
        return f"{self.code} {phrase}", list(headers.items()), json.dumps(body).encode()


class Admission:
    """Decides which bodies are received: by the size limit of the route and by the key of the request."""

    def __init__(self, settings: Settings, gate: Gate | None = None) -> None:
        """`gate`: of the application that gets the requests; by default one for these settings."""
        self._gate = gate or Gate.of(settings)
        self._settings = settings

    def max_body(self, path: str) -> int:
        """Return the size limit, in bytes, for a body sent to `path`."""
        return max_body(path, self._settings)

    def check(self, method: str, path: str, authorization: str | None) -> Refusal | None:
        """Return a refusal if the key is missing, invalid or lacks the right, else None."""
        try:
            self._gate.check(method, path, authorization)
        except StorageError as error:
            problem = for_error(error)
        except ProblemError as refused:
            problem = refused
        else:
            return None
        refusal = Refusal(problem.status, problem.detail, problem.headers, problem.code)
        form = form_of(self._settings, path, refusal.problem(), authorization)
        if form is not None:
            refusal.code, refusal.form = form
        return refusal


class RequestParser(HTTPRequestParser):  # type: ignore[misc]
    """A stricter version of waitress's parser. It reads its Admission from `adj.admission`."""

    max_body = 0
    error: utilities.Error | None = None

    def received(self, data: bytes) -> int:
        """Process the next bytes; return how many belong to this request. Sets `error` and `completed` to
        refuse it."""
        try:
            consumed: int = super().received(data)
        except OSError as error:
            status = 507 if error.errno in DISK_FULL else 503 if error.errno in TOO_MANY_FILES else None
            if status is None:
                raise
            self.error, consumed = Refusal(status), len(data)
        if self.body_bytes_received and not isinstance(self.error, Refusal):
            self.error = (
                Refusal(400, "the chunked encoding of the body is malformed")
                if self.error
                else self._check_body()
            )
        if self.error is not None:
            # Otherwise waitress would send `100 Continue` and wait for the body.
            self.expect_continue = False
            self.completed = True
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        """Parse a head; set `error` to refuse the request. Raises waitress's ParsingError."""
        refusal = _check_form(header_plus)
        super().parse_header(header_plus)
        self.max_body = self.adj.admission.max_body(self.path)
        self.error = refusal or self._check_head()

    def _check_head(self) -> Refusal | None:
        headers: dict[str, str] = self.headers
        has_length = "CONTENT_LENGTH" in headers
        if (
            self.version not in ("1.0", "1.1")
            or "TRANSFER_ENCODING" in headers
            or (self.chunked and has_length)
        ):
            return Refusal(400)
        if headers.get("EXPECT", "100-continue").lower() != "100-continue":
            return Refusal(417)
        if self.content_length > self.max_body:
            return Refusal(413)
        if not (self.content_length or self.chunked):
            return None
        admission: Admission = self.adj.admission
        return admission.check(self.command, self.path, headers.get("AUTHORIZATION"))

    def _check_body(self) -> Refusal | None:
        if self.body_bytes_received > self.max_body:
            return Refusal(413)
        chunks = self.body_rcv
        if not isinstance(chunks, ChunkedReceiver):
            return None
        if len(chunks.control_line) > MAX_CHUNK_LINE or len(chunks.trailer) > MAX_TRAILER:
            return Refusal(400)
        is_large = self.body_bytes_received > SMALL_CHUNKS_FROM
        if is_large and len(chunks) < MIN_CHUNK_SHARE * self.body_bytes_received:
            return Refusal(400, "the chunks of the body are too small; send chunks of at least 1 KiB")
        return None


def _check_form(head: bytes) -> Refusal | None:
    """Return a refusal of a head that is too long or that proxies may interpret differently, else None."""
    request_line, *lines = head.split(b"\r\n")
    headers = [(name, value) for name, _, value in (line.partition(b":") for line in lines if line)]
    status = status_of_head(len(request_line), headers)
    if status is not None:
        return Refusal(status)
    is_folded = any(line.startswith((b" ", b"\t")) for line in lines)
    has_codings = any(name.lower() == b"transfer-encoding" and b"," in value for name, value in headers)
    return Refusal(400) if is_folded or has_codings else None


def refusal_of(error: Any) -> Refusal:
    """Return an error of waitress as a Refusal."""
    return error if isinstance(error, Refusal) else Refusal(error.code)


class ThreadPools:
    """Thread pools for requests: `api_threads` for work, one per event stream, two for health checks.

    Replaces waitress's dispatcher, which has one pool for everything.
    """

    def __init__(self, settings: Settings) -> None:
        self._work = _pool(settings.api_threads)
        # One more than the limit, for the 503 to a listener above it.
        self._events = _pool(settings.max_event_streams + 1)
        self._status = _pool(STATUS_THREADS)

    def add_task(self, channel: HTTPChannel) -> None:
        """Queue the first request of a channel in its pool."""
        request = channel.requests[0]
        path: str = getattr(request, "path", "")
        if request.error or path in STATUS_PATHS:
            self._status.add_task(channel)
        elif path.rstrip("/").endswith("/events"):
            self._events.add_task(channel)
        else:
            self._work.add_task(channel)

    def shutdown(self) -> None:
        """Stop the idle threads; the others end with the process."""
        for pool in (self._work, self._events, self._status):
            pool.set_thread_count(0)


def _pool(n_threads: int) -> ThreadedTaskDispatcher:
    pool = ThreadedTaskDispatcher()
    pool.set_thread_count(n_threads)
    return pool


class ProblemTask(ErrorTask):  # type: ignore[misc]
    """Responds with a problem to a request that never reached the application."""

    def execute(self) -> None:
        """Write the response; the connection closes after it."""
        refusal = self.request.error = refusal_of(self.request.error)
        _log(self.request, refusal)
        super().execute()


def _log(request: RequestParser, refusal: Refusal) -> None:
    structlog.contextvars.clear_contextvars()
    log.log(
        logging.ERROR if refusal.code in SERVER_FAULTS else logging.WARNING,
        "request refused",
        # A head that cannot be parsed has no method and no path.
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
        self.lingering_since = 0.0
        self._lingered_bytes = 0
        super().__init__(server, sock, addr, adj, map=map)
        server.limit_connections(self)

    @property
    def address(self) -> str:
        """The address of the client."""
        return str(self.addr[0])

    @property
    def progress(self) -> Progress:
        """How far the present request is, by `time.time()`."""
        request = self.request
        if self.lingering_since:
            return Progress(Phase.lingering, self.lingering_since, self.last_activity)
        if self.requests:
            phase = Phase.working
        elif self.total_outbufs_len:
            phase = Phase.sending
        elif request is None:
            phase = Phase.idle
        else:
            phase = Phase.body if request.headers_finished else Phase.head
        body_bytes = request.body_bytes_received if request else 0
        return Progress(phase, self.request_began, self.last_activity, body_bytes)

    def received(self, data: bytes) -> bool:
        """Process data from the client."""
        if self.request is None:
            self.request_began = time.time()
        return bool(super().received(data))

    def end_if_slow(self, now: float) -> None:
        """Close the connection, or respond 408, if the client takes too long. `now` is a `time.time()`."""
        progress = self.progress
        if not is_overdue(progress, now):
            return
        if progress.phase is Phase.body and self.request is not None:
            self._refuse(self.request, Refusal(408))
        else:
            # Another connection could get the file descriptor in the same round of events.
            self.will_close = True

    def _refuse(self, request: RequestParser, refusal: Refusal) -> None:
        with self.requests_lock:
            request.error, request.completed, self.request = refusal, True, None
            self.requests.append(request)
            self.server.add_task(self)

    # Lingering: the client can read the last response before the connection closes.

    def readable(self) -> bool:
        """Whether the server reads from the client."""
        return bool(super().readable() or (self.lingering_since and not self.will_close))

    def handle_read(self) -> None:
        """Read from the client, or close the connection if the client has gone."""
        request = self.request
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.handle_close()
            return
        if self.lingering_since:
            self._lingered_bytes += len(data)
            if not data or self._lingered_bytes > connection_limits.LINGER_BYTES:
                self.handle_close()
        elif data:
            self.last_activity = time.time()
            self.received(data)
        elif request is not None and request.headers_finished:
            self._refuse(request, Refusal(400, BROKEN_OFF))
        else:
            self.handle_close()

    def handle_close(self) -> None:
        """Close the connection; log a request whose body is incomplete."""
        request, self.request = self.request, None
        if request is not None and request.headers_finished:
            _log(request, Refusal(400, BROKEN_OFF))
        super().handle_close()

    def handle_write(self) -> None:
        """Send to the client; start lingering after the last response."""
        is_last = self.close_when_flushed
        if is_last:
            self.close_when_flushed = False
        super().handle_write()
        if not is_last or self.will_close or not self.connected:
            return
        if self.total_outbufs_len:
            self.close_when_flushed = True
        else:
            self.lingering_since = time.time()
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)


class Server(TcpWSGIServer):  # type: ignore[misc]
    """Serves an application on a listening socket."""

    channel_class = Channel

    def __init__(
        self,
        application: WSGIApplication,
        listener: socket.socket,
        settings: Settings,
        gate: Gate | None = None,
    ) -> None:
        """`gate`: that of the application, which decides on requests before their bodies are received."""
        self._limits = ConnectionLimits.of(settings)
        self._spare_file = SpareFile()
        self._stop_by: float | None = None
        adjustments = Adjustments(
            sockets=[listener],
            ident=None,
            recv_bytes=READ_BYTES,
            inbuf_overflow=SPOOL_FROM,
            outbuf_high_watermark=BUFFERED_RESPONSE,
            max_request_header_size=MAX_HEAD,
            # The parser limits the body per route.
            max_request_body_size=1 << 62,
            # waitress would stop accepting, which locks out all clients; `limit_connections` closes
            # connections instead.
            connection_limit=1 << 30,
            cleanup_interval=MAINTENANCE_SECONDS,
            asyncore_use_poll=True,
            log_socket_errors=False,
            # The application uses proxy headers only as SHOAL_PROXIES says.
            clear_untrusted_proxy_headers=False,
        )
        adjustments.admission = Admission(settings, gate)
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
        """Serve until `stop` is called and the requests in progress have ended."""
        while self._stop_by is None:
            self._poll()
        # Closes only the listening socket; `close` of this class would end all connections.
        wasyncore.dispatcher.close(self)
        while time.monotonic() < self._stop_by and any(
            channel.requests or channel.total_outbufs_len for channel in self.active_channels.values()
        ):
            self._poll()
        self.task_dispatcher.shutdown()

    def stop(self, grace_seconds: float = STOP_SECONDS) -> None:
        """Make `run` return. Safe to call from a signal handler, and again with a shorter grace period."""
        self._stop_by = time.monotonic() + grace_seconds
        self.pull_trigger()

    def _poll(self) -> None:
        wasyncore.loop(timeout=MAINTENANCE_SECONDS, use_poll=True, map=self._map, count=1)
        if self._stop_by is not None:
            self.maintenance(time.time())

    def maintenance(self, now: float) -> None:
        """Close connections of slow clients. Runs every second."""
        for channel in list(self.active_channels.values()):
            channel.end_if_slow(now)

    def accept(self) -> tuple[socket.socket, Any] | None:
        """Return the next connection, or None if there is no file descriptor for it.

        It is then accepted in the next round, in place of an idle connection, or gets 503 if none is idle.
        """
        try:
            accepted: tuple[socket.socket, Any] | None = super().accept()
        except OSError as error:
            if error.errno not in TOO_MANY_FILES:
                raise
        else:
            return accepted
        idle = longest_idle(self.active_channels.values())
        if idle is not None:
            idle.handle_close()
        elif not self._spare_file.refuse(self.socket):
            time.sleep(EXHAUSTED_SECONDS)
        return None

    def limit_connections(self, newest: Channel) -> None:
        """Enforce the connection limits per address and in total when a connection opens.

        Above a limit, closes the connection that has been idle longest, or the new one if none is idle.
        """
        surplus = self._limits.surplus(newest, self.active_channels.values())
        if surplus is not None:
            surplus.handle_close()
