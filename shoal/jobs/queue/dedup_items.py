"""Jobs that compare notes: an item is a range of the waiting notes of one owner.

When the last item of an owner has ended, another pass follows if notes were merged or came in meanwhile.

Every few hours a job compares the waiting notes of all owners. Any number of workers may ask for it at any
time: the transaction that accepts the job also writes when it was due last, so there is one job at a time,
and a restart neither loses nor repeats a turn.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.job_items import insert_items, refused_item
from shoal.jobs.queue.statements import OPEN_ITEM, OPEN_JOB
from shoal.jobs.queue.submission import submit_items
from shoal.models.jobs import ItemStatus, JobKind
from shoal.notes.merge_rows import MergeRows, QueueRange
from shoal.settings import Settings
from shoal.storage.column_values import compact_json
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.support.clock import timestamp

OPEN_DEDUP = f"""
    SELECT j.id FROM jobs j
    WHERE j.status IN {OPEN_JOB} AND j.kind = '{JobKind.dedup}' AND j.local_owner IS NULL AND EXISTS (
        SELECT 1 FROM job_items i
        WHERE i.job_id = j.id AND i.status IN {OPEN_ITEM} AND json_extract(i.metadata, '$.owner') = :owner)
        AND NOT EXISTS (
            SELECT 1 FROM job_items i WHERE i.job_id = j.id AND json_extract(i.metadata, '$.owner') <> :owner)
    ORDER BY j.id LIMIT 1
"""
OTHER_OPEN = f"""
    SELECT 1 FROM job_items
    WHERE job_id = :job_id AND id <> :item_id AND status IN {OPEN_ITEM}
        AND json_extract(metadata, '$.owner') = :owner
    LIMIT 1
"""
MAX_COMPARED = """
    SELECT MAX(CAST(json_extract(metadata, '$.last') AS BIGINT)) FROM job_items
    WHERE job_id = :job_id AND json_extract(metadata, '$.owner') = :owner
"""
FIRST_METADATA = "SELECT metadata FROM job_items WHERE job_id = :job_id ORDER BY seq LIMIT :limit"
OWNERS_OF_JOB = """
    SELECT DISTINCT json_extract(metadata, '$.owner') AS owner FROM job_items WHERE job_id = :job_id
"""
HAS_MERGED = "SELECT 1 FROM note_merges WHERE owner = :owner AND run_id = :run_id LIMIT 1"
NEXT_SEQ = "SELECT COALESCE(MAX(seq), -1) + 1 FROM job_items WHERE job_id = :job_id"
GROW_WAVE = """
    UPDATE waves SET total = total + :items, pending = pending + :items WHERE job_id = :job_id AND n = :wave
"""
GROW_JOB = "UPDATE jobs SET total = total + :items WHERE id = :job_id"


@dataclass(frozen=True, slots=True)
class DedupStep:
    """What an item of a dedup job is to do. `n_pass`: 1 for the first pass."""

    owner: str
    n_pass: int
    range: QueueRange

    @classmethod
    def of(cls, item: WorkItem) -> DedupStep:
        """Read the metadata of an item."""
        given = item.head.metadata
        return cls(given["owner"], given["pass"], QueueRange(given["first"], given["last"]))

    def run_id(self, job_id: int) -> str:
        """Return the name under which merges of this pass are logged."""
        return f"job {job_id}, pass {self.n_pass}"


def submit_dedup(
    database: Database,
    settings: Settings,
    owner: str,
    *,
    recheck: bool = False,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
) -> int:
    """Accept the comparison of an owner's waiting notes as a job; return its id, or that of an open one
    that compares no notes of others.

    `recheck`: also notes that were compared before; an open job is then not enough. A job without waiting
    notes ends at once. Raises IdempotencyError, StorageError.
    """
    if not recheck and idempotency_key is None:
        with database.snapshot() as snapshot:
            open_job: int | None = snapshot.value(OPEN_DEDUP, {"owner": owner})
        if open_job is not None:
            return open_job

    def make_items(transaction: Transaction) -> list[dict[str, Any]]:
        if recheck:
            MergeRows(transaction, owner).queue_all()
        return items_for_owners(transaction, [owner])

    return submit_items(
        database, settings, JobKind.dedup, make_items, idempotency_key, request_hash, run_alone=True
    )


def compared_owners(database: Database, job_id: int, limit: int) -> list[str]:
    """Return the owners whose notes the first `limit` items of a dedup job compare, in their order."""
    with database.snapshot() as snapshot:
        rows = list(snapshot.tuples(FIRST_METADATA, {"job_id": job_id, "limit": limit}))
    return list(dict.fromkeys(json.loads(metadata)["owner"] for (metadata,) in rows))


def owners_of(database: Database, job_id: int) -> set[str]:
    """Return all owners whose notes a dedup job compares."""
    with database.snapshot() as snapshot:
        return {owner for (owner,) in snapshot.tuples(OWNERS_OF_JOB, {"job_id": job_id})}


def items_for_owners(transaction: Transaction, owners: Iterable[str]) -> list[dict[str, Any]]:
    """Make the items of a first pass over the waiting notes of owners."""
    steps = [
        DedupStep(owner, 1, each) for owner in owners for each in MergeRows(transaction, owner).queue_ranges()
    ]
    return [_item(step, seq, wave=0) for seq, step in enumerate(steps)]


def add_next_pass(transaction: Transaction, item: WorkItem, settings: Settings) -> None:
    """Add the items of another pass if this was the last item of an owner and another pass is due."""
    step = DedupStep.of(item)
    job = {"job_id": item.job_id, "item_id": item.id, "owner": step.owner}
    if step.n_pass >= settings.note_dedup_passes or transaction.value(OTHER_OPEN, job):
        return
    due = MergeRows(transaction, step.owner).queue_ranges()
    if transaction.value(HAS_MERGED, {**job, "run_id": step.run_id(item.job_id)}) is None:
        # Those that still wait have failed, or are new.
        last = transaction.value(MAX_COMPARED, job)
        due = [each for each in due if each.last > last]
    if not due:
        return
    first_seq = transaction.value(NEXT_SEQ, job)
    steps = [dataclasses.replace(step, n_pass=step.n_pass + 1, range=each) for each in due]
    items = [_item(each, seq, item.wave) for seq, each in enumerate(steps, first_seq)]
    insert_items(transaction, item.job_id, items)
    transaction.execute(statements.RUN_ALONE, job)
    grown = {**job, "wave": item.wave, "items": len(items)}
    transaction.execute(GROW_WAVE, grown)
    transaction.execute(GROW_JOB, grown)


def title_of_owner(owner: str) -> str:
    """Return the title of an item that compares notes of an owner."""
    return f"notes of {owner}"


def _item(step: DedupStep, seq: int, wave: int) -> dict[str, Any]:
    item = refused_item(title_of_owner(step.owner), None, 0, None, None, wave)
    metadata = {
        "owner": step.owner,
        "pass": step.n_pass,
        "first": step.range.first,
        "last": step.range.last,
    }
    return {**item, "status": ItemStatus.enqueued.value, "metadata": compact_json(metadata), "seq": seq}


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
