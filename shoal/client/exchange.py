"""How one description of an operation serves a client that blocks and one that is awaited.

An operation is a generator, a *flow*: it yields the requests it wants sent and the pauses it wants made, is
sent the answers, and returns a value. It touches neither network nor clock of sleep, so it is written once;
`clients.py` has the two loops that carry flows out. `ask`, the flow of one request, repeats it while the
service is away.
"""

from __future__ import annotations

import enum
import functools
import inspect
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
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

import httpx

from shoal.client.errors import ClientError, UnreachableError, lost, refusal

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
"""Pauses between tries double from the first to the longest, which is less than a restart takes."""
JITTER = 0.5
"""Share of a pause that is left to chance, so that clients that lost the same service don't come back as
one."""

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


Retrying = Callable[[ClientError, float], None]
"""Told why a call is tried again, and after how many seconds."""


class Repeat(enum.Enum):
    """When a request may be sent again."""

    always = "always"
    """Also when its answer was lost: it reads, or carries an idempotency key, or comes to the same when done
    twice."""
    unsent = "unsent"
    """Only when it is certain that nothing was done: no connection, or the service said that it is away."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send. `body` gives the same bytes every time it is gone through. `slow` is how many
    seconds longer than usual the answer may take; `patience` replaces that of the client; statuses in
    `passed` are no errors."""

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
class Found(Generic[T_co]):
    """What a stream has found so far."""

    items: Sequence[T_co]


Flow = Generator[Request | Pause, httpx.Response | None, T]
Stream = Generator[Request | Pause | Found[T], httpx.Response | None, None]


class Asking:
    """A service at an address, and how much patience there is with it. Knows nothing of connections."""

    def __init__(
        self, server: str, *, patience: float, waits_for_start: bool, retrying: Retrying | None
    ) -> None:
        self.server = server
        self._retrying = retrying
        self._patience = patience
        self._waits_for_start = waits_for_start
        self._was_reached = False

    def _ask(self, request: Request) -> Flow[httpx.Response]:
        """Send a request; again while the service is away, as long as patience lasts. Raises ClientError."""
        patience = self._patience if request.patience is None else request.patience
        deadline: float | None = None
        pause = FIRST_PAUSE_SECONDS
        while True:
            failure: ClientError
            try:
                answer = yield request
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                failure = lost(error, self.server)
                failure.__cause__ = error
            else:
                assert answer is not None
                self._was_reached = True
                if answer.is_success or answer.status_code in request.passed:
                    return answer
                failure = refusal(answer)
            now = monotonic()
            deadline = now + patience if deadline is None else deadline
            wait = max(pause * (1 - JITTER * random.random()), failure.retry_after)  # noqa: S311 - spreads load, hides nothing
            if not self._is_worth_asking_again(request, failure) or now + wait > deadline:
                raise failure
            if self._retrying:
                self._retrying(failure, wait)
            yield Pause(wait)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _is_worth_asking_again(self, request: Request, failure: ClientError) -> bool:
        if not isinstance(failure, UnreachableError):
            return failure.is_away
        if isinstance(failure.__cause__, httpx.UnsupportedProtocol | httpx.InvalidURL):
            return False
        if not (self._was_reached or self._waits_for_start):
            return False
        if failure.is_silence and not request.repeats_silence:
            # Whoever is too slow for one request would be slower with two.
            return False
        return request.repeat is Repeat.always or not failure.was_sent


class Blocking(Asking, ABC):
    """Carries flows out while the caller waits."""

    @abstractmethod
    def _run(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    def _stream(self, stream: Stream[T]) -> Iterator[T]: ...


class Awaited(Asking, ABC):
    """Carries flows out while other tasks go on."""

    @abstractmethod
    async def _run(self, flow: Flow[T]) -> T: ...

    @abstractmethod
    def _stream(self, stream: Stream[T]) -> AsyncIterator[T]: ...


class _Method(ABC):
    """What both decorators make, as people and their tools look at it: `help`, `inspect`, a call through the
    class."""

    def __init__(self, described: Callable[..., Any]) -> None:
        functools.update_wrapper(cast(Any, self), described)
        own = inspect.signature(described)
        told = str(own.return_annotation).replace("Flow[", "", 1).removesuffix("]")
        if told.startswith("Stream["):
            told = told.replace("Stream[", "Iterator[", 1) + "]"
        self.__signature__ = own.replace(return_annotation=_Told(told))
        self._bound_signature = self.__signature__.replace(parameters=list(own.parameters.values())[1:])

    def __call__(self, client: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__get__(client)(*args, **kwargs)

    @abstractmethod
    def __get__(self, client: Any, owner: object = None) -> Any: ...

    def _bound(self, call: Callable[..., Any]) -> Any:
        """A method of a client, with this one's name, documentation and signature."""
        method: Any = functools.update_wrapper(call, cast(Any, self))
        method.__signature__ = self._bound_signature
        return method


class _Told(str):
    """A type in a signature, shown without quotation marks."""

    __slots__ = ()
    __repr__ = str.__str__


class operation(_Method, Generic[P, T]):  # noqa: N801 - a decorator
    """Makes a method of a flow: of a client that blocks one that returns its value, of one that is awaited a
    coroutine."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        super().__init__(flow)
        self.flow = flow

    @overload
    def __get__(self, client: None, owner: object = None) -> operation[P, T]: ...
    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaited, owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return self._bound(lambda *args, **kwargs: client._run(self.flow(client, *args, **kwargs)))


class listing(_Method, Generic[P, T]):  # noqa: N801 - a decorator
    """Makes a method of a stream, that gives an iterator, or an asynchronous one."""

    def __init__(self, stream: Callable[Concatenate[Any, P], Stream[T]]) -> None:
        super().__init__(stream)
        self.stream = stream

    @overload
    def __get__(self, client: None, owner: object = None) -> listing[P, T]: ...
    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaited, owner: object = None) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        if client is None:
            return self
        return self._bound(lambda *args, **kwargs: client._stream(self.stream(client, *args, **kwargs)))
