"""Logs of the services: one line an event, to stderr, JSON wherever no person is watching.

Events of structlog and of the standard `logging` (Celery, waitress, Alembic) come out in the same form. The CLI
talks to people instead and does not use this; library code may log either way and never configures anything.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from shoal.settings import Settings

CHATTY = ("alembic", "httpcore", "httpx", "kombu", "amqp", "urllib3")
"""Libraries that log their every step at `info`; only their warnings are of interest, unless debugging."""


def configure(settings: Settings, *, service: str) -> None:
    """Send every event of this process to stderr, with `service` on each. Calling it again replaces the set-up.

    `settings.log_format` is `json`, `console`, or `auto`: console where stderr is a terminal. What contextvars
    hold (`structlog.contextvars.bind_contextvars(trace_id=...)`) is on every event of that context.
    """
    level = getattr(logging, settings.log_level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        _named(service),
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
            # ExtraAdder: what the standard `extra=` carries becomes fields too.
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
    for name in CHATTY:
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


def _named(service: str) -> Any:
    def add_service(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
        event.setdefault("service", service)
        return event

    return add_service
