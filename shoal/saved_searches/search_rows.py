"""The rows of saved searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.storage.database import Row, Snapshot, Transaction

# The secret is read by the deliveries alone (`delivery_rows.py`).
_COLUMNS = """id, name, arguments, min_score, url, is_active, evaluated, error, revision, created_at,
    updated_at"""
SELECT = f"""
    SELECT {_COLUMNS},
        (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.saved_search_id = saved_searches.id
            AND d.status = 'waiting') AS n_waiting,
        (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.saved_search_id = saved_searches.id
            AND d.status = 'failed') AS n_failed
    FROM saved_searches
"""
BY_ID = f"{SELECT} WHERE id = :id"
PAGE = f"{SELECT} ORDER BY id LIMIT :limit OFFSET :offset"
COUNT = "SELECT COUNT(*) FROM saved_searches"
INSERT = """
    INSERT INTO saved_searches (name, arguments, min_score, url, secret, is_active, evaluated, created_at,
                                updated_at)
    VALUES (:name, :arguments, :min_score, :url, :secret, :is_active, :evaluated, :now, :now)
    RETURNING id
"""
UPDATE = """
    UPDATE saved_searches SET name = :name, arguments = :arguments, min_score = :min_score, url = :url,
        secret = COALESCE(:secret, secret), is_active = :is_active, evaluated = :evaluated, error = NULL,
        revision = revision + 1, lease_owner = NULL, lease_expires_at = 0, updated_at = :now
    WHERE id = :id
"""
DELETE = "DELETE FROM saved_searches WHERE id = :id"
# A search whose webhooks wait is evaluated again when some of them have ended.
_DUE = """
    is_active = 1 AND evaluated < :last AND lease_expires_at <= :now
    AND (SELECT COUNT(*) FROM webhook_deliveries d
         WHERE d.saved_search_id = saved_searches.id AND d.status = 'waiting') < :max_waiting
"""
IS_ANY_DUE = f"SELECT EXISTS (SELECT 1 FROM saved_searches WHERE {_DUE})"
CLAIM = f"""
    UPDATE saved_searches SET lease_owner = :owner, lease_expires_at = :expires
    WHERE id IN (SELECT id FROM saved_searches WHERE {_DUE} ORDER BY evaluated, id LIMIT :limit)
"""
CLAIMED = f"SELECT {_COLUMNS} FROM saved_searches WHERE lease_owner = :owner ORDER BY evaluated, id"
# Nobody changed the search, or took it over, since it was claimed.
EVALUATED = """
    UPDATE saved_searches SET evaluated = :last, error = :error, lease_owner = NULL, lease_expires_at = 0
    WHERE id = :id AND lease_owner = :owner AND evaluated = :after AND revision = :revision
"""
RELEASE = "UPDATE saved_searches SET lease_owner = NULL, lease_expires_at = 0 WHERE lease_owner = :owner"
N_ACTIVE = "SELECT COUNT(*) FROM saved_searches WHERE is_active = 1"


def get(snapshot: Snapshot, search_id: int) -> Row | None:
    """Read a saved search with the numbers of its deliveries; None if there is none."""
    row: Row | None = snapshot.first(BY_ID, {"id": search_id})
    return row


def page(snapshot: Snapshot, limit: int, offset: int) -> tuple[Sequence[Row], int]:
    """Read a page of the saved searches, by id, and the number of all."""
    return snapshot.rows(PAGE, {"limit": limit, "offset": offset}), snapshot.value(COUNT)


def count(snapshot: Snapshot) -> int:
    """Count the saved searches."""
    number: int = snapshot.value(COUNT)
    return number


def count_active(snapshot: Snapshot) -> int:
    """Count the saved searches that are evaluated."""
    number: int = snapshot.value(N_ACTIVE)
    return number


def insert(transaction: Transaction, values: Mapping[str, Any]) -> int:
    """Store a saved search and return its id."""
    number: int = transaction.value(INSERT, values)
    return number


def update(transaction: Transaction, values: Mapping[str, Any]) -> None:
    """Replace a saved search; without a `secret` it keeps its own."""
    transaction.execute(UPDATE, values)


def delete(transaction: Transaction, search_id: int) -> bool:
    """Delete a saved search and its deliveries; False if there is none."""
    return bool(transaction.execute(DELETE, {"id": search_id}))


def is_any_due(snapshot: Snapshot, last: int, now: float, max_waiting: int) -> bool:
    """Whether an active search has not seen the evaluation `last` and nobody is at it."""
    return bool(snapshot.value(IS_ANY_DUE, {"last": last, "now": now, "max_waiting": max_waiting}))


def claim(
    transaction: Transaction,
    *,
    owner: str,
    last: int,
    now: float,
    expires: float,
    max_waiting: int,
    limit: int,
) -> list[Row]:
    """Lease some of the searches that are due, those that are furthest behind first."""
    values = {"last": last, "now": now, "max_waiting": max_waiting}
    transaction.execute(CLAIM, {**values, "owner": owner, "expires": expires, "limit": limit})
    return transaction.rows(CLAIMED, {"owner": owner})


def finish(transaction: Transaction, row: Row, *, owner: str, last: int, error: str | None) -> bool:
    """Record that a claimed search has seen the evaluations up to `last`; False, having recorded nothing, if
    it was changed or claimed by another since."""
    values = {"id": row["id"], "after": row["evaluated"], "revision": row["revision"]}
    return bool(transaction.execute(EVALUATED, {**values, "owner": owner, "last": last, "error": error}))


def release(transaction: Transaction, owner: str) -> None:
    """Give back what `owner` has claimed and not finished."""
    transaction.execute(RELEASE, {"owner": owner})
