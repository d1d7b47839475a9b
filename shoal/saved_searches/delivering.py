"""Makes the deliveries that wait, one by one: lease, send, record.

A process that dies between sending and recording leaves the lease to expire. The next try has the same
delivery id, by which a receiver knows it.
"""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime, timedelta

from shoal.errors import FetchError, ShoalError
from shoal.models.saved_searches import DeliveryStatus
from shoal.saved_searches import delivery_rows as rows
from shoal.saved_searches.arguments import WebhookPolicy
from shoal.saved_searches.webhooks import WebhookSender
from shoal.settings import Settings
from shoal.storage.database import Database, Row
from shoal.support.clock import timestamp, timestamp_at

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
