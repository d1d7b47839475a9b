"""Accepting work: documents are spooled into the database and become a job in one durable step.

Until `finish()` (or `submit_one`, `submit_delete`) has returned, nothing is promised: the rows of an upload are
not shown, not claimed, and removed once it has given no sign of life for `upload_timeout`. After it has
returned, every item ends with a result whatever dies.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from shoal.errors import IdempotencyError, InvalidFieldError, UploadDroppedError
from shoal.jobs.queue import statements
from shoal.jobs.queue.job_items import (
    WaveAssigner,
    accepted_item,
    insert_items,
    item_of_document,
    refused_item,
)
from shoal.jobs.queue.states import RECEIVING, Stage, plan_for, plan_from_json, plan_to_json
from shoal.jobs.queue.transitions import close_if_done
from shoal.models import DocumentDraft, ItemStatus, JobKind
from shoal.settings import MIB, Settings
from shoal.storage.database import Database
from shoal.support.clock import timestamp
from shoal.support.request_context import TRACE_ID

FLUSH_BYTES = 4 * MIB
"""Text written in one transaction: about 50 ms, so that workers get their turn at the write lock."""

FLUSH_ITEMS = 500

FLUSHES_PER_TIMEOUT = 4
"""A slow upload writes what it has this often within `upload_timeout`, as its sign of life."""

DROP_BYTES = 16 * MIB
DROP_ITEMS = 2000
"""How much of a given-up upload is removed in one transaction."""

DROP_SLICES = 8
"""Transactions at a time; what is left is removed by the next round of the reconciler."""

log = logging.getLogger(__name__)


class Upload:
    """One upload on its way to a job. Not safe to share between threads.

    `add` and `refuse` keep the order of the upload. Memory is bounded by FLUSH_BYTES and the largest document.
    """

    def __init__(self, database: Database, settings: Settings, *, local_owner: str | None = None) -> None:
        """With a `local_owner` (`lease.new_owner()`) the job is for its process alone, and ends with it."""
        self._database = database
        self._settings = settings
        self._local_owner = local_owner
        self._kind = JobKind.ingest
        self._key: str | None = None
        self._request_hash: str | None = None
        self._job_id: int | None = None
        self._items: list[dict[str, Any]] = []
        self._buffered_bytes = 0
        self._flushed_at = 0.0
        self._seq = 0
        self._n_skipped = 0
        self._waves = WaveAssigner(settings.wave_bytes)

    def begin(
        self,
        kind: JobKind | str = JobKind.ingest,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
    ) -> Upload:
        """Open the upload. The key is taken only by `finish`, so that an upload that dies does not hold it.

        Raises IdempotencyError if the key was accepted already with another `request_hash`.
        """
        self._kind = JobKind(kind)
        self._key, self._request_hash = idempotency_key, request_hash
        now = time.time()
        with self._database.write() as connection:
            if idempotency_key is not None and request_hash is not None:
                _accepted_before(connection, idempotency_key, request_hash)
            self._job_id = _insert_job(connection, self._kind, self._settings, self._local_owner)
        self._flushed_at = now
        return self

    @property
    def n_items(self) -> int:
        """Items so far, the refused ones included."""
        return self._seq

    def add(self, draft: DocumentDraft) -> None:
        """Take a document. Raises InvalidFieldError over `max_upload_items`, UploadDroppedError, StorageError."""
        self._put(accepted_item(draft, self._waves.place(draft.n_bytes)))

    def replace(self, document_id: int, draft: DocumentDraft) -> None:
        """Take the new content of a document that is stored. Raises as `add`."""
        item = accepted_item(draft, self._waves.place(draft.n_bytes))
        self._put({**item, "document_id": document_id})

    def add_stored(self, document_id: int, title: str, source_path: str | None, n_bytes: int) -> None:
        """Take a document that is stored, for a job that rescores: all of them make one wave. Raises as `add`."""
        self._put(item_of_document(document_id, title, source_path, n_bytes, wave=0))

    def refuse(self, title: str, source_path: str | None, n_bytes: int, error: BaseException | str) -> None:
        """Record an item that cannot be taken, with its reason; it is a failed item of the job. Raises as `add`."""
        limits = self._settings
        source_path = source_path[: limits.max_source_path_chars] if source_path else None
        self._put(
            refused_item(
                title[: limits.max_title_chars], source_path, n_bytes, str(error), self._waves.current
            )
        )

    def note_skipped(self, n: int) -> None:
        """Tell how much of what came holds no document: folders in an archive, say. The job will show it."""
        self._n_skipped = n

    def finish(self, request_hash: str | None = None) -> int:
        """Make the upload a job, durably, and return its id. `request_hash` may be given here if it is known only
        once the body was read.

        A job of refused items only is final at once. Where the idempotency key was accepted before for the same
        body, this upload is removed and the earlier job's id returned. Raises InvalidFieldError for an upload of
        no items, IdempotencyError for a key of another body, UploadDroppedError, StorageError.
        """
        job_id = self._job()
        if self._seq == 0 and self._kind is not JobKind.rescore:
            self.abandon()
            raise InvalidFieldError("documents", "there is no document in this upload")
        self._request_hash = request_hash or self._request_hash
        try:
            self._flush()
            with self._database.write() as connection:
                earlier = _accepted_before(connection, self._key, self._request_hash)
                if earlier is None:
                    _accept(connection, job_id, self._key, self._request_hash, self._n_skipped)
        except IdempotencyError:
            self.abandon()
            raise
        if earlier is not None:
            self.abandon()
            return earlier
        self._job_id = None
        if self._local_owner is None:
            _log_accepted(job_id, self._kind, self._seq)
        return job_id

    def abandon(self) -> None:
        """Give the upload up and remove its rows. Does nothing if it is finished or abandoned already."""
        if self._job_id is None:
            return
        job_id, self._job_id = self._job_id, None
        self._items = []
        with self._database.write() as connection:
            connection.execute(statements.DROP_UPLOAD, {"job_id": job_id})
        remove_dropped(self._database)

    def _job(self) -> int:
        if self._job_id is None:
            raise UploadDroppedError("this upload is not open")
        return self._job_id

    def _put(self, item: dict[str, Any]) -> None:
        self._job()
        if self._seq >= self._settings.max_upload_items:
            raise InvalidFieldError(
                "documents", f"at most {self._settings.max_upload_items} documents fit in one upload"
            )
        self._items.append({**item, "seq": self._seq})
        self._seq += 1
        self._buffered_bytes += item["n_bytes"] if item["content"] is not None else 0
        overdue = time.time() - self._flushed_at > self._settings.upload_timeout / FLUSHES_PER_TIMEOUT
        if self._buffered_bytes >= FLUSH_BYTES or len(self._items) >= FLUSH_ITEMS or overdue:
            self._flush()

    def _flush(self) -> None:
        job_id, now = self._job(), time.time()
        with self._database.write() as connection:
            alive = connection.execute(statements.TOUCH_UPLOAD, {"job_id": job_id, "moment": now})
            if not alive.rowcount:
                raise UploadDroppedError("the upload gave no sign of life for too long and was dropped")
            insert_items(connection, job_id, self._items)
        # Only now: an upload whose write failed still has what it wanted to write.
        self._items, self._buffered_bytes, self._flushed_at = [], 0, now


def submit_one(
    database: Database,
    settings: Settings,
    draft: DocumentDraft,
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
) -> int:
    """Accept one document as a job in one durable transaction; the job's id. Raises IdempotencyError, StorageError."""
    items = [{**accepted_item(draft, wave=0), "seq": 0}]
    return _submit(database, settings, JobKind.ingest, items, idempotency_key, request_hash)


def submit_duplicate(
    database: Database,
    settings: Settings,
    document_id: int,
    draft: DocumentDraft,
    idempotency_key: str,
    request_hash: str,
) -> int:
    """Note that a document turned out to be stored already, as a job that has ended; its id. Raises as `submit_one`.

    So the key of the request is known, and the same request is told the same again.
    """
    done = {"content": None, "status": ItemStatus.duplicate.value, "document_id": document_id, "seq": 0}
    items = [{**accepted_item(draft, wave=0), **done}]
    return _submit(database, settings, JobKind.ingest, items, idempotency_key, request_hash)


def submit_replacement(
    database: Database,
    settings: Settings,
    document_id: int,
    draft: DocumentDraft,
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
) -> int:
    """Accept the new content of a document that is stored as a job; its id. Raises as `submit_one`."""
    items = [{**accepted_item(draft, wave=0), "seq": 0, "document_id": document_id}]
    return _submit(database, settings, JobKind.replacing, items, idempotency_key, request_hash)


def submit_rescore(
    database: Database,
    settings: Settings,
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
    local_owner: str | None = None,
) -> int:
    """Accept the rescoring of every document that is stored now as a job; its id. Raises as `Upload.finish`."""
    settings = dataclasses.replace(settings, max_upload_items=sys.maxsize)
    upload = Upload(database, settings, local_owner=local_owner)
    upload.begin(JobKind.rescore, idempotency_key, request_hash)
    try:
        with database.snapshot(limited=False) as snapshot:
            for head in snapshot.tuples(statements.DOCUMENT_HEADS):
                upload.add_stored(*head)
        return upload.finish()
    except BaseException:
        upload.abandon()
        raise


def submit_delete(
    database: Database,
    settings: Settings,
    document_ids: Sequence[int],
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
) -> int:
    """Accept the removal of documents as a job; its id. Ids that do not exist count as removed.

    Raises InvalidFieldError for no ids at all, IdempotencyError, StorageError.
    """
    if not document_ids:
        raise InvalidFieldError("documents", "there is no document to delete")
    with database.read() as connection:
        known = {
            row["id"]: row
            for document_id in document_ids
            for row in connection.execute(statements.DOCUMENT_HEAD, {"document_id": document_id}).mappings()
        }
    waves = WaveAssigner(settings.wave_bytes)
    items = []
    for seq, document_id in enumerate(dict.fromkeys(document_ids)):
        title, source_path, n_bytes = f"document {document_id}", None, 0
        if document_id in known:
            row = known[document_id]
            title, source_path, n_bytes = row["title"], row["source_path"], row["n_bytes"]
        item = item_of_document(document_id, title, source_path, n_bytes, wave=waves.place(n_bytes))
        items.append({**item, "seq": seq})
    return _submit(database, settings, JobKind.delete, items, idempotency_key, request_hash)


def remove_dropped(database: Database, slices: int = DROP_SLICES) -> int:
    """Remove rows of uploads that were given up, at most `slices` transactions; how many items went.

    May stop and start again anywhere: a dropped upload loses its job row last.
    """
    removed = 0
    for _ in range(slices):
        with database.read() as connection:
            job_id = connection.execute(statements.DROPPED_JOB).scalar()
            if job_id is None:
                break
            wanted = {"job_id": job_id, "limit": DROP_ITEMS}
            part = _slice(connection.execute(statements.DROPPED_ITEMS, wanted))
        with database.write() as connection:
            if part:
                connection.execute(statements.DELETE_ITEM, [{"item_id": item_id} for item_id in part])
            else:
                connection.execute(statements.DELETE_JOB, {"job_id": job_id})
        removed += len(part)
    return removed


def _slice(rows: Iterable[Any]) -> list[int]:
    """Ids of the first items, up to DROP_BYTES of text."""
    taken, n_bytes = [], 0
    for row in rows:
        taken.append(int(row.id))
        n_bytes += row.n_bytes
        if n_bytes >= DROP_BYTES:
            break
    return taken


def _submit(
    database: Database,
    settings: Settings,
    kind: JobKind,
    items: list[dict[str, Any]],
    key: str | None,
    request_hash: str | None,
) -> int:
    with database.write() as connection:
        earlier = _accepted_before(connection, key, request_hash)
        if earlier is not None:
            return earlier
        job_id = _insert_job(connection, kind, settings)
        insert_items(connection, job_id, items)
        _accept(connection, job_id, key, request_hash)
    _log_accepted(job_id, kind, len(items))
    return job_id


def _log_accepted(job_id: int, kind: JobKind, n_items: int) -> None:
    """The line that ties a request to the job whose number is on the lines of workers."""
    log.info("job accepted", extra={"job_id": job_id, "kind": kind.value, "items": n_items})


def _accepted_before(connection: sa.Connection, key: str | None, request_hash: str | None) -> int | None:
    """The job that took this key before; raises IdempotencyError if it was for another body."""
    if key is None:
        return None
    row = connection.execute(statements.JOB_BY_KEY, {"key": key}).first()
    if row is None:
        return None
    if row.request_hash != request_hash:
        raise IdempotencyError("this Idempotency-Key was used before with another request")
    return int(row.id)


def _insert_job(
    connection: sa.Connection, kind: JobKind, settings: Settings, local_owner: str | None = None
) -> int:
    row = {
        "kind": kind.value,
        "status": RECEIVING,
        "plan": plan_to_json(plan_for(kind, settings)),
        "created_at": timestamp(),
        "received_at": time.time(),
        "local_owner": local_owner,
        "trace_id": TRACE_ID.get(),
    }
    return int(connection.execute(statements.INSERT_JOB, row).scalar_one())


def _accept(
    connection: sa.Connection, job_id: int, key: str | None, request_hash: str | None, n_skipped: int = 0
) -> None:
    """Make a received upload a job. Whoever called must commit before anything is promised."""
    now = timestamp()
    job = {"job_id": job_id, "now": now}
    plan = plan_from_json(connection.execute(statements.PLAN, job).scalar_one())
    cut = connection.execute(statements.CUT_WAVES, {**job, "stage": plan[0].value})
    if not cut.rowcount and Stage.relearn in plan:
        connection.execute(statements.CUT_EMPTY_WAVE, {**job, "stage": Stage.relearn.value})
    row = {**job, "key": key, "request_hash": request_hash, "n_skipped": n_skipped}
    accepted = connection.execute(statements.ACCEPT_JOB, row)
    if not accepted.rowcount:
        raise UploadDroppedError("the upload gave no sign of life for too long and was dropped")
    close_if_done(connection, job_id, now)
