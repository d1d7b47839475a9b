"""Errors of the client. All are ClientError, and therefore ShoalError.

An error that the library also raises (`shoal.errors.NotFoundError`) is a subclass of it with the same name,
so that a program can use either.
"""

from __future__ import annotations

import datetime as dt
import email.utils
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx

from shoal import errors
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.models.jobs import Item
from shoal.models.responses import Job

KEY_HINT = "commands take it from SHOAL_API_KEY or --key"


class ClientError(ShoalError):
    """The service refused a request or could not be reached.

    `status`: HTTP status, None without a response. `retry_after`: seconds to wait as requested by the
    service, or 0. `errors`: reasons by field. `trace_id`: id of the request in the log of the service.
    `code`: stable code of the problem (see `docs/errors.md`), None without one.
    """

    # An instance attribute, unlike that of the library's errors: the service says what is wrong.
    code: str | None = None  # type: ignore[assignment,misc]

    def __init__(
        self,
        message: str,
        status: int | None = None,
        retry_after: float = 0.0,
        *,
        errors: Mapping[str, Sequence[str]] | None = None,
        trace_id: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.errors = dict(errors or {})
        self.trace_id = trace_id

    @property
    def is_away(self) -> bool:
        """Whether the service is unreachable, busy or unavailable, as opposed to a refusal."""
        return isinstance(self, UnreachableError | BusyError | UnavailableError)


class UnreachableError(ClientError):
    """There was no response: no service at the address, a broken connection, or a timeout.

    Whether the request was executed is unknown, unless no connection was made (`was_sent` is false).
    `is_silence`: the service took too long.
    """

    def __init__(self, message: str, *, was_sent: bool, is_silence: bool = False) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        self.is_silence = is_silence


class NotShoalError(ClientError):
    """The response is not that of a Shoal service."""


class KeyRefusedError(ClientError):
    """401: the key is missing or unknown. 403: the key is read-only."""


class NotFoundError(ClientError, errors.NotFoundError):
    """404: there is no such document, chunk or job, or the owner has no such note."""


class ConflictError(ClientError):
    """409: another document has the content, the job or note is in the wrong state, or an idempotency key
    came with another body."""


class TooLargeError(ClientError):
    """413: the document or the upload exceeds a size limit."""


class InvalidError(ClientError):
    """400, 415, 422: the request is invalid; `errors` names the fields."""


class BusyError(ClientError):
    """429: too many requests, or the queue is full; `retry_after` says how long to wait."""


class UnavailableError(ClientError):
    """502, 503, 504: the service is unavailable."""


class JobFailedError(ClientError):
    """A job did not succeed. `items` are the first failed items."""

    def __init__(self, message: str, job: Job, items: Sequence[Item] = ()) -> None:
        super().__init__(message)
        self.job = job
        self.items = tuple(items)


class JobTimeoutError(ClientError):
    """A job has not ended within the timeout. It continues; `job` is its last known state."""

    def __init__(self, message: str, job: Job) -> None:
        super().__init__(message)
        self.job = job


BY_STATUS: dict[int, type[ClientError]] = {
    400: InvalidError,
    401: KeyRefusedError,
    403: KeyRefusedError,
    404: NotFoundError,
    409: ConflictError,
    413: TooLargeError,
    415: InvalidError,
    422: InvalidError,
    429: BusyError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def error_from_response(response: httpx.Response) -> ClientError:
    """The error for an unsuccessful response, with the details of its problem document."""
    status = response.status_code
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict) or not (problem.get("detail") or problem.get("title")):
        # A proxy in front of the service may report that it is unavailable.
        kind = BY_STATUS[status] if status in (429, 502, 503, 504) else NotShoalError
        return kind(
            f"{_host(response)} answered {status} {response.reason_phrase}; is it a Shoal service?",
            status,
            _retry_after(response),
        )
    field_errors = problem.get("errors") if isinstance(problem.get("errors"), dict) else {}
    fields = {str(name): _reasons(reasons) for name, reasons in (field_errors or {}).items()}
    message = str(problem.get("detail") or problem["title"])
    message = "; ".join([message, *(f"{name}: {', '.join(reasons)}" for name, reasons in fields.items())])
    if status == httpx.codes.UNAUTHORIZED:
        message += f" ({KEY_HINT})"
    trace_id, code = problem.get("trace_id"), problem.get("code")
    return BY_STATUS.get(status, ClientError)(
        message,
        status,
        _retry_after(response),
        errors=fields,
        trace_id=None if trace_id is None else str(trace_id),
        code=None if code is None else str(code),
    )


def connection_error(error: httpx.HTTPError | httpx.InvalidURL, server: str) -> UnreachableError:
    """The error for a request without a response."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return UnreachableError(
            f"no service answers at {server}; `shoal up` starts one on this machine", was_sent=False
        )
    if isinstance(error, httpx.TimeoutException):
        return UnreachableError(
            f"{server} took too long to response",
            was_sent=not isinstance(error, httpx.PoolTimeout),
            is_silence=True,
        )
    was_sent = not isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL)
    return UnreachableError(f"the connection to {server} failed: {error}", was_sent=was_sent)


def unexpected_response(response: httpx.Response) -> NotShoalError:
    """The error for a successful response that cannot be decoded."""
    return NotShoalError(
        f"{_host(response)} sent a response that is not of a Shoal service", response.status_code
    )


def _host(response: httpx.Response) -> str:
    url = response.request.url
    return f"{url.host}:{url.port}" if url.port else url.host


def _retry_after(response: httpx.Response) -> float:
    """Seconds of `Retry-After`, or 0. Shoal sends seconds, a proxy may send a date."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return max(0.0, (moment - dt.datetime.now(dt.UTC)).total_seconds())


def _reasons(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)
