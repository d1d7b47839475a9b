"""Building blocks of the operations: requests, pages and parsed responses."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import httpx

from shoal.client.decoding import UnexpectedError, decode
from shoal.client.errors import unexpected_response
from shoal.client.flows import Batch, Flow, Repeat, Request, RetryingSender, Stream
from shoal.client.paths import API
from shoal.models.responses import Job

PAGE = 500
"""Entries per request when all are wanted; a page of chunks then has some megabytes."""

T = TypeVar("T")


class Requester(RetryingSender):
    """Requests values."""

    def _get(self, kind: type[T], path: str) -> Flow[T]:
        return parse(kind, (yield from self._send(Request("GET", API + path))))

    def _post(
        self,
        kind: type[T],
        path: str,
        body: Mapping[str, Any],
        repeat: Repeat = Repeat.always,
        *,
        key: str | None = None,
    ) -> Flow[T]:
        """`key`: an idempotency key."""
        headers = {} if key is None else {"Idempotency-Key": key}
        request = Request("POST", API + path, json=body, repeat=repeat, headers=headers)
        return parse(kind, (yield from self._send(request)))

    def _page(self, kind: type[T], path: str, limit: int, offset: int, /, **query: Any) -> Flow[T]:
        parameters = {**without_none(**query), "limit": limit, "offset": offset}
        return parse(kind, (yield from self._send(Request("GET", API + path, query=parameters))))


def pages(fetch: Callable[[int, int], Flow[Any]], items_of: Callable[[Any], Sequence[T]]) -> Stream[Any]:
    """Stream the items of all pages.

    `fetch` takes a limit and an offset, `items_of` returns the items of a page.
    """
    offset = 0
    while True:
        page = yield from fetch(PAGE, offset)
        items = items_of(page)
        yield Batch(items)
        offset += len(items)
        if not items or offset >= page.total:
            return


def without_none(**values: Any) -> dict[str, Any]:
    """The values that are not None. The service has defaults for the others."""
    return {name: value for name, value in values.items() if value is not None}


def comma_separated(names: str | Iterable[str] | None) -> str | None:
    """One or several names as one query parameter."""
    return names if names is None or isinstance(names, str) else ",".join(names)


def job_id_of(job: Job | int) -> int:
    """The id of a job that is given as a Job or an id."""
    return job.id if isinstance(job, Job) else int(job)


def new_key() -> str:
    """An idempotency key for one call and its retries."""
    return str(uuid.uuid4())


def json_object(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of a response. Raises NotShoalError."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise unexpected_response(response)
    return body


def parse(kind: type[T], response: httpx.Response) -> T:
    """Parse a response as a value of type `kind`. Raises NotShoalError."""
    return parse_part(kind, json_object(response), response)


def parse_part(kind: type[T], body: Any, response: httpx.Response) -> T:
    """Parse a part of a response as a value of type `kind`. Raises NotShoalError."""
    try:
        return decode(kind, body)
    except UnexpectedError as error:
        raise unexpected_response(response) from error


def accepted_job(response: httpx.Response) -> Job:
    """The job of a response with status 202."""
    return parse_part(Job, json_object(response).get("job"), response)
