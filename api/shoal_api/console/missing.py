"""Pages for addresses, collections and keys that do not exist, for browsers; programs get a problem."""

from __future__ import annotations

import flask
from flask.globals import request_ctx
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response

from shoal.errors import CollectionNotFoundError
from shoal.support.collection_names import is_name
from shoal_api import service
from shoal_api.access import FIRST_KEY, NO_FIRST_KEY
from shoal_api.console.layout import PART, blueprint, respond
from shoal_api.paths import COLLECTION, CONSOLE_COLLECTIONS
from shoal_api.problems import ProblemError, for_error, for_http_error

PROGRAMS = ("/api/", "/static/")
"""Paths below which nothing is a page."""


@blueprint.app_errorhandler(404)
def show_missing(error: NotFound) -> Response:
    """Answer a request for an unknown address."""
    if not _wants_page():
        return for_http_error(error)
    if not is_name(service.collection_name()):
        _leave_collection()
    return respond("missing_page.html", {}, status=404)


@blueprint.app_errorhandler(CollectionNotFoundError)
def show_missing_collection(error: CollectionNotFoundError) -> Response:
    """Answer a request for a collection that does not exist, or was deleted."""
    return show_problem(for_error(error))


@blueprint.app_errorhandler(ProblemError)
def show_problem(problem: ProblemError) -> Response:
    """Answer with a problem document, or with a page if a browser asks for a collection or for keys.

    The page is the same for a collection that does not exist and one that the key does not open.
    """
    if problem.detail == NO_FIRST_KEY and _wants_page():
        return respond("no_first_key.html", {"command": FIRST_KEY}, status=problem.status)
    if problem.code != CollectionNotFoundError.code or not _wants_page():
        return problem.response()
    _leave_collection()
    return respond("missing_collection.html", {}, status=problem.status)


def _wants_page() -> bool:
    request = flask.request
    # A program that accepts anything accepts a problem document.
    kinds = request.accept_mimetypes
    wants_page = kinds.best_match(["application/problem+json", "text/html"]) == "text/html"
    return not request.path.startswith(PROGRAMS) and (wants_page or PART in request.headers)


def _leave_collection() -> None:
    """Let links of the page lead to `main`: those with the prefix of the request lead nowhere."""
    environ = flask.request.environ
    name = environ.pop(COLLECTION, None)
    flask.g.pop("bound", None)
    if name is not None:
        prefix = f"{CONSOLE_COLLECTIONS}/{name}"
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "").removesuffix(prefix)
        request_ctx.url_adapter = flask.current_app.create_url_adapter(flask.request)
