"""Send notifications ("claim work") to workers through the broker.

The database holds the truth: a message may be lost, repeated, late or out of order without harm. So sending
gives up quickly, and the queue holds no more messages than needed.

kombu's filesystem transport is made safe for several processes. kombu writes a message under its final name,
so a consumer may read it while it is empty; the JSON error then ends the worker. kombu also moves received
messages through the system's temporary folder, which may be on another file system, full, or shared with
other users. Here a message appears complete or not at all, and a consumer takes it by one rename within its
folder. Unreadable messages are discarded without loss, because the reconciler notifies workers again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any, Protocol

from celery import Celery
from kombu.entity import Exchange, Queue
from kombu.exceptions import ChannelError
from kombu.transport import filesystem

from shoal.errors import BrokerUnavailableError
from shoal.jobs.transport import is_message
from shoal.settings import Settings

RABBITMQ_SCHEMES = ("amqp://", "amqps://")

POLLING_SECONDS = 0.02
"""Polling interval of the embedded broker's folder; 550 messages a second were delivered with it."""

SEND_SECONDS = 1.0
"""Time limit for connecting to the broker, and for each of its responses, when sending."""

TASK_WORK = "shoal.work"
"""The only Celery task: "claim work". Its messages carry no arguments."""

FILESYSTEM_TRANSPORT = "shoal.jobs.transport.broker:Transport"
RABBITMQ_CONSUMER = "shoal.jobs.transport.rabbitmq_consumer:Consumer"

RABBITMQ_SECONDS = 10.0
"""Time limit of a worker for connecting to RabbitMQ and for each of its responses. It is longer than that for
sending, because the first declaration of a quorum queue took 0.6 s on an idle machine."""

HEARTBEAT_SECONDS = 10
"""Interval of heartbeats between a worker and RabbitMQ. After two without an answer both sides drop the
connection: the worker connects again, and RabbitMQ gives its unacknowledged message to another."""

log = logging.getLogger(__name__)
MESSAGE_SUFFIX = ".msg"
"""Suffix after the queue name that kombu's own methods (`_size`, `_purge`) expect."""
STALE_SECONDS = 60.0
"""Age of temporary files that only a dead process can have left: longer than any step takes."""
MAX_DRAIN_SECONDS = 0.1
"""Longest wait for messages. A worker checks for shutdown between waits and needs two of them to end, so
Celery's wait of two seconds would delay a Ctrl-C by four."""


class WorkerNotifier(Protocol):
    """Tells a worker to claim work. Raises BrokerUnavailableError if it cannot."""

    def __call__(self) -> None: ...


def make_celery(settings: Settings, *, consumer: bool = False) -> Celery:
    """Return the Celery application that sends notifications and, with `consumer`, also receives them.

    Creates the folders of the embedded broker. Raises BrokerUnavailableError if this fails.
    """
    embedded = settings.broker_url.startswith("filesystem://")
    # kombu warns about a URL without a host.
    url = "filesystem://localhost//" if embedded else settings.broker_url
    app = Celery("shoal", broker=url, set_as_current=False)
    name = settings.broker_queue
    app.conf.update(
        task_queues=[_queue(name)],
        task_default_queue=name,
        task_default_exchange="",
        task_default_routing_key=name,
        task_create_missing_queues=False,
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_publish_retry=False,
        task_track_started=False,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        # There are no results to wait for, so a dead child need not keep its slot for ten seconds.
        worker_lost_wait=0.5,
        broker_connection_timeout=SEND_SECONDS,
        # A worker waits for its broker without a time limit.
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # An error response of the broker must not end a worker either.
        broker_channel_error_retry=True,
        broker_pool_limit=4,
    )
    if embedded:
        app.conf.broker_transport = FILESYSTEM_TRANSPORT
        app.conf.broker_transport_options = _folders(settings)
    elif settings.broker_url.startswith(RABBITMQ_SCHEMES):
        _use_rabbitmq(app, settings, consumer)
    else:
        # Imported here, because the embedded broker does not need the Redis client.
        from shoal.jobs.transport import redis_transport

        redis_transport.install()
        app.conf.broker_transport_options = _redis(settings, consumer)
    return app


def notify_workers(app: Celery, *, unless_waiting: bool = True) -> bool:
    """Send one notification; True if it was sent.

    With `unless_waiting` nothing is sent if a message already waits in the queue: the worker that receives it
    claims later than now, so it sees everything committed before this call. Raises BrokerUnavailableError
    within about two seconds.
    """
    queue = app.conf.task_default_queue
    try:
        with app.connection_for_write() as connection:
            # RabbitMQ drops messages to a queue that nobody has declared.
            waiting = _declare(app, connection)
            if unless_waiting and waiting:
                return False
            app.send_task(TASK_WORK, queue=queue, retry=False, ignore_result=True, connection=connection)
    except Exception as error:
        # Every transport has its own errors, and some raise those of their libraries.
        raise BrokerUnavailableError(_reason(error)) from error
    return True


def check_broker(app: Celery) -> None:
    """Raise BrokerUnavailableError, within about two seconds, if nothing can be sent."""
    try:
        with app.connection_for_write() as connection:
            _declare(app, connection)
    except Exception as error:
        raise BrokerUnavailableError(_reason(error)) from error


def worker_notifier(app: Celery) -> Callable[[], None]:
    """Return a notifier that logs instead of raising: the reconciler notifies later."""

    def notify() -> None:
        try:
            notify_workers(app)
        except BrokerUnavailableError as error:
            log.warning("workers not notified, the reconciler will notify them: %s", error)

    return notify


def remove_stale_messages(settings: Settings) -> None:
    """Remove files that dead processes left in the embedded broker's folder."""
    if settings.broker_url.startswith("filesystem://"):
        remove_stale_files(settings.data_path / "broker" / "messages")


def _declare(app: Celery, connection: Any) -> int:
    """Declare the queue and return the number of messages that wait in it."""
    queue = app.amqp.queues[app.conf.task_default_queue]
    return int(queue(connection.default_channel).queue_declare().message_count)


def _reason(error: BaseException) -> str:
    """Return why nothing can be sent. kombu may wrap the error of the transport."""
    cause: BaseException | None = error
    while cause is not None:
        if remedy := getattr(cause, "remedy", ""):
            return f"the broker refuses: {remedy}"
        cause = cause.__cause__ or cause.__context__
    return f"the broker is unreachable ({type(error).__name__})"


def _queue(name: str, arguments: dict[str, Any] | None = None) -> Queue:
    # The default exchange routes a message straight to its queue and needs no table of bindings, which the
    # embedded broker would keep in a file without protection against concurrent reads and writes.
    return Queue(name, Exchange(""), routing_key=name, queue_arguments=arguments)  # type: ignore[no-untyped-call]


def _folders(settings: Settings) -> dict[str, object]:
    base = settings.data_path / "broker"
    messages, control = base / "messages", base / "control"
    for folder in (messages, control):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BrokerUnavailableError(
                f"cannot create {folder}, the folder of the embedded broker: {error.strerror}"
            ) from error
    return {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(control),
        "polling_interval": POLLING_SECONDS,
    }


def _redis(settings: Settings, consumer: bool) -> dict[str, object]:
    options: dict[str, object] = {
        # A message must not be redelivered while its task may still run.
        "visibility_timeout": settings.task_time_limit + settings.lease_seconds,
        "socket_connect_timeout": SEND_SECONDS,
        "socket_keepalive": True,
        # A prefix for every key: kombu's keys for unacknowledged messages have one name for all queues of a
        # database.
        "global_keyprefix": f"{settings.broker_queue}:",
    }
    if not consumer:
        options |= {"socket_timeout": SEND_SECONDS, "max_retries": 0, "connect_retries_timeout": SEND_SECONDS}
    return options


def _use_rabbitmq(app: Celery, settings: Settings, consumer: bool) -> None:
    # Imported here, because only this broker needs it.
    from shoal.jobs.transport import rabbitmq_transport

    seconds = RABBITMQ_SECONDS if consumer else SEND_SECONDS
    app.conf.update(
        broker_transport=rabbitmq_transport.install(settings.broker_url),
        task_queues=[_queue(settings.broker_queue, rabbitmq_transport.QUEUE_ARGUMENTS)],
        worker_consumer=RABBITMQ_CONSUMER,
        # A sender's connection ends before a heartbeat is due.
        broker_heartbeat=HEARTBEAT_SECONDS if consumer else 0,
        broker_connection_timeout=seconds,
        broker_transport_options={
            "read_timeout": seconds,
            "write_timeout": seconds,
            # RabbitMQ acknowledges what it has stored, so sending fails if it has not.
            "confirm_publish": True,
            **({} if consumer else _one_attempt(settings.broker_url)),
        },
    )


def _one_attempt(url: str) -> dict[str, object]:
    """Return kombu's options for one attempt at each node of a cluster, whose URLs a `;` separates."""
    return {"max_retries": url.count(";"), "interval_start": 0, "connect_retries_timeout": SEND_SECONDS}


class Channel(filesystem.Channel):
    """A queue consists of the files `MILLISECONDS_UUID.QUEUE.msg` of one folder, oldest first."""

    # kombu's own signatures of `_put` differ.
    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        folder = Path(self.data_folder_out)
        name = f"{time.time_ns() // 1_000_000:015d}_{uuid.uuid4()}"
        draft = folder / f"{name}.tmp"
        try:
            draft.write_text(json.dumps(payload))
            draft.rename(folder / f"{name}.{queue}{MESSAGE_SUFFIX}")
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise ChannelError(f"cannot write a message: {error.strerror}") from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        for path in self._messages(queue):
            taken = path.with_name(f"{path.name.partition('.')[0]}.taken")
            try:
                path.rename(taken)
            except OSError:
                # Another consumer has taken it.
                continue
            message = _read(taken)
            with contextlib.suppress(OSError):
                taken.unlink()
            if message is not None:
                return message
        raise Empty

    def _messages(self, queue: str) -> list[Path]:
        suffix = f".{queue}{MESSAGE_SUFFIX}"
        try:
            return sorted(path for path in Path(self.data_folder_in).iterdir() if path.name.endswith(suffix))
        except OSError:
            return []


class Transport(filesystem.Transport):
    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> Any:
        """Wait for messages for at most MAX_DRAIN_SECONDS."""
        wait_seconds = None if timeout is None else min(timeout, MAX_DRAIN_SECONDS)
        return super().drain_events(connection, wait_seconds)  # type: ignore[no-untyped-call]


def _read(path: Path) -> Any:
    """Return the message in a file, or None if kombu could not process it."""
    try:
        message = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return message if is_message(message) else None


def remove_stale_files(folder: Path) -> int:
    """Remove files of processes that died while they wrote or took a message; return the number of files."""
    removed = 0
    for path in [*folder.glob("*.tmp"), *folder.glob("*.taken")]:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()
                removed += 1
    return removed
