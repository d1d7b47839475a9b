"""kombu's Redis transport, made to outlive what a Redis may do to it.

As it comes, a message that cannot be acknowledged because Redis is away keeps its place among those that a worker may
hold at a time. Once all places are taken the worker asks for no more, so it never meets the broken connection that would
make it connect again, and stands still for good although Redis came back long ago. Here the place is free in any case:
whether the message is acknowledged does not matter, since a message that comes twice finds nothing to claim.

A message that cannot be read ends the worker, as does an error that Redis answers with (it is a read-only replica, the
key of the queue holds something else). Here such a message is dropped, and such a Redis is one that is away.
"""

from __future__ import annotations

import logging
import time
from queue import Empty
from typing import Any

from kombu.transport import redis, virtual
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from shoal.jobs.transport.messages import is_message

RETRY_SECONDS = 5.0
"""How long a worker waits before it asks again a Redis that answers with an error. It is this late to end, too."""

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
    """A message that is none."""


class Message(virtual.Message):
    def __init__(self, payload: Any, channel: Any = None, **kwargs: Any) -> None:
        if not is_message(payload):
            raise UnreadableMessageError("it is not a message of Celery")
        super().__init__(payload, channel, **kwargs)  # type: ignore[no-untyped-call]


def _brpop_read(channel: Any, **options: Any) -> Any:
    """Read Redis's answer to a worker that waits for a message."""
    try:
        return _read(channel, **options)
    except ResponseError as error:
        log.warning("Redis answers with an error, asked again in %.0f s: %s", RETRY_SECONDS, error)
        time.sleep(RETRY_SECONDS)
        raise RedisConnectionError(str(error)) from error
    except ValueError as error:
        log.warning("a message was dropped, it cannot be read: %s", error)
        raise Empty from error


def install() -> None:
    """Have every connection to a Redis made from now on do so. A transport of our own would do it too, but lose what
    kombu makes of `rediss://`."""
    redis.Channel.QoS = QoS
    redis.Channel.Message = Message
    redis.Channel._brpop_read = _brpop_read  # type: ignore[assignment,method-assign]
