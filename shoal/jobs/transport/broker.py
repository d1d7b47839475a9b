"""The broker: how a nudge ("come and claim") travels from whoever has work to a worker.

The database is the truth; a message may be lost, doubled, late or out of order without harm. So sending is quick
to give up, and no more messages are kept than there is use for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from celery import Celery
from kombu.entity import Exchange, Queue

from shoal.errors import BrokerUnavailableError
from shoal.jobs.transport.filesystem_transport import remove_leftovers
from shoal.settings import Settings

POLLING_SECONDS = 0.02
"""How often the embedded broker's folder is looked at; 550 messages a second were delivered with it."""

SEND_SECONDS = 1.0
"""How long connecting to the broker, and each answer of it, may take when sending."""

FILESYSTEM_TRANSPORT = "shoal.jobs.transport.filesystem_transport:Transport"

log = logging.getLogger(__name__)


class WorkerNotifier(Protocol):
    """Tells some worker to come and claim. Raises BrokerUnavailableError where it can't."""

    def __call__(self) -> None: ...


def make_celery(settings: Settings, *, consumer: bool = False) -> Celery:
    """The Celery application that sends nudges or, with `consumer`, also takes them.

    The folders of the embedded broker are made here. Raises BrokerUnavailableError where they can't be.
    """
    embedded = settings.broker_url.startswith("filesystem://")
    # kombu wants a host to connect to, and warns where there is none.
    url = "filesystem://localhost//" if embedded else settings.broker_url
    app = Celery("shoal", broker=url, set_as_current=False)
    # The default exchange: a message goes straight to its queue, and no table of bindings is kept (which the
    # embedded broker would keep in a file that is not safe against being read while it is written).
    name = settings.broker_queue
    queue = Queue(name, Exchange(""), routing_key=name)  # type: ignore[no-untyped-call]
    app.conf.update(
        task_queues=[queue],
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
        # There are no results to wait for, so a child that died need not keep its place for ten seconds.
        worker_lost_wait=0.5,
        broker_connection_timeout=SEND_SECONDS,
        # A worker waits for its broker, however long that is away.
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # An error that the broker answers with is no reason for a worker to end either.
        broker_channel_error_retry=True,
        broker_pool_limit=4,
    )
    if embedded:
        app.conf.broker_transport = FILESYSTEM_TRANSPORT
        app.conf.broker_transport_options = _folders(settings)
    else:
        # Imported here: the embedded broker does without Redis and its client.
        from shoal.jobs.transport import redis_transport

        redis_transport.install()
        app.conf.broker_transport_options = _redis(settings, consumer)
    return app


def notify_workers(app: Celery, *, unless_waiting: bool = True) -> bool:
    """Send one "come and claim"; True if it was sent.

    With `unless_waiting` nothing is sent where a message waits in the queue already: whoever takes that one
    claims later than now, so it sees whatever was committed before this call. Raises BrokerUnavailableError
    within about two seconds.
    """
    queue = app.conf.task_default_queue
    try:
        with app.connection_for_write() as connection:
            if unless_waiting and connection.default_channel.queue_declare(queue).message_count:
                return False
            app.send_task(TASK_WORK, queue=queue, retry=False, ignore_result=True, connection=connection)
    except Exception as error:
        # Every transport has errors of its own, and some raise those of the libraries below them.
        raise BrokerUnavailableError(f"the broker can't be reached ({type(error).__name__})") from error
    return True


def worker_notifier(app: Celery) -> Callable[[], None]:
    """A Nudger that logs instead of raising: what was committed is safe, and the reconciler sends it later."""

    def notify() -> None:
        try:
            notify_workers(app)
        except BrokerUnavailableError as error:
            log.warning("nudge not sent, the reconciler will: %s", error)

    return notify


def tidy_folders(settings: Settings) -> None:
    """Remove what a process left in the embedded broker's folder when it died; nothing to do for other brokers."""
    if settings.broker_url.startswith("filesystem://"):
        remove_leftovers(settings.data_path / "broker" / "messages")


def _folders(settings: Settings) -> dict[str, object]:
    base = settings.data_path / "broker"
    messages, control = base / "messages", base / "control"
    for folder in (messages, control):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BrokerUnavailableError(
                f"cannot make {folder}, the folder of the embedded broker: {error.strerror}"
            ) from error
    return {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(control),
        "polling_interval": POLLING_SECONDS,
    }


def _redis(settings: Settings, consumer: bool) -> dict[str, object]:
    options: dict[str, object] = {
        # A message that is worked on must not be delivered again while its task may still run.
        "visibility_timeout": settings.task_time_limit + settings.lease_seconds,
        "socket_connect_timeout": SEND_SECONDS,
        "socket_keepalive": True,
        # Every key, also those of messages in flight, which have one name for all queues of a database.
        "global_keyprefix": f"{settings.broker_queue}:",
    }
    if not consumer:
        options |= {"socket_timeout": SEND_SECONDS, "max_retries": 0, "connect_retries_timeout": SEND_SECONDS}
    return options


TASK_WORK = "shoal.work"
"""The only task there is: "come and claim". Its messages carry nothing."""
