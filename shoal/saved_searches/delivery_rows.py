"""The rows of webhook deliveries: the requests that report matches of saved searches, until they are made."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.storage.database import Row, Snapshot, Transaction

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
