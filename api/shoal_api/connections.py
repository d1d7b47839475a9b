"""The connections under the application: how long a client may take, and what one hears that speaks no HTTP.

gunicorn's threads wait for as long as a client likes, in the middle of a head and for an answer to be read, and it
lingers over the end of a connection in the one thread that hands out the work: a few clients that do nothing would
keep everybody out. Here each of them is given its time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from gunicorn import util
from gunicorn.glogging import Logger
from gunicorn.http import errors as http
from gunicorn.workers import gthread

from shoal_api.problems import CONTENT_TYPE, DETAILS
from shoal_api.trace import SECURITY_HEADERS

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

HEAD_SECONDS = 20.0
"""From the first byte of a request to the end of its head. It is one packet, or two."""

SILENCE_SECONDS = 60
"""A client that takes nothing of an answer for so long has gone."""

LINGER_SECONDS = 2.0
"""How long the end of a connection waits for the client to hang up, so that the last answer is not cut off."""

MAX_LINE = 8190
MAX_HEADERS = 64
MAX_HEADER = 8190
"""Bytes of the first line and of a header, and how many headers. A query longer than an address may be is a POST."""

# struct timeval, as the kernel takes it.
_SEND_TIMEOUT = struct.pack("ll", SILENCE_SECONDS, 0)

STATUSES = {
    http.LimitRequestLine: HTTPStatus.REQUEST_URI_TOO_LONG,
    http.LimitRequestHeaders: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    http.ExpectationFailed: HTTPStatus.EXPECTATION_FAILED,
    http.UnsupportedTransferCoding: HTTPStatus.NOT_IMPLEMENTED,
}
"""What is wrong with a head that cannot be read; anything else is a 400."""

OPTIONS: dict[str, Any] = {
    "limit_request_line": MAX_LINE,
    "limit_request_fields": MAX_HEADERS,
    "limit_request_field_size": MAX_HEADER,
    # Else a client on this machine, or behind a proxy on it, says by a header which path it asks for.
    "forwarder_headers": "",
    "forwarded_allow_ips": "",
}
"""gunicorn's settings that belong to this."""


def taking_turns(application: WSGIApplication, most: int) -> WSGIApplication:
    """The application, answering `most` requests at the same time. Whoever has his answer makes room: sending it, and
    a stream of events, take no turn."""
    turns = threading.BoundedSemaphore(most)

    def wrapped(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with turns:
            return application(environ, start_response)

    return wrapped


class ConnectionLog(Logger):  # type: ignore[misc]
    """gunicorn's lines go the way of all others."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
        # Which process started and which ended is of interest only when looking for trouble.
        self.error_log.setLevel(max(logging.getLogger().level, logging.WARNING))

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """A client that went silent is no trouble of ours."""
        if isinstance(sys.exc_info()[1], BlockingIOError | TimeoutError):
            self.debug("a client went silent")
        else:
            super().exception(msg, *args, **kwargs)


class Worker(gthread.ThreadWorker):  # type: ignore[misc]
    """A worker with threads that no client can keep."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Connections whose head is being read, and until when it may take.
        self._reading: dict[Any, float] = {}
        self._closed: set[Any] = set()

    def handle(self, conn: Any) -> Any:
        """Handle a request. Runs in a thread of the pool."""
        if not conn.initialized and not conn.wait_for_data(gthread.DEFAULT_WORKER_DATA_TIMEOUT):
            return gthread._DEFER
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_TIMEOUT)
        self._reading[conn] = time.monotonic() + HEAD_SECONDS
        try:
            keep = super().handle(conn)
        finally:
            self._reading.pop(conn, None)
        if not keep:
            # Here and not where all connections are handed out: it waits for the client to hang up.
            with contextlib.suppress(OSError):
                conn.sock.setblocking(True)
            util.close_graceful(conn.sock, LINGER_SECONDS)
            self._closed.add(conn)
        return keep

    def handle_request(self, req: Any, conn: Any) -> Any:
        self._reading.pop(conn, None)
        return super().handle_request(req, conn)

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Runs in the main thread."""
        if conn in self._closed:
            self._closed.discard(conn)
            self.nr_conns -= 1
        else:
            super().finish_request(conn, fs)

    def murder_pending(self) -> None:
        """End connections that take too long. Runs in the main thread, every second."""
        super().murder_pending()
        now = time.monotonic()
        for conn, until in list(self._reading.items()):
            if now > until:
                # The thread that reads finds the end of the connection.
                with contextlib.suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RD)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Sends those who wait for a job home before the process ends, instead of waiting with them."""
        self.app.stop_waiting()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: Any) -> None:
        self.app.stop_waiting()
        super().handle_quit(sig, frame)

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: BaseException) -> None:
        """Answer what never became a request, as a problem like any other."""
        trace = uuid.uuid4().hex
        if isinstance(exc, http.ParseException) and not isinstance(exc, http.ConfigurationProblem):
            status = next(
                (code for kind, code in STATUSES.items() if isinstance(exc, kind)), HTTPStatus.BAD_REQUEST
            )
            self.log.warning("request refused: %s, trace_id %s", type(exc).__name__, trace)
        else:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            self.log.error("error handling a request, trace_id %s", trace, exc_info=exc)
        with contextlib.suppress(OSError):
            util.write_nonblock(client, _refusal(status, trace))


def _refusal(status: HTTPStatus, trace_id: str) -> bytes:
    """A whole answer: nothing else is sent on its connection."""
    problem = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": DETAILS.get(status.value, status.phrase.lower()),
        "trace_id": trace_id,
    }
    body = json.dumps(problem).encode()
    headers = {
        "Connection": "close",
        "Content-Type": CONTENT_TYPE,
        "Content-Length": str(len(body)),
        "X-Trace-Id": trace_id,
        **SECURITY_HEADERS,
    }
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body
