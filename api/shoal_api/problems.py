"""Errors as RFC 9457 problem details: one shape for everything that goes wrong, one place that makes it.

A `detail` is written for the caller. It never holds a traceback, SQL, or a path of the server: what is known
about a storage failure goes to the log, under the trace id that the answer carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import flask
import structlog
from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.wrappers import Response

from shoal import errors
from shoal_api.trace import trace_id

CONTENT_TYPE = "application/problem+json"
RETRY_SECONDS = 5
"""What `Retry-After` says while the database is away: about as long as a restart takes."""

MAX_ERRORS = 20
"""Messages in one answer. A mistake in the first of 100,000 values is most likely in all of them."""
MAX_NAME_CHARS = 80
MAX_MESSAGE_CHARS = 1000
"""Of the name of a field, and of what is said of it: both may repeat what was sent."""

log = structlog.get_logger("shoal.api")

Messages = Mapping[str, list[str]]


class ProblemError(Exception):
    """An answer other than success, raised from anywhere while a request is handled.

    `errors` maps the name of a field (dotted where nested) to what is wrong with it; `members` are further
    members of the problem object.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Messages | None = None,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.members = dict(members or {})

    def response(self) -> Response:
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = self.errors
        body |= self.members
        body["trace_id"] = trace_id()
        response = flask.make_response(flask.json.dumps(body), self.status, self.headers)
        response.content_type = CONTENT_TYPE
        return response


def field_problem(field: str, *messages: str) -> ProblemError:
    """422 for one field."""
    return fields_problem({field: list(messages)})


def fields_problem(wrong: dict[str, list[str]], status: int = 422) -> ProblemError:
    """The reasons stand in `errors` alone, so that whoever shows both does not say everything twice."""
    shown, n_others = shorten(wrong)
    others = f"; {n_others:,} more errors are not listed" if n_others else ""
    return ProblemError(status, f"cannot use {', '.join(shown)}{others}", errors=shown)


def shorten(wrong: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], int]:
    """The first messages about fields, and how many others there are."""
    shown: dict[str, list[str]] = {}
    n_messages = 0
    for name, messages in wrong.items():
        for message in messages[: max(0, MAX_ERRORS - n_messages)]:
            shown.setdefault(name[:MAX_NAME_CHARS], []).append(message[:MAX_MESSAGE_CHARS])
        n_messages += len(messages)
    return shown, max(0, n_messages - MAX_ERRORS)


def register(app: flask.Flask) -> None:
    """Make every error of the application a problem."""
    app.register_error_handler(ProblemError, lambda problem: problem.response())
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(errors.ShoalError, lambda error: for_error(error).response())
    app.register_error_handler(Exception, _unexpected)


def for_error(error: errors.ShoalError) -> ProblemError:
    """The problem that says what an error of ours means to the caller."""
    match error:
        case errors.InvalidFieldError():
            return field_problem(error.field, error.message)
        case errors.QueryError():
            return field_problem(error.field, str(error))
        case errors.EmptyDocumentError() | errors.UndecodableDocumentError():
            return field_problem("content", str(error))
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
        case errors.JobStateError():
            return ProblemError(409, str(error))
        case errors.IdempotencyError():
            return ProblemError(409, "this Idempotency-Key was used before for another request")
        case errors.UploadDroppedError():
            return ProblemError(408, str(error))
        case _:
            return _for_failure(error)


def _for_failure(error: errors.ShoalError) -> ProblemError:
    """Of the service rather than of the request. Their messages may name files, so they go to the log."""
    log.error("service failure", error=type(error).__name__, reason=str(error))
    retry = {"Retry-After": str(RETRY_SECONDS)}
    match error:
        case errors.DiskFullError():
            return ProblemError(507, DETAILS[507])
        case errors.ReadTimeoutError():
            return ProblemError(503, str(error), headers=retry)
        case errors.DatabaseReplacedError():
            return ProblemError(
                503,
                "files of the database were removed or replaced while the service ran, so nothing can be stored; the "
                "service has to be restarted",
                headers=retry,
            )
        case errors.DamagedDatabaseError():
            return ProblemError(
                503,
                "the database is damaged; those who run the service repair it (`shoal doctor`)",
                headers=retry,
            )
        case errors.DatabaseUnavailableError():
            return ProblemError(503, "the database is busy or away; try again", headers=retry)
        case errors.SchemaError():
            return ProblemError(
                503, "the database is not prepared for this version of the service", headers=retry
            )
        case errors.BrokerUnavailableError():
            return ProblemError(503, "the message broker is away; try again", headers=retry)
        case _:
            return _internal()


def _internal() -> ProblemError:
    return ProblemError(500, "something went wrong in the service; its log tells more under this trace_id")


DETAILS = {
    400: "the request is malformed",
    404: "there is nothing at this address",
    405: "this address does not support the method; `Allow` lists those it does",
    408: "the body did not arrive in time",
    413: "the body is larger than this service takes",
    414: "the address is too long",
    415: "the service cannot read a body of this content type",
    417: "the service does not know what the header `Expect` asks for",
    431: "the headers are too many or too long",
    507: "there is no space left on the server; nothing of this request was stored",
    501: "the service knows no such transfer coding; send the body plainly or in chunks",
}


def _http_error(error: HTTPException) -> Response:
    """An error that Flask, Werkzeug or webargs raised."""
    if error.code is None or error.code < 400:
        # A redirect on its way out.
        return Response.force_type(error.get_response())
    if error.code >= 500:
        return _unexpected(getattr(error, "original_exception", None) or error)
    headers = {name: value for name, value in error.get_headers() if name.lower() != "content-type"}
    wrong = flatten(getattr(error, "data", {}).get("messages", {}))
    if wrong:
        return fields_problem(wrong, error.code).response()
    if isinstance(error, ClientDisconnected):
        return ProblemError(400, "the body broke off").response()
    return ProblemError(error.code, DETAILS.get(error.code, error.name.lower()), headers=headers).response()


def _unexpected(error: BaseException) -> Response:
    log.error("unhandled error", exc_info=error)
    return _internal().response()


def flatten(messages: Any) -> dict[str, list[str]]:
    """marshmallow's nested messages as dotted fields: {"json": {"filters": {"tags": {0: [..]}}}} -> filters.tags.0.

    The outermost level is webargs' name of where the data came from, which says nothing to the caller.
    """
    found: dict[str, list[str]] = {}
    if isinstance(messages, Mapping):
        for inner in messages.values():
            _flatten(inner, "", found)
    return found


def _flatten(messages: Any, path: str, found: dict[str, list[str]]) -> None:
    if isinstance(messages, Mapping):
        for name, inner in messages.items():
            step = "" if name == "_schema" else str(name)
            _flatten(inner, f"{path}.{step}".strip("."), found)
    elif isinstance(messages, list | tuple):
        found.setdefault(path or "body", []).extend(_sentence(str(message)) for message in messages)


def _sentence(message: str) -> str:
    """marshmallow's messages in the style of ours: no capital, no full stop."""
    message = message.removesuffix(".")
    return message[:1].lower() + message[1:]
