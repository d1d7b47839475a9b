"""Who may talk to a service that has no keys: this machine, and no web page of somebody else's.

A service on 127.0.0.1 is still reached by the browser of whoever runs it. A foreign page can send it forms
(cross-site requests) or point a name of its own at 127.0.0.1 (DNS rebinding). Both are refused here.
"""

from __future__ import annotations

import flask

from shoal.binding import is_loopback
from shoal.settings import Settings
from shoal_api.problems import ProblemError

READING = frozenset({"GET", "HEAD", "OPTIONS"})


def register(app: flask.Flask, settings: Settings) -> None:
    """Refuse what a foreign web page makes a browser send."""

    @app.before_request
    def guard() -> None:
        request = flask.request
        if not settings.allow_anonymous and not is_loopback(_name(request.host)):
            raise ProblemError(
                403,
                "this service answers to localhost only; set SHOAL_ALLOW_ANONYMOUS=1 if it stands behind a proxy",
            )
        origin = request.headers.get("Origin")
        if request.method not in READING and origin and origin.split("://")[-1] != request.host:
            raise ProblemError(403, "requests that change something are not taken from other sites' pages")


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]
