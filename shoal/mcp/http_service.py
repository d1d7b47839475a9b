"""The MCP server over HTTP (streamable HTTP, at `/mcp`), with the keys of the API.

With keys, every request needs `Authorization: Bearer KEY`; a key that may only read cannot call tools that
change something. Without keys, only clients that name this machine as the host are served, so that a
foreign page cannot point its own name at 127.0.0.1 (DNS rebinding). In both cases a request of a page of
another site is refused.

The service keeps no session: a client may send each request to another process, or after a restart.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from shoal.mcp.server import KEY, ShoalServer
from shoal.service.listen_address import is_loopback
from shoal.settings import Settings
from shoal.support.api_keys import ApiKey, find_key, parse_keys

PATH = "/mcp"
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_CONNECTIONS = 512
GRACE_SECONDS = 5
"""Time that requests in progress have to finish when the service stops."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Lets a request pass only with a valid key, or, without keys, from this machine."""

    def __init__(self, app: App, keys: Sequence[ApiKey], *, allow_any_host: bool) -> None:
        self._app = app
        self._keys = keys
        self._allow_any_host = allow_any_host or bool(keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = self._refusal_of_site(headers) or self._refusal_of_key(headers, scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal_of_site(self, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "")
        if not self._allow_any_host and not is_loopback(_host_name(host)):
            return _refusal(403, "this service has no keys and serves this machine only; set SHOAL_API_KEYS")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return _refusal(403, "requests of pages of other sites are refused")
        return None

    def _refusal_of_key(self, headers: Headers, scope: Scope) -> JSONResponse | None:
        """The refusal of a request without a valid key; the scope of any other one gets its key."""
        if not self._keys:
            return None
        scheme, _, presented = headers.get("authorization", "").partition(" ")
        key = find_key(self._keys, presented.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            return _refusal(401, "this service needs a valid key: send it as `Authorization: Bearer KEY`")
        scope[KEY] = key
        # Of the same client by the key: what one key began, another cannot continue.
        scope["user"] = AuthenticatedUser(AccessToken(token=key.name, client_id=key.name, scopes=[key.scope]))
        return None


def make_app(server: ShoalServer, settings: Settings) -> App:
    """Return the ASGI application of a server. Raises ValueError for invalid keys."""
    keys = parse_keys(settings.api_keys)
    server.has_keys = bool(keys)
    app: Starlette = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=MAX_BODY_BYTES,
        # Guard checks the host and the origin.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    run_sessions = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[Any]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.api_threads
        async with run_sessions(application) as state:
            yield state

    app.router.lifespan_context = lifespan
    return Guard(app, keys, allow_any_host=settings.allow_anonymous)


def serve(
    server: ShoalServer, settings: Settings, host: str, port: int, *, listens: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM. `listens` is called once with the address. Raises OSError."""
    config = uvicorn.Config(
        make_app(server, settings),
        log_config=None,
        access_log=False,
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
    )
    with _listening(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        listens(f"http://{name}:{listener.getsockname()[1]}{PATH}")
        uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=MAX_CONNECTIONS)


def _refusal(status: int, detail: str) -> JSONResponse:
    headers = {"WWW-Authenticate": 'Bearer realm="shoal"'} if status == 401 else None
    return JSONResponse({"error": detail}, status, headers)


def _host_name(host: str) -> str:
    """A Host header without its port."""
    return host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
