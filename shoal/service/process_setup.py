"""What the process of a service sets up: its log, and the number of files that it may open.

A log has one line per event, to stderr, JSON unless stderr is a terminal. Events of structlog and of the
standard `logging` (Celery, waitress) have the same form. The CLI prints messages for people and does not use
this. Library code may log either way and never configures logging.

Each connection counts against the limit of open files. A server compares it with its settings when it starts
(`fit_connections`). If files run out all the same, `SpareFile` lets it refuse connections, which would
otherwise wait without an answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import logging
import os
import resource
import socket
import sys
from typing import Any

import structlog

from shoal.errors import SettingsError
from shoal.settings import Settings
from shoal.settings.service import MIN_CONNECTIONS

NOISY_LIBRARIES = ("httpcore", "httpx", "kombu", "amqp", "urllib3")
"""Libraries that log every step at `info`; only their warnings are shown, unless the level is debug."""


def configure(settings: Settings, *, service: str) -> None:
    """Send every event of this process to stderr, with the field `service`. A second call replaces the first.

    `settings.log_format` is `json`, `console`, or `auto`: console if stderr is a terminal. Variables bound
    with `structlog.contextvars.bind_contextvars(trace_id=...)` are fields of every event of that context.
    """
    level = getattr(logging, settings.log_level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        _service_adder(service),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            # ExtraAdder: the standard `extra=` becomes fields too.
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(_is_json(settings.log_format)),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in NOISY_LIBRARIES:
        logging.getLogger(name).setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))


def _is_json(log_format: str) -> bool:
    return log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())


def _renderers(as_json: bool) -> list[Any]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    return [
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    ]


def _service_adder(service: str) -> Any:
    def add_service(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
        event.setdefault("service", service)
        return event

    return add_service


TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a process, or of the machine, without a free file descriptor."""

OWN_FILES = 40
"""Descriptors of a server beside those below: the scorer's data, the index, logs, pipes and the listener."""
FILES_PER_THREAD = 2
"""A thread reads through a connection of its own to the database: its file and its log."""
FILES_PER_COLLECTION = 10

REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)
READ_BYTES = 65_536


def fit_connections(settings: Settings, *, n_collections: int, service: str) -> Settings:
    """Return settings whose connections fit into the limit of open files; raise the soft limit if necessary.

    Where even the hard limit is too low, `max_connections` becomes lower, and the log of `service` says so.
    Raises SettingsError if less than MIN_CONNECTIONS fit.

    n_collections: how many collections the server keeps open, beside the one it always has open
    """
    own = OWN_FILES + FILES_PER_THREAD * settings.api_threads
    reserved = own + FILES_PER_COLLECTION * n_collections
    needed = reserved + settings.max_connections
    limit = _limit_for(needed)
    if limit >= needed:
        return settings
    hint = (
        f"raise it to {needed} (`ulimit -n {needed}`, `LimitNOFILE={needed}` of systemd, or `--ulimit "
        f"nofile={needed}` of Docker)"
    )
    if limit - own < MIN_CONNECTIONS:
        least = own + MIN_CONNECTIONS
        raise SettingsError(f"the limit of open files is {limit}, and the service needs {least}: {hint}")
    connections = max(MIN_CONNECTIONS, limit - reserved)
    structlog.get_logger(service).warning(
        "fewer connections than SHOAL_MAX_CONNECTIONS",
        reason=f"the limit of open files is {limit}; {hint}",
        connections=connections,
        max_connections=settings.max_connections,
    )
    return dataclasses.replace(settings, max_connections=connections)


def _limit_for(needed: int) -> int:
    """Return the limit of open files, after raising it towards `needed` as far as the hard limit allows."""
    soft, hard = (
        needed if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    if soft >= needed:
        return soft
    wanted = min(needed, hard)
    # The system may allow less than the hard limit says.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        return wanted
    return soft


class SpareFile:
    """A file descriptor that is kept for the moment in which a process has no other. For one thread."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._descriptor: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def refuse(self, listener: socket.socket) -> bool:
        """Answer 503 to the next connection of a non-blocking listener; return whether there was one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        try:
            connection, _ = listener.accept()
        except OSError:
            # Nobody waits, or another thread took the descriptor.
            return False
        else:
            with connection, contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(REFUSAL)
                # Closing before the request is read would reset the connection.
                connection.recv(READ_BYTES)
            return True
        finally:
            with contextlib.suppress(OSError):
                self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


THRESHOLDS = (100_000, 20, 100)
"""Thresholds of the three generations (`gc.set_threshold`). A book becomes a few hundred thousand small
values without any cycle; repeated collections took a quarter of the processor time of ingestion (4.2 s
against 3.1 s for War and Peace)."""


def reduce_collections() -> None:
    """Collect garbage less often in this process. For processes that ingest, not for library code."""
    gc.set_threshold(*THRESHOLDS)
