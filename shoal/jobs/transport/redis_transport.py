"""kombu's Redis transport, made robust against failures of Redis.

In kombu, a message that cannot be acknowledged because Redis is down keeps its slot in the worker's prefetch
limit. When all slots are taken, the worker stops receiving, never notices the broken connection and hangs
even after Redis is back. Here the slot is freed in any case. An unacknowledged message does no harm: a
repeated message finds nothing to claim.

In kombu, an unreadable message ends the worker, and so does an error response of Redis (a read-only replica,
or a queue key of the wrong type). Here the message is dropped, and the error is handled like a lost
connection.
"""

from __future__ import annotations

import logging
import time
from queue import Empty
from typing import Any

from kombu.transport import redis, virtual
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from shoal.jobs.transport import is_message

RETRY_SECONDS = 5.0
"""Wait before a retry after an error response of Redis. It may delay the end of a worker by this time."""

log = logging.getLogger(__name__)

_read: Any = redis.Channel._brpop_read


class QoS(redis.QoS):
    def ack(self, delivery_tag: Any) -> None:
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        finally:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue)  # type: ignore[no-untyped-call]
        finally:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]


class UnreadableMessageError(ValueError):
    """A payload that is not a valid message."""


class Message(virtual.Message):
    def __init__(self, payload: Any, channel: Any = None, **kwargs: Any) -> None:
        if not is_message(payload):
            raise UnreadableMessageError("not a Celery message")
        super().__init__(payload, channel, **kwargs)  # type: ignore[no-untyped-call]


def _brpop_read(channel: Any, **options: Any) -> Any:
    """Read the response of Redis to a worker that waits for a message."""
    try:
        return _read(channel, **options)
    except ResponseError as error:
        log.warning("Redis returned an error, retrying in %.0f s: %s", RETRY_SECONDS, error)
        time.sleep(RETRY_SECONDS)
        raise RedisConnectionError(str(error)) from error
    except ValueError as error:
        log.warning("dropped an unreadable message: %s", error)
        raise Empty from error


def install() -> None:
    """Patch kombu's Redis channel for all later connections.

    A separate transport would lose kombu's support of `rediss://`.
    """
    redis.Channel.QoS = QoS
    redis.Channel.Message = Message
    redis.Channel._brpop_read = _brpop_read  # type: ignore[assignment,method-assign]
