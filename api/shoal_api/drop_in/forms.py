"""Errors in the form that each interface has for them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.declared.operations.drop_in import DIFY, OPENAI
from shoal.errors import CollectionNotFoundError
from shoal.settings import Settings
from shoal.settings.checks import interfaces_of
from shoal_api.problems import CONTENT_TYPE

Problem = Mapping[str, Any]
_BEARER = re.compile(r"Bearer \S+", re.IGNORECASE)
BAD_HEADER, REFUSED, NO_KNOWLEDGE = 1001, 1002, 2001
"""The codes of Dify's contract; other errors have their status as the code."""


def form_of(
    settings: Settings, path: str, problem: Problem, authorization: str | None
) -> tuple[int, dict[str, Any]] | None:
    """Return the status and the body of an error in the form of the interface of a path; None for a path of
    the API, or of an interface that is off."""
    for name in interfaces_of(settings.drop_in):
        begin, form = FORMS[name]
        if path.startswith(f"{begin}/"):
            return form(problem, authorization)
    return None


def _of_dify(problem: Problem, authorization: str | None) -> tuple[int, dict[str, Any]]:
    status = code = int(problem["status"])
    if status in (401, 403):
        # The contract has no 401.
        status, code = 403, REFUSED if _BEARER.fullmatch(authorization or "") else BAD_HEADER
    elif problem["code"] == CollectionNotFoundError.code:
        code = NO_KNOWLEDGE
    return status, {"error_code": code, "error_msg": message_of(problem)}


def _of_openai(problem: Problem, _authorization: str | None) -> tuple[int, dict[str, Any]]:
    # Its clients send 409 again, and take 422 for something else.
    status = {409: 400, 422: 400}.get(problem["status"], int(problem["status"]))
    kind = (
        "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    )
    error = {
        "message": message_of(problem),
        "type": kind,
        "param": next(iter(problem.get("errors", {})), None),
        "code": problem["code"],
    }
    return status, {"error": error}


FORMS = {"dify": (DIFY, _of_dify), "openai": (OPENAI, _of_openai)}
"""What the paths of each interface begin with, and the form of its errors."""


def message_of(problem: Problem) -> str:
    """Return the message of a problem, with what is wrong with each field."""
    errors = [
        # The message about a filter names the place in the conditions that were sent.
        message if field == "filter" else f"{field}: {message}"
        for field, messages in problem.get("errors", {}).items()
        for message in messages
    ]
    return "; ".join(errors) or str(problem["detail"])


def register(app: flask.Flask, settings: Settings) -> None:
    """Give errors the form of the interface that the request speaks."""

    @app.after_request
    def answer(response: Response) -> Response:
        if response.content_type != CONTENT_TYPE:
            return response
        request = flask.request
        problem = json.loads(response.get_data())
        form = form_of(settings, request.path, problem, request.headers.get("Authorization"))
        if form is not None:
            response.status_code, body = form
            response.data = json.dumps(body)
            response.content_type = "application/json"
        return response
