"""Requests of operations, their pages, and responses decoded into dataclasses and named tuples.

Unknown names are ignored, so that a client works with a newer service. A missing field takes its default;
without a default, decoding fails.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from shoal.client.errors import unexpected_response
from shoal.client.flows import Batch, Flow, Repeat, Request, RetryingSender, Stream
from shoal.declared.operations.operation import IDEMPOTENCY_KEY, PARAMETER, Listing, Operation
from shoal.declared.search import SHORT_FORMS
from shoal.models.responses import Job

Field = tuple[Any, bool]
"""The type of a field, and whether it has a default."""


class UnexpectedError(ValueError):
    """The JSON does not have the expected structure."""


def decode(kind: type[T], value: Any) -> T:
    """Decode parsed JSON as a value of type `kind`. Raises UnexpectedError."""
    decoded: T = _decode(kind, value)
    return decoded


def _decode(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _optional(kind, value)
    if origin is not None:
        return _collection(origin, typing.get_args(kind), value)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind, value)
    return _plain(kind, value)


def _optional(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    kinds = [argument for argument in typing.get_args(kind) if argument is not types.NoneType]
    if len(kinds) > 1:
        # Values of JSON that are themselves, such as a text or a number.
        if type(value) in (*kinds, *((int,) if float in kinds else ())):
            return value
        raise UnexpectedError("a value of another type was expected")
    return _decode(kinds[0], value)


def _collection(origin: Any, inner: tuple[Any, ...], value: Any) -> Any:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise UnexpectedError("an object was expected")
        return {name: _decode(inner[1], element) for name, element in value.items()}
    if not isinstance(value, list):
        raise UnexpectedError("an array was expected")
    if origin is tuple and Ellipsis not in inner:
        if len(value) != len(inner):
            raise UnexpectedError(f"an array of {len(inner)} was expected")
        return tuple(
            _decode(element_kind, element) for element_kind, element in zip(inner, value, strict=True)
        )
    assert origin is tuple or issubclass(origin, Sequence)
    elements = (_decode(inner[0], element) for element in value)
    return list(elements) if origin is list else tuple(elements)


def _record(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise UnexpectedError("an object was expected")
    fields = {}
    for name, (inner, has_default) in _fields(kind).items():
        if name in value:
            fields[name] = _decode(inner, value[name])
        elif not has_default:
            raise UnexpectedError(f"{name} is missing")
    return kind(**fields)


@functools.cache
def _fields(kind: Any) -> dict[str, Field]:
    hints = typing.get_type_hints(kind)
    if not dataclasses.is_dataclass(kind):
        return {name: (hints[name], name in kind._field_defaults) for name in kind._fields}
    missing = dataclasses.MISSING
    return {
        field.name: (hints[field.name], not (field.default is missing and field.default_factory is missing))
        for field in dataclasses.fields(kind)
    }


def _plain(kind: Any, value: Any) -> Any:
    if issubclass(kind, enum.StrEnum):
        try:
            return kind(value)
        except ValueError:
            # A newer service may have more states; every state is a text.
            return str(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UnexpectedError(f"{kind.__name__} was expected")
    return value


PAGE = 500
"""Entries per request when all are wanted; a page of chunks then has some megabytes."""

T = TypeVar("T")


class Requester(RetryingSender):
    """Requests values."""

    def _request(
        self, operation: Operation[..., Any], arguments: dict[str, Any], /, **options: Any
    ) -> Flow[httpx.Response]:
        """Request an operation. `options` are members of the request besides those that follow from it."""
        terms = operation.terms
        headers = {}
        if IDEMPOTENCY_KEY in arguments:
            headers["Idempotency-Key"] = arguments.pop(IDEMPOTENCY_KEY) or new_key()
        path = PARAMETER.sub(
            lambda found: segment(arguments.pop(operation.in_path[found[1]])), operation.address
        )
        given = {
            operation.member_of(name): operation.form_of(name, json_value)(value)
            for name, value in arguments.items()
            if value is not None
        }
        if "filters" in operation.arguments:
            given = with_filters(given)
        request = Request(
            terms.method,
            path,
            query={} if operation.has_body else {name: as_text(value) for name, value in given.items()},
            json=given if operation.has_body else None,
            repeat=Repeat.always if terms.may_repeat else Repeat.unsent,
            passed=frozenset({404}) if operation.returned is bool else frozenset(),
            headers=headers,
        )
        return (yield from self._send(dataclasses.replace(request, **options)))

    def _operate(self, operation: Operation[..., T], arguments: dict[str, Any], /) -> Flow[T]:
        """Request an operation, and return the value that its method has."""
        response = yield from self._request(operation, arguments)
        value: T = _value(operation, response)
        return value

    def _list(self, listing: Listing[..., Any], arguments: dict[str, Any], /) -> Stream[Any]:
        """Stream the items of all pages of an operation."""
        items = first_field(listing.page.record)
        yield from pages(
            lambda limit, offset: self._operate(
                listing.page, {**arguments, "limit": limit, "offset": offset}
            ),
            lambda page: getattr(page, items),
        )


def _value(operation: Operation[..., Any], response: httpx.Response) -> Any:
    """Return what the method of an operation returns for a response."""
    answer, returned = operation.terms.answer, operation.returned
    if returned is bool:
        return response.status_code != 404
    if answer is not None:
        return parse_part(returned, json_object(response).get(first_field(answer)), response)
    return None if operation.record is None else parse(returned, response)


def first_field(record: Any) -> str:
    """Return the name of the first field of a record."""
    return str(next(iter(record.__annotations__)))


def json_value(value: Any) -> Any:
    """Return the form of a value in JSON."""
    if isinstance(value, Mapping):
        return {name: json_value(each) for name, each in value.items()}
    if hasattr(value, "as_json"):
        return value.as_json()
    if dataclasses.is_dataclass(value):
        return {each.name: json_value(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.astimezone()).isoformat()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(map(json_value, value))
    return value


def with_filters(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a search with the short forms of filters among its filters."""
    filters = {name: body.pop(name) for name in SHORT_FORMS if name in body}
    return {**body, "filters": {**body.get("filters", {}), **filters}} if filters else body


def as_text(value: Any) -> Any:
    """Return the form of a JSON value as a query parameter."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else value


def segment(value: Any) -> str:
    """Return a value as one segment of a path: a text, an id, or a job."""
    text = str(value.id if isinstance(value, Job) else value)
    # Dots, too: `..` alone would be a step to the folder above.
    return quote(text, safe="").replace(".", "%2E")


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
