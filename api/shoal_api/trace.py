"""Trace id, log line and metrics of each request, and the headers of every response."""

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
    # API responses are not pages; pages set their own policy.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}

QUIET = {"/health", "/ready", "/metrics"}
"""Routes that machines request every few seconds: logged at debug level unless they fail."""

log = structlog.get_logger("shoal.api")


def trace_id() -> str:
    """Return the trace id of the current request, as in the log, the response header and problems."""
    # Created on first use, because an invalid Host header fails before any hook runs.
    if "trace_id" not in flask.g:
        flask.g.trace_id = uuid.uuid4().hex
        flask.g.started = time.perf_counter()
    current: str = flask.g.trace_id
    return current


def register(app: flask.Flask, metrics: Metrics) -> None:
    """Trace every request of the application."""

    @app.before_request
    def begin() -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(trace_id=trace_id())
        TRACE_ID.set(trace_id())

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        # The thread next handles another request.
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
        if "bound" in flask.g:
            metrics.observe_collection(flask.g.bound.collection.name, response.status_code, seconds)
        quiet = request.path in QUIET and response.status_code < 400
        log.log(
            logging.DEBUG if quiet else logging.INFO,
            "request",
            method=request.method,
            # Quoted again: a decoded path may hold line breaks, and log readers work line by line.
            path=quote(request.path),
            status=response.status_code,
            ms=round(seconds * 1000, 1),
        )
        return response
