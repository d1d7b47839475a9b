"""The jobs of a library: submit, look up, wait, cancel and retry; and those that embed passages.

Passages are embedded within this process, or by a job that begins by itself after the jobs of the service.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.errors import EncoderError, JobStateError
from shoal.jobs import in_process
from shoal.jobs.queue import claims, queries, submission, transitions
from shoal.jobs.queue.dedup_items import compared_owners, owners_of, submit_dedup
from shoal.jobs.queue.embed_items import (
    UNAVAILABLE_SECONDS,
    check_identity,
    submit_embedding,
    submit_local_embedding,
)
from shoal.jobs.queue.metrics import Work, measure
from shoal.jobs.queue.queries import POLL_SECONDS, Job, Waiting, WaveProgress, get_items
from shoal.jobs.queue.submission import Upload
from shoal.jobs.queue.transitions import cancel
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.field_changes import change_fields
from shoal.jobs.stages.replace import is_being_replaced, new_content, update_without_scoring
from shoal.models.documents import DocumentDraft, UrlDraft
from shoal.models.jobs import Item, ItemStatus, JobKind, JobStatus, OnConflict
from shoal.notes.drafts import checked_owner
from shoal.settings import Settings
from shoal.storage import document_writer, index_tables, vectors
from shoal.storage.database import Database
from shoal.support.clock import timestamp

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder


MOST_FAILED = 1000
"""Maximum number of failed documents that a result names."""
REST = 20
"""A look at a large library is followed by a pause of this many times its duration."""


class Duplicate(NamedTuple):
    """A submitted document whose content is stored already."""

    document_id: int


class Jobs:
    """Jobs of the service, which its workers carry out. The jobs of single processes are not among them."""

    def __init__(self, database: Database, settings: Settings, data_checksum: Callable[[], str]) -> None:
        """`data_checksum` of the data that the workers score with."""
        self._database = database
        self._settings = settings
        self._data_checksum = data_checksum

    # Submit. Each job is durable when the method returns. Raises IdempotencyError for a key that another
    # request used, StorageError.

    def submit(
        self,
        draft: DocumentDraft | UrlDraft,
        *,
        idempotency_key: str | None = None,
        request_hash: str = "",
    ) -> Job | Duplicate:
        """Accept one document, or a page to fetch. If its content is stored already, merge its tags into the
        stored document instead.

        With an idempotency key, a duplicate becomes a finished job too, so that the same request gets the
        same answer."""
        document_id = self._merge_tags(draft) if isinstance(draft, DocumentDraft) else None
        if document_id is None or isinstance(draft, UrlDraft):
            job_id = submission.submit_document(
                self._database,
                self._settings,
                draft,
                idempotency_key=idempotency_key,
                request_hash=request_hash,
            )
        elif idempotency_key is None:
            return Duplicate(document_id)
        else:
            job_id = submission.submit_duplicate(
                self._database, self._settings, document_id, draft, idempotency_key, request_hash
            )
        return self.get(job_id)

    def _merge_tags(self, draft: DocumentDraft) -> int | None:
        """The id of the document with the draft's content, which now has the draft's tags too.

        None if there is no such document, or if it is about to get other content.
        """
        with self._database.snapshot() as snapshot:
            document_id = document_writer.find_by_hash(snapshot, draft.content_hash)
        if document_id is None or is_being_replaced(self._database, document_id):
            return None
        if draft.tags:
            with self._database.write() as transaction:
                # The document may have been deleted since.
                if not document_writer.exists(transaction, document_id):
                    return None
                document_writer.merge_tags(transaction, document_id, draft.tags, now=timestamp())
        return document_id

    def open_upload(
        self,
        *,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
        on_conflict: OnConflict = OnConflict.keep,
    ) -> Upload:
        """Begin an upload of several documents. It becomes a job when it is finished."""
        return Upload(self._database, self._settings).begin(
            idempotency_key=idempotency_key, request_hash=request_hash, on_conflict=on_conflict
        )

    def submit_replacement(self, document_id: int, fields: Mapping[str, Any]) -> Job | None:
        """Accept new content for a stored document; fields that are None stay as stored.

        None if content, title and format stay the same: the other fields are then stored at once.
        Raises NotFoundError, DocumentError.
        """
        with self._database.snapshot() as snapshot:
            draft = new_content(snapshot, document_id, self._settings, **fields)
        if update_without_scoring(self._database, document_id, draft):
            return None
        return self.get(submission.submit_replacement(self._database, self._settings, document_id, draft))

    def submit_change(
        self, document_id: int, changes: Mapping[str, Any], versions: frozenset[str] | None = None
    ) -> Job | None:
        """Change the title, tags, metadata or rights of a document (`shoal.jobs.stages.field_changes`).

        None if nothing is to be scored: the changes are stored then. Raises NotFoundError, InvalidFieldError,
        VersionConflictError and JobStateError.
        """
        draft = change_fields(self._database, self._settings, document_id, changes, versions)
        if draft is None:
            return None
        return self.get(submission.submit_replacement(self._database, self._settings, document_id, draft))

    def submit_rescore(self, *, idempotency_key: str | None = None, request_hash: str | None = None) -> Job:
        """Accept the rescoring of every stored document."""
        return self.get(
            submission.submit_rescore(
                self._database,
                self._settings,
                idempotency_key=idempotency_key,
                request_hash=request_hash,
                data_checksum=self._data_checksum(),
            )
        )

    def submit_dedup(
        self,
        owner: str,
        *,
        recheck: bool = False,
        idempotency_key: str | None = None,
        request_hash: str | None = None,
    ) -> Job:
        """Accept the comparison of an owner's notes that wait for it (`shoal.notes.dedup`); an open job of
        the owner is returned instead. `recheck`: also notes that were compared before.

        Raises NoteError for an invalid owner.
        """
        job_id = submit_dedup(
            self._database,
            self._settings,
            checked_owner(owner),
            recheck=recheck,
            idempotency_key=idempotency_key,
            request_hash=request_hash,
        )
        return self.get(job_id)

    def submit_embedding(self) -> Job:
        """Let the workers embed all documents that lack vectors, also those that failed before; an open job
        is continued."""
        job_id = submit_embedding(self._database, self._settings)
        assert job_id is not None, "only an automatic submission can have nothing to do"
        return self.get(job_id)

    def submit_delete(self, document_ids: Sequence[int]) -> Job:
        """Accept the deletion of documents; ids that do not exist count as deleted. Raises
        InvalidFieldError."""
        return self.get(submission.submit_delete(self._database, self._settings, document_ids))

    # Look up

    def get(self, job_id: int) -> Job:
        """Raises NotFoundError."""
        return queries.get_job(self._database, job_id)

    def list(
        self,
        status: JobStatus | Collection[JobStatus] | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        kinds: Collection[JobKind] = (),
        owners: Collection[str] | None = None,
    ) -> Sequence[Job]:
        """Jobs, newest first, of these statuses and kinds; no status or kind means all of them. `owners`:
        without jobs that compare notes of other owners."""
        return queries.list_jobs(self._database, status, limit, offset, kinds=kinds, owners=owners)

    def count(
        self,
        status: JobStatus | Collection[JobStatus] | None = None,
        *,
        kinds: Collection[JobKind] = (),
        owners: Collection[str] | None = None,
    ) -> int:
        """Number of jobs on all pages of `list`."""
        return queries.count_jobs(self._database, status, kinds=kinds, owners=owners)

    def items(
        self, job_id: int, status: ItemStatus | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Item]:
        """Items of a job in the order of the upload. Raises NotFoundError."""
        return queries.get_items(self._database, job_id, status, limit, offset)

    def count_items(self, job_id: int, status: ItemStatus | None = None) -> int:
        """Number of items on all pages of `items`."""
        return queries.count_items(self._database, job_id, status)

    def compared_owners(self, job_id: int, limit: int = 20) -> Sequence[str]:
        """The owners whose notes the first `limit` items of a dedup job compare."""
        return compared_owners(self._database, job_id, limit)

    def owners_of(self, job_id: int) -> set[str]:
        """All owners whose notes a dedup job compares. Raises NotFoundError."""
        return owners_of(self._database, job_id) if self.get(job_id).kind is JobKind.dedup else set()

    def waves(self, job_id: int) -> Sequence[WaveProgress]:
        """The waves of a job in order."""
        return queries.get_waves(self._database, job_id)

    def by_key(self, idempotency_key: str) -> tuple[int, str | None] | None:
        """The id of the job accepted under this key, and the hash of its request; None if there is none."""
        return queries.find_by_key(self._database, idempotency_key)

    def work(self) -> Work:
        """Numbers of the work of all workers, for metrics."""
        with self._database.snapshot() as snapshot:
            return measure(snapshot)

    def backlog(self) -> Waiting:
        """Number and bytes of the items that wait for workers."""
        return queries.waiting(self._database)

    # Wait. No transaction is held meanwhile.

    def wait(self, job_id: int, seconds: float) -> Job:
        """The job when it has ended, or after `seconds`. Raises NotFoundError."""
        return queries.wait_for_end(self._database, job_id, seconds)

    def wait_for_change(
        self, job_id: int, revision: int, seconds: float, *, poll: float = POLL_SECONDS
    ) -> Job:
        """The job when its revision differs from `revision`, or after `seconds`. Raises NotFoundError."""
        return queries.wait_for_change(self._database, job_id, revision, seconds, poll=poll)

    # Change

    def cancel(self, job_id: int) -> Job:
        """End all open items of a job. Raises NotFoundError, JobStateError if the job has ended otherwise."""
        job = self.get(job_id)
        if job.ended and job.status is not JobStatus.canceled:
            raise JobStateError(f"job {job_id} has ended ({job.status}); there is nothing to cancel")
        return cancel(self._database, job_id)

    def retry(self, job_id: int) -> Job:
        """Send the failed and canceled items of a job through its stages again.

        Raises NotFoundError, JobStateError.
        """
        return transitions.retry(self._database, self._settings, job_id)

    def can_retry(self, job: Job) -> bool:
        """Whether `retry` would find an item that may succeed."""
        return transitions.can_retry(self._database, self._settings, job)


class EmbedResult(NamedTuple):
    """What an embedding did: documents it looked at, chunks with a vector before and after, and the title and
    error of each document that failed."""

    n_documents: int
    n_before: int
    n_after: int
    failed: tuple[tuple[str, str], ...]


def checked_encoder(encoder: Encoder | None) -> Encoder:
    """Return the encoder. Raises EncoderError if there is none."""
    if encoder is None:
        raise EncoderError("no encoder is configured; SHOAL_ENCODER names one")
    return encoder


def prepare_embedding(database: Database, encoder: Encoder | None, *, again: bool) -> None:
    """Check that the vectors of the library are of this encoder; with `again`, delete them first.

    Raises EncoderError.
    """
    identity = checked_encoder(encoder).identity
    if again:
        vectors.delete_all(database)
    with database.snapshot() as snapshot:
        check_identity(snapshot, identity)


def embed(
    database: Database,
    handlers: Handlers,
    settings: Settings,
    encoder: Encoder | None,
    *,
    again: bool = False,
    watch: in_process.Watcher | None = None,
) -> EmbedResult:
    """Embed all chunks without a vector in this process; with `again`, all chunks. Raises EncoderError."""
    prepare_embedding(database, encoder, again=again)
    in_process.drop_abandoned_jobs(database, settings)
    n_before = _count(database)
    job_id = submit_local_embedding(database, settings, claims.new_owner())
    if job_id is None:
        return EmbedResult(0, n_before, n_before, ())
    try:
        in_process.run_job(database, job_id, handlers, settings, watch)
        failed = get_items(database, job_id, ItemStatus.failed, limit=MOST_FAILED)
        n_documents = in_process.progress(database, job_id).items_total
    finally:
        in_process.drop(database, job_id)
    errors = tuple((item.title, item.error or "") for item in failed)
    return EmbedResult(n_documents, n_before, _count(database), errors)


def _count(database: Database) -> int:
    with database.snapshot() as snapshot:
        return vectors.count(snapshot)


class EmbeddingStarter:
    """Opens the embed job of a library whenever documents lack vectors."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        notify: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._settings, self._notify, self._clock = database, settings, notify, clock
        self._revision = -1
        self._looked_at = self._next = 0.0

    def look(self) -> None:
        """Let documents that lack vectors be embedded; does nothing if the library has not changed since the
        last call. Raises StorageError."""
        if self._clock() < self._next:
            return
        with self._database.snapshot() as snapshot:
            revision = index_tables.revision(snapshot)
        started = self._clock()
        if revision == self._revision and started - self._looked_at < UNAVAILABLE_SECONDS:
            return
        job_id = submit_embedding(self._database, self._settings, automatic=True)
        self._revision, self._looked_at = revision, started
        self._next = self._clock() + REST * (self._clock() - started)
        if job_id is not None:
            self._notify()
