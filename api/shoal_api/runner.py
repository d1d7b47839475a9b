"""Serving the application: gunicorn, one process with threads, on a socket bound before anything else.

One process is enough: answering is mostly waiting for SQLite and numpy, which let other threads run, and one
process holds one copy of the scorer. gunicorn's master restarts it should it ever die.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import structlog
from gunicorn.app.base import BaseApplication

from shoal import logs
from shoal.binding import check_binding
from shoal.errors import ShoalError
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal_api.app import create_app
from shoal_api.bodies import whole_bodies
from shoal_api.connections import OPTIONS, ConnectionLog, Worker, taking_turns
from shoal_api.service import EXTENSION, Service

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

GRACE_SECONDS = 30
"""How long requests in progress have to end after SIGTERM."""

KEEPALIVE_SECONDS = 5
BACKLOG = 128


class ServiceError(ShoalError):
    """The service cannot start; the message says why and what to do."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises SettingsError, ServiceError or StorageError where it cannot start.

    Leaves by SystemExit, as gunicorn does.
    """
    check_binding(settings)
    logs.configure(settings, service="api")
    listener = bind(settings.host, settings.port)
    _prepare_database(settings)
    if settings.api_key and not settings.api_keys:
        structlog.get_logger("shoal.api").warning(
            "the service has no keys: SHOAL_API_KEY is what commands send, its own are SHOAL_API_KEYS"
        )
    host, port = listener.getsockname()[:2]
    structlog.get_logger("shoal.api").info("listening", url=url(host, port), threads=settings.api_threads)
    _Gunicorn(settings, listener).run()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ServiceError with what is in the way."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ServiceError(f"cannot listen on {host!r}: {error.strerror or error}") from error
    # Else a port is taken for a minute after a restart.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ServiceError(_obstacle(error, host, port)) from error
    return listener


def url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _obstacle(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} on {host} is taken by another program; stop that one or choose another port "
                "(SHOAL_PORT, `--port`)"
            )
        case errno.EACCES:
            return f"port {port} needs more rights than this user has; choose one from 1024"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine"
        case _:
            return f"cannot listen on {host}, port {port}: {error.strerror}"


def _prepare_database(settings: Settings) -> None:
    """Migrate here: the process that serves would only die of a problem, and be restarted to die again."""
    database = Database(settings.database_url)
    try:
        migrate.upgrade(database)
    finally:
        database.close()


class _Gunicorn(BaseApplication):  # type: ignore[misc]
    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings = settings
        self._listener = listener
        self._service: Service | None = None
        super().__init__()

    def stop_waiting(self) -> None:
        if self._service is not None:
            self._service.end()

    def load_config(self) -> None:
        options = {
            "bind": [f"fd://{self._listener.fileno()}"],
            "workers": 1,
            "worker_class": Worker,
            # Listeners to events sit in threads of their own; `taking_turns` holds the others to `api_threads`.
            "threads": self._settings.api_threads + self._settings.max_event_streams,
            "timeout": 120,
            "graceful_timeout": GRACE_SECONDS,
            "keepalive": KEEPALIVE_SECONDS,
            "logger_class": ConnectionLog,
            "proc_name": "shoal-api",
            # Newer versions open a socket for remote control in the home folder.
            "control_socket_disable": True,
            **OPTIONS,
        }
        for name, value in options.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> WSGIApplication:
        """Called in the process that serves."""
        app = create_app(self._settings)
        self._service = app.extensions[EXTENSION]
        _warm(self._service)
        return whole_bodies(taking_turns(app.wsgi_app, self._settings.api_threads))


def _warm(service: Service) -> None:
    """Load the scorer before the first search. A failure is told by /ready, which is asked before that."""
    try:
        service.engine.start()
    except Exception as error:
        structlog.get_logger("shoal.api").error("the scorer cannot be loaded", exc_info=error)
