"""Access control: API keys, or only the local machine where the service has no keys.

With keys, every route except a few public ones requires `Authorization: Bearer KEY`. Browsers do not add that
header by themselves, so the Host and Origin of a request need no check.

Without keys, the service listens on 127.0.0.1, where a browser on the same machine can still reach it. A
foreign page could submit forms to it (cross-site requests) or point its own host name at 127.0.0.1 (DNS
rebinding). This module refuses both.
"""

from __future__ import annotations

import re
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

READING_POSTS = re.compile(
    f"{API}/(search|explain|similarity|verify|retrieve|notes/(search|pinned|[^/]+/explain)|users/.+/recall)",
    re.DOTALL,
)
"""Routes and paths that only read although their method is POST: arguments can be too long for a URL."""

PUBLIC = frozenset({"/health", "/ready", "/docs", "/openapi.json", "/static/<path:filename>"})
"""Routes that need no key: health checks and the API description. They expose no stored content."""

CONSOLE = "console"
"""The blueprint of the console. Without a key, its pages show only their frame."""

SCHEME = "Bearer"
REALM = 'Bearer realm="shoal"'

DESCRIPTION = {
    "type": "http",
    "scheme": "bearer",
    "description": "a key from `SHOAL_API_KEYS`; not needed where the service has no keys",
}
"""Security scheme in the OpenAPI document."""


def register(app: flask.Flask, settings: Settings) -> None:
    """Check the key and the rate limit before every request of the application."""
    keys = parse_keys(settings.api_keys)
    limit = RateLimit(settings.rate_limit)

    @app.before_request
    def guard() -> None:
        request = flask.request
        if "Host" not in request.headers and request.environ.get("SERVER_PROTOCOL") == "HTTP/1.1":
            raise ProblemError(400, "the header Host is missing")
        if not keys:
            _check_same_site(request, settings)
        authorization = request.headers.get("Authorization")
        key = _presented_key(keys, authorization)
        flask.g.may_read = not keys or key is not None
        if is_public(request):
            return
        if key is not None:
            structlog.contextvars.bind_contextvars(key=key.name)
            KEY_NAME.set(key.name)
        # Before the key check, so that the rate limit also covers guessing of keys.
        limit.take(f"key {key.name}" if key else request.remote_addr or "")
        if keys and not _is_page_without_key(request):
            rule = request.url_rule.rule if request.url_rule else ""
            _check_scope(key, request.method, rule, authorization)


def check_authorization(keys: Sequence[ApiKey], method: str, path: str, authorization: str | None) -> None:
    """Raise a 401 or 403 problem if a service with these keys refuses such a request.

    For requests that have not reached the application. `authorization` is the header, None if absent.
    """
    if keys:
        _check_scope(_presented_key(keys, authorization), method, path.rstrip("/"), authorization)


def shows_frame_only() -> bool:
    """Whether the current request, for a console page, may see only the frame of the page."""
    return not flask.g.get("may_read", False)


def is_public(request: flask.Request) -> bool:
    """Whether a request needs no key. Unknown paths return 404 without a key, except below `/api/`."""
    if request.url_rule is None:
        return not request.path.startswith("/api/")
    return request.url_rule.rule in PUBLIC


def _is_page_without_key(request: flask.Request) -> bool:
    """Whether a browser requests a console page by its URL, which carries no key. The page then asks for
    one."""
    is_page = request.blueprint == CONSOLE or request.path == "/"
    return is_page and request.method in READING and "Authorization" not in request.headers


def _presented_key(keys: Sequence[ApiKey], authorization: str | None) -> ApiKey | None:
    """Return the key that a request carries; None if it carries no key or an unknown one."""
    scheme, _, presented = (authorization or "").partition(" ")
    if not keys or scheme.lower() != SCHEME.lower():
        return None
    return find_key(keys, presented.strip())


def _check_scope(key: ApiKey | None, method: str, rule: str, authorization: str | None) -> None:
    if key is None:
        is_given = authorization is not None
        raise ProblemError(
            401,
            "this key is not valid; send a valid one as `Authorization: Bearer KEY`"
            if is_given
            else "this service needs a key: send it as `Authorization: Bearer KEY`",
            headers={"WWW-Authenticate": f'{REALM}, error="invalid_token"' if is_given else REALM},
        )
    if key.scope is not Scope.write and method not in READING and not READING_POSTS.fullmatch(rule):
        raise ProblemError(
            403,
            "this key may only read and search",
            headers={"WWW-Authenticate": f'{REALM}, error="insufficient_scope", scope="write"'},
        )


def _check_same_site(request: flask.Request, settings: Settings) -> None:
    """Refuse requests that a foreign web page makes a browser send."""
    if not settings.allow_anonymous and not is_loopback(_host_name(request.host)):
        raise ProblemError(
            403,
            "this service has no keys and accepts requests for localhost only; set SHOAL_API_KEYS, or "
            "SHOAL_ALLOW_ANONYMOUS=1 if it runs behind a proxy that authenticates clients",
        )
    if request.method in READING:
        return
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if (origin and origin.split("://")[-1] != request.host) or site not in ("same-origin", "none"):
        raise ProblemError(403, "requests that change something are not accepted from pages of other sites")


def _host_name(host: str) -> str:
    """Return a Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0]
    return host.partition(":")[0]
