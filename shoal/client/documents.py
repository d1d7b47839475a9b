"""Operations on documents: in, out, changed, deleted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx

from shoal.client.bodies import ARCHIVES, FileBody, LinesBody, MultipartBody, Sent, UploadFile, archive_type
from shoal.client.errors import ClientError
from shoal.client.exchange import Flow, Repeat, Request, Stream, listing, operation
from shoal.client.jobs import JobOperations
from shoal.client.reading import API, given, job_of, new_key, pages, read
from shoal.client.replies import Chunk, Document, ItemPage, Job, Stored, Tags
from shoal.models import DocFormat
from shoal.storage.records import ChunkPage, DocumentPage, StoredChunk, StoredDocument

STORED_WAIT_SECONDS = 20
"""How long a request that adds one document may wait at the server for it; the job is followed after that."""
UPLOAD_ANSWER_SECONDS = 600.0
"""How much longer than any other the answer to an upload may take: all of it is stored first, up to 100,000
documents."""

NDJSON = "application/x-ndjson"

AnyFile = UploadFile | str | os.PathLike[str]


class DocumentOperations(JobOperations):
    """What can be done with documents; those that take long are jobs."""

    @operation
    def add_document(
        self,
        content: str,
        *,
        title: str | None = None,
        format: DocFormat | str | None = None,  # noqa: A002 - the name of the API
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        source_path: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Flow[Stored]:
        """Add a document and wait until it is stored, for ever or `timeout` seconds.

        Content that is stored already is a `duplicate`; the tags are added there. Raises InvalidError or
        JobFailedError where it can't be stored, JobTimeoutError.
        """
        given = _fields(content, title, format, tags or None, metadata, source_path)
        done = yield from self._put_in(
            "POST", "/documents", given, idempotency_key or new_key(), wait=_prefer(timeout)
        )
        return done if isinstance(done, Stored) else (yield from self._stored_by(done, timeout))

    @operation
    def submit_document(
        self,
        content: str,
        *,
        title: str | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        source_path: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Job | Stored]:
        """Add a document without waiting for it: its job, or the document where the same content is stored
        already."""
        given = _fields(content, title, format, tags or None, metadata, source_path)
        return (yield from self._put_in("POST", "/documents", given, idempotency_key or new_key()))

    @operation
    def replace_document(
        self,
        document_id: int,
        content: str,
        *,
        title: str | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source_path: str | None = None,
        timeout: float | None = None,
    ) -> Flow[Stored]:
        """Give a document new content under its id, and wait until it is stored. What is left out stays as it
        is.

        Raises as add_document, NotFoundError, and ConflictError where another document has the content.
        """
        given = _fields(content, title, format, tags, metadata, source_path)
        done = yield from self._put_in("PUT", f"/documents/{document_id}", given, wait=_prefer(timeout))
        return done if isinstance(done, Stored) else (yield from self._stored_by(done, timeout))

    @operation
    def submit_replacement(
        self,
        document_id: int,
        content: str,
        *,
        title: str | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source_path: str | None = None,
    ) -> Flow[Job | Stored]:
        """Give a document new content without waiting for it: the job, or the document where nothing is to be
        done."""
        given = _fields(content, title, format, tags, metadata, source_path)
        return (yield from self._put_in("PUT", f"/documents/{document_id}", given))

    @operation
    def upload(
        self,
        files: Iterable[AnyFile],
        *,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        sent: Sent | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Job]:
        """Send files as one job and return it; memory does not grow with them. `sent` is told the bytes of
        files as they leave, and a negative number where they have to be sent again. Tags, metadata and format
        are for all files; no tag may hold a comma here.

        Raises OSError for a file that can't be read, ClientError if the service does not take them; nothing
        is accepted then.
        """
        fields = [("tags", tag) for tag in _without_commas(tags)]
        if metadata is not None:
            fields.append(("metadata", json.dumps(dict(metadata))))
        if format is not None:
            fields.append(("format", str(format)))
        body = MultipartBody([UploadFile.from_any(file) for file in files], fields=fields, sent=sent)
        headers = {"Content-Type": body.content_type, "Content-Length": str(body.length)}
        return (yield from self._bulk(body, headers, idempotency_key))

    @operation
    def upload_archive(
        self,
        file: AnyFile,
        *,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        sent: Sent | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Job]:
        """Send a zip archive, or a tar archive compressed by gzip, as one job and return it. Raises as
        upload, and ClientError for a file that by its name is neither."""
        file = UploadFile.from_any(file)
        media_type = archive_type(file.path)
        if media_type is None:
            raise ClientError(f"{file.path} is no archive that is taken: {', '.join(ARCHIVES)}")
        query = given(
            tags=",".join(_without_commas(tags)) or None,
            metadata=None if metadata is None else json.dumps(dict(metadata)),
            format=None if format is None else str(format),
        )
        headers = {"Content-Type": media_type, "Content-Length": str(file.size)}
        return (yield from self._bulk(FileBody(file, sent), headers, idempotency_key, query))

    @operation
    def upload_documents(
        self, documents: Iterable[Mapping[str, Any] | bytes], *, idempotency_key: str | None = None
    ) -> Flow[Job]:
        """Send documents as one job and return it. Each is an object with the fields of `POST /documents`, or
        a line of JSON that is ready. They may come from a generator; they are taken as the connection takes
        them."""
        body = LinesBody(documents)
        try:
            headers = {"Content-Type": NDJSON}
            return (yield from self._bulk(body, headers, idempotency_key))
        finally:
            body.close()

    @operation
    def upload_records(
        self, file: AnyFile, *, sent: Sent | None = None, idempotency_key: str | None = None
    ) -> Flow[Job]:
        """Send a file of documents, one JSON object a line as in upload_documents, as one job and return it.
        Raises as upload."""
        file = UploadFile.from_any(file)
        headers = {"Content-Type": NDJSON, "Content-Length": str(file.size)}
        return (yield from self._bulk(FileBody(file, sent), headers, idempotency_key))

    @operation
    def documents(
        self,
        *,
        tag: str | None = None,
        q: str | None = None,
        source_path: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Flow[DocumentPage]:
        """A page of the documents: those with the tag, with exactly that source path, and with `q` in title
        or path."""
        chosen = {"tag": tag, "q": q, "source_path": source_path}
        return (yield from self._page(DocumentPage, "/documents", limit, offset, **chosen))

    @listing
    def each_document(
        self, *, tag: str | None = None, q: str | None = None, source_path: str | None = None
    ) -> Stream[StoredDocument]:
        """All of them, read page by page. What is added or deleted meanwhile may be missed or told twice."""
        chosen = {"tag": tag, "q": q, "source_path": source_path}
        yield from pages(
            lambda limit, offset: self._page(DocumentPage, "/documents", limit, offset, **chosen),
            lambda page: page.documents,
        )

    @operation
    def document(self, document_id: int) -> Flow[Document]:
        """A document with its sections, its report and the first of its chunks. Raises NotFoundError."""
        return (yield from self._get(Document, f"/documents/{document_id}"))

    @operation
    def content(self, document_id: int) -> Flow[str]:
        """The text of a document, in which the offsets of results count. Raises NotFoundError."""
        answer = yield from self._ask(
            Request("GET", f"{API}/documents/{document_id}/content", headers={"Accept": "text/plain"})
        )
        return answer.content.decode("utf-8")

    @operation
    def chunks(self, document_id: int, *, limit: int = 50, offset: int = 0) -> Flow[ChunkPage]:
        """A page of a document's chunks, in order, with text and reefs. Raises NotFoundError."""
        return (yield from self._page(ChunkPage, f"/documents/{document_id}/chunks", limit, offset))

    @listing
    def each_chunk(self, document_id: int) -> Stream[StoredChunk]:
        """All chunks of a document, read page by page. Raises NotFoundError."""
        path = f"/documents/{document_id}/chunks"
        yield from pages(
            lambda limit, offset: self._page(ChunkPage, path, limit, offset), lambda page: page.chunks
        )

    @operation
    def chunk(self, chunk_id: int, *, context: int = 0) -> Flow[Chunk]:
        """A chunk by its id, as results and citations name it, with its document and `context` neighbours to
        each side.

        Raises NotFoundError where its document is gone, or has other content by now.
        """
        request = Request("GET", f"{API}/chunks/{chunk_id}", query={"context": context})
        return read(Chunk, (yield from self._ask(request)))

    @operation
    def set_tags(self, document_id: int, tags: Sequence[str]) -> Flow[tuple[str, ...]]:
        """Replace the tags of a document; those it has now. Raises NotFoundError, InvalidError."""
        body = {"tags": list(tags)}
        path = f"{API}/documents/{document_id}/tags"
        answer = yield from self._ask(Request("PUT", path, json=body))
        return read(Tags, answer).tags

    @operation
    def delete_document(self, document_id: int) -> Flow[bool]:
        """Delete a document and everything derived from it; false if there is none with that id, or none any
        more, because a first try, whose answer was lost, has deleted it."""
        path = f"{API}/documents/{document_id}"
        answer = yield from self._ask(Request("DELETE", path, passed=frozenset({404})))
        return answer.status_code != httpx.codes.NOT_FOUND

    @operation
    def delete_documents(self, *, tag: str) -> Flow[Job]:
        """Delete every document with a tag; the job. Raises NotFoundError where there is none."""
        # Asked twice, it would find nothing the second time: there would be no job to tell of.
        request = Request("DELETE", f"{API}/documents", query={"tag": tag}, repeat=Repeat.unsent)
        return job_of((yield from self._ask(request)))

    def _put_in(
        self, method: str, path: str, given: Mapping[str, Any], key: str | None = None, *, wait: int = 0
    ) -> Flow[Job | Stored]:
        """Hand in a document: it, if it is stored within `wait` seconds, else the job."""
        headers = {"Idempotency-Key": key} if key else {}
        if wait:
            headers["Prefer"] = f"wait={wait}"
        answer = yield from self._ask(
            Request(method, API + path, json=given, headers=headers, slow=float(wait))
        )
        if answer.status_code == httpx.codes.ACCEPTED:
            return job_of(answer)
        return read(Stored, answer)

    def _bulk(
        self,
        body: Iterable[bytes],
        headers: Mapping[str, str],
        key: str | None,
        query: Mapping[str, Any] | None = None,
    ) -> Flow[Job]:
        request = Request(
            "POST",
            f"{API}/documents/bulk",
            query=query or {},
            headers={**headers, "Idempotency-Key": key or new_key()},
            body=body,
            slow=UPLOAD_ANSWER_SECONDS,
        )
        return job_of((yield from self._ask(request)))

    def _stored_by(self, job: Job, timeout: float | None) -> Flow[Stored]:
        """The document that a job of one document ends with."""
        job = yield from self._follow(job.id, None, timeout)
        (item,) = (yield from self._page(ItemPage, f"/jobs/{job.id}/items", 1, 0)).items
        if item.document_id is None or not job.succeeded:
            raise (yield from self._job_failure(job))
        document = yield from self._get(Document, f"/documents/{item.document_id}")
        return Stored(
            document.id,
            document.title,
            document.n_chunks,
            document.tags,
            item.status == "duplicate",
            (*document.report.warnings, *item.warnings),
        )


def _fields(
    content: str,
    title: str | None,
    format: DocFormat | str | None,  # noqa: A002
    tags: Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
    source_path: str | None,
) -> dict[str, Any]:
    return given(
        content=content,
        title=title,
        format=None if format is None else str(format),
        tags=None if tags is None else list(tags),
        metadata=None if metadata is None else dict(metadata),
        source_path=source_path,
    )


def _without_commas(tags: Sequence[str]) -> Sequence[str]:
    """Tags for all files of an upload, which the API takes as one text. Raises ClientError."""
    if wrong := [tag for tag in tags if "," in tag]:
        raise ClientError(
            f"tags: {wrong[0]!r} would become several, because commas separate the tags of an upload"
        )
    return tags


def _prefer(timeout: float | None) -> int:
    return STORED_WAIT_SECONDS if timeout is None else max(0, min(STORED_WAIT_SECONDS, int(timeout)))
