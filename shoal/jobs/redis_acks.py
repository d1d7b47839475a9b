"""kombu's Redis transport, made to notice that its Redis is gone.

As it comes, a message that cannot be acknowledged because Redis is away keeps its place among those that a worker may
hold at a time. Once all places are taken the worker asks for no more, so it never meets the broken connection that would
make it connect again, and stands still for good although Redis came back long ago. Here the place is free in any case:
whether the message is acknowledged does not matter, since a message that comes twice finds nothing to claim.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis, virtual


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


def install() -> None:
    """Have every connection to a Redis made from now on do so. A transport of our own would do it too, but lose what
    kombu makes of `rediss://`."""
    redis.Channel.QoS = QoS
