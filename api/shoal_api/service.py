"""The objects that views share: engine, Celery application, metrics, and limits for waiting requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flask

from shoal.engine import Engine
from shoal.jobs.queue.progress import ProgressEstimator
from shoal.jobs.transport.broker import worker_notifier
from shoal.settings import Settings
from shoal_api.events import Listeners
from shoal_api.metrics import Metrics
from shoal_api.wait_limits import WaitLimiter

EXTENSION = "shoal"


@dataclass(frozen=True)
class Service:
    """Objects shared by all threads of the process."""

    settings: Settings
    engine: Engine
    celery: Any
    metrics: Metrics
    waiting: WaitLimiter
    listeners: Listeners
    progress_estimator: ProgressEstimator

    def notify(self) -> None:
        """Notify workers of new work. Without the broker, the job starts later but is not lost."""
        worker_notifier(self.celery)()

    def end(self) -> None:
        """End waiting requests and event streams, because the service is stopping."""
        self.waiting.close()
        self.listeners.close()


def current() -> Service:
    """Return the service of the application that handles the current request."""
    service = flask.current_app.extensions[EXTENSION]
    assert isinstance(service, Service)
    return service
