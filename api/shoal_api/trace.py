"""What every request leaves behind: a trace id, a line in the log, a count; and the headers every answer carries."""

from __future__ import annotations

import logging
import time
import uuid
from urllib.parse import quote

import flask
import structlog
from werkzeug.wrappers import Response

from shoal.support.request_context import KEY_NAME, TRACE_ID
from shoal_api.metrics import Metrics

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Nothing the API answers is a page; the pages set a policy of their own.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}

QUIET = {"/health", "/ready", "/metrics"}
"""Asked every few seconds by machines: logged at debug unless something is wrong."""

log = structlog.get_logger("shoal.api")


def trace_id() -> str:
    """The id of the request at hand: in the log, in the header of its answer, in the problem it ends in."""
    # Made when first asked for: an unusable Host header fails before any hook runs.
    if "trace_id" not in flask.g:
        flask.g.trace_id = uuid.uuid4().hex
        flask.g.started = time.perf_counter()
    found: str = flask.g.trace_id
    return found


def register(app: flask.Flask, metrics: Metrics) -> None:
    """Trace every request of the application."""

    @app.before_request
    def begin() -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(trace_id=trace_id())
        TRACE_ID.set(trace_id())

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        # What the thread does next is no part of this request.
        TRACE_ID.set(None)
        KEY_NAME.set(None)

    @app.after_request
    def end(response: Response) -> Response:
        response.headers["X-Trace-Id"] = trace_id()
        seconds = time.perf_counter() - flask.g.started
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        request = flask.request
        rule = request.url_rule.rule if request.url_rule else "(none)"
        metrics.observe(request.method, rule, response.status_code, seconds)
        quiet = request.path in QUIET and response.status_code < 400
        log.log(
            logging.DEBUG if quiet else logging.INFO,
            "request",
            method=request.method,
            # Quoted again: a decoded path may hold line breaks, and the log is read line by line.
            path=quote(request.path),
            status=response.status_code,
            ms=round(seconds * 1000, 1),
        )
        return response
