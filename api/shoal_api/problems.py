"""Errors as RFC 9457 problem details, built in one place.

A `detail` is written for the caller. It never contains a traceback, SQL or a path of the server. Details of a
storage failure go to the log, under the trace id of the response.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import flask
import structlog
from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.wrappers import Response

from shoal import errors
from shoal.service.process_setup import TOO_MANY_FILES
from shoal_api.trace import trace_id

CONTENT_TYPE = "application/problem+json"
RETRY_SECONDS = 5
"""Value of `Retry-After` while the database is unavailable: about as long as a restart takes."""

MAX_ERRORS = 20
"""Most messages in one response. A mistake in the first of 100,000 values is most likely in all of them."""
MAX_NAME_CHARS = 80
MAX_MESSAGE_CHARS = 1000
"""Most characters of a field name and of a message; both may repeat input."""

log = structlog.get_logger("shoal.api")

Messages = Mapping[str, list[str]]


STATUS_CODES: Mapping[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: errors.NotFoundError.code,
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "request_timeout",
    409: "conflict",
    412: errors.VersionConflictError.code,
    413: "too_large",
    414: "url_too_long",
    415: "unsupported_media_type",
    417: "expectation_failed",
    422: errors.InvalidFieldError.code,
    429: "too_many_requests",
    431: "headers_too_large",
    500: errors.INTERNAL_ERROR,
    501: "not_implemented",
    503: "unavailable",
    507: errors.DiskFullError.code,
}
"""The codes of problems that no exception of the library causes, by status."""


def code_of_status(status: int) -> str:
    """Return the code of a problem that has none of its own."""
    return STATUS_CODES.get(status) or HTTPStatus(status).name.lower()


class ProblemError(Exception):
    """An error response, raised from anywhere while a request is handled.

    `code` is for programs; the default depends on the status. `errors` maps field names (dotted where nested)
    to messages; `members` are further members of the problem object.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        errors: Messages | None = None,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or code_of_status(status)
        self.errors = errors
        self.headers = dict(headers or {})
        self.members = dict(members or {})

    def body(self) -> dict[str, Any]:
        """Return the problem object."""
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = self.errors
        body |= self.members
        body["trace_id"] = trace_id()
        return body

    def response(self) -> Response:
        response = flask.make_response(flask.json.dumps(self.body()), self.status, self.headers)
        response.content_type = CONTENT_TYPE
        return response


def field_problem(field: str, *messages: str) -> ProblemError:
    """Return a 422 problem for one field."""
    return fields_problem({field: list(messages)})


def fields_problem(invalid: dict[str, list[str]], status: int = 422) -> ProblemError:
    """Return a problem for invalid fields.

    Only `errors` holds the reasons, so that clients that show `detail` and `errors` do not repeat them.
    """
    shown, n_others = shorten(invalid)
    others = f"; {n_others:,} more errors are not listed" if n_others else ""
    return ProblemError(status, f"cannot use {', '.join(shown)}{others}", errors=shown)


def shorten(invalid: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], int]:
    """Return the first messages by field, and the number of omitted ones."""
    shown: dict[str, list[str]] = {}
    n_messages = 0
    for name, messages in invalid.items():
        for message in messages[: max(0, MAX_ERRORS - n_messages)]:
            shown.setdefault(name[:MAX_NAME_CHARS], []).append(message[:MAX_MESSAGE_CHARS])
        n_messages += len(messages)
    return shown, max(0, n_messages - MAX_ERRORS)


def register(app: flask.Flask) -> None:
    """Return every error of the application as a problem."""
    app.register_error_handler(ProblemError, lambda problem: problem.response())
    app.register_error_handler(HTTPException, for_http_error)
    app.register_error_handler(errors.ShoalError, lambda error: for_error(error).response())
    app.register_error_handler(Exception, _unexpected)


def for_error(error: errors.ShoalError) -> ProblemError:
    """Return the problem for an error of the engine, with the code of its class.

    A failure without a status of its own is an `internal_error`.
    """
    problem = _for_error(error)
    if problem.status != HTTPStatus.INTERNAL_SERVER_ERROR:
        problem.code = error.code
    return problem


def _for_query(error: errors.QueryError) -> ProblemError:
    problem = field_problem(error.field, str(error))
    if isinstance(error, errors.FilterError):
        problem.code = error.code
        if error.start is not None:
            problem.members = {"start": error.start, "end": error.end}
    return problem


_OWN_STATUS = {
    errors.UploadDroppedError.code: 408,
    errors.VersionConflictError.code: 412,
    errors.RestrictedError.code: 403,
}


def _for_error(error: errors.ShoalError) -> ProblemError:
    match error:
        case (
            errors.InvalidFieldError()
            | errors.NoteError()
            | errors.SynonymError()
            | errors.PinError()
            | errors.CollectionNameError()
        ):
            return field_problem(error.field, error.message)
        case errors.QueryError():
            return _for_query(error)
        case errors.EmptyDocumentError() | errors.UndecodableDocumentError() | errors.FetchError():
            return field_problem("url" if isinstance(error, errors.FetchError) else "content", str(error))
        case errors.UnknownFormatError():
            return field_problem("format", str(error).removeprefix("format: "))
        case errors.DocumentTooLargeError():
            return ProblemError(413, str(error))
        case errors.DuplicateContentError():
            return ProblemError(409, str(error))
        case errors.NotFoundError() | errors.DocumentGoneError():
            return ProblemError(404, str(error))
        case errors.DocumentError():
            return ProblemError(422, str(error))
        case (
            errors.JobStateError()
            | errors.NoteStateError()
            | errors.SynonymConflictError()
            | errors.PinConflictError()
            | errors.CollectionExistsError()
            | errors.CollectionStateError()
        ):
            return ProblemError(409, str(error))
        case errors.IdempotencyError():
            return ProblemError(409, "this Idempotency-Key was used before for another request")
        case errors.UploadDroppedError() | errors.VersionConflictError() | errors.RestrictedError():
            return ProblemError(_OWN_STATUS[error.code], str(error))
        case _:
            return _for_failure(error)


def _for_failure(error: errors.ShoalError) -> ProblemError:
    """Return the problem for a failure of the service. Its message may name files, so it goes to the log
    only."""
    log.error("service failure", error=type(error).__name__, reason=str(error))
    retry = {"Retry-After": str(RETRY_SECONDS)}
    match error:
        case errors.DiskFullError():
            return ProblemError(507, DETAILS[507])
        case errors.ReadTimeoutError():
            return ProblemError(503, str(error), headers=retry)
        case errors.IndexBehindError() | errors.ReplicaBehindError():
            return ProblemError(503, str(error), code=error.code, headers={"Retry-After": "1"})
        case errors.CommitUnknownError():
            # Without Retry-After: what is sent again may be stored twice.
            return ProblemError(503, COMMIT_UNKNOWN)
        case errors.SourceError():
            return ProblemError(503, str(error), headers=retry if error.is_temporary else {})
        case errors.EncoderMismatchError():
            return ProblemError(503, str(error))
        case errors.EncoderUnavailableError():
            seconds = RETRY_SECONDS if error.retry_after is None else max(1, math.ceil(error.retry_after))
            return ProblemError(
                503,
                "the encoder does not answer; search in another mode, or try again",
                headers={"Retry-After": str(seconds)},
            )
        case errors.EncoderError():
            return ProblemError(
                503,
                "the encoder cannot be used; search in another mode. The log of the service has the reason",
            )
        case _:
            detail = next((detail for kind, detail in UNAVAILABLE if isinstance(error, kind)), None)
            return _internal() if detail is None else ProblemError(503, detail, headers=retry)


def _internal() -> ProblemError:
    return ProblemError(500, "internal error; the log of the service has details under this trace_id")


COMMIT_UNKNOWN = (
    "the database was lost while it stored this, so it may be stored or not: look before you send it again, "
    "or send it with the Idempotency-Key that it had"
)
UNAVAILABLE: tuple[tuple[type[errors.ShoalError], str], ...] = (
    (
        errors.DatabaseReplacedError,
        (
            "files of the database were removed or replaced while the service ran, so nothing can be stored; "
            "restart the service"
        ),
    ),
    (
        errors.ReadOnlyDatabaseError,
        (
            "the database takes no changes at the moment, so nothing was stored; searches go on. Try again, "
            "or ask the operator"
        ),
    ),
    (errors.DamagedDatabaseError, "the database is damaged; an operator must repair it (`shoal doctor`)"),
    (errors.DatabaseUnavailableError, "the database is busy or unavailable; try again"),
    (
        errors.SchemaError,
        (
            "the database has not the schema of this version of the service: run `shoal migrate`, or replace "
            "the service by the version that migrated it"
        ),
    ),
    (errors.BrokerUnavailableError, "the message broker is unavailable; try again"),
)
"""Details of failures that pass or that an operator ends; the first class that fits counts."""

DETAILS = {
    400: "the request is malformed",
    404: "there is nothing at this URL",
    405: "this URL does not support the method; `Allow` lists the supported ones",
    408: "the body did not arrive in time",
    413: "the body is larger than the limit",
    414: "the URL is too long",
    415: "the service cannot read a body of this content type",
    417: "the value of the header `Expect` is not supported",
    431: "the headers are too many or too long",
    503: "the service has too many open files at the moment; try again",
    507: "there is no space left on the server; nothing of this request was stored",
    501: "the transfer coding is not supported; send the body with a length or chunked",
}


def for_http_error(error: HTTPException) -> Response:
    """Return the response for an error of Flask, Werkzeug or webargs."""
    if error.code is None or error.code < 400:
        # A redirect.
        return Response.force_type(error.get_response())
    if error.code >= 500:
        return _unexpected(getattr(error, "original_exception", None) or error)
    headers = {name: value for name, value in error.get_headers() if name.lower() != "content-type"}
    invalid = flatten(getattr(error, "data", {}).get("messages", {}))
    if invalid:
        return fields_problem(invalid, error.code).response()
    if isinstance(error, ClientDisconnected):
        return ProblemError(400, "the body broke off").response()
    return ProblemError(error.code, DETAILS.get(error.code, error.name.lower()), headers=headers).response()


def _unexpected(error: BaseException) -> Response:
    if isinstance(error, OSError) and error.errno in TOO_MANY_FILES:
        log.error("no free file descriptor", reason=str(error))
        return ProblemError(503, DETAILS[503], headers={"Retry-After": str(RETRY_SECONDS)}).response()
    return unexpected_problem(error).response()


def unexpected_problem(error: BaseException | None = None) -> ProblemError:
    """Log an error that no caller caused, and return its problem."""
    # The module is above this one.
    from shoal_api.damage import diagnose

    log.error("unhandled error", exc_info=error)
    damage = None if error is None else diagnose(error)
    return _internal() if damage is None else for_error(damage)


def flatten(messages: Any) -> dict[str, list[str]]:
    """Return marshmallow's nested messages by dotted field.

    {"json": {"filters": {"tags": {0: [..]}}}} becomes {"filters.tags.0": [..]}. The outermost level, webargs'
    name for the location of the data, means nothing to the caller.
    """
    flat: dict[str, list[str]] = {}
    if isinstance(messages, Mapping):
        for inner in messages.values():
            _flatten(inner, "", flat)
    return flat


def _flatten(messages: Any, path: str, flat: dict[str, list[str]]) -> None:
    if isinstance(messages, Mapping):
        for name, inner in messages.items():
            step = "" if name == "_schema" else str(name)
            _flatten(inner, f"{path}.{step}".strip("."), flat)
    elif isinstance(messages, list | tuple):
        flat.setdefault(path or "body", []).extend(_as_phrase(str(message)) for message in messages)


def _as_phrase(message: str) -> str:
    """Return a message of marshmallow without its capital and full stop, as the other messages are
    written."""
    message = message.removesuffix(".")
    return message[:1].lower() + message[1:]
