"""What the operations are made of: a page, a value of an answer, a job that an answer tells of."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import httpx

from shoal.client.decoding import UnexpectedError, decode
from shoal.client.errors import not_shoal
from shoal.client.exchange import Asking, Flow, Found, Request, Stream
from shoal.client.replies import Job

API = "/api/v1"
PAGE = 500
"""How many entries are asked for at a time where all are wanted; a page of chunks is some megabytes then."""

T = TypeVar("T")


class Reading(Asking):
    """Asks for values."""

    def _get(self, kind: type[T], path: str) -> Flow[T]:
        return read(kind, (yield from self._ask(Request("GET", API + path))))

    def _page(self, kind: type[T], path: str, limit: int, offset: int, /, **query: Any) -> Flow[T]:
        asked = {**given(**query), "limit": limit, "offset": offset}
        return read(kind, (yield from self._ask(Request("GET", API + path, query=asked))))


def pages(ask: Callable[[int, int], Flow[Any]], items: Callable[[Any], Sequence[T]]) -> Stream[Any]:
    """What stands on all pages; `ask` is told how many entries, and how many to pass over."""
    offset = 0
    while True:
        page = yield from ask(PAGE, offset)
        found = items(page)
        yield Found(found)
        offset += len(found)
        if not found or offset >= page.total:
            return


def given(**values: Any) -> dict[str, Any]:
    """What is not None: the service has a default for the rest."""
    return {name: value for name, value in values.items() if value is not None}


def listed(names: str | Iterable[str] | None) -> str | None:
    """One name or several, as the API takes them."""
    return names if names is None or isinstance(names, str) else ",".join(names)


def id_of(given: Job | int) -> int:
    """The id of a job, or what it is named by."""
    return given.id if isinstance(given, Job) else int(given)


def new_key() -> str:
    """An idempotency key, for the tries of one call."""
    return str(uuid.uuid4())


def object_of(answer: httpx.Response) -> dict[str, Any]:
    """The JSON of an answer. Raises NotShoalError."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise not_shoal(answer)
    return body


def read(kind: type[T], answer: httpx.Response) -> T:
    """An answer as a value. Raises NotShoalError."""
    return decoded(kind, object_of(answer), answer)


def decoded(kind: type[T], body: Any, answer: httpx.Response) -> T:
    """A part of an answer as a value. Raises NotShoalError."""
    try:
        return decode(kind, body)
    except UnexpectedError as error:
        raise not_shoal(answer) from error


def job_of(answer: httpx.Response) -> Job:
    """The job of an answer that accepts something."""
    return decoded(Job, object_of(answer).get("job"), answer)
