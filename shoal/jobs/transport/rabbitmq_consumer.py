"""Celery's consumer for RabbitMQ: only what Shoal uses, and patient when RabbitMQ denies something.

Celery declares 28 queues and as many exchanges for delayed delivery as soon as a queue is a quorum queue.
Shoal delays no message. After a denied queue, Celery connects again at once, many times a second, and logs a
lost connection. Here it waits and logs the reason.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from celery.worker import consumer

from shoal.jobs.transport.rabbitmq_transport import QueueDeniedError

RETRY_SECONDS = 5.0
"""Wait before a retry after RabbitMQ denied the queue. It may delay the end of a worker by this time."""

DELAYED_DELIVERY = "celery.worker.consumer.delayed_delivery:DelayedDelivery"

log = logging.getLogger(__name__)


class Consumer(consumer.Consumer):  # type: ignore[misc]
    class Blueprint(consumer.Consumer.Blueprint):  # type: ignore[misc]
        default_steps = tuple(s for s in consumer.Consumer.Blueprint.default_steps if s != DELAYED_DELIVERY)

    def on_connection_error_after_connected(self, exc: BaseException) -> Any:
        if isinstance(exc, QueueDeniedError):
            log.error("%s; retrying in %.0f s", exc, RETRY_SECONDS)
            time.sleep(RETRY_SECONDS)
        return super().on_connection_error_after_connected(exc)
