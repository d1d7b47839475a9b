"""Deliveries of saved searches: the webhooks that report matches, stored as rows until they are made.

They are made one by one: lease, send, record. A process that dies between sending and recording leaves the
lease to expire. The next try has the same delivery id, by which a receiver knows it.

A webhook is one request, signed, to an address that the settings allow. Redirects are not followed, and
nothing of the answer but its status is read.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import ssl
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import httpcore
import httpx

from shoal.conversion.fetching import CheckedNetwork, Deadline, Resolver, resolve, unreachable
from shoal.conversion.web_addresses import parse_url
from shoal.errors import FetchError, ShoalError
from shoal.models.saved_searches import DeliveryStatus
from shoal.saved_searches.arguments import MAX_URL_CHARS, WebhookPolicy
from shoal.settings import Settings
from shoal.storage.database import Database, Row, Snapshot, Transaction
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
SIGNATURE, DELIVERY, EVENT = "Shoal-Signature", "Shoal-Delivery", "Shoal-Event"
"""Headers of a webhook."""
_SHOWN = """delivery_id, saved_search_id, event, n_passages, status, attempts, due_at, response_status, error,
    created_at, updated_at"""
PAGE = f"""
    SELECT {_SHOWN} FROM webhook_deliveries
    WHERE saved_search_id = :search_id AND (:status IS NULL OR status = :status)
    ORDER BY id DESC LIMIT :limit OFFSET :offset
"""
COUNT = """
    SELECT COUNT(*) FROM webhook_deliveries
    WHERE saved_search_id = :search_id AND (:status IS NULL OR status = :status)
"""
BY_ID = f"""
    SELECT {_SHOWN}, body FROM webhook_deliveries
    WHERE saved_search_id = :search_id AND delivery_id = :delivery_id
"""
INSERT = """
    INSERT INTO webhook_deliveries (delivery_id, saved_search_id, event, n_passages, body, status, due_at,
                                    created_at, updated_at)
    VALUES (:delivery_id, :search_id, :event, :n_passages, :body, 'waiting', :due_at, :now, :now)
"""
# One at a time for each search: a receiver that does not answer delays no other, and the order is kept.
_NEXT = """
    SELECT id FROM webhook_deliveries d
    WHERE status = 'waiting' AND due_at <= :now AND lease_expires_at <= :now AND NOT EXISTS (
        SELECT 1 FROM webhook_deliveries o
        WHERE o.saved_search_id = d.saved_search_id AND o.status = 'waiting' AND o.lease_expires_at > :now)
    ORDER BY due_at, id LIMIT 1
"""
IS_ANY_WAITING = "SELECT EXISTS (SELECT 1 FROM webhook_deliveries WHERE status = 'waiting')"
LAST_DUE = """
    SELECT MAX(due_at) FROM webhook_deliveries WHERE saved_search_id = :search_id AND status = 'waiting'
"""
IS_ANY_DUE = f"SELECT EXISTS ({_NEXT})"
CLAIM = f"""
    UPDATE webhook_deliveries SET lease_owner = :owner, lease_expires_at = :expires, attempts = attempts + 1
    WHERE id = ({_NEXT}) RETURNING id
"""
CLAIMED = """
    SELECT d.id, d.delivery_id, d.saved_search_id, d.event, d.body, d.attempts, d.created_at, s.url, s.secret
    FROM webhook_deliveries d JOIN saved_searches s ON s.id = d.saved_search_id WHERE d.id = :id
"""
END = """
    UPDATE webhook_deliveries SET status = :status, response_status = :response_status, error = :error,
        due_at = :due_at, lease_owner = NULL, lease_expires_at = 0, updated_at = :now
    WHERE id = :id AND lease_owner = :owner
"""
# The other requests to this receiver need not fail one by one.
POSTPONE = """
    UPDATE webhook_deliveries SET due_at = :due_at
    WHERE saved_search_id = :search_id AND status = 'waiting' AND due_at < :due_at
"""
# It has the time of a new one, because the age limits the tries.
SEND_AGAIN = """
    UPDATE webhook_deliveries SET status = 'waiting', attempts = 0, due_at = :due_at, lease_owner = NULL,
        lease_expires_at = 0, created_at = :now, updated_at = :now
    WHERE saved_search_id = :search_id AND delivery_id = :delivery_id
"""
PRUNE = """
    DELETE FROM webhook_deliveries WHERE id IN (
        SELECT id FROM webhook_deliveries WHERE status <> 'waiting' AND updated_at < :before LIMIT :limit)
"""
COUNT_BY_STATUS = "SELECT status, COUNT(*) FROM webhook_deliveries GROUP BY status"


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
            if not is_any_due(snapshot, now):
                return False
        owner = uuid.uuid4().hex
        expires = now + self._settings.webhook_seconds + LEASE_SLACK_SECONDS
        with self._database.write() as transaction:
            delivery = claim(transaction, owner=owner, now=now, expires=expires)
        if delivery is None:
            return False
        self._deliver(delivery, owner, now)
        return True

    def prune(self) -> int:
        """Delete some of the deliveries that ended longer than `webhook_days` ago; return their number."""
        before = timestamp_at(self._database.now() - DAY_SECONDS * self._settings.webhook_days)
        with self._database.write() as transaction:
            return prune(transaction, before, PRUNED_TOGETHER)

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
            end(
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


def page(
    snapshot: Snapshot, search_id: int, status: str | None, limit: int, offset: int
) -> tuple[Sequence[Row], int]:
    """Read a page of the deliveries of a search, newest first, and the number of all."""
    values = {"search_id": search_id, "status": status}
    rows = snapshot.rows(PAGE, {**values, "limit": limit, "offset": offset})
    return rows, snapshot.value(COUNT, values)


def get(snapshot: Snapshot, search_id: int, delivery_id: str) -> Row | None:
    """Read a delivery of a search, with its body; None if there is none."""
    row: Row | None = snapshot.first(BY_ID, {"search_id": search_id, "delivery_id": delivery_id})
    return row


def insert(
    transaction: Transaction,
    *,
    delivery_id: str,
    search_id: int,
    event: str,
    n_passages: int,
    body: str,
    due_at: float,
    now: str,
) -> None:
    """Store a delivery, to be made from `due_at` on."""
    values = {"delivery_id": delivery_id, "search_id": search_id, "event": event, "n_passages": n_passages}
    transaction.execute(INSERT, {**values, "body": body, "due_at": due_at, "now": now})


def is_any_waiting(snapshot: Snapshot) -> bool:
    """Whether a delivery waits, due or not."""
    return bool(snapshot.value(IS_ANY_WAITING))


def is_any_due(snapshot: Snapshot, now: float) -> bool:
    """Whether a delivery can be claimed."""
    return bool(snapshot.value(IS_ANY_DUE, {"now": now}))


def last_due_at(snapshot: Snapshot, search_id: int) -> float | None:
    """Return when the last waiting delivery of a search is due; None if none waits."""
    due_at: float | None = snapshot.value(LAST_DUE, {"search_id": search_id})
    return due_at


def claim(transaction: Transaction, *, owner: str, now: float, expires: float) -> Row | None:
    """Lease the delivery that is due first, and count a try; return it with URL and secret."""
    number = transaction.value(CLAIM, {"owner": owner, "now": now, "expires": expires})
    row: Row | None = None if number is None else transaction.first(CLAIMED, {"id": number})
    return row


def end(
    transaction: Transaction,
    delivery: Row,
    *,
    owner: str,
    status: str,
    response_status: int | None,
    error: str | None,
    due_at: float,
    now: str,
) -> bool:
    """Record a try; False, having recorded nothing, if the lease was lost. `due_at`: of the next try, which
    also other deliveries of the search wait for."""
    values = {"id": delivery["id"], "owner": owner, "status": status, "due_at": due_at, "now": now}
    if not transaction.execute(END, {**values, "response_status": response_status, "error": error}):
        return False
    if status == "waiting":
        transaction.execute(POSTPONE, {"search_id": delivery["saved_search_id"], "due_at": due_at})
    return True


def send_again(transaction: Transaction, search_id: int, delivery_id: str, due_at: float, now: str) -> bool:
    """Let a delivery be made again, whatever became of it; False if there is none."""
    values = {"search_id": search_id, "delivery_id": delivery_id, "due_at": due_at, "now": now}
    return bool(transaction.execute(SEND_AGAIN, values))


def prune(transaction: Transaction, before: str, limit: int) -> int:
    """Delete deliveries that ended before a time; return their number."""
    return transaction.execute(PRUNE, {"before": before, "limit": limit})


def count_by_status(snapshot: Snapshot) -> dict[str, int]:
    """Count deliveries by status."""
    return dict(snapshot.tuples(COUNT_BY_STATUS))
