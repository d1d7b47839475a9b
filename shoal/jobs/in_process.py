"""Jobs that one process submits and runs itself, without the service: ingestion and rescoring.

They go through the same stages as other jobs, so the library comes out the same. The texts wait in the
database, so memory does not grow with their number. These jobs are not durable: when the process ends, for
any reason, the rest of its job is dropped.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.declared.documents import DocumentFields
from shoal.errors import (
    DocumentError,
    DocumentGoneError,
    InvalidFieldError,
    NotFoundError,
    ShoalError,
    refusal_code,
)
from shoal.formats.drafts import make_draft
from shoal.jobs.queue import claims, statements
from shoal.jobs.queue.claims import WorkItem, claim, leases
from shoal.jobs.queue.job_items import NewDraft, has_nothing_to_do
from shoal.jobs.queue.queries import POLL_SECONDS, get_items, get_job
from shoal.jobs.queue.recovery import (
    Watchdog,
    drop_dead_local_jobs,
    reclaim_expired_leases,
    renewing_leases,
    return_free_pages,
    round_seconds,
)
from shoal.jobs.queue.submission import Upload, remove_dropped, submit_rescore
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import Handlers, ItemHandler, NotPreparedError, Report, no_report
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft, IngestResult
from shoal.models.files import FileDraft
from shoal.models.jobs import ItemStatus, OnConflict, RescoreResult
from shoal.settings import Settings
from shoal.storage import document_writer, vocabulary
from shoal.storage.database import Database, Row, Snapshot, Transaction
from shoal.storage.opening import open_database
from shoal.support.byte_units import MIB

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


ALL_SLICES = 1 << 30

BATCH_BYTES = 16 * MIB
BATCH_ITEMS = 4096
"""Batch size of an embedded job, instead of `SHOAL_BATCH_BYTES` and `SHOAL_BATCH_ITEMS`. No other job waits
for its turn, and within a batch the next text is prepared while the last one is stored."""

STEPS = 10
"""Least number of transactions for a batch of documents, so that a few files show their progress as well."""

WATCH_SECONDS = 0.1
"""Minimum time between two progress reports."""

log = logging.getLogger(__name__)


class LocalProgress(NamedTuple):
    """Bytes and items of a job, done and in total. A document counts for the stages that it has passed.

    `latest` is the source path, or else the title, of the item that ended last; None before the first.
    """

    bytes_done: int
    bytes_total: int
    items_done: int
    items_total: int
    latest: str | None


Watcher = Callable[[LocalProgress], None]


def drop_abandoned_jobs(database: Database, settings: Settings) -> None:
    """Delete embedded jobs of dead processes."""
    if drop_dead_local_jobs(database, settings, database.now()):
        remove_dropped(database, ALL_SLICES)


def open_upload(database: Database, settings: Settings) -> Upload:
    """An upload, not begun, for an embedded job."""
    drop_abandoned_jobs(database, settings)
    return Upload(database, settings, local_owner=claims.new_owner())


def run_job(
    database: Database,
    job_id: int,
    handlers: Handlers,
    settings: Settings,
    watch: Watcher | None = None,
) -> None:
    """Run an embedded job until it has ended or is deleted."""
    large = dataclasses.replace(settings, batch_bytes=BATCH_BYTES, batch_items=BATCH_ITEMS)
    with renewing_leases(database, settings, job_id):
        _run_job(database, job_id, handlers, large, watch)


def _run_job(
    database: Database,
    job_id: int,
    handlers: Handlers,
    settings: Settings,
    watch: Watcher | None = None,
) -> None:
    """Run a job, alone or together with other processes."""
    report = _throttled(database, job_id, watch) if watch is not None else _no_report
    while True:
        batch = claim(database, claims.new_owner(), settings, job_id=job_id)
        if batch is not None:
            process(batch, database, handlers, settings, report, steps=STEPS)
        elif _has_ended(database, job_id):
            break
        else:
            # Another process has the rest, or learns for another job. If it dies, its leases are reclaimed.
            reclaim_expired_leases(database, settings, database.now())
            time.sleep(POLL_SECONDS)
            report()
    if watch is not None:
        watch(progress(database, job_id))


def _throttled(database: Database, job_id: int, watch: Watcher) -> Callable[[], None]:
    """A function that reports progress at most once in WATCH_SECONDS."""
    reported_at = 0.0

    def report() -> None:
        nonlocal reported_at
        now = time.monotonic()
        if now - reported_at >= WATCH_SECONDS:
            reported_at = now
            watch(progress(database, job_id))

    return report


def _no_report() -> None:
    """Report nothing."""


def run_job_in_processes(
    database: Database,
    job_id: int,
    settings: Settings,
    n: int,
    watch: Watcher | None = None,
) -> None:
    """Run an embedded job in `n` processes, with lagoon's packaged data.

    A process that an item kills, or that is killed because it makes no progress, is replaced. Such an item
    fails after `max_attempts`, as in the service. Raises ShoalError once all processes have died of other
    causes."""
    import multiprocessing

    # Spawned, not forked: a thread of this process may hold a lock at the moment of a fork.
    context = multiprocessing.get_context("spawn")

    def start() -> BaseProcess:
        process = context.Process(target=_work_child, args=(settings, job_id), daemon=True)
        process.start()
        return process

    watchdog, next_round = Watchdog(database, settings), 0.0
    processes = [start() for _ in range(n)]
    try:
        while not _has_ended(database, job_id):
            if time.monotonic() >= next_round:
                watchdog.watch([held.owner for held in leases(database) if job_id in held.job_ids])
                next_round = time.monotonic() + round_seconds(settings)
            # Leases come first: the process that held one is among the dead counted below.
            n_lost = sum(reclaim_expired_leases(database, settings, database.now()))
            alive = [process for process in processes if process.is_alive()]
            if n_lost:
                processes = alive + [start() for _ in range(n - len(alive))]
            elif not alive and not _has_ended(database, job_id):
                raise ShoalError(
                    "all worker processes have died, perhaps from lack of memory; stored documents stay, "
                    "and the same command stores the rest"
                )
            if watch is not None:
                watch(progress(database, job_id))
            time.sleep(POLL_SECONDS)
    finally:
        for process in processes:
            if not _has_ended(database, job_id):
                process.kill()
            process.join()


def progress(database: Database, job_id: int) -> LocalProgress:
    """The progress of a job; all zeros if it is deleted."""
    with database.snapshot() as snapshot:
        row = snapshot.first(statements.LOCAL_PROGRESS, {"job_id": job_id})
    *counts, latest = row
    bytes_done, bytes_total, items_done, items_total = (int(count or 0) for count in counts)
    return LocalProgress(bytes_done, bytes_total, items_done, items_total, latest)


def drop(database: Database, job_id: int) -> None:
    """Delete an embedded job with all its rows, ended or not."""
    with database.write() as transaction:
        transaction.execute(statements.DROP_LOCAL_JOB, {"job_id": job_id})
    remove_dropped(database, ALL_SLICES)
    return_free_pages(database)


def _has_ended(database: Database, job_id: int) -> bool:
    try:
        return get_job(database, job_id).ended
    except NotFoundError:
        return True


def _work_child(settings: Settings, job_id: int) -> None:
    """The main function of a child process. Ctrl-C ends it at once; its parent drops the job."""
    import os
    import signal

    import lagoon
    from shoal.jobs.stages.runner import handlers_for
    from shoal.service.process_setup import reduce_collections

    signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(130))
    reduce_collections()
    database = open_database(settings.database_url, settings.data_path)
    try:
        handlers: Any = handlers_for(database, lagoon.load(), settings)
        _run_job(database, job_id, handlers, settings)
    finally:
        database.close()


COUNT_STORED = "SELECT COUNT(*) FROM job_items WHERE job_id = :job_id AND status = 'succeeded'"

FIELDS = {"content", "encoding", *DocumentFields.__annotations__}
"""The fields of a document that is given as a mapping."""


class IngestInterrupted(KeyboardInterrupt):
    """Ctrl-C during ingestion: how many documents were stored, of how many. The rest is dropped."""

    def __init__(self, n_stored: int, n: int) -> None:
        super().__init__()
        self.n_stored = n_stored
        self.n = n


class IngestSession:
    """Takes documents one by one; `finish` stores them and returns a result for each. Use it with `with`."""

    def __init__(
        self,
        database: Database,
        handlers: Handlers,
        settings: Settings,
        on_conflict: OnConflict = OnConflict.keep,
    ) -> None:
        self._database = database
        self._settings = dataclasses.replace(settings, max_upload_items=sys.maxsize)
        self._last_errors = {
            stage: _LastError(handler)
            for stage, handler in handlers.items()
            if isinstance(handler, ItemHandler)
        }
        self._handlers = {**handlers, **self._last_errors}
        self._upload = open_upload(database, self._settings).begin(on_conflict=on_conflict)
        self._job_id: int | None = None
        self._refused: dict[int, IngestResult] = {}
        self._n = 0

    def __enter__(self) -> IngestSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._upload.abandon()
        if self._job_id is not None:
            drop(self._database, self._job_id)

    def add(self, document: Mapping[str, Any]) -> None:
        """Add a document given as the arguments of `Engine.ingest`. A bad one becomes a result with
        `error`."""
        try:
            self._upload.add(_draft(document, self._settings))
        except DocumentError as error:
            title = document.get("title") if isinstance(document, Mapping) else None
            self.refuse(title if isinstance(title, str) else "", error)
        else:
            self._n += 1

    def add_draft(self, draft: NewDraft) -> None:
        """Add a document, or a file to convert or fetch."""
        self._upload.add(draft)
        self._n += 1

    def replace(self, document_id: int, draft: DocumentDraft | FileDraft) -> None:
        """Add new content for a stored document."""
        self._upload.replace(document_id, draft)
        self._n += 1

    def refuse(self, title: str, error: Exception | str, error_code: str | None = None) -> None:
        """Add a failed result for a document that cannot be read, with the reason.

        `error_code` is by default that of the error, or `invalid_document`.
        """
        self._refused[self._n] = IngestResult(
            id=None,
            title=title,
            n_chunks=0,
            tags=(),
            error=str(error),
            error_code=error_code or refusal_code(error),
        )
        self._n += 1

    def finish(self, *, processes: int = 1, watch: Watcher | None = None) -> list[IngestResult]:
        """Store the documents; return one result for each, in order.

        More than one of `processes` requires lagoon's packaged data. Raises IngestInterrupted.
        """
        if self._n > len(self._refused):
            self._job_id = self._upload.finish()
            try:
                self._run_job(self._job_id, processes, watch)
            except KeyboardInterrupt:
                with self._database.snapshot() as snapshot:
                    n_stored = snapshot.value(COUNT_STORED, {"job_id": self._job_id})
                raise IngestInterrupted(n_stored, self._n) from None
        results = iter(self._results())
        return [self._refused[n] if n in self._refused else next(results) for n in range(self._n)]

    def _run_job(self, job_id: int, processes: int, watch: Watcher | None) -> None:
        if processes > 1:
            run_job_in_processes(self._database, job_id, self._settings, processes, watch)
        else:
            run_job(self._database, job_id, self._handlers, self._settings, watch)

    def finish_one(self) -> IngestResult:
        """Store the only document. Raises its error."""
        result = self.finish()[0]
        for handler in self._last_errors.values():
            if result.error is not None and handler.error is not None:
                raise handler.error
        return result

    def _results(self) -> list[IngestResult]:
        if self._job_id is None:
            return []
        with self._database.snapshot() as snapshot:
            rows = snapshot.rows(statements.LOCAL_RESULTS, {"job_id": self._job_id})
            results = {row["id"]: _result(snapshot, row) for row in rows if row["root_id"] is None}
            for row in rows:
                if row["root_id"] is not None:
                    results[row["root_id"]] = _with_attachment(
                        results[row["root_id"]], row["name"], _result(snapshot, row)
                    )
            return list(results.values())


class _LastError(ItemHandler):
    """A handler that keeps the last exception of its items: the job stores only the message."""

    def __init__(self, handler: ItemHandler) -> None:
        self._handler = handler
        self.error: Exception | None = None

    def prepare_together(self, items: Sequence[WorkItem]) -> None:
        self._handler.prepare_together(items)

    def prepare(self, item: WorkItem) -> Any:
        return self.prepare_reporting(item, no_report)

    def prepare_reporting(self, item: WorkItem, report: Report) -> Any:
        try:
            return self._handler.prepare_reporting(item, report)
        except Exception as error:
            self.error = error
            raise

    def store_many(self, transaction: Transaction, group: Sequence[tuple[WorkItem, Any]]) -> list[Outcome]:
        return self._handler.store_many(transaction, group)

    def store(self, transaction: Transaction, item: WorkItem, prepared: Any) -> Outcome:
        try:
            return self._handler.store(transaction, item, prepared)
        except NotPreparedError:
            raise
        except Exception as error:
            self.error = error
            raise


def _draft(document: Mapping[str, Any], settings: Settings) -> DocumentDraft:
    if not isinstance(document, Mapping):
        raise InvalidFieldError("document", "must be an object")
    for name in document:
        if name not in FIELDS:
            raise InvalidFieldError(str(name), "is not a field of a document")
    has_chunks = document.get("chunks") is not None
    if "content" not in document and not has_chunks:
        raise InvalidFieldError("content", "is missing")
    required = set() if has_chunks else {"content"}
    fields = {name: value for name, value in document.items() if value is not None or name in required}
    return make_draft(settings=settings, **fields)


def _result(snapshot: Snapshot, row: Row) -> IngestResult:
    status = ItemStatus(row["status"])
    if status is ItemStatus.duplicate and row["n_chunks"] is not None:
        title, n_chunks, tags = document_writer.summary(snapshot, row["document_id"])
        return IngestResult(row["document_id"], title, n_chunks, tags, duplicate=row["document_id"])
    if status is ItemStatus.succeeded:
        report = json.loads(row["report"]) if row["report"] else {"warnings": []}
        tags = tuple(json.loads(row["tags"]))
        # The document may have been deleted since.
        n_chunks = row["n_chunks"] or 0
        return IngestResult(
            row["document_id"], row["title"], n_chunks, tags, warnings=tuple(report["warnings"])
        )
    error, error_code = row["error"], row["error_code"]
    if error is None:
        error, error_code = "the document was deleted or its job canceled", DocumentGoneError.code
    return IngestResult(id=None, title=row["title"], n_chunks=0, tags=(), error=error, error_code=error_code)


def _with_attachment(result: IngestResult, name: str, attachment: IngestResult) -> IngestResult:
    """Return the result of a file with that of an attachment; one that failed is a warning."""
    if attachment.error is None:
        return dataclasses.replace(result, n_attachments=result.n_attachments + 1)
    warning = f"the attachment {name} is not stored: {attachment.error}"
    return dataclasses.replace(result, warnings=(*result.warnings, warning))


MOST_FAILED = 1000
"""Maximum number of failed documents that a result names; normally there are none."""


def rescore(
    database: Database,
    handlers: Handlers,
    settings: Settings,
    data_checksum: str,
    watch: Watcher | None = None,
) -> RescoreResult:
    """Bring the library up to date with its words; writes nothing if it is.

    `data_checksum`: of lagoon's data that the handlers score with."""
    drop_abandoned_jobs(database, settings)
    with database.snapshot() as snapshot:
        if has_nothing_to_do(snapshot, settings, data_checksum):
            return RescoreResult(0, (), vocabulary.newest(snapshot).number)
    job_id = submit_rescore(database, settings, local_owner=claims.new_owner(), data_checksum=data_checksum)
    try:
        run_job(database, job_id, handlers, settings, watch)
        failed = get_items(database, job_id, ItemStatus.failed, limit=MOST_FAILED)
        n_documents = progress(database, job_id).items_total
    finally:
        drop(database, job_id)
    with database.snapshot() as snapshot:
        version = vocabulary.newest(snapshot).number
    return RescoreResult(n_documents, tuple((item.title, item.error or "") for item in failed), version)
