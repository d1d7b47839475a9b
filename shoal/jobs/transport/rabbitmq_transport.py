"""kombu's RabbitMQ transport, with refusals that say what to do.

In kombu, a wrong password, a missing virtual host and a queue declared with other arguments raise errors that
Celery takes for bugs of the worker, or retries many times a second. Here each has a message that names the
remedy, and a worker waits for the remedy as it waits for a broker that is down.
"""

from __future__ import annotations

import ssl
from typing import Any

import amqp
from kombu.transport import TRANSPORT_ALIASES, pyamqp

DELIVERY_LIMIT = 2**31 - 1
"""How often a message may be delivered again before RabbitMQ drops it. RabbitMQ 4 drops it after 20 times by
default, and a worker that is killed again and again would use them up. All versions accept this number; only
some accept -1."""

CONSUMER_TIMEOUT_SECONDS = 7 * 86_400
"""How long a message may stay unacknowledged: longer than any task, because the watchdog ends those that take
too long. The default of RabbitMQ is 30 minutes. RabbitMQ before 3.12 ignores this argument of a queue: it
closes the channel and delivers the message again, which finds nothing to claim."""

QUEUE_ARGUMENTS = {
    "x-queue-type": "quorum",
    "x-delivery-limit": DELIVERY_LIMIT,
    "x-consumer-timeout": CONSUMER_TIMEOUT_SECONDS * 1000,
}
"""Arguments of the queue. They are constants, because RabbitMQ refuses to open a queue with other arguments
than those it was made with."""


class RefusalError(Exception):
    """RabbitMQ was reached and denies something. An operator can change that while a worker waits.

    `remedy` says how.
    """

    def __init__(self, remedy: str) -> None:
        super().__init__(remedy)
        self.remedy = remedy

    def __str__(self) -> str:
        return self.remedy


class ConnectionDeniedError(RefusalError, amqp.exceptions.RecoverableConnectionError):  # type: ignore[misc]
    """RabbitMQ denies the connection."""


class QueueDeniedError(RefusalError, amqp.exceptions.RecoverableChannelError):  # type: ignore[misc]
    """RabbitMQ denies the queue: it has other arguments, or the user may not use it."""


class Channel(pyamqp.Channel):
    def queue_declare(self, queue: str = "", *args: Any, **options: Any) -> Any:
        """Declare a queue. Raises QueueDeniedError with the remedy."""
        try:
            return super().queue_declare(queue, *args, **options)
        except amqp.exceptions.PreconditionFailed as error:
            raise QueueDeniedError(
                f'the queue "{queue}" of RabbitMQ was declared with other arguments; delete it '
                f"(rabbitmqctl delete_queue {queue}) or choose another SHOAL_BROKER_QUEUE "
                f"({error.reply_text})"
            ) from error
        except amqp.exceptions.AccessRefused as error:
            raise QueueDeniedError(
                f'the user of SHOAL_BROKER_URL may not use the queue "{queue}"; allow it with '
                f"rabbitmqctl set_permissions ({error.reply_text})"
            ) from error


class Connection(pyamqp.Connection):
    Channel = Channel


class Transport(pyamqp.Transport):
    Connection = Connection

    def establish_connection(self) -> Any:
        """Connect. Raises ConnectionDeniedError with the remedy."""
        try:
            return super().establish_connection()  # type: ignore[no-untyped-call]
        except amqp.exceptions.AccessRefused as error:
            raise ConnectionDeniedError(
                f"RabbitMQ refused user or password of SHOAL_BROKER_URL ({error.reply_text})"
            ) from error
        except amqp.exceptions.NotAllowed as error:
            raise ConnectionDeniedError(
                "RabbitMQ has no such virtual host, or the user may not use it; create it with "
                "rabbitmqctl add_vhost and set_permissions, or correct the path of SHOAL_BROKER_URL "
                f"({error.reply_text})"
            ) from error


class TLSTransport(Transport):
    """The transport of amqps://. Certificates are checked by the authorities of the system."""

    def __init__(self, client: Any, *args: Any, **options: Any) -> None:
        super().__init__(client, *args, **options)  # type: ignore[no-untyped-call]
        # kombu replaces None by the host of the URL. Without the name, a certificate of any host would do.
        client.ssl = client.ssl or {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None}


def install(url: str) -> str:
    """Make the transport of a URL known to kombu, and return its name, which logs show as the scheme."""
    TRANSPORT_ALIASES["rabbitmq"] = f"{__name__}:{Transport.__name__}"
    TRANSPORT_ALIASES["rabbitmqs"] = f"{__name__}:{TLSTransport.__name__}"
    return "rabbitmqs" if url.startswith("amqps://") else "rabbitmq"
