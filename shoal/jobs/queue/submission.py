"""Accept work: documents are spooled into the database and become a job in one durable step.

Until `finish()` (or `submit_document`, `submit_delete`) returns, nothing is accepted: the rows of an upload
are neither listed nor claimable, and are removed after `upload_timeout` without a heartbeat. Once it has
returned, every item gets a result, whichever process dies."""

from __future__ import annotations

import dataclasses
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from shoal.errors import IdempotencyError, InvalidFieldError, UploadDroppedError, refusal_code
from shoal.jobs.queue import statements
from shoal.jobs.queue.job_items import (
    N_CHANGES,
    SET_CHANGES,
    NewDraft,
    WaveAssigner,
    accepted_item,
    has_nothing_to_do,
    insert_items,
    item_of_document,
    new_item,
    refused_item,
    selected,
)
from shoal.jobs.queue.states import RECEIVING, plan_for, plan_from_json, plan_to_json, with_conversion
from shoal.jobs.queue.transitions import close_if_done
from shoal.models.documents import DocumentDraft
from shoal.models.files import FileDraft
from shoal.models.jobs import ItemStatus, JobKind, OnConflict, Stage
from shoal.notes.keyed_requests import is_key_of_notes
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction
from shoal.support.byte_units import MIB
from shoal.support.clock import timestamp_at
from shoal.support.request_context import TRACE_ID

FLUSH_BYTES = 4 * MIB
"""Text written in one transaction: about 50 ms, so that workers get the write lock in between."""

FLUSH_ITEMS = 500

FLUSHES_PER_TIMEOUT = 4
"""A slow upload flushes this often within `upload_timeout`; the flush is its heartbeat."""

DROP_BYTES = 16 * MIB
DROP_ITEMS = 2000
"""Size of the part of a dropped job that one transaction removes."""

DROP_SLICES = 8
"""Transactions in a row; the next round of the reconciler removes the rest."""

_TIMED_OUT = "the upload was idle for too long and was dropped"

log = logging.getLogger(__name__)


class Upload:
    """One upload that becomes a job. Not safe to share between threads.

    Items keep the order of the upload. Memory is bounded by FLUSH_BYTES and the largest document.
    """

    def __init__(self, database: Database, settings: Settings, *, local_owner: str | None = None) -> None:
        """A `local_owner` (`lease.new_owner()`) makes a local job, which dies with the process."""
        self._database = database
        self._settings = settings
        self._local_owner = local_owner
        self._kind = JobKind.ingest
        self._on_conflict = OnConflict.keep
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
        on_conflict: OnConflict = OnConflict.keep,
    ) -> Upload:
        """Open the upload. Only `finish` stores the key, so an upload that dies does not hold it.

        `on_conflict`: what `add` does with a source path that a stored document has. Raises IdempotencyError
        if the key was already accepted with another `request_hash`.
        """
        self._kind = JobKind(kind)
        self._on_conflict = on_conflict
        self._key, self._request_hash = idempotency_key, request_hash
        with self._database.write() as transaction:
            if idempotency_key is not None and request_hash is not None:
                _accepted_before(transaction, idempotency_key, request_hash)
            self._job_id = _insert_job(transaction, self._kind, self._settings, self._local_owner)
        self._flushed_at = time.monotonic()
        return self

    @property
    def n_items(self) -> int:
        """Items so far, including refused ones."""
        return self._seq

    def add(self, draft: NewDraft) -> None:
        """Add a document, a file to convert, or a page to fetch, which always replaces the document with its
        URL.

        Raises InvalidFieldError beyond `max_upload_items`, UploadDroppedError, StorageError.
        """
        item = new_item(draft, self._waves.place(draft.n_bytes))
        if self._on_conflict is OnConflict.replacing and item["source_path"]:
            item["by_path"] = 1
        self._put(item)

    def replace(self, document_id: int, draft: DocumentDraft | FileDraft) -> None:
        """Add the new content of a stored document. Raises the errors of `add`."""
        item = new_item(draft, self._waves.place(draft.n_bytes))
        self._put({**item, "document_id": document_id})

    def add_stored(self, document_id: int, title: str, source_path: str | None, n_bytes: int) -> None:
        """Add a stored document to a rescore job, which has a single wave. Raises the errors of `add`."""
        self._put(item_of_document(document_id, title, source_path, n_bytes, wave=0))

    def refuse(
        self,
        title: str,
        source_path: str | None,
        n_bytes: int,
        error: BaseException | str,
        error_code: str | None = None,
    ) -> None:
        """Record a refused item with its reason, as a failed item of the job. Raises the errors of `add`.

        `error_code` is by default that of the error, or `invalid_document`.
        """
        limits = self._settings
        source_path = source_path[: limits.max_source_path_chars] if source_path else None
        self._put(
            refused_item(
                title[: limits.max_title_chars],
                source_path,
                n_bytes,
                str(error),
                error_code or refusal_code(error),
                self._waves.current,
            )
        )

    def set_skipped(self, n: int) -> None:
        """Set the number of entries without a document, such as folders in an archive. The job shows it."""
        self._n_skipped = n

    def finish(self, request_hash: str | None = None, *, n_changes: int | None = None) -> int:
        """Make the upload a job, durably, and return its id.

        Pass `request_hash` here if it is known only after reading the body. `n_changes`: of the library that
        a rescore begins with. A job of refused items alone ends
        at once. If the idempotency key was accepted before with the same body, this upload is removed and the
        id of the earlier job returned. Raises InvalidFieldError for an upload without items, IdempotencyError
        if the key came with another body, UploadDroppedError, StorageError.
        """
        job_id = self._job()
        if self._seq == 0 and self._kind is not JobKind.rescore:
            self.abandon()
            raise InvalidFieldError("documents", "this upload contains no documents")
        self._request_hash = request_hash or self._request_hash
        try:
            self._flush()
            with self._database.write() as transaction:
                earlier = _accepted_before(transaction, self._key, self._request_hash)
                if earlier is None:
                    transaction.execute(SET_CHANGES, {"job_id": job_id, "n_changes": n_changes})
                    _accept(transaction, job_id, self._key, self._request_hash, self._n_skipped)
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
        """Abandon the upload and remove its rows. Does nothing if it is already finished or abandoned."""
        if self._job_id is None:
            return
        job_id, self._job_id = self._job_id, None
        self._items = []
        with self._database.write() as transaction:
            transaction.execute(statements.DROP_UPLOAD, {"job_id": job_id})
        remove_dropped(self._database)

    def _job(self) -> int:
        if self._job_id is None:
            raise UploadDroppedError("this upload is not open")
        return self._job_id

    def _put(self, item: dict[str, Any]) -> None:
        self._job()
        if self._seq >= self._settings.max_upload_items:
            raise InvalidFieldError(
                "documents", f"an upload may contain at most {self._settings.max_upload_items} documents"
            )
        self._items.append({**item, "seq": self._seq})
        self._seq += 1
        has_data = item["content"] is not None or item.get("file") is not None
        self._buffered_bytes += item["n_bytes"] if has_data else 0
        overdue = time.monotonic() - self._flushed_at > self._settings.upload_timeout / FLUSHES_PER_TIMEOUT
        if self._buffered_bytes >= FLUSH_BYTES or len(self._items) >= FLUSH_ITEMS or overdue:
            self._flush()

    def _flush(self) -> None:
        job_id = self._job()
        with self._database.write() as transaction:
            touched = {"job_id": job_id, "moment": transaction.now()}
            if not transaction.execute(statements.TOUCH_UPLOAD, touched):
                raise UploadDroppedError(_TIMED_OUT)
            insert_items(transaction, job_id, self._items)
        # Clear the buffer only after the commit: after a failed write the items are still needed.
        self._items, self._buffered_bytes, self._flushed_at = [], 0, time.monotonic()


def submit_document(
    database: Database,
    settings: Settings,
    draft: NewDraft,
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
) -> int:
    """Accept one document, or a file to convert or fetch, as a job in one durable transaction.

    Returns the id of the job. Raises IdempotencyError, StorageError.
    """
    items = [{**new_item(draft, wave=0), "seq": 0}]
    return _submit(database, settings, JobKind.ingest, items, idempotency_key, request_hash)


def submit_duplicate(
    database: Database,
    settings: Settings,
    document_id: int,
    draft: DocumentDraft,
    idempotency_key: str,
    request_hash: str,
) -> int:
    """Record a duplicate of a stored document as a job that has ended, and return the job's id.

    This stores the idempotency key, so a repeated request gets the same response. Raises the errors of
    `submit_document`.
    """
    duplicate = {"content": None, "status": ItemStatus.duplicate.value, "document_id": document_id, "seq": 0}
    items = [{**accepted_item(draft, wave=0), **duplicate}]
    return _submit(database, settings, JobKind.ingest, items, idempotency_key, request_hash)


def submit_replacement(
    database: Database,
    settings: Settings,
    document_id: int,
    draft: DocumentDraft | FileDraft,
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
) -> int:
    """Accept the new content of a stored document as a job and return the job's id.

    Raises the errors of `submit_document`.
    """
    items = [{**new_item(draft, wave=0), "seq": 0, "document_id": document_id}]
    return _submit(database, settings, JobKind.replacing, items, idempotency_key, request_hash)


def submit_rescore(
    database: Database,
    settings: Settings,
    *,
    idempotency_key: str | None = None,
    request_hash: str | None = None,
    local_owner: str | None = None,
    data_checksum: str | None = None,
) -> int:
    """Accept the rescoring of the library as a job and return the job's id.

    The job begins with the documents that the data of this checksum and the settings require, or all of them.
    It ends at once if nothing is to be done. Raises the errors of `Upload.finish`.
    """
    settings = dataclasses.replace(settings, max_upload_items=sys.maxsize)
    with database.snapshot() as snapshot:
        if data_checksum is not None and has_nothing_to_do(snapshot, settings, data_checksum):
            # Without a stage that learns, a job without documents has ended.
            settings = dataclasses.replace(settings, learning=False)
    upload = Upload(database, settings, local_owner=local_owner)
    upload.begin(JobKind.rescore, idempotency_key, request_hash)
    try:
        with database.snapshot(limited=False) as snapshot:
            n_changes = snapshot.value(N_CHANGES)
            for head in selected(snapshot, settings, data_checksum):
                upload.add_stored(*head)
        return upload.finish(n_changes=n_changes)
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
    """Accept the deletion of documents as a job and return the job's id.

    Ids that do not exist count as deleted.

    Raises InvalidFieldError for an empty list of ids, IdempotencyError, StorageError.
    """
    if not document_ids:
        raise InvalidFieldError("documents", "at least one document id is required")
    with database.snapshot() as snapshot:
        heads = {
            row["id"]: row
            for document_id in document_ids
            for row in snapshot.rows(statements.DOCUMENT_HEAD, {"document_id": document_id})
        }
    waves = WaveAssigner(settings.wave_bytes)
    items = []
    for seq, document_id in enumerate(dict.fromkeys(document_ids)):
        title, source_path, n_bytes = f"document {document_id}", None, 0
        if document_id in heads:
            row = heads[document_id]
            title, source_path, n_bytes = row["title"], row["source_path"], row["n_bytes"]
        item = item_of_document(document_id, title, source_path, n_bytes, wave=waves.place(n_bytes))
        items.append({**item, "seq": seq})
    return _submit(database, settings, JobKind.delete, items, idempotency_key, request_hash)


def remove_dropped(database: Database, slices: int = DROP_SLICES) -> int:
    """Remove rows of dropped jobs in at most `slices` transactions; return the number of items removed.

    Safe to interrupt and repeat: the job row goes last.
    """
    removed = 0
    for _ in range(slices):
        with database.snapshot() as snapshot:
            if snapshot.value(statements.DROPPED_JOB) is None:
                break
        with database.write() as transaction:
            # Read again, in its turn: two processes that remove at the same time must not take the same.
            job_id = transaction.value(statements.DROPPED_JOB)
            if job_id is None:
                break
            parameters = {"job_id": job_id, "limit": DROP_ITEMS}
            item_ids = _first_slice(transaction.tuples(statements.DROPPED_ITEMS, parameters))
            if item_ids:
                transaction.write_many(statements.DELETE_ITEM, [{"item_id": item_id} for item_id in item_ids])
            else:
                transaction.execute(statements.DELETE_JOB, {"job_id": job_id})
        removed += len(item_ids)
    return removed


def _first_slice(rows: Iterable[tuple[int, int]]) -> list[int]:
    """Return the ids of the first items, up to DROP_BYTES of text."""
    item_ids, n_bytes = [], 0
    for item_id, item_bytes in rows:
        item_ids.append(item_id)
        n_bytes += item_bytes
        if n_bytes >= DROP_BYTES:
            break
    return item_ids


def _submit(
    database: Database,
    settings: Settings,
    kind: JobKind,
    items: list[dict[str, Any]],
    key: str | None,
    request_hash: str | None,
) -> int:
    return submit_items(database, settings, kind, lambda _: items, key, request_hash)


def submit_items(
    database: Database,
    settings: Settings,
    kind: JobKind,
    make_items: Callable[[Transaction], list[dict[str, Any]]],
    key: str | None,
    request_hash: str | None,
    *,
    run_alone: bool = False,
) -> int:
    """Accept items, which are made in the transaction that stores them, as a job; return its id.

    Without items the job ends at once. `run_alone`: each item is a batch of its own. Raises IdempotencyError,
    StorageError.
    """
    with database.write() as transaction:
        earlier = _accepted_before(transaction, key, request_hash)
        if earlier is not None:
            return earlier
        items = make_items(transaction)
        job_id = _insert_job(transaction, kind, settings)
        insert_items(transaction, job_id, items)
        if run_alone:
            transaction.execute(statements.RUN_ALONE, {"job_id": job_id})
        _accept(transaction, job_id, key, request_hash)
    _log_accepted(job_id, kind, len(items))
    return job_id


def _log_accepted(job_id: int, kind: JobKind, n_items: int) -> None:
    """Log the line that connects a request to the job id in the workers' logs."""
    log.info("job accepted", extra={"job_id": job_id, "kind": kind.value, "items": n_items})


def _accepted_before(transaction: Transaction, key: str | None, request_hash: str | None) -> int | None:
    """Return the job that was accepted with this key. Raises IdempotencyError if it had another body."""
    if key is None:
        return None
    row = transaction.first(statements.JOB_BY_KEY, {"key": key})
    if row is None and not is_key_of_notes(transaction, key):
        return None
    if row is None or row["request_hash"] != request_hash:
        raise IdempotencyError("this Idempotency-Key was already used for a different request")
    return int(row["id"])


def _insert_job(
    transaction: Transaction, kind: JobKind, settings: Settings, local_owner: str | None = None
) -> int:
    row = {
        "kind": kind.value,
        "status": RECEIVING,
        "plan": plan_to_json(plan_for(kind, settings)),
        "created_at": timestamp_at(transaction.now()),
        "received_at": transaction.now(),
        "local_owner": local_owner,
        "trace_id": TRACE_ID.get(),
    }
    return int(transaction.value(statements.INSERT_JOB, row))


def _accept(
    transaction: Transaction, job_id: int, key: str | None, request_hash: str | None, n_skipped: int = 0
) -> None:
    """Make a received upload a job. The caller must commit before it reports the job as accepted."""
    now = timestamp_at(transaction.now())
    job = {"job_id": job_id, "now": now}
    plan = plan_from_json(transaction.value(statements.PLAN, job))
    if transaction.value(statements.HAS_FILES, job):
        plan = with_conversion(plan)
        transaction.execute(statements.SET_PLAN, {"job_id": job_id, "plan": plan_to_json(plan)})
    n_waves = transaction.execute(statements.CREATE_WAVES, {**job, "stage": plan[0].value})
    if not n_waves and Stage.relearn in plan:
        transaction.execute(statements.CREATE_EMPTY_WAVE, {**job, "stage": Stage.relearn.value})
    row = {**job, "key": key, "request_hash": request_hash, "n_skipped": n_skipped}
    if not transaction.execute(statements.ACCEPT_JOB, row):
        raise UploadDroppedError(_TIMED_OUT)
    close_if_done(transaction, job_id, now)
