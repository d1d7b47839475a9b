"""The RabbitMQ of the tests, and a connection to it that can be cut."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import amqp
import kombu
import pytest
from cut_connections import CutableServer

RABBITMQ_URL = os.environ.get("SHOAL_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672//")


def require_rabbitmq() -> str:
    """Return the URL of a RabbitMQ that answers, or skip the test."""
    try:
        with kombu.Connection(RABBITMQ_URL, connect_timeout=2) as connection:
            connection.connect()
    except (OSError, amqp.AMQPError) as error:
        pytest.skip(f"there is no RabbitMQ at {RABBITMQ_URL} (SHOAL_TEST_RABBITMQ_URL): {error}")
    return RABBITMQ_URL


@contextlib.contextmanager
def channel(url: str = RABBITMQ_URL) -> Iterator[amqp.Channel]:
    """A channel of its own connection."""
    with kombu.Connection(url, connect_timeout=5) as connection:
        yield connection.default_channel


def delete_queue(name: str) -> None:
    with channel() as mine:
        mine.queue_delete(name)


class CutableRabbitMQ(CutableServer):
    """RabbitMQ behind a port that can be cut."""

    def __init__(self, url: str = RABBITMQ_URL) -> None:
        parts = urlsplit(url)
        super().__init__(parts.hostname or "127.0.0.1", parts.port or 5672)
        user = f"{parts.username or 'guest'}:{parts.password or 'guest'}"
        self.url = urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self.port}"))
