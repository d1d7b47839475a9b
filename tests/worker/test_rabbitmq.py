"""RabbitMQ as the broker: sending gives up quickly, a wake is not lost, and what RabbitMQ denies is explained.

The tests that run with each broker are in `test_worker.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest
from amqp import NotFound
from rabbitmq_server import CutableRabbitMQ, channel, delete_queue, require_rabbitmq
from waiting import until
from worker_parts import HERE, Worker, upload, wait_for_job

from shoal.errors import BrokerUnavailableError
from shoal.jobs.queue import queries
from shoal.jobs.transport.broker import SEND_SECONDS, check_broker, make_celery, notify_workers
from shoal.jobs.transport.rabbitmq_transport import QUEUE_ARGUMENTS
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database

StartWorker = Callable[..., Worker]

TEXT = "A volcano throws out magma and lava. The rain of a monsoon falls on the forest number {}."
PATIENT = [str(HERE / "worker_script.py"), "patient"]
"""A worker that works only when a message arrives, or after a start."""


@pytest.fixture
def rabbit_settings(settings: Settings) -> Iterator[Settings]:
    url, queue = require_rabbitmq(), f"test-{uuid.uuid4().hex}"
    yield dataclasses.replace(settings, broker_url=url, broker_queue=queue, reconcile_seconds=0.1)
    delete_queue(queue)


def changed(url: str, **parts: str) -> str:
    """Return the URL with another password, path or port."""
    split = urlsplit(url)
    password, port = parts.get("password", split.password or "guest"), parts.get("port", split.port or 5672)
    netloc = f"{split.username or 'guest'}:{password}@{split.hostname}:{port}"
    return urlunsplit(split._replace(netloc=netloc, path=parts.get("path", split.path)))


def n_waiting(settings: Settings) -> int:
    with channel(settings.broker_url) as mine:
        return int(mine.queue_declare(settings.broker_queue, passive=True).message_count)


def test_second_message_is_not_sent_while_one_waits(rabbit_settings: Settings) -> None:
    app = make_celery(rabbit_settings)
    assert notify_workers(app)
    assert not notify_workers(app)
    assert n_waiting(rabbit_settings) == 1
    assert notify_workers(app, unless_waiting=False)
    assert n_waiting(rabbit_settings) == 2


def test_message_delivered_again_and_again_is_not_dropped(rabbit_settings: Settings) -> None:
    # RabbitMQ 4 drops a message after 20 deliveries, unless the queue says otherwise.
    notify_workers(make_celery(rabbit_settings))
    with channel(rabbit_settings.broker_url) as mine:
        for _ in range(25):
            taken = until(lambda: mine.basic_get(rabbit_settings.broker_queue))
            mine.basic_reject(taken.delivery_tag, requeue=True)
        until(lambda: n_waiting(rabbit_settings) == 1)


def test_queue_survives_a_node_and_its_messages_a_slow_task(rabbit_settings: Settings) -> None:
    assert QUEUE_ARGUMENTS["x-queue-type"] == "quorum"
    assert int(QUEUE_ARGUMENTS["x-consumer-timeout"]) > 1000 * rabbit_settings.task_time_limit
    check_broker(make_celery(rabbit_settings))
    with channel(rabbit_settings.broker_url) as mine, pytest.raises(Exception, match=r"current is .*quorum"):
        mine.queue_declare(rabbit_settings.broker_queue, durable=True, auto_delete=False)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"password": "wrong"}, "refused user or password of SHOAL_BROKER_URL"),
        ({"path": "/no-such-host"}, "no such virtual host.*rabbitmqctl add_vhost"),
        ({"port": "1"}, "unreachable"),
    ],
)
def test_denied_connection_is_explained(
    rabbit_settings: Settings, parts: dict[str, str], reason: str
) -> None:
    settings = dataclasses.replace(rabbit_settings, broker_url=changed(rabbit_settings.broker_url, **parts))
    app = make_celery(settings)
    for use in (notify_workers, check_broker):
        with pytest.raises(BrokerUnavailableError, match=reason) as raised:
            use(app)
        assert "wrong" not in str(raised.value)


def test_one_of_several_nodes_suffices(rabbit_settings: Settings) -> None:
    dead = changed(rabbit_settings.broker_url, port="1")
    settings = dataclasses.replace(rabbit_settings, broker_url=f"{dead};{rabbit_settings.broker_url}")
    assert notify_workers(make_celery(settings))
    assert n_waiting(rabbit_settings) == 1


def test_sending_gives_up_quickly_when_rabbitmq_hangs(settings: Settings) -> None:
    def answer_nothing(server: socket.socket) -> None:
        while True:
            try:
                held.append(server.accept()[0])
            except OSError:
                return

    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        threading.Thread(target=answer_nothing, args=(silent,), daemon=True).start()
        url = f"amqp://guest:guest@127.0.0.1:{silent.getsockname()[1]}//"
        app = make_celery(dataclasses.replace(settings, broker_url=url))
        started = time.monotonic()
        with pytest.raises(BrokerUnavailableError):
            notify_workers(app)
        assert time.monotonic() - started < 4 * SEND_SECONDS
        silent.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def has_consumer(settings: Settings) -> bool:
    try:
        with channel(settings.broker_url) as mine:
            return bool(mine.queue_declare(settings.broker_queue, passive=True).consumer_count)
    except NotFound:
        return False


@contextlib.contextmanager
def paused(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.chaos
def test_worker_receives_messages_again_after_its_connection_and_the_queue_were_lost(
    database: Database, rabbit_settings: Settings, start_worker: StartWorker
) -> None:
    server = CutableRabbitMQ()
    settings = dataclasses.replace(rabbit_settings, broker_url=server.url)
    worker = start_worker(settings, PATIENT)
    worker.wait_for("worker process ready")
    until(lambda: "ready." in worker.log.read_text())
    try:
        server.cut()
        # As after a restart of RabbitMQ without its data.
        delete_queue(settings.broker_queue)
        with pytest.raises(BrokerUnavailableError):
            notify_workers(make_celery(settings))
        job_id = upload(database, settings, [TEXT.format(i) for i in range(3)])
        server.reconnect()
        assert wait_for_job(database, job_id).status is JobStatus.succeeded
        # The worker takes waiting work before it consumes again.
        until(lambda: has_consumer(rabbit_settings))
        # The queue alone: RabbitMQ tells the worker, which declares it again. RabbitMQ 3.10 tells nothing if
        # somebody else declares it first, as a notification of the first job does, so no process sends one.
        with paused(worker.children(settings.workers)):
            delete_queue(settings.broker_queue)
            until(lambda: "ConsumerCancelled" in worker.log.read_text() and has_consumer(rabbit_settings))
        job_id = upload(database, settings, [TEXT.format(i) for i in range(3, 6)])
        assert wait_for_job(database, job_id).status is JobStatus.succeeded
        assert worker.process.poll() is None
        assert worker.stop() == 0
    finally:
        server.cut()


@pytest.mark.chaos
def test_worker_waits_until_a_denied_queue_is_removed(
    database: Database, rabbit_settings: Settings, start_worker: StartWorker
) -> None:
    with channel(rabbit_settings.broker_url) as mine:
        mine.queue_declare(rabbit_settings.broker_queue, durable=True, auto_delete=False)
    with pytest.raises(BrokerUnavailableError, match="declared with other arguments; delete it"):
        notify_workers(make_celery(rabbit_settings))
    worker = start_worker(rabbit_settings, [*PATIENT, "insistent"])
    until(lambda: "declared with other arguments" in worker.log.read_text())
    assert "Traceback" not in worker.log.read_text()
    delete_queue(rabbit_settings.broker_queue)
    until(lambda: "ready." in worker.log.read_text())
    job_id = upload(database, rabbit_settings, [TEXT.format(0)])
    assert wait_for_job(database, job_id).status is JobStatus.succeeded
    assert queries.get_job(database, job_id).progress.done == 1
    assert worker.stop() == 0
