"""The two clients: a loop each that carries out what operations ask for, and nothing of the operations
themselves."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import httpx

from shoal.client.documents import DocumentOperations
from shoal.client.errors import ClientError
from shoal.client.exchange import Awaited, Blocking, Flow, Found, Pause, Request, Retrying, Stream
from shoal.client.searches import SearchOperations, ServiceOperations

PATIENCE_SECONDS = 30.0
"""How long a call goes on asking while the service is away or busy. A restart takes less."""
TIMEOUT_SECONDS = 60.0
CONNECT_SECONDS = 10.0
"""A service that is there takes a connection at once; over a bad network a lost packet costs three
seconds."""

T = TypeVar("T")


class Operations(DocumentOperations, SearchOperations, ServiceOperations):
    """All that both clients can do. What `Client` returns, `AsyncClient` is awaited for; its iterators are
    asynchronous."""


class Client(Operations, Blocking):
    """A service, for programs that wait for its answers. May be shared between threads."""

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        waits_for_start: bool = True,
        retrying: Retrying | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`server` is the address up to the port, such as `http://127.0.0.1:8000`; `key` is one of the
        service's API keys, where it has any.

        `timeout` is how many seconds a step may take: a part of the body to leave, the answer to begin.
        `patience` is for how many seconds, from its first failure, a call is tried again while the service is
        away or busy; 0 is once only. Without `waits_for_start`, a service that was never reached is not
        waited for. `retrying` is told why a call is tried again, and after how many seconds. `verify` and
        `transport` are those of httpx.
        """
        super().__init__(
            _address(server), patience=patience, waits_for_start=waits_for_start, retrying=retrying
        )
        self._timeout = timeout
        self._http = httpx.Client(**_options(self.server, key, timeout), verify=verify, transport=transport)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                step = self._next(flow, step)
        except StopIteration as end:
            value: T = end.value
            return value

    def _stream(self, stream: Stream[T]) -> Iterator[T]:
        try:
            step = next(stream)
            while True:
                if isinstance(step, Found):
                    yield from step.items
                    step = next(stream)
                else:
                    step = self._next(stream, step)
        except StopIteration:
            return

    def _next(self, flow: Any, step: Request | Pause) -> Any:
        """Carry out a step of a flow; the step after it."""
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return next(flow)
        try:
            answer = self._http.send(self._http.build_request(**_sendable(step, self._timeout, step.body)))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return flow.throw(error)
        return flow.send(answer)


class AsyncClient(Operations, Awaited):
    """A service, for programs with an event loop (asyncio); the operations are those of Client, awaited."""

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        waits_for_start: bool = True,
        retrying: Retrying | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """As Client."""
        super().__init__(
            _address(server), patience=patience, waits_for_start=waits_for_start, retrying=retrying
        )
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            **_options(self.server, key, timeout), verify=verify, transport=transport
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, flow: Flow[T]) -> T:
        # A coroutine must not raise StopIteration, so that the end is looked for step by step.
        ended, step = _advanced(flow, None)
        while not ended:
            ended, step = await self._next(flow, step)
        value: T = step
        return value

    async def _stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        ended, step = _advanced(stream, None)
        while not ended:
            if isinstance(step, Found):
                for item in step.items:
                    yield item
                ended, step = _advanced(stream, None)
            else:
                ended, step = await self._next(stream, step)

    async def _next(self, flow: Any, step: Request | Pause) -> tuple[bool, Any]:
        """Carry out a step of a flow; whether that was the last, and the step after it or the value."""
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return _advanced(flow, None)
        body = None if step.body is None else _read_aside(step.body)
        try:
            answer = await self._http.send(self._http.build_request(**_sendable(step, self._timeout, body)))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _advanced(flow, error)
        return _advanced(flow, answer)


def _advanced(flow: Any, given: httpx.Response | Exception | None) -> tuple[bool, Any]:
    """Whether a flow has ended, and its value, or else its next step."""
    try:
        return False, flow.throw(given) if isinstance(given, Exception) else flow.send(given)
    except StopIteration as end:
        return True, end.value


async def _read_aside(body: Iterable[bytes]) -> AsyncIterator[bytes]:
    """A body whose parts are read from disk in another thread, so that the event loop goes on."""
    parts = iter(body)
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part


def _sendable(request: Request, timeout: float, body: Any) -> dict[str, Any]:
    """What httpx makes a request of."""
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.query) or None,
        "headers": dict(request.headers),
        # A list or an iterable would be gone through once only; what is asked again begins anew.
        "content": iter(body) if isinstance(body, Iterable) else body,
        "json": request.json,
        "timeout": httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS), read=timeout + request.slow),
    }


def _address(server: str) -> str:
    return (server if "://" in server else f"http://{server}").rstrip("/")


def _options(server: str, key: str | None, timeout: float) -> dict[str, Any]:
    """What both of httpx's clients are made with. Raises ClientError for what can be no address or no key."""
    if key and not (key.isascii() and key.isprintable()):
        raise ClientError("this is no API key: it holds characters that no key has")
    try:
        url = httpx.URL(server)
        is_one = url.scheme in ("http", "https") and url.host != ""
    except (httpx.InvalidURL, ValueError):
        is_one = False
    if not is_one:
        raise ClientError(f"{server!r} is not the address of a service")
    return {
        "base_url": server,
        "timeout": timeout,
        "headers": {"Authorization": f"Bearer {key}"} if key else {},
    }
