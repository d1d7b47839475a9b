"""What the views work with: one engine, the job protocol, the nudge, the places for those who wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flask

from shoal.engine import Engine
from shoal.jobs.queue.progress import Paces
from shoal.jobs.transport.broker import worker_notifier
from shoal.settings import Settings
from shoal_api.events import Listeners
from shoal_api.metrics import Metrics
from shoal_api.wait_limits import WaitLimiter

EXTENSION = "shoal"


@dataclass(frozen=True)
class Service:
    """Shared by the threads of a process."""

    settings: Settings
    engine: Engine
    celery: Any
    metrics: Metrics
    waiting: WaitLimiter
    listeners: Listeners
    paces: Paces

    def notify(self) -> None:
        """Tell a worker that there is work. A broker that is away costs a delay, never the work."""
        worker_notifier(self.celery)()

    def end(self) -> None:
        """Send those who wait or listen home: the service is about to end."""
        self.waiting.close()
        self.listeners.close()


def current() -> Service:
    """The service of the application that handles this request."""
    found = flask.current_app.extensions[EXTENSION]
    assert isinstance(found, Service)
    return found
