"""The two clients. Each runs the flows of the operations in a loop of its own."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import httpx

from shoal.client.documents import Adding
from shoal.client.errors import ClientError
from shoal.client.flows import AsyncRunner, Batch, BlockingRunner, Flow, Pause, Request, Retrying, Stream
from shoal.client.notes import NoteUploads
from shoal.client.requests import Requester
from shoal.client.searches import Searching, ServiceState
from shoal.declared.operations.documents import AllDocumentOperations
from shoal.declared.operations.library import LibraryOperations
from shoal.declared.operations.notes import AllNoteOperations
from shoal.declared.operations.searches import SearchOperations
from shoal.declared.operations.service import AllServiceOperations
from shoal.declared.operations.sources import SourceOperations
from shoal.support.collection_names import MAIN, is_name

PATIENCE_SECONDS = 30.0
"""How long a call is retried while the service is unavailable or busy. A restart takes less."""
TIMEOUT_SECONDS = 60.0
CONNECT_SECONDS = 10.0
"""A running service accepts a connection at once; a lost packet on a bad network costs three seconds."""
WRITTEN, READ_AFTER = "Shoal-Written", "Shoal-Read-After"
"""The header of a token of what was written, and the one by which a search waits for it."""

T = TypeVar("T")


class Operations(
    Adding,
    AllDocumentOperations,
    Searching,
    SearchOperations,
    NoteUploads,
    AllNoteOperations,
    LibraryOperations,
    SourceOperations,
    ServiceState,
    AllServiceOperations,
    Requester,
):
    """All operations of both clients. Those of `AsyncClient` are coroutines and asynchronous iterators."""


class Client(Operations, BlockingRunner):
    """A blocking client. May be shared between threads."""

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        collection: str = MAIN,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        waits_for_start: bool = True,
        retrying: Retrying | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`server` is the address up to the port, such as `http://127.0.0.1:8000`; `key` is one of the
        service's API keys, if it has any. All operations are in the `collection` with this name.

        `timeout`: seconds that a step may take, such as sending a part of the body or waiting for the
        response to begin. `patience`: seconds, from the first failure, for which a call is retried while the
        service is unavailable or busy; 0 disables retries. `waits_for_start`: whether to retry if the service
        was never reached. `retrying`: called before each retry with the error and the pause in seconds.
        `verify` and `transport` are passed to httpx.
        """
        super().__init__(
            _server_url(server),
            patience=patience,
            waits_for_start=waits_for_start,
            retrying=retrying,
            collection=_collection(collection),
        )
        self._timeout = timeout
        self._written = ""
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
                if isinstance(step, Batch):
                    yield from step.items
                    step = next(stream)
                else:
                    step = self._next(stream, step)
        except StopIteration:
            return

    def _next(self, flow: Any, step: Request | Pause) -> Any:
        """Execute a step of a flow and return the next step."""
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return next(flow)
        try:
            response = self._http.send(
                self._http.build_request(**_request_arguments(step, self._timeout, step.body, self._written))
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return flow.throw(error)
        self._written = response.headers.get(WRITTEN, self._written)
        return flow.send(response)


class AsyncClient(Operations, AsyncRunner):
    """A client for asyncio, with the operations of Client as coroutines."""

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        collection: str = MAIN,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        waits_for_start: bool = True,
        retrying: Retrying | None = None,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """The arguments are those of Client."""
        super().__init__(
            _server_url(server),
            patience=patience,
            waits_for_start=waits_for_start,
            retrying=retrying,
            collection=_collection(collection),
        )
        self._timeout = timeout
        self._written = ""
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
        # A coroutine must not raise StopIteration, so each step returns whether the flow has ended.
        ended, step = _advanced(flow, None)
        while not ended:
            ended, step = await self._next(flow, step)
        value: T = step
        return value

    async def _stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        ended, step = _advanced(stream, None)
        while not ended:
            if isinstance(step, Batch):
                for item in step.items:
                    yield item
                ended, step = _advanced(stream, None)
            else:
                ended, step = await self._next(stream, step)

    async def _next(self, flow: Any, step: Request | Pause) -> tuple[bool, Any]:
        """Execute a step of a flow. Returns whether the flow has ended, and its value or next step."""
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return _advanced(flow, None)
        body = None if step.body is None else _read_in_thread(step.body)
        try:
            response = await self._http.send(
                self._http.build_request(**_request_arguments(step, self._timeout, body, self._written))
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _advanced(flow, error)
        self._written = response.headers.get(WRITTEN, self._written)
        return _advanced(flow, response)


def _advanced(flow: Any, result: httpx.Response | Exception | None) -> tuple[bool, Any]:
    """Resume a flow. Returns whether it has ended, and its value or next step."""
    try:
        return False, flow.throw(result) if isinstance(result, Exception) else flow.send(result)
    except StopIteration as end:
        return True, end.value


async def _read_in_thread(body: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the parts of a body, reading them in a thread so that the event loop is not blocked."""
    parts = iter(body)
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part


def _request_arguments(request: Request, timeout: float, body: Any, written: str) -> dict[str, Any]:
    """Arguments of httpx's `build_request`. `written`: the token of this client's last write."""
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.query) or None,
        "headers": {**request.headers, **({READ_AFTER: written} if written else {})},
        # httpx consumes an iterable only once; a retry needs a new iterator.
        "content": iter(body) if isinstance(body, Iterable) else body,
        "json": request.json,
        "timeout": httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS), read=timeout + request.slow),
    }


def _server_url(server: str) -> str:
    return (server if "://" in server else f"http://{server}").rstrip("/")


def _collection(name: str) -> str:
    """Return the name of a collection. Raises ClientError for what cannot be one, which could be a path."""
    if not is_name(name):
        raise ClientError(f"{name!r} is not the name of a collection")
    return name


def _options(server: str, key: str | None, timeout: float) -> dict[str, Any]:
    """Arguments of both httpx clients. Raises ClientError for an invalid address or key."""
    if key and not (key.isascii() and key.isprintable()):
        raise ClientError("the API key is invalid: it has characters that no key has")
    try:
        url = httpx.URL(server)
        is_valid = url.scheme in ("http", "https") and url.host != ""
    except (httpx.InvalidURL, ValueError):
        is_valid = False
    if not is_valid:
        raise ClientError(f"{server!r} is not the address of a service")
    return {
        "base_url": server,
        "timeout": timeout,
        "headers": {"Authorization": f"Bearer {key}"} if key else {},
    }
