"""The MCP server over HTTP (streamable HTTP, at `/mcp`), with the keys of the API.

With keys, every request needs `Authorization: Bearer KEY`; a key needs a right in the collection that is
served, and cannot call tools that change something with the right to read alone. Without keys, only clients
that name this machine as the host are served, so that a foreign page cannot point its own name at 127.0.0.1
(DNS rebinding). In both cases a request of a page of another site is refused.

The service keeps no session: a client may send each request to another process, or after a restart. uvicorn
serves it with the limits of connections of every server.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, cast

import anyio.to_thread
import h11
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from shoal.access.authentication import Authenticator
from shoal.access.authentication import Refusal as Refused
from shoal.access.key_store import KeyStore
from shoal.access.rate_limit import RateLimit
from shoal.access.rights import ANYBODY, Access, Verdict, judge
from shoal.collections.catalog import Catalog, Collection
from shoal.errors import StorageError
from shoal.mcp.server import ACCESS, ShoalServer
from shoal.models.keys import Needed
from shoal.service import connection_limits
from shoal.service.addresses import is_for_this_machine, is_same_site
from shoal.service.connection_limits import (
    IDLE_SECONDS,
    MAINTENANCE_SECONDS,
    MAX_HEAD,
    ConnectionLimits,
    Phase,
    Progress,
    is_overdue,
    longest_idle,
    status_of_head,
)
from shoal.service.process_setup import TOO_MANY_FILES, SpareFile, fit_connections
from shoal.settings import Settings

PATH = "/mcp"
METHOD = "POST"
MAX_BODY_BYTES = 4 * 1024 * 1024

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Lets a request pass only with a key for the collection that is served, or, without keys, from this
    machine."""

    def __init__(
        self, app: App, authenticator: Authenticator, collection: Collection, settings: Settings
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._collection = collection
        self._allow_any_host = settings.allow_anonymous
        self._proxies = settings.proxies
        self._limit = RateLimit(settings.rate_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            # In a thread, because it may read the catalog.
            refusal = await anyio.to_thread.run_sync(self._refusal, headers, scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers, scope: Scope) -> JSONResponse | None:
        """The refusal of a request, if any; the scope of any other one gets what its sender may do."""
        refusal = _refusal_of_head(scope)
        if refusal is not None:
            return refusal
        try:
            caller = self._authenticator.identify(headers.get("authorization"))
        except StorageError:
            return _refusal(503, "the keys cannot be read; try again", {"Retry-After": "5"})
        refusal = self._refusal_of_site(headers, is_anonymous=caller is ANYBODY)
        if refusal is not None:
            return refusal
        access = caller if isinstance(caller, Access) else None
        excess = self._limit.take_for(access, self._address_of(headers, scope))
        if excess is not None:
            return _refusal(429, excess.detail, {"Retry-After": str(excess.seconds)})
        if isinstance(caller, Refused):
            unknown = "this service needs a valid key: send it as `Authorization: Bearer KEY`"
            is_known = caller in (Refused.expired, Refused.revoked)
            header = {"WWW-Authenticate": 'Bearer realm="shoal"'}
            return _refusal(401, caller.detail if is_known else unknown, header)
        if judge(Needed.read, caller, self._collection.id) is not Verdict.allowed:
            return _refusal(404, f"this key does not open the collection {self._collection.name!r}")
        if scope["path"] == PATH and scope["method"] != METHOD:
            # The SDK would open an event stream for GET, without end and without events.
            return _refusal(
                405, f"this service keeps no sessions: send each message by {METHOD}", {"Allow": METHOD}
            )
        scope[ACCESS] = caller
        if caller is not ANYBODY:
            # Of the same client by the key: what one key began, another cannot continue.
            client = caller.key_id or caller.name
            token = AccessToken(token=client, client_id=client, scopes=[])
            scope["user"] = AuthenticatedUser(token)
        return None

    def _address_of(self, headers: Headers, scope: Scope) -> str:
        """The address of the client, as the trusted proxies saw it."""
        seen = [entry for line in headers.getlist("x-forwarded-for") for entry in line.split(",")]
        if 0 < self._proxies <= len(seen):
            return seen[-self._proxies].strip()
        client = scope.get("client")
        return str(client[0]) if client else ""

    def _refusal_of_site(self, headers: Headers, *, is_anonymous: bool) -> JSONResponse | None:
        host = headers.get("host", "")
        if is_anonymous and not self._allow_any_host and not is_for_this_machine(host):
            return _refusal(
                403, "this service has no keys and serves this machine only; `shoal key create` makes one"
            )
        origin = headers.get("origin")
        if origin is not None and not is_same_site(origin, host):
            return _refusal(403, "requests of pages of other sites are refused")
        return None


def make_app(server: ShoalServer, settings: Settings) -> App:
    """Return the ASGI application of a server. Raises ValueError for invalid keys, CollectionNotFoundError,
    StorageError."""
    catalog = Catalog(settings)
    authenticator = Authenticator(settings, KeyStore(catalog))
    collection = catalog.find(settings.collection)
    server.collection_id = collection.id
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
        await anyio.to_thread.run_sync(authenticator.close)
        catalog.close()

    app.router.lifespan_context = lifespan
    return Guard(app, authenticator, collection, settings)


def serve(
    server: ShoalServer, settings: Settings, host: str, port: int, *, listens: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM. `listens` is called once with the address.

    Raises OSError, and SettingsError if the limit of open files is too low.
    """
    settings = fit_connections(settings, n_collections=0, service="shoal.mcp")
    config = Config(make_app(server, settings), settings)
    with _listening(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        listens(f"http://{name}:{listener.getsockname()[1]}{PATH}")
        Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def _refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": detail}, status, headers)


def _refusal_of_head(scope: Scope) -> JSONResponse | None:
    query = scope["query_string"]
    line_bytes = len(f"{scope['method']}  HTTP/1.1") + len(scope["raw_path"]) + len(query) + bool(query)
    status = status_of_head(line_bytes, scope["headers"])
    return None if status is None else _refusal(status, HTTPStatus(status).phrase.lower())


GRACE_SECONDS = 5
"""Time that requests in progress have to finish when the service stops."""

BACKLOG = 100
"""Connections that wait to be accepted. asyncio accepts up to as many in one round."""

TICKS_PER_SECOND = 10
"""How often uvicorn calls `on_tick`."""

LATE_BODY = "the body did not arrive in time"


class Config(uvicorn.Config):
    """A configuration with limits of connections."""

    def __init__(self, app: Any, settings: Settings) -> None:
        self.connection_limits = ConnectionLimits.of(settings)
        super().__init__(
            app,
            http=Connection,
            loop="asyncio",
            ws="none",
            log_config=None,
            access_log=False,
            backlog=BACKLOG,
            h11_max_incomplete_event_size=MAX_HEAD,
            # Connections never reach it; requests may, because they can run on when their client has gone.
            limit_concurrency=self.connection_limits.in_all + 1,
            timeout_keep_alive=int(IDLE_SECONDS),
            timeout_graceful_shutdown=GRACE_SECONDS,
            server_header=False,
            # The application reads X-Forwarded-For, as SHOAL_PROXIES says.
            proxy_headers=False,
        )


class Connection(H11Protocol):
    """A connection. Times are those of `time.monotonic()`."""

    config: Config

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection that is one too many, which may be this one."""
        super().connection_made(transport)
        self._began = self._last_activity = time.monotonic()
        self._received_bytes = self._unsent_bytes = 0
        # The set is typed for every protocol of uvicorn.
        surplus = self.config.connection_limits.surplus(self, cast("set[Connection]", self.connections))
        if surplus is not None:
            surplus.end()

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def progress(self) -> Progress:
        """How far the present request is."""
        return Progress(self._phase, self._began, self._last_activity, self._received_bytes)

    @property
    def _phase(self) -> Phase:
        cycle = self.cycle
        is_answered = cycle is None or cycle.response_complete
        if self.transport.get_write_buffer_size():
            return Phase.sending
        if not is_answered:
            return Phase.body if cycle.more_body and not self.flow.read_paused else Phase.working
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.lingering
        return Phase.head if self.conn.trailing_data[0] else Phase.idle

    def data_received(self, data: bytes) -> None:
        """Process data from the client."""
        self._last_activity = time.monotonic()
        phase = self._phase
        if phase is Phase.idle:
            self._begin()
        self._received_bytes += len(data)
        if phase is Phase.lingering and self._received_bytes > connection_limits.LINGER_BYTES:
            self.end()
        else:
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for the rest of a body that the response did not need."""
        self._begin()
        super().on_response_complete()

    def _begin(self) -> None:
        self._began, self._received_bytes = time.monotonic(), 0

    def end_if_slow(self, now: float) -> None:
        """Close the connection, or respond 408, if the client takes too long."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self._last_activity = now
        self._unsent_bytes = unsent_bytes
        progress = self.progress
        if not is_overdue(progress, now):
            return
        if progress.phase is Phase.body and not self.cycle.response_started:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, LATE_BODY)
        else:
            self.end()

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Respond in place of the application, and close the connection."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        body = json.dumps({"error": detail}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=status.phrase),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def end(self) -> None:
        """Close the connection at once."""
        self.connections.discard(self)
        self.transport.abort()


class Server(uvicorn.Server):
    """A server that closes the connections of slow clients, and refuses new ones if files run out."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        self._spare_file = SpareFile()
        self._listeners = sockets or []
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        await super().startup(sockets)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Make room for connections that cannot be accepted without a free file descriptor.

        asyncio accepts connections again after a second. Idle connections are closed until then; if there is
        none, the waiting connections are refused.
        """
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in TOO_MANY_FILES and "socket" in context):
            loop.default_exception_handler(context)
            return
        for n_closed in range(BACKLOG):
            idle = longest_idle(cast("set[Connection]", self.server_state.connections))
            if idle is None:
                if not n_closed:
                    self._refuse_waiting()
                return
            idle.end()

    def _refuse_waiting(self) -> None:
        for listener in self._listeners:
            for _ in range(BACKLOG):
                if not self._spare_file.refuse(listener):
                    break

    async def on_tick(self, counter: int) -> bool:
        """Look for slow clients once in MAINTENANCE_SECONDS; return whether to stop."""
        if counter % (TICKS_PER_SECOND * MAINTENANCE_SECONDS) == 0:
            now = time.monotonic()
            for connection in cast("list[Connection]", list(self.server_state.connections)):
                connection.end_if_slow(now)
        return await super().on_tick(counter)
