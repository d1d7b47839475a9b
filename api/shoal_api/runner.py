"""Serves the application in this process, on a socket bound before anything else.

One process is often enough (`SHOAL_API_PROCESSES`): requests mostly wait for SQLite and numpy, which release
the interpreter lock, and one process holds one copy of the scorer. `shoal up`, systemd or Docker restarts it
if it dies.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any

import structlog

from shoal.access.key_store import has_keys
from shoal.errors import ShoalError
from shoal.service import process_setup
from shoal.service.addresses import check_listen_address
from shoal.service.process_setup import fit_connections
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.opening import open_database
from shoal_api.access import EXTENSION as GATE
from shoal_api.access import Gate
from shoal_api.app import create_app
from shoal_api.server import Server
from shoal_api.service import EXTENSION, Service
from shoal_api.spool import spool_folder

SWITCH_SECONDS = 0.001
"""How long a thread holds the interpreter lock while others wait. With Python's default of five milliseconds,
a response that takes one millisecond takes a second beside eight computing threads."""

CLEAN_SECONDS = 2.0
"""How long this process keeps a collection open after another one deleted it."""
ORPHAN_ROUNDS = 300
"""Rounds of CLEAN_SECONDS between two looks for what interrupted creations left."""


class ServiceError(ShoalError, code="service_not_started"):
    """The service cannot start. The message says why and what to do."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises SettingsError, ServiceError or StorageError if it cannot start.

    A second signal stops it without waiting for requests in progress.
    """
    check_listen_address(settings, has_keys=has_keys(settings))
    process_setup.configure(settings, service="api")
    settings = fit_connections(settings, n_collections=settings.open_collections, service="shoal.api")
    listener = bind(settings.host, settings.port, is_shared=settings.api_processes > 1)
    _prepare_database(settings)
    if settings.api_key and not (settings.api_keys or has_keys(settings)):
        structlog.get_logger("shoal.api").warning(
            "the service has no keys: SHOAL_API_KEY is the key that clients send; set SHOAL_API_KEYS for the "
            "service"
        )
    _keep_bodies_in_data_folder(settings)
    # waitress warns whenever a request waits for a thread.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    sys.setswitchinterval(SWITCH_SECONDS)
    app = create_app(settings)
    service: Service = app.extensions[EXTENSION]
    gate: Gate = app.extensions[GATE]
    server = Server(app.wsgi_app, listener, settings, gate)
    _stop_on_signals(server, service)
    host, port = listener.getsockname()[:2]
    structlog.get_logger("shoal.api").info("listening", url=url(host, port), threads=settings.api_threads)
    _warm(service)
    threading.Thread(target=_keep_collections, args=(service,), name="collections", daemon=True).start()
    server.run()
    gate.close()


def _keep_bodies_in_data_folder(settings: Settings) -> None:
    """Make waitress store large bodies beside the database, because /tmp is often small or in memory."""
    try:
        tempfile.tempdir = str(spool_folder(settings))
    except OSError as error:
        raise ServiceError(
            f"cannot make the folder {settings.data_path} for uploads: {error.strerror}; set SHOAL_DATA_DIR"
        ) from error


def _stop_on_signals(server: Server, service: Service) -> None:
    signals = [signal.SIGTERM, signal.SIGINT]

    def stop(_number: int, _frame: Any) -> None:
        for number in signals:
            signal.signal(number, stop_at_once)
        service.end()
        server.stop()

    def stop_at_once(_number: int, _frame: Any) -> None:
        server.stop(grace_seconds=0)

    for number in signals:
        signal.signal(number, stop)


def bind(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Return a listening socket. Raises ServiceError with the reason it cannot listen.

    `is_shared`: other processes of this user listen on the port too, and the system gives each connection to
    one of them.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ServiceError(f"cannot listen on {host!r}: {error.strerror or error}") from error
    # Otherwise the port stays in use for a minute after a restart.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind(address)
        # Listen now, so that a port in use is reported here.
        listener.listen()
    except OSError as error:
        listener.close()
        raise ServiceError(_bind_message(error, host, port)) from error
    return listener


def url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bind_message(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} on {host} is in use by another program; stop that program or choose another "
                "port (SHOAL_PORT, `--port`)"
            )
        case errno.EACCES:
            return f"port {port} needs more rights than this user has; choose a port from 1024 on"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine"
        case _:
            return f"cannot listen on {host}, port {port}: {error.strerror}"


def _prepare_database(settings: Settings) -> None:
    """Migrate the database before serving, so that an error appears at the start."""
    with contextlib.closing(open_database(settings.database_url, settings.data_path)) as database:
        migrate.upgrade(database)


def _keep_collections(service: Service) -> None:
    """Close collections that were deleted, so that their files go, and remove what is left of others."""
    log = structlog.get_logger("shoal.api")
    n_rounds = 0
    while True:
        time.sleep(CLEAN_SECONDS)
        try:
            service.collections.clean(orphans=n_rounds % ORPHAN_ROUNDS == 0)
        except ShoalError as error:
            log.warning("collections not cleaned", reason=str(error))
        except Exception:
            log.exception("collections not cleaned")
        n_rounds += 1


def _warm(service: Service) -> None:
    """Load scorer and index before the first search. /ready reports a failure."""
    try:
        service.collections.follow()
        service.engine.start()
        # Collections of garbage during requests then skip what was loaded.
        gc.collect()
        gc.freeze()
    except Exception as error:
        trace = None if isinstance(error, ShoalError) else error
        structlog.get_logger("shoal.api").error(
            "the scorer or the index cannot be loaded", reason=str(error), exc_info=trace
        )
    finally:
        gc.enable()
