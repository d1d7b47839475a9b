"""Connections to hosts of the web that go to allowed addresses only and end at a deadline.

A host is resolved once for each connection. Its addresses are checked, and the connection goes to one of
them, so that no second answer of a name server counts.
"""

from __future__ import annotations

import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import httpcore

from shoal.conversion.web_addresses import FetchPolicy
from shoal.errors import FetchError

MAX_ADDRESSES = 4
"""Addresses of a host that are tried."""
CONNECT_SECONDS = 10.0
"""Longest wait for a connection to one address."""

Resolver = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host. Raises OSError."""

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, those that the system prefers first."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


class Deadline:
    """The end of a request."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return self._end - time.monotonic()

    def within(self, seconds: float = float("inf")) -> float:
        """Return the time that a step may take. Raises httpcore.ReadTimeout when none is left."""
        left = min(self.left(), seconds)
        if left <= 0:
            raise httpcore.ReadTimeout
        return left


class CheckedNetwork(httpcore.NetworkBackend):
    """Connects to addresses that the policy allows, and to no other."""

    def __init__(self, policy: FetchPolicy, resolver: Resolver, deadline: Deadline) -> None:
        self._policy = policy
        self._resolver = resolver
        self._deadline = deadline
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError("it has no address")
        # All are checked: a host with public and private addresses is a trap.
        for ip in [self._policy.check_ip(host, ip) for ip in self._resolve(host, port)][:MAX_ADDRESSES]:
            try:
                seconds = self._deadline.within(CONNECT_SECONDS)
                stream = self._backend.connect_tcp(ip, port, seconds, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _TimedStream(stream, self._deadline)
        raise failure

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        """Resolve a host in a thread, because no limit of time applies to it otherwise."""
        answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(self._resolver(host, port))
            except Exception as error:
                answers.put(error)

        threading.Thread(target=look_up, name="resolve", daemon=True).start()
        try:
            answer = answers.get(timeout=self._deadline.within())
        except queue.Empty:
            raise httpcore.ConnectTimeout from None
        if isinstance(answer, Exception):
            is_temporary = getattr(answer, "errno", None) == socket.EAI_AGAIN
            raise FetchError(
                "unreachable", f"the name {host} could not be resolved", is_temporary=is_temporary
            )
        return answer


class _TimedStream(httpcore.NetworkStream):
    """A connection whose every step ends at the deadline, however often a few bytes arrive."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.within())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.within())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._deadline.within())
        return _TimedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


def unreachable(host: str, error: httpcore.NetworkError) -> FetchError:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        return FetchError("unreachable", f"the certificate of {host} is not valid: {cause.verify_message}")
    return FetchError("unreachable", f"no connection to {host}: {shown(str(error))}", is_temporary=True)


def shown(text: str) -> str:
    """Return text of a server on one line and not too long."""
    return " ".join(UNPRINTABLE.sub(" ", text).split())[:500]
