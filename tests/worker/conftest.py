"""Worker fixtures for every broker."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakeredis import TcpFakeServer
from forks import ForkServer
from rabbitmq_server import delete_queue, require_rabbitmq
from worker_parts import HERE, REDIS_URL, Worker

from shoal.settings import Settings


@pytest.fixture
def fake_redis() -> Iterator[str]:
    """The URL of a Redis in this process, for tests that need no server."""
    server = TcpFakeServer(("127.0.0.1", 0))
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.fixture(params=["filesystem", "redis", "rabbitmq"])
def broker_settings(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Settings]:
    """Settings for tests that run once with each broker."""
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, broker_queue=f"test-{uuid.uuid4().hex}")
    if request.param == "filesystem":
        yield settings
        return
    if request.param == "fakeredis":
        yield dataclasses.replace(settings, broker_url=request.getfixturevalue("fake_redis"))
        return
    if request.param == "rabbitmq":
        yield dataclasses.replace(settings, broker_url=require_rabbitmq())
        delete_queue(settings.broker_queue)
        return
    import redis

    client = redis.Redis.from_url(REDIS_URL, socket_connect_timeout=1)
    try:
        client.ping()
    except redis.RedisError:
        pytest.skip(f"there is no Redis at {REDIS_URL} (SHOAL_TEST_REDIS_URL)")
    yield dataclasses.replace(settings, broker_url=REDIS_URL)
    for key in client.scan_iter(f"{settings.broker_queue}:*"):
        client.delete(key)
    client.close()


@pytest.fixture
def start_worker(tmp_path: Path, forks: ForkServer) -> Iterator[Callable[..., Worker]]:
    """Return a function that starts workers; remaining ones are killed at the end."""
    started: list[Worker] = []

    def start(settings: Settings, command: list[str] | None = None) -> Worker:
        command = command or [str(HERE / "worker_script.py")]
        started.append(Worker(settings, tmp_path / f"worker-{len(started)}.log", command, forks))
        return started[-1]

    yield start
    for worker in started:
        worker.kill_all()
    failed = [event for worker in started for event in worker.events() if "AssertionError" in str(event)]
    assert not failed
