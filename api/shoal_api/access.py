"""Who may talk to the service: whoever has a key; where there are no keys, this machine.

With keys, all but a few public pages asks for `Authorization: Bearer KEY`. Browsers send that for no page but one
that has the key, so neither the name a request goes to nor the site it comes from matters then.

A service without keys on 127.0.0.1 is still reached by the browser of whoever runs it. A foreign page can send it
forms (cross-site requests) or point a name of its own at 127.0.0.1 (DNS rebinding). Both are refused here.
"""

from __future__ import annotations

from collections.abc import Sequence

import flask
import structlog

from shoal.service.listen_address import is_loopback
from shoal.settings import Settings
from shoal.support.api_keys import ApiKey, Scope, find_key, parse_keys
from shoal.support.request_context import KEY_NAME
from shoal_api.limits import RateLimit
from shoal_api.paths import API
from shoal_api.problems import ProblemError

READING = frozenset({"GET", "HEAD", "OPTIONS"})

READING_POSTS = frozenset({f"{API}/search", f"{API}/explain"})
"""Rules whose POST changes nothing: their arguments are too many for an address."""

PUBLIC = frozenset({"/health", "/ready", "/docs", "/openapi.json", "/static/<path:filename>"})
"""Rules that ask for no key: whether the service is well, and what it is. No byte of anybody's documents."""

CONSOLE = "console"
"""The blueprint of the pages for people: without a key they show their frame and nothing else."""

SCHEME = "Bearer"
REALM = 'Bearer realm="shoal"'

DESCRIPTION = {
    "type": "http",
    "scheme": "bearer",
    "description": "a key of `SHOAL_API_KEYS`; a service that has none asks for none",
}
"""The security scheme of the OpenAPI document."""


def register(app: flask.Flask, settings: Settings) -> None:
    """Refuse whoever may not, and whoever asks too often."""
    keys = parse_keys(settings.api_keys)
    limit = RateLimit(settings.rate_limit)

    @app.before_request
    def guard() -> None:
        request = flask.request
        if "Host" not in request.headers and request.environ.get("SERVER_PROTOCOL") == "HTTP/1.1":
            raise ProblemError(400, "the header Host is missing")
        if not keys:
            _only_from_here(request, settings)
        authorization = request.headers.get("Authorization")
        key = _key_of(keys, authorization)
        flask.g.may_read = not keys or key is not None
        if is_public(request):
            return
        if key is not None:
            structlog.contextvars.bind_contextvars(key=key.name)
            KEY_NAME.set(key.name)
        # Before a wrong key is refused, so that nobody tries keys without end.
        limit.take(f"key {key.name}" if key else request.remote_addr or "")
        if keys and not _is_frame(request):
            rule = request.url_rule.rule if request.url_rule else ""
            _check_scope(key, request.method, rule, authorization)


def check_authorization(keys: Sequence[ApiKey], method: str, path: str, authorization: str | None) -> None:
    """Raise a 401 or 403 problem where a service with these keys refuses such a request.

    For requests that the application has not seen yet. `authorization` is the header, None where it is absent.
    """
    if keys:
        _check_scope(_key_of(keys, authorization), method, path.rstrip("/"), authorization)


def shows_frame_only() -> bool:
    """Whether the request at hand, of a page of the console, may see no more than the page without its contents."""
    return not flask.g.get("may_read", False)


def is_public(request: flask.Request) -> bool:
    """Whether a request needs no key. What leads nowhere is told so, but not where the API is."""
    if request.url_rule is None:
        return not request.path.startswith("/api/")
    return request.url_rule.rule in PUBLIC


def _is_frame(request: flask.Request) -> bool:
    """Whether a browser asks for a page of the console by its address, which carries no key. The page asks for it."""
    is_page = request.blueprint == CONSOLE or request.path == "/"
    return is_page and request.method in READING and "Authorization" not in request.headers


def _key_of(keys: Sequence[ApiKey], authorization: str | None) -> ApiKey | None:
    """The key that a request carries; None if it has none, or an unknown one."""
    scheme, _, presented = (authorization or "").partition(" ")
    if not keys or scheme.lower() != SCHEME.lower():
        return None
    return find_key(keys, presented.strip())


def _check_scope(key: ApiKey | None, method: str, rule: str, authorization: str | None) -> None:
    if key is None:
        is_given = authorization is not None
        raise ProblemError(
            401,
            "this key is not known here; send one of the service's as `Authorization: Bearer KEY`"
            if is_given
            else "this service asks for a key: send it as `Authorization: Bearer KEY`",
            headers={"WWW-Authenticate": f'{REALM}, error="invalid_token"' if is_given else REALM},
        )
    if key.scope is not Scope.write and method not in READING and rule not in READING_POSTS:
        raise ProblemError(
            403,
            "this key may read and search, but change nothing",
            headers={"WWW-Authenticate": f'{REALM}, error="insufficient_scope", scope="write"'},
        )


def _only_from_here(request: flask.Request, settings: Settings) -> None:
    """Refuse what a foreign web page makes a browser send."""
    if not settings.allow_anonymous and not is_loopback(_name(request.host)):
        raise ProblemError(
            403,
            "this service has no keys and answers to localhost only; set SHOAL_API_KEYS, or SHOAL_ALLOW_ANONYMOUS=1 "
            "if it stands behind a proxy that keeps strangers away",
        )
    if request.method in READING:
        return
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if (origin and origin.split("://")[-1] != request.host) or site not in ("same-origin", "none"):
        raise ProblemError(403, "requests that change something are not taken from other sites' pages")


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]
