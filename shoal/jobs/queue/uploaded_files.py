"""Files that other programs uploaded, as items of jobs: those that are not stored, or not yet.

The source path of such an item, and of its document, begins with the id of the file and a slash.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from shoal.declared.arguments import MAX_ID
from shoal.jobs.queue.states import DROPPED, FINAL, RECEIVING, RETRIABLE
from shoal.models.jobs import ItemStatus
from shoal.storage.database import Database, Row, listed

ID_CHARS = 29
"""Of `file-` and 24 hexadecimal digits. The index of these items has as many."""
_ID = f"substr(i.source_path, 1, {ID_CHARS})"
_IS_FILE = "substr(i.source_path, 1, 5) = 'file-'"
_NOT_ACCEPTED = f"('{RECEIVING}', '{DROPPED}')"
# The latest item, in accepted jobs, of each file that has no document. The sum keeps SQLite from reading all
# items in order.
_UNSTORED = f"""
    FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE {_IS_FILE} AND i.status IN ({{statuses}}) AND j.status NOT IN {_NOT_ACCEPTED}
      AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.source_path = i.source_path)
      AND NOT EXISTS (SELECT 1 FROM job_items l
                      WHERE {_IS_FILE.replace("i.", "l.")} AND {_ID.replace("i.", "l.")} = {_ID}
                        AND l.id > i.id
                        AND (SELECT k.status FROM jobs k WHERE k.id = l.job_id) NOT IN {_NOT_ACCEPTED})
"""
PAGE = f"""
    SELECT i.id, {_ID} AS file_id, i.status, i.error, i.error_code, i.n_bytes, i.job_id, i.source_path,
           i.metadata, j.created_at, i.document_id,
           (SELECT d.source_path FROM documents d WHERE d.id = i.document_id) AS stored_as
    {_UNSTORED} AND i.id + 0 > :after AND i.id + 0 < :before
    ORDER BY i.id + 0 {{order}} LIMIT :limit
"""
ONE = PAGE.replace("AND i.id + 0 > :after AND i.id + 0 < :before", f"AND {_ID} = :file_id")
COUNT = f"SELECT i.status, COUNT(*) {_UNSTORED} GROUP BY i.status"
# Also of a file that has a document, which the job would store again after its deletion, and of uploads.
OPEN_JOB = f"""
    SELECT i.job_id FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE {_IS_FILE} AND {_ID} = :file_id AND i.status IN ({{statuses}})
      AND j.status <> '{DROPPED}'
    ORDER BY i.id DESC LIMIT 1
"""
# Items that ended as duplicates of the document of their own file.
COUNT_OWN = f"""
    SELECT COUNT(*) FROM job_items i
    WHERE i.job_id = :job_id AND i.status = '{ItemStatus.duplicate}' AND {_IS_FILE}
      AND EXISTS (SELECT 1 FROM documents d WHERE d.source_path = i.source_path)
"""
# An item without a document keeps the name of its file.
FORGET = f"""
    UPDATE job_items AS i SET source_path = substr(i.source_path, {ID_CHARS + 2})
    WHERE {_IS_FILE} AND {_ID} = :file_id AND i.status IN ({{statuses}})
"""
UNSTORED = frozenset(ItemStatus) - {ItemStatus.succeeded, ItemStatus.embedding}
ENDED = frozenset({*RETRIABLE, ItemStatus.duplicate})
OPEN = UNSTORED - FINAL


@dataclass(frozen=True, slots=True)
class UnstoredFile:
    """A file without a document. `item_id`: its place in the order; `document_id`: the document with the same
    text, whose source path is `stored_as`."""

    file_id: str
    item_id: int
    job_id: int
    status: ItemStatus
    error: str | None
    error_code: str | None
    n_bytes: int
    source_path: str
    metadata: str
    created_at: str
    document_id: int | None
    stored_as: str | None


def unstored(
    database: Database,
    statuses: Collection[ItemStatus] = UNSTORED,
    *,
    after: int = 0,
    before: int = MAX_ID,
    descending: bool = False,
    limit: int,
) -> list[UnstoredFile]:
    """Return files without a document, by the id of their item, of those between two."""
    bounds = {"after": after, "before": before, "limit": limit}
    return _read(database, PAGE, statuses, bounds, descending=descending)


def unstored_file(database: Database, file_id: str) -> UnstoredFile | None:
    """Return a file, if it has no document and was to get one."""
    found = _read(database, ONE, UNSTORED, {"file_id": file_id, "limit": 1}, descending=True)
    return found[0] if found else None


def open_job(database: Database, file_id: str) -> int | None:
    """Return the job that still has a file to process, or is being received with it; None if none has."""
    names, parameters = listed("status", sorted(OPEN))
    with database.snapshot() as snapshot:
        job_id: int | None = snapshot.value(
            OPEN_JOB.format(statuses=names), {"file_id": file_id, **parameters}
        )
    return job_id


def count_unstored(database: Database) -> dict[ItemStatus, int]:
    """Count the files without a document by status."""
    names, parameters = listed("status", sorted(UNSTORED))
    with database.snapshot() as snapshot:
        rows = snapshot.tuples(COUNT.format(statuses=names), parameters)
        return {ItemStatus(status): n for status, n in rows}


def count_stored_before(database: Database, job_id: int) -> int:
    """Count the items of a job whose file was stored already."""
    with database.snapshot() as snapshot:
        return int(snapshot.value(COUNT_OWN, {"job_id": job_id}))


def forget(database: Database, file_id: str) -> None:
    """Let the items of a file that ended without a document be items of a file that is unknown."""
    names, parameters = listed("status", sorted(ENDED))
    with database.write() as transaction:
        transaction.execute(FORGET.format(statuses=names), {"file_id": file_id, **parameters})


def _read(
    database: Database,
    statement: str,
    statuses: Collection[ItemStatus],
    values: dict[str, Any],
    *,
    descending: bool,
) -> list[UnstoredFile]:
    names, parameters = listed("status", sorted(statuses))
    statement = statement.format(statuses=names, order="DESC" if descending else "ASC")
    with database.snapshot() as snapshot:
        return [_file(row) for row in snapshot.rows(statement, {**parameters, **values})]


def _file(row: Row) -> UnstoredFile:
    values = dict(row)
    return UnstoredFile(item_id=values.pop("id"), status=ItemStatus(values.pop("status")), **values)
