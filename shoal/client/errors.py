"""What can go wrong between a program and a service, as classes; all are ClientError, and so ShoalError.

What the library in the same process would raise (`shoal.errors.NotFoundError`) is raised here under the same
name, so that a program may have either.
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
    from shoal.client.replies import Item, Job

KEY_HINT = "commands take it from SHOAL_API_KEY or --key"


class ClientError(ShoalError):
    """The service refused a request or could not be reached.

    `status`: of the answer, None where there was none. `retry_after`: seconds that the service asks to wait,
    0 where it says nothing of that. `errors`: what is wrong with which field. `trace_id`: under which the
    service's log tells more.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        retry_after: float = 0.0,
        *,
        errors: Mapping[str, Sequence[str]] | None = None,
        trace_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.errors = dict(errors or {})
        self.trace_id = trace_id

    @property
    def is_away(self) -> bool:
        """Whether the service could not be reached or cannot do its work now, rather than refused."""
        return isinstance(self, UnreachableError | BusyError | UnavailableError)


class UnreachableError(ClientError):
    """There was no answer: no service at that address, a connection that broke, or too long a silence.
    Whether the request was carried out is not known, unless no connection was made (`was_sent` is false)."""

    def __init__(self, message: str, *, was_sent: bool, is_silence: bool = False) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        self.is_silence = is_silence


class NotShoalError(ClientError):
    """Something answered, but not as a Shoal service does."""


class KeyRefusedError(ClientError):
    """401: no key, or none that the service knows. 403: the key may only read."""


class NotFoundError(ClientError, errors.NotFoundError):
    """404: there is no such document, chunk or job."""


class ConflictError(ClientError):
    """409: another document has this content, the job is not in a state for this, or an idempotency key came
    again with another body."""


class TooLargeError(ClientError):
    """413: the document or the upload is larger than the service takes."""


class InvalidError(ClientError):
    """400, 415, 422: the request can't be used as it is; `errors` names the fields."""


class BusyError(ClientError):
    """429: too many requests, or the queue is full; `retry_after` says when to come again."""


class UnavailableError(ClientError):
    """502, 503, 504: the service can't do its work now."""


class JobFailedError(ClientError):
    """A job that had to succeed did not. `items` are the failed ones, as far as they were looked at."""

    def __init__(self, message: str, job: Job, items: Sequence[Item] = ()) -> None:
        super().__init__(message)
        self.job = job
        self.items = tuple(items)


class JobTimeoutError(ClientError):
    """A job has not ended in the time that was given for it. It goes on; `job` is how it stood."""

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


def refusal(answer: httpx.Response) -> ClientError:
    """The error that an answer other than success means, with what its problem document says."""
    status = answer.status_code
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict) or not (problem.get("detail") or problem.get("title")):
        # What stands before a service (a proxy) may say that it is away.
        kind = BY_STATUS[status] if status in (429, 502, 503, 504) else NotShoalError
        return kind(
            f"{_host(answer)} answered {status} {answer.reason_phrase}; is it a Shoal service?",
            status,
            _retry_after(answer),
        )
    wrong = problem.get("errors") if isinstance(problem.get("errors"), dict) else {}
    fields = {str(name): _reasons(why) for name, why in (wrong or {}).items()}
    message = str(problem.get("detail") or problem["title"])
    message = "; ".join([message, *(f"{name}: {', '.join(why)}" for name, why in fields.items())])
    if status == httpx.codes.UNAUTHORIZED:
        message += f" ({KEY_HINT})"
    trace_id = problem.get("trace_id")
    return BY_STATUS.get(status, ClientError)(
        message,
        status,
        _retry_after(answer),
        errors=fields,
        trace_id=None if trace_id is None else str(trace_id),
    )


def lost(error: httpx.HTTPError | httpx.InvalidURL, server: str) -> UnreachableError:
    """The error that a failure on the way to the server means."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return UnreachableError(
            f"no service answers at {server}; `shoal up` starts one on this machine", was_sent=False
        )
    if isinstance(error, httpx.TimeoutException):
        return UnreachableError(
            f"{server} took too long to answer",
            was_sent=not isinstance(error, httpx.PoolTimeout),
            is_silence=True,
        )
    was_sent = not isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL)
    return UnreachableError(f"the connection to {server} failed: {error}", was_sent=was_sent)


def not_shoal(answer: httpx.Response) -> NotShoalError:
    """What to raise for a success that can't be read."""
    return NotShoalError(f"{_host(answer)} did not answer as a Shoal service does", answer.status_code)


def _host(answer: httpx.Response) -> str:
    url = answer.request.url
    return f"{url.host}:{url.port}" if url.port else url.host


def _retry_after(answer: httpx.Response) -> float:
    """Seconds of `Retry-After`; 0 where there is none. Shoal sends seconds, a proxy may send a date."""
    value = answer.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return max(0.0, (moment - dt.datetime.now(dt.UTC)).total_seconds())


def _reasons(why: Any) -> tuple[str, ...]:
    return tuple(map(str, why)) if isinstance(why, list) else (str(why),)
