"""Jobs that compare notes: an item is a range of the waiting notes of one owner.

When the last item of an owner has ended, another pass follows if notes were merged or came in meanwhile.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.job_items import insert_items, refused_item
from shoal.jobs.queue.statements import OPEN_ITEM, OPEN_JOB
from shoal.jobs.queue.submission import submit_items
from shoal.models.jobs import ItemStatus, JobKind
from shoal.notes.merge_rows import MergeRows, QueueRange
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction
from shoal.storage.json_text import compact_json

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
