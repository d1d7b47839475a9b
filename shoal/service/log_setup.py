"""Log configuration of the services: one line per event, to stderr, JSON unless stderr is a terminal.

Events of structlog and of the standard `logging` (Celery, waitress) have the same form. The CLI
prints messages for people and does not use this module. Library code may log either way and never configures
logging.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from shoal.settings import Settings

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
