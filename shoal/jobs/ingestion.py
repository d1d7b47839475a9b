"""Ingestion within this process: an embedded job of any number of documents.

The texts wait in the database, so memory does not grow with their number. They go through the same stages as
in the service."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from shoal.errors import DocumentError, DocumentGoneError, InvalidFieldError, refusal_code
from shoal.formats.drafts import make_draft
from shoal.jobs import embedded
from shoal.jobs.embedded import Watcher
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.job_items import NewDraft
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import Handlers, ItemHandler, NotPreparedError, Report, no_report
from shoal.models.documents import DocumentDraft, DocumentFields, IngestResult
from shoal.models.files import FileDraft
from shoal.models.jobs import ItemStatus, OnConflict
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.storage.database import Database, Row, Snapshot, Transaction

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
        self._upload = embedded.open_upload(database, self._settings).begin(on_conflict=on_conflict)
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
            embedded.drop(self._database, self._job_id)

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
            embedded.run_job_in_processes(self._database, job_id, self._settings, processes, watch)
        else:
            embedded.run_job(self._database, job_id, self._handlers, self._settings, watch)

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
            return [_result(snapshot, row) for row in rows]


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
