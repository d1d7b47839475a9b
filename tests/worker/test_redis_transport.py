"""The Redis transport keeps working through unreadable messages, error responses and lost connections.

These tests need no server. `test_worker.py` has siblings on a real Redis.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from fakeredis import TcpFakeServer
from redis.exceptions import ConnectionError as RedisConnectionError
from waiting import DEADLINE_SECONDS

from shoal.jobs.transport import redis_transport
from shoal.jobs.transport.broker import TASK_WORK, check_broker, make_celery, notify_workers
from shoal.settings import Settings

UNREADABLE: list[bytes] = [
    b"{half",
    b"\xff\xfe",
    *(json.dumps(each).encode() for each in ([1], None, {}, {"body": 1})),
]


@pytest.fixture
def on_redis(settings: Settings, fake_redis: str) -> Settings:
    return dataclasses.replace(settings, broker_url=fake_redis)


@pytest.fixture
def client(on_redis: Settings) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(on_redis.broker_url) as connected:
        yield connected


@pytest.fixture
def received(on_redis: Settings) -> Iterator[Received]:
    with Received(on_redis) as consumer:
        yield consumer


def key(settings: Settings) -> str:
    """The key of the queue: each key has the name of the queue as prefix."""
    return f"{settings.broker_queue}:{settings.broker_queue}"


class Received:
    """Receives messages as a worker does, one at a time."""

    def __init__(self, settings: Settings) -> None:
        app = make_celery(settings, consumer=True)
        self._connection = app.connection_for_read()
        self.channel: Any = self._connection.default_channel
        self.channel.basic_qos(0, 1, False)
        self._messages: list[Any] = []
        self._consumer = app.amqp.TaskConsumer(self.channel, on_message=self._messages.append)

    def __enter__(self) -> Received:
        self._consumer.consume()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()

    def next(self) -> Any:
        while not self._messages:
            self._connection.drain_events(timeout=DEADLINE_SECONDS)
        return self._messages.pop()


def test_second_message_is_not_sent_while_one_waits(on_redis: Settings, client: redis.Redis) -> None:
    app = make_celery(on_redis)
    assert notify_workers(app)
    assert not notify_workers(app)
    assert client.llen(key(on_redis)) == 1
    assert notify_workers(app, unless_waiting=False)
    assert client.llen(key(on_redis)) == 2
    check_broker(app)


def test_message_is_kept_until_it_is_acknowledged(
    on_redis: Settings, client: redis.Redis, received: Received
) -> None:
    notify_workers(make_celery(on_redis))
    message = received.next()
    assert message.headers["task"] == TASK_WORK
    kept = f"{on_redis.broker_queue}:unacked"
    assert client.hlen(kept) == 1
    message.ack()
    assert client.hlen(kept) == 0


@pytest.mark.parametrize("unreadable", UNREADABLE)
def test_unreadable_message_is_dropped_and_the_next_is_read(
    on_redis: Settings, client: redis.Redis, received: Received, unreadable: bytes
) -> None:
    client.lpush(key(on_redis), unreadable)
    notify_workers(make_celery(on_redis), unless_waiting=False)
    assert received.next().headers["task"] == TASK_WORK


def test_error_response_counts_as_a_lost_connection(
    on_redis: Settings, client: redis.Redis, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    client.hset(key(on_redis), "field", "value")
    with pytest.raises(RedisConnectionError):
        received.next()
    assert pauses == [redis_transport.RETRY_SECONDS]


def test_acknowledgement_frees_the_slot_although_redis_is_away(settings: Settings) -> None:
    server = TcpFakeServer(("127.0.0.1", 0))
    on_redis = dataclasses.replace(settings, broker_url=f"redis://127.0.0.1:{server.server_address[1]}/0")
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    with Received(on_redis) as consumer:
        notify_workers(make_celery(on_redis))
        message = consumer.next()
        assert not consumer.channel.qos.can_consume()
        server.shutdown()
        server.server_close()
        with contextlib.suppress(redis.RedisError):
            message.ack()
        assert consumer.channel.qos.can_consume()
