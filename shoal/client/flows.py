"""Flows: operations that are written once for the blocking and the asynchronous client.

A *flow* is a generator. It yields requests and pauses, receives responses, and returns a value. It neither
sends nor sleeps itself; the two loops in `clients.py` run it. `_send`, the flow of one request, retries it
while the service is unavailable.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import httpx

from shoal.client.errors import ClientError, UnreachableError, connection_error, error_from_response
from shoal.declared.operations.operation import API, Asynchronous, Blocking, Method
from shoal.errors import CommitUnknownError
from shoal.support.collection_names import MAIN

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
"""Pauses between retries double up to the longest, which is shorter than a restart."""
JITTER = 0.5
"""Random share of a pause, so that clients of the same service do not retry at the same moment."""

GLOBAL = frozenset({"collections", "keys"})
"""Resources of the whole service."""

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


Retrying = Callable[[ClientError, float], None]
"""Called before a retry with the error and the pause in seconds."""


class Repeat(enum.Enum):
    """When a request may be sent again."""

    always = "always"
    """Also if its response was lost: the request is idempotent or has an idempotency key."""
    unsent = "unsent"
    """Only if it was certainly not executed: there was no connection, or the service was unavailable."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send.

    Every iteration of `body` yields the same bytes. `slow`: additional seconds that the response may take.
    `repeats_silence`: whether to retry after a timeout. `patience` replaces that of the client. Statuses in
    `passed` are not errors.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Iterable[bytes] | None = None
    json: Any = None
    slow: float = 0.0
    repeat: Repeat = Repeat.always
    repeats_silence: bool = False
    patience: float | None = None
    passed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Batch(Generic[T_co]):
    """The next items of a stream."""

    items: Sequence[T_co]


Flow = Generator[Request | Pause, httpx.Response | None, T]
Stream = Generator[Request | Pause | Batch[T], httpx.Response | None, None]


class RetryingSender:
    """Sends requests to a service and retries them. Independent of the HTTP client."""

    def __init__(
        self,
        server: str,
        *,
        patience: float,
        waits_for_start: bool,
        retrying: Retrying | None,
        collection: str = MAIN,
    ) -> None:
        self.server = server
        self.collection = collection
        self._retrying = retrying
        self._patience = patience
        self._waits_for_start = waits_for_start
        self._was_reached = False

    def _send(self, request: Request) -> Flow[httpx.Response]:
        """Send a request to the collection of the client, and retry it for `patience` seconds while the
        service is unavailable.

        Raises ClientError.
        """
        path = path_in(self.collection, request.path)
        if path != request.path:
            request = dataclasses.replace(request, path=path)
        patience = self._patience if request.patience is None else request.patience
        deadline: float | None = None
        pause = FIRST_PAUSE_SECONDS
        while True:
            failure: ClientError
            try:
                response = yield request
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failure = connection_error(error, self.server)
                failure.__cause__ = error
            else:
                assert response is not None
                self._was_reached = True
                if response.is_success or response.status_code in request.passed:
                    return response
                failure = error_from_response(response)
            now = monotonic()
            deadline = now + patience if deadline is None else deadline
            shortened = pause * (1 - JITTER * random.random())  # noqa: S311 - not for security
            wait = max(shortened, failure.retry_after)
            if not self._should_retry(request, failure) or now + wait > deadline:
                raise failure
            if self._retrying:
                self._retrying(failure, wait)
            yield Pause(wait)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _should_retry(self, request: Request, failure: ClientError) -> bool:
        if failure.code == CommitUnknownError.code:
            return request.repeat is Repeat.always
        if not isinstance(failure, UnreachableError):
            return failure.is_away
        if isinstance(failure.__cause__, httpx.UnsupportedProtocol | httpx.InvalidURL):
            return False
        if not (self._was_reached or self._waits_for_start):
            return False
        if failure.is_silence and not request.repeats_silence:
            # A retry would add load to a service that is too slow.
            return False
        return request.repeat is Repeat.always or not failure.was_sent


class BlockingRunner(RetryingSender, Blocking, ABC):
    """Runs flows and blocks the caller."""

    @abstractmethod
    def _run(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    def _stream(self, stream: Stream[T]) -> Iterator[T]: ...


class AsyncRunner(RetryingSender, Asynchronous, ABC):
    """Runs flows as coroutines."""

    @abstractmethod
    async def _run(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    def _stream(self, stream: Stream[T]) -> AsyncIterator[T]: ...


class operation(Method, Generic[P, T]):  # noqa: N801 - a decorator
    """Turns a flow into a method: blocking in `Client`, a coroutine in `AsyncClient`."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        super().__init__(flow)
        self.flow = flow

    @overload
    def __get__(self, client: None, owner: object = None) -> operation[P, T]: ...
    @overload
    def __get__(self, client: BlockingRunner, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncRunner, owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return self._bound(lambda *args, **kwargs: client._run(self.flow(client, *args, **kwargs)))


class listing(Method, Generic[P, T]):  # noqa: N801 - a decorator
    """Turns a stream into a method that returns an iterator, asynchronous in `AsyncClient`."""

    def __init__(self, stream: Callable[Concatenate[Any, P], Stream[T]]) -> None:
        super().__init__(stream)
        self.stream = stream

    @overload
    def __get__(self, client: None, owner: object = None) -> listing[P, T]: ...
    @overload
    def __get__(self, client: BlockingRunner, owner: object = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncRunner, owner: object = None) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return self._bound(lambda *args, **kwargs: client._stream(self.stream(client, *args, **kwargs)))


def path_in(collection: str, path: str) -> str:
    """Return the path of an operation in a collection."""
    inner = path.removeprefix(f"{API}/")
    if collection == MAIN or inner == path or inner.partition("/")[0] in GLOBAL:
        return path
    return f"{API}/collections/{collection}/{inner}"
