"""Makes the deliveries that wait, one by one: lease, send, record.

A process that dies between sending and recording leaves the lease to expire. The next try has the same
delivery id, by which a receiver knows it.

A webhook is one request, signed, to an address that the settings allow. Redirects are not followed, and
nothing of the answer but its status is read.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import ssl
import uuid
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import httpcore
import httpx

from shoal.conversion.web_addresses import parse_url
from shoal.conversion.web_network import CheckedNetwork, Deadline, Resolver, resolve, unreachable
from shoal.errors import FetchError, ShoalError
from shoal.models.saved_searches import DeliveryStatus
from shoal.saved_searches import delivery_rows as rows
from shoal.saved_searches.arguments import MAX_URL_CHARS, WebhookPolicy
from shoal.settings import Settings
from shoal.storage.database import Database, Row
from shoal.support.clock import timestamp, timestamp_at
from shoal.support.http_endpoints import retry_after
from shoal.version import __version__

FIRST_PAUSE_SECONDS = 10.0
PAUSE_FACTOR = 4.0
LONGEST_PAUSE_SECONDS = 6 * 3600.0
LONGEST_WAIT = timedelta(days=3)
"""A delivery is given up when it has waited for so long, also behind others that fail."""
LEASE_SLACK_SECONDS = 60.0
"""A lease lasts for so much longer than a request may take."""
DAY_SECONDS = 86_400
GONE = 410
PRUNED_TOGETHER = 1000
OFF_HERE = (
    "webhooks are off in the process that was to send this one: set SHOAL_WEBHOOK_HOSTS for every worker "
    "too, restart them, and send it again with `shoal saved-search redeliver`"
)

log = logging.getLogger(__name__)


class Deliverer:
    """Delivers the webhooks of a library. Any number of processes may do so."""

    def __init__(self, database: Database, settings: Settings, sender: WebhookSender | None = None) -> None:
        self._database = database
        self._settings = settings
        self._sender = sender or WebhookSender(settings)

    def deliver_one(self) -> bool:
        """Make the delivery that is due first; False if none is due. Raises StorageError."""
        with self._database.snapshot() as snapshot:
            now = snapshot.now()
            if not rows.is_any_due(snapshot, now):
                return False
        owner = uuid.uuid4().hex
        expires = now + self._settings.webhook_seconds + LEASE_SLACK_SECONDS
        with self._database.write() as transaction:
            delivery = rows.claim(transaction, owner=owner, now=now, expires=expires)
        if delivery is None:
            return False
        self._deliver(delivery, owner, now)
        return True

    def prune(self) -> int:
        """Delete some of the deliveries that ended longer than `webhook_days` ago; return their number."""
        before = timestamp_at(self._database.now() - DAY_SECONDS * self._settings.webhook_days)
        with self._database.write() as transaction:
            return rows.prune(transaction, before, PRUNED_TOGETHER)

    def _deliver(self, delivery: Row, owner: str, now: float) -> None:
        status: int | None = None
        error: str | None = None
        retry_after: float | None = None
        is_temporary = True
        if delivery["attempts"] > self._settings.webhook_attempts:
            error, is_temporary = "the worker died at every try", False
        elif not WebhookPolicy(self._settings).is_on:
            error, is_temporary = OFF_HERE, False
        else:
            try:
                status, retry_after = self._sender.send(
                    delivery["url"],
                    delivery["secret"],
                    delivery["body"].encode(),
                    delivery_id=delivery["delivery_id"],
                    event=delivery["event"],
                    moment=int(now),
                )
            except FetchError as problem:
                error, is_temporary = str(problem), problem.is_temporary
            except ShoalError as problem:
                error, is_temporary = str(problem), False
            except Exception as problem:
                # Without an outcome it would be sent again whenever its lease expires.
                log.exception("webhook %s failed", delivery["delivery_id"])
                error, is_temporary = f"the request failed: {type(problem).__name__}", False
            else:
                if not 200 <= status < 300:
                    error, is_temporary = f"the receiver answered with status {status}", status != GONE
        self._record(delivery, owner, status, error, retry_after, is_temporary=is_temporary)

    def _record(
        self,
        delivery: Row,
        owner: str,
        status: int | None,
        error: str | None,
        retry_after: float | None,
        *,
        is_temporary: bool,
    ) -> None:
        now = datetime.fromtimestamp(self._database.now(), UTC)
        is_last = (
            delivery["attempts"] >= self._settings.webhook_attempts
            or datetime.fromisoformat(delivery["created_at"]) + LONGEST_WAIT < now
        )
        outcome = (
            DeliveryStatus.delivered
            if error is None
            else DeliveryStatus.waiting
            if is_temporary and not is_last
            else DeliveryStatus.failed
        )
        with self._database.write() as transaction:
            rows.end(
                transaction,
                delivery,
                owner=owner,
                status=outcome.value,
                response_status=status,
                error=error,
                due_at=now.timestamp() + pause(delivery["attempts"], retry_after),
                now=timestamp(now),
            )
        log.info(
            "webhook %s of saved search %d: %s%s",
            delivery["delivery_id"],
            delivery["saved_search_id"],
            outcome.value,
            f", {error}" if error else "",
        )


def pause(attempts: int, retry_after: float | None = None) -> float:
    """Return the seconds until the next try after so many."""
    usual = FIRST_PAUSE_SECONDS * PAUSE_FACTOR ** min(max(attempts - 1, 0), 10)
    return min(max(usual, retry_after or 0.0), LONGEST_PAUSE_SECONDS)


SIGNATURE, DELIVERY, EVENT = "Shoal-Signature", "Shoal-Delivery", "Shoal-Event"
"""Headers of a webhook."""


class Answer(NamedTuple):
    """HTTP status of an answer, and the seconds that it asks to wait for."""

    status: int
    retry_after: float | None


def signature(secret: str, body: bytes, moment: int) -> str:
    """Return the value of the header with the signature: HMAC-SHA256 over `TIME.BODY`, in hexadecimal.

    `moment`: seconds since the epoch, which the receiver compares with its clock against replays.
    """
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"


class WebhookSender:
    """Sends webhooks. Safe to share between threads."""

    def __init__(self, settings: Settings, resolver: Resolver = resolve) -> None:
        self._settings = settings
        self._policy = WebhookPolicy(settings)
        self._resolver = resolver
        self._tls: ssl.SSLContext | None = None

    def send(
        self, url: str, secret: str, body: bytes, *, delivery_id: str, event: str, moment: int
    ) -> Answer:
        """Send a webhook and return the answer, whatever its status. Raises FetchError without an answer."""
        address = parse_url(url, MAX_URL_CHARS)
        self._policy.check_url(address)
        if address.scheme == "https" and self._tls is None:
            self._tls = httpx.create_ssl_context()
        network = CheckedNetwork(self._policy, self._resolver, Deadline(self._settings.webhook_seconds))
        headers = [
            ("Host", address.authority),
            ("User-Agent", f"Shoal/{__version__}"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            (SIGNATURE, signature(secret, body, moment)),
            (DELIVERY, delivery_id),
            (EVENT, event),
        ]
        target = httpcore.URL(
            scheme=address.scheme.encode(),
            host=address.host.encode(),
            port=address.port,
            target=address.target,
        )
        try:
            with (
                httpcore.ConnectionPool(self._tls, network_backend=network) as pool,
                pool.stream(
                    "POST",
                    target,
                    headers=[(name.encode(), value.encode("latin-1")) for name, value in headers],
                    content=body,
                ) as response,
            ):
                given = httpx.Headers(response.headers).get("retry-after", "")
                return Answer(response.status, retry_after(given))
        except httpcore.TimeoutException:
            raise FetchError(
                "time_limit",
                f"{address.host} did not answer within {self._settings.webhook_seconds:g} seconds "
                "(SHOAL_WEBHOOK_SECONDS)",
                is_temporary=True,
            ) from None
        except httpcore.NetworkError as error:
            raise unreachable(address.host, error) from None
        except httpcore.ProtocolError:
            raise FetchError(
                "failed", f"the answer of {address.host} is not HTTP", is_temporary=True
            ) from None
