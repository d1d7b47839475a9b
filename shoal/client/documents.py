"""Operations that add documents, send files, read texts and follow jobs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

import httpx

from shoal.client.bodies import (
    ARCHIVE_TYPES,
    FileBody,
    LinesBody,
    MultipartBody,
    Sent,
    UploadFile,
    archive_type,
)
from shoal.client.errors import ClientError, JobFailedError, JobTimeoutError
from shoal.client.flows import Batch, Flow, Pause, Stream, listing, operation
from shoal.client.requests import Requester, accepted_job, job_id_of, new_key, parse, without_none
from shoal.declared.documents import DocumentFields
from shoal.declared.operations.documents import DocumentOperations, JobOperations
from shoal.declared.operations.documents import OtherDocumentOperations as Documents
from shoal.declared.operations.documents import OtherJobOperations as Jobs
from shoal.declared.operations.operation import IDEMPOTENCY_KEY, Operation
from shoal.models.documents import DocFormat
from shoal.models.jobs import Item, ItemStatus, OnConflict
from shoal.models.responses import Job, PlannedDeletion, Stored

LONG_POLL_SECONDS = 10.0
"""How long the server may hold a request for the state of a job until it changes."""
MIN_POLL_SECONDS = 0.1
"""Shortest time between two requests for a job that keeps changing; enough for a smooth progress bar."""
SHOWN_FAILURES = 5
"""Failed items that the message of an error names."""

Seen = Callable[[Job], None]


class Following(Requester):
    """Operations that follow jobs, and start them."""

    @operation
    def job(self, job_id: int) -> Flow[Job]:
        """The current state of a job. Raises NotFoundError."""
        return (yield from self._operate(Jobs.job, {"job_id": job_id}))

    @operation
    def wait_for_job(
        self,
        job: Job | int,
        *,
        seen: Seen | None = None,
        timeout: float | None = None,
        check: bool = False,
    ) -> Flow[Job]:
        """Wait until a job ends, without limit or for `timeout` seconds, and return it.

        `seen` is called with every state, including the last. With `check`, a job that did not succeed raises
        JobFailedError. Requests are retried while the service restarts. Raises JobTimeoutError,
        NotFoundError.
        """
        ended = yield from self._follow(job_id_of(job), seen, timeout)
        if check and not ended.succeeded:
            raise (yield from self._job_failure(ended))
        return ended

    @listing
    def watch_job(self, job: Job | int) -> Stream[Job]:
        """Every state of a job as it changes; the last state has `ended`."""
        job_id, etag = job_id_of(job), ""
        while True:
            began = time.monotonic()
            state, etag = yield from self._poll(job_id, etag, LONG_POLL_SECONDS)
            if state is not None:
                yield Batch((state,))
                if state.ended:
                    return
            yield _pause_since(began)

    @operation
    def rescore(self, *, idempotency_key: str | None = None) -> Flow[Job]:
        """Start a job that learns all words again and updates every chunk."""
        given = {"kind": "rescore", IDEMPOTENCY_KEY: idempotency_key}
        return (yield from self._operate(Jobs.add_job, given))

    @operation
    def embed(self) -> Flow[Job]:
        """Let the workers make the vectors of all chunks that lack one; an open job is continued."""
        return (yield from self._operate(Jobs.add_job, {"kind": "embed", IDEMPOTENCY_KEY: None}))

    def _poll(self, job_id: int, etag: str, wait: float) -> Flow[tuple[Job | None, str]]:
        """A job and its ETag; None instead of the job if it is unchanged since `etag` after `wait` seconds.

        The first request, without an ETag, does not wait.
        """
        unchanged = httpx.codes.NOT_MODIFIED
        response = yield from self._request(
            Jobs.job,
            {"job_id": job_id},
            query={"wait": wait} if etag else {},
            headers={"If-None-Match": etag} if etag else {},
            slow=wait,
            repeats_silence=True,
            passed=frozenset({int(unchanged)}),
        )
        if response.status_code == unchanged:
            return None, etag
        return parse(Job, response), response.headers.get("ETag", "")

    def _follow(self, job_id: int, seen: Seen | None, timeout: float | None) -> Flow[Job]:
        deadline = None if timeout is None else time.monotonic() + timeout
        job, etag = None, ""
        while True:
            began = time.monotonic()
            remaining = LONG_POLL_SECONDS if deadline is None else max(0.0, deadline - began)
            state, etag = yield from self._poll(job_id, etag, round(min(LONG_POLL_SECONDS, remaining), 2))
            if state is not None:
                job = state
                if seen:
                    seen(job)
            assert job is not None
            if job.ended:
                return job
            if deadline is not None and time.monotonic() >= deadline:
                raise JobTimeoutError(f"job {job_id} has not ended within {timeout:g} seconds", job)
            yield _pause_since(began)

    def _job_failure(self, job: Job) -> Flow[JobFailedError]:
        items: tuple[Item, ...] = ()
        if job.progress.failed:
            given = {"job": job.id, "status": ItemStatus.failed, "limit": SHOWN_FAILURES}
            items = (yield from self._operate(JobOperations.items, given)).items
        reasons = [f"{item.source_path or item.title}: {item.error}" for item in items]
        if (more := job.progress.failed - len(items)) > 0:
            reasons.append(f"and {more:,} more")
        details = "; ".join([*([job.error] if job.error else []), *reasons])
        return JobFailedError(
            f"job {job.id} ended as {job.status}" + (f": {details}" if details else ""), job, items
        )


def _pause_since(began: float) -> Pause:
    """The rest of MIN_POLL_SECONDS: a service without a free thread answers a long poll at once."""
    return Pause(max(0.0, MIN_POLL_SECONDS - (time.monotonic() - began)))


STORED_WAIT_SECONDS = 20
"""How long the server may hold a request that adds one document; after that, the client polls the job."""
UPLOAD_ANSWER_SECONDS = 600.0
"""Additional time for the response to an upload, because up to 100,000 documents are stored first."""

NDJSON = "application/x-ndjson"

AnyFile = UploadFile | str | os.PathLike[str]


class Adding(Following):
    """Operations that add documents, send files and read texts."""

    @operation
    def add_document(
        self,
        content: str | None = None,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        **fields: Unpack[DocumentFields],
    ) -> Flow[Stored]:
        """Add a document and wait until it is stored, without limit or for `timeout` seconds.

        `DocumentFields` describes the fields; `content` or `chunks` is required. Content that is stored
        already, cut in the same way, is a `duplicate`; the tags are added to the stored document. Raises
        InvalidError or JobFailedError if it cannot be stored, JobTimeoutError.
        """
        body = _body(content, **fields)
        return (yield from self._store(Documents.add_document, body, timeout, idempotency_key or new_key()))

    @operation
    def submit_document(
        self,
        content: str | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[DocumentFields],
    ) -> Flow[Job | Stored]:
        """Add a document without waiting.

        Returns its job, or the document if its content is stored already.
        """
        body = _body(content, **fields)
        return (yield from self._submit(Documents.add_document, body, idempotency_key or new_key()))

    @operation
    def add_url(
        self,
        url: str,
        *,
        title: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        language: str | None = None,
        chunk_tokens: str | None = None,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Flow[Stored]:
        """Have the service fetch a page or file, and wait as add_document does.

        Its text replaces what was fetched from this URL before; without changes, the document is a
        `duplicate`. Raises InvalidError if the service does not allow the URL, and the errors of
        add_document.
        """
        body = _url_body(url, title, tags, metadata, language, chunk_tokens, allow, deny)
        return (yield from self._store(Documents.add_document, body, timeout, idempotency_key or new_key()))

    @operation
    def submit_url(
        self,
        url: str,
        *,
        title: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        language: str | None = None,
        chunk_tokens: str | None = None,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Job | Stored]:
        """Have the service fetch a page or file, without waiting.

        Returns its job, or the document if a repeated request finds it unchanged. Raises InvalidError if the
        service does not allow the URL.
        """
        body = _url_body(url, title, tags, metadata, language, chunk_tokens, allow, deny)
        return (yield from self._submit(Documents.add_document, body, idempotency_key or new_key()))

    @operation
    def replace_document(
        self,
        document_id: int,
        content: str | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[DocumentFields],
    ) -> Flow[Stored]:
        """Replace the content of a document, keep its id, and wait until it is stored. Omitted fields stay
        unchanged.

        Raises the errors of add_document, NotFoundError, and ConflictError if another document has the
        content.
        """
        body = {"document_id": document_id, **_body(content, **fields)}
        return (yield from self._store(Documents.replace_document, body, timeout))

    @operation
    def change_document(
        self,
        document_id: int,
        changes: Mapping[str, Any],
        *,
        version: str | None = None,
        timeout: float | None = None,
    ) -> Flow[Stored]:
        """Change `title`, `tags`, `metadata`, `language`, `allow` or `deny` of a document, and wait until
        that is stored.

        None empties a field, and lets the language be detected. `version`: its `ETag`, so that
        only this version is changed. Raises NotFoundError, InvalidError, ConflictError while a job replaces
        the document, and ClientError if it has another version.
        """
        headers = {} if version is None else {"If-Match": version}
        given = {"document_id": document_id}
        response = yield from self._request(
            Documents.change_document, given, headers=headers, json=dict(changes)
        )
        if response.status_code != httpx.codes.ACCEPTED:
            return parse(Stored, response)
        return (yield from self._stored_by(accepted_job(response), timeout))

    @operation
    def submit_replacement(
        self, document_id: int, content: str | None = None, **fields: Unpack[DocumentFields]
    ) -> Flow[Job | Stored]:
        """Replace the content of a document without waiting.

        Returns the job, or the document if nothing changes.
        """
        body = {"document_id": document_id, **_body(content, **fields)}
        return (yield from self._submit(Documents.replace_document, body))

    @operation
    def upload(
        self,
        files: Iterable[AnyFile],
        *,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        language: str | None = None,
        chunk_tokens: str | None = None,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] | None = None,
        on_conflict: OnConflict | str = OnConflict.keep,
        sent: Sent | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Job]:
        """Upload files as one job. Memory does not grow with the files.

        `sent` is called with the bytes that were sent, and with a negative number when they are sent again.
        Tags, metadata, format, language and `chunk_tokens` (`DocumentFields`) apply to all files; a tag must
        not contain a comma. With `on_conflict=replace`, a file replaces the content of the document that
        has its name as source path. Raises OSError for an unreadable file, ClientError if the service refuses
        the upload; nothing is accepted then.
        """
        fields = [("tags", tag) for tag in _without_commas(tags)]
        if metadata is not None:
            fields.append(("metadata", json.dumps(dict(metadata))))
        if format is not None:
            fields.append(("format", str(format)))
        for name, text in (("language", language), ("chunk_tokens", chunk_tokens)):
            if text is not None:
                fields.append((name, text))
        fields += [
            (name, ",".join(_without_commas(given)))
            for name, given in _rights(allow, deny).items()
            if given is not None
        ]
        body = MultipartBody([UploadFile.from_any(file) for file in files], fields=fields, sent=sent)
        headers = {"Content-Type": body.content_type, "Content-Length": str(body.length)}
        return (yield from self._bulk(body, headers, idempotency_key, on_conflict))

    @operation
    def upload_archive(
        self,
        file: AnyFile,
        *,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        language: str | None = None,
        chunk_tokens: str | None = None,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] | None = None,
        on_conflict: OnConflict | str = OnConflict.keep,
        sent: Sent | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Job]:
        """Upload a zip archive, or a tar archive compressed by gzip, as one job.

        Raises the errors of upload, and ClientError for other file names.
        """
        file = UploadFile.from_any(file)
        media_type = archive_type(file.path)
        if media_type is None:
            raise ClientError(f"{file.path} is not a supported archive: {', '.join(ARCHIVE_TYPES)}")
        query = without_none(
            tags=",".join(_without_commas(tags)) or None,
            metadata=None if metadata is None else json.dumps(dict(metadata)),
            format=None if format is None else str(format),
            language=language,
            chunk_tokens=chunk_tokens,
            **{
                name: None if given is None else ",".join(_without_commas(given))
                for name, given in _rights(allow, deny).items()
            },
        )
        headers = {"Content-Type": media_type, "Content-Length": str(file.size)}
        return (yield from self._bulk(FileBody(file, sent), headers, idempotency_key, on_conflict, query))

    @operation
    def upload_documents(
        self,
        documents: Iterable[Mapping[str, Any] | bytes],
        *,
        on_conflict: OnConflict | str = OnConflict.keep,
        idempotency_key: str | None = None,
    ) -> Flow[Job]:
        """Upload documents as one job.

        Each is an object with the fields of `POST /documents`, or an encoded line of JSON. A generator is
        consumed while the documents are sent. With `on_conflict=replace`, a document replaces the content of
        the stored one with its `source_path`.
        """
        body = LinesBody(documents)
        try:
            headers = {"Content-Type": NDJSON}
            return (yield from self._bulk(body, headers, idempotency_key, on_conflict))
        finally:
            body.close()

    @operation
    def upload_records(
        self,
        file: AnyFile,
        *,
        on_conflict: OnConflict | str = OnConflict.keep,
        sent: Sent | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Job]:
        """Upload a file with one document per line, as in upload_documents, as one job.

        Raises the errors of upload.
        """
        file = UploadFile.from_any(file)
        headers = {"Content-Type": NDJSON, "Content-Length": str(file.size)}
        return (yield from self._bulk(FileBody(file, sent), headers, idempotency_key, on_conflict))

    @operation
    def content(self, document_id: int) -> Flow[str]:
        """The text of a document, to which the offsets of results refer. Raises NotFoundError."""
        given, headers = {"document_id": document_id}, {"Accept": "text/plain"}
        response = yield from self._request(Documents.content, given, headers=headers)
        return response.content.decode("utf-8")

    @operation
    def file(self, document_id: int) -> Flow[bytes]:
        """The file that a document was converted from. Raises NotFoundError if it is not kept."""
        given, headers = {"document_id": document_id}, {"Accept": "*/*"}
        return (yield from self._request(Documents.file, given, headers=headers)).content

    @operation
    def delete_documents(self, *, tag: str | None = None, filter: str | None = None) -> Flow[Job]:  # noqa: A002
        """Start a job that deletes every document with a tag that meets a filter; one of both is required.

        Raises NotFoundError if there is none.
        """
        # A second request would find no document, and return no job.
        return (yield from self._operate(Documents.delete_documents, {"tag": tag, "filter": filter}))

    @operation
    def count_deletion(self, *, tag: str | None = None, filter: str | None = None) -> Flow[PlannedDeletion]:  # noqa: A002
        """What `delete_documents` would delete. Nothing is deleted."""
        given = {"tag": tag, "filter": filter, "dry_run": True}
        return parse(PlannedDeletion, (yield from self._request(Documents.delete_documents, given)))

    def _submit(
        self, added: Operation[..., Any], body: Mapping[str, Any], key: str | None = None, *, wait: int = 0
    ) -> Flow[Job | Stored]:
        """Submit a document. Returns it if it is stored within `wait` seconds, else the job."""
        headers = {"Idempotency-Key": key} if key else {}
        if wait:
            headers["Prefer"] = f"wait={wait}"
        response = yield from self._request(added, dict(body), headers=headers, slow=float(wait))
        if response.status_code == httpx.codes.ACCEPTED:
            return accepted_job(response)
        return parse(Stored, response)

    def _bulk(
        self,
        body: Iterable[bytes],
        headers: Mapping[str, str],
        key: str | None,
        on_conflict: OnConflict | str,
        query: Mapping[str, Any] | None = None,
    ) -> Flow[Job]:
        # Not sent where it changes nothing: older services do not know it.
        conflict = {} if on_conflict == OnConflict.keep else {"on_conflict": str(on_conflict)}
        response = yield from self._request(
            Documents.upload,
            {},
            query={**(query or {}), **conflict},
            headers={**headers, "Idempotency-Key": key or new_key()},
            json=None,
            body=body,
            slow=UPLOAD_ANSWER_SECONDS,
        )
        return accepted_job(response)

    def _store(
        self,
        added: Operation[..., Any],
        body: Mapping[str, Any],
        timeout: float | None,
        key: str | None = None,
    ) -> Flow[Stored]:
        """Submit a document, wait until it is stored, for `timeout` seconds if given, and return it."""
        wait = STORED_WAIT_SECONDS if timeout is None else max(0, min(STORED_WAIT_SECONDS, int(timeout)))
        outcome = yield from self._submit(added, body, key, wait=wait)
        if isinstance(outcome, Stored):
            return outcome
        return (yield from self._stored_by(outcome, timeout))

    def _stored_by(self, accepted: Job, timeout: float | None) -> Flow[Stored]:
        """Wait until the job of a document has ended, and return the document."""
        job = yield from self._follow(accepted.id, None, timeout)
        (item,) = (yield from self._operate(JobOperations.items, {"job": job, "limit": 1})).items
        if item.document_id is None or not job.succeeded:
            raise (yield from self._job_failure(job))
        document = yield from self._operate(DocumentOperations.document, {"document_id": item.document_id})
        return Stored(
            document.id,
            document.title,
            document.n_chunks,
            document.tags,
            item.status == ItemStatus.duplicate,
            (*document.report.warnings, *item.warnings),
        )


def _body(content: str | None, **fields: Unpack[DocumentFields]) -> dict[str, Any]:
    """The JSON of a document. Raises TypeError for a field that documents do not have."""
    if unknown := fields.keys() - DocumentFields.__annotations__:
        raise TypeError(f"a document has no field {min(unknown)!r}")
    tags, metadata, chunks = fields.get("tags"), fields.get("metadata"), fields.get("chunks")
    return without_none(
        **fields
        | {
            "content": content,
            "tags": None if tags is None else list(tags),
            "metadata": None if metadata is None else dict(metadata),
            "chunks": None if chunks is None else list(map(dict, chunks)),
            **_rights(fields.get("allow"), fields.get("deny")),
        }
    )


def _url_body(
    url: str,
    title: str | None,
    tags: Sequence[str],
    metadata: Mapping[str, Any] | None,
    language: str | None,
    chunk_tokens: str | None,
    allow: Sequence[str] | None,
    deny: Sequence[str] | None,
) -> dict[str, Any]:
    return without_none(
        url=url,
        title=title,
        tags=list(tags) or None,
        metadata=None if metadata is None else dict(metadata),
        language=language,
        chunk_tokens=chunk_tokens,
        **_rights(allow, deny),
    )


def _rights(allow: Sequence[str] | None, deny: Sequence[str] | None) -> dict[str, list[str] | None]:
    return {
        name: None if given is None else list(given) for name, given in (("allow", allow), ("deny", deny))
    }


def _without_commas(tags: Sequence[str]) -> Sequence[str]:
    """Check tags or principals that are sent as one comma-separated text. Raises ClientError."""
    if invalid := [tag for tag in tags if "," in tag]:
        raise ClientError(
            f"{invalid[0]!r} would become several, because commas separate the values of an upload"
        )
    return tags
