"""Reading what was written: tokens in answers to writes, and searches that wait for them.

A search on a replica may come before what its caller wrote. The answer to a write has a token, and a search
that sends it back waits briefly until the replica and the index of this machine have it.
"""

from __future__ import annotations

import flask
import structlog
from werkzeug.wrappers import Response

from shoal.errors import StorageError
from shoal_api import service

WRITTEN = "Shoal-Written"
READ_AFTER = "Shoal-Read-After"
SEARCHES = frozenset({"search", "search_batch", "facets", "similarity"})
"""Blueprints whose requests read the index."""
ANSWERED = frozenset({"jobs"})
"""Blueprints whose answers to GET may tell of new documents."""

log = structlog.get_logger("shoal.api")


def register(app: flask.Flask) -> None:
    """Let searches of the application wait, and give answers to writes a token."""

    @app.before_request
    def wait() -> None:
        if not _is_search():
            return
        engine = service.current().engine
        token = flask.request.headers.get(READ_AFTER, "").strip()
        if token:
            engine.await_written(token)
        engine.check_index()

    @app.after_request
    def mark(response: Response) -> Response:
        if response.status_code < 400 and _is_write():
            try:
                response.headers[WRITTEN] = service.current().engine.written()
            except StorageError as error:
                # What was written is stored all the same.
                log.warning("answer without a token", reason=str(error))
            except Exception:
                # An answer that says that something is stored must not become an error.
                log.exception("answer without a token")
        return response


def _is_search() -> bool:
    return flask.request.blueprint in SEARCHES


def _is_write() -> bool:
    request = flask.request
    if request.blueprint is None or _is_search():
        return False
    return request.method not in ("GET", "HEAD", "OPTIONS") or request.blueprint in ANSWERED
