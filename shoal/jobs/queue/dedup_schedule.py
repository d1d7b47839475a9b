"""Comparing the waiting notes of all owners every few hours, as a job.

Any number of workers may ask at any time: the transaction that accepts the job also writes when it was due
last, so there is one job at a time, and a restart neither loses nor repeats a turn.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from shoal.jobs.queue.dedup_items import items_for_owners
from shoal.jobs.queue.statements import OPEN_JOB
from shoal.jobs.queue.submission import submit_items
from shoal.models.jobs import JobKind
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.support.clock import timestamp

NAME = "dedup"
MAX_OWNERS = 500
"""Owners of one job; the next ones have their turn when it has ended."""

# `ran_at` is the start of a turn, which may take several jobs.
SCHEDULE = "SELECT ran_at, owner_after FROM schedules WHERE name = :name"
HAS_OPEN = f"""
    SELECT 1 FROM jobs
    WHERE status IN {OPEN_JOB} AND kind = '{JobKind.dedup}' AND local_owner IS NULL LIMIT 1
"""
WAITING_OWNERS = """
    SELECT o.owner FROM note_owners o
    WHERE o.owner > :after AND EXISTS (
        SELECT 1 FROM notes n
        WHERE n.owner = o.owner AND n.deprecated_at IS NULL AND n.dedup_verified = 0)
    ORDER BY o.owner LIMIT :limit
"""
WRITE = """
    INSERT INTO schedules (name, ran_at, owner_after) VALUES (:name, :ran_at, :owner_after)
    ON CONFLICT (name) DO UPDATE SET ran_at = excluded.ran_at, owner_after = excluded.owner_after
"""


class _NotDueError(Exception):
    """Another process was quicker, or nothing waits."""


def submit_due_dedup(database: Database, settings: Settings, now: datetime | None = None) -> int | None:
    """Accept a job if `note_dedup_hours` have passed since the last turn and no such job is open; return its
    id, or None. The notes of every owner have one turn. Raises StorageError."""
    moment = datetime.fromtimestamp(database.now(), UTC) if now is None else now
    if not settings.note_dedup_hours:
        return None
    with database.snapshot() as snapshot:
        if not _is_due(snapshot, settings, moment):
            return None

    def make_items(transaction: Transaction) -> list[dict[str, Any]]:
        if not _is_due(transaction, settings, moment):
            raise _NotDueError
        row = transaction.first(SCHEDULE, {"name": NAME})
        after = "" if row is None else row["owner_after"]
        found = transaction.tuples(WAITING_OWNERS, {"after": after, "limit": MAX_OWNERS})
        owners = [owner for (owner,) in found]
        is_last = len(owners) < MAX_OWNERS
        ran_at = row["ran_at"] if after else timestamp(moment)
        turn = {"name": NAME, "ran_at": ran_at, "owner_after": "" if is_last else owners[-1]}
        transaction.execute(WRITE, turn)
        return items_for_owners(transaction, owners)

    try:
        if _waits(database):
            return submit_items(database, settings, JobKind.dedup, make_items, None, None, run_alone=True)
        with database.write() as transaction:
            make_items(transaction)
    except _NotDueError:
        pass
    return None


def _is_due(snapshot: Snapshot, settings: Settings, moment: datetime) -> bool:
    row = snapshot.first(SCHEDULE, {"name": NAME})
    before = timestamp(moment - timedelta(hours=settings.note_dedup_hours))
    is_due = row is None or bool(row["owner_after"]) or row["ran_at"] <= before
    return is_due and snapshot.value(HAS_OPEN) is None


def _waits(database: Database) -> bool:
    """Whether any note waits, so that there are no empty jobs. A rare job without items ends at once."""
    with database.snapshot() as snapshot:
        row = snapshot.first(SCHEDULE, {"name": NAME})
        after = "" if row is None else row["owner_after"]
        return snapshot.value(WAITING_OWNERS, {"after": after, "limit": 1}) is not None
