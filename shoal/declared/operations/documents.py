# mypy: disable-error-code="empty-body"
"""Operations on documents, their chunks, and jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Annotated, TypedDict, Unpack

from shoal.declared.arguments import Argument, Choice, Flag, Many, Number, Text, Whole
from shoal.declared.documents import DOCUMENT as OF_DOCUMENT
from shoal.declared.filters import FILTERS
from shoal.declared.operations.operation import SAME_JOB, Limit, Offset, delete, each, get, patch, post, put
from shoal.declared.search import ABOUT_FILTER, MAX_CONTEXT
from shoal.models.documents import DocumentSort
from shoal.models.jobs import Item, ItemStatus, JobKind, JobStatus, OnConflict
from shoal.models.keys import Needed
from shoal.models.responses import (
    Accepted,
    Chunk,
    Content,
    Document,
    ItemPage,
    Job,
    JobPage,
    Stored,
    Tags,
)
from shoal.models.rights import AccessSettings, Visibility
from shoal.models.stored import ChunkPage, DocumentPage, StoredChunk, StoredDocument

DOCUMENTS = "/documents"
DOCUMENT = "/documents/{document_id}"
JOB = "/jobs/{job_id}"
HAS_ENDED = "The job has ended: there is nothing to cancel"
ACCEPTED = "Accepted"

Tag = Annotated[str | None, Argument(kind=Text(), about="only documents with this tag")]
Contained = Annotated[
    str | None, Argument(kind=Text(), about="only documents with this in title or source path")
]
SourcePath = Annotated[
    str | None,
    Argument(kind=Text(), about="only documents with exactly this source path; finds the id for a path"),
]
FileType = Annotated[
    str | None,
    Argument(kind=Text(), about=FILTERS["file_type"].about.replace("chunks of documents", "documents")),
]
OfDocuments = Annotated[
    str | None,
    Argument(
        kind=Text(),
        metavar="EXPRESSION",
        about=ABOUT_FILTER.replace("result", "document") + ", over fields of documents",
    ),
]


FOR_ARCHIVES = ". For all files, of archives only: a form has fields instead"


def _of_archive(name: str) -> Argument:
    return dataclasses.replace(OF_DOCUMENT[name], address=FOR_ARCHIVES)


class UploadArguments(TypedDict, total=False):
    """What an upload has besides its documents."""

    on_conflict: Annotated[
        OnConflict,
        Argument(
            kind=Choice(OnConflict),
            default=OnConflict.keep,
            about="`replace`: a document replaces the content of the stored one with its `source_path`",
        ),
    ]
    tags: Annotated[Sequence[str], _of_archive("tags")]
    metadata: Annotated[
        str,
        Argument(kind=Text(), about=OF_DOCUMENT["metadata"].about, address=FOR_ARCHIVES),
    ]
    format: Annotated[str, _of_archive("format")]
    language: Annotated[str, _of_archive("language")]
    chunk_tokens: Annotated[str, _of_archive("chunk_tokens")]
    allow: Annotated[Sequence[str], _of_archive("allow")]
    deny: Annotated[Sequence[str], _of_archive("deny")]


class DocumentOperations:
    """Operations on stored documents. Unknown ids raise NotFoundError, invalid arguments InvalidError."""

    @get(DOCUMENTS, Needed.read, for_tokens=True, command="list", tool="list_documents")
    def documents(
        self,
        *,
        tag: Tag = None,
        q: Contained = None,
        source_path: SourcePath = None,
        file_type: FileType = None,
        filter: OfDocuments = None,  # noqa: A002 - the name of the parameter
        sort: Annotated[
            str | None,
            Argument(
                kind=Choice(DocumentSort),
                default=DocumentSort.oldest,
                about="order by when they were stored; `-created`: the newest first",
            ),
        ] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> DocumentPage:
        """List documents"""

    @each(documents)
    def each_document(
        self,
        *,
        tag: str | None = None,
        q: str | None = None,
        source_path: str | None = None,
        file_type: str | None = None,
        filter: str | None = None,  # noqa: A002 - the name of the parameter
    ) -> Iterable[StoredDocument]:
        """All documents, read page by page. Concurrent changes may make it miss or repeat documents"""

    @get(DOCUMENT, Needed.read, for_tokens=True, fails=(404,), command="show")
    def document(self, document_id: int) -> Document:
        """Get a document with its sections, its report and summaries of its chunks"""

    @get(f"{DOCUMENT}/chunks", Needed.read, for_tokens=True, fails=(404,))
    def chunks(self, document_id: int, *, limit: Limit = 50, offset: Offset = 0) -> ChunkPage:
        """List the chunks of a document with their reefs"""

    @each(chunks)
    def each_chunk(self, document_id: int) -> Iterable[StoredChunk]:
        """All chunks of a document, read page by page"""

    @get("/chunks/{chunk_id}", Needed.read, for_tokens=True, fails=(404,), tool="read_passage")
    def chunk(
        self,
        chunk_id: int,
        *,
        context: Annotated[
            int,
            Argument(
                kind=Whole(0, MAX_CONTEXT),
                about="number of chunks before and after it to return as `before` and `after`",
            ),
        ] = 0,
    ) -> Chunk:
        """Get a chunk with its text, position, document and reefs

        A `chunk_id` stays valid as long as its text is stored. It returns 404 once the document is deleted or
        its content is replaced by content without that text.
        """

    @put(f"{DOCUMENT}/tags", Needed.write, answer=Tags, fails=(404,), command="tags")
    def set_tags(
        self,
        document_id: int,
        tags: Annotated[
            Sequence[str],
            Argument(kind=Many(), about="all tags of the document, in place of the old ones"),
        ],
    ) -> tuple[str, ...]:
        """Replace the tags of a document"""

    @delete(DOCUMENT, Needed.write, fails=(404,), command="delete")
    def delete_document(self, document_id: int) -> bool:
        """Delete a document, its attachments and everything derived from them"""


class AccessOperations:
    """Operations on who may see documents with a search token."""

    @get("/access", Needed.read)
    def access_settings(self) -> AccessSettings:
        """Get who may see documents without rights with a search token"""

    @put("/access", Needed.admin)
    def change_access_settings(
        self,
        without_rights: Annotated[
            str,
            Argument(
                kind=Choice(Visibility), about="who may see documents without rights: `everyone`, or `nobody`"
            ),
        ],
    ) -> AccessSettings:
        """Change who may see documents without rights with a search token

        It holds for stored documents, too, from the next request on. A new collection shows them to everyone
        with a token for it.
        """


class OtherDocumentOperations:
    """What the client does in ways of its own: it waits, sends files, or reads texts."""

    @post(
        DOCUMENTS,
        Needed.write,
        status=201,
        about="Stored (with `Prefer: wait`)",
        fails=(409,),
        key=SAME_JOB,
        command="ingest",
    )
    def add_document(self) -> Stored:
        """Add a document

        With `chunks`, its passages are those that the caller has cut. With `url` instead of `content`, a
        worker fetches the page or file. If the server says that it has not changed, the job ends with a
        duplicate.

        Returns 202 with a job. With `Prefer: wait=N`, returns 201 with the document if it is stored in time.
        """

    @put(
        DOCUMENT,
        Needed.write,
        about="Replaced (with `Prefer: wait`), or unchanged",
        fails=(404,),
        conflict="Another document has this content",
    )
    def replace_document(self, document_id: int) -> Stored:
        """Replace the content of a document

        The document keeps its id, and chunks with unchanged text keep theirs. Omitted fields keep their
        values. Returns 202 with a job; the old document stays until the job has ended. If content, title and
        format are unchanged, the other fields are updated at once and the response is 200 with `duplicate`.
        Content of another document returns 409.
        """

    @patch(
        DOCUMENT,
        Needed.write,
        about="Changed (also with `Prefer: wait` for a new title or language)",
        fails=(404, 412),
        conflict="A job replaces the document",
    )
    def change_document(self, document_id: int) -> Stored:
        """Change the title, tags, metadata, language or rights of a document, without its text

        Members that are left out stay. Null empties a list or an object; for `allow` it means what the
        collection says of documents without rights, and for `language` that it is detected. With `If-Match`
        and the `ETag` of `GET /documents/{document_id}`, a document that has changed since returns 412.

        Tags, metadata and rights are stored at once. A new title or language is scored: the response
        is then 202 with a job, as for new content, and chunks keep their ids.
        """

    @post(
        f"{DOCUMENTS}/bulk",
        Needed.write,
        answer=Accepted,
        status=202,
        about=ACCEPTED,
        fails=(400, 409, 413, 415),
        key=SAME_JOB,
        own_body=True,
        command="upload",
    )
    def upload(self, **query: Unpack[UploadArguments]) -> Job:
        """Add many documents as one job

        The body is a form with any number of files, JSON lines, a JSON array, or an archive. A bad document
        becomes a failed item of the job, with its line, number or name and the reason; the other documents
        are processed. Folders and hidden files in an archive are skipped and counted. With
        `on_conflict=replace`, a document replaces the content of the stored document with the same
        `source_path`.
        """

    @delete(
        DOCUMENTS,
        Needed.write,
        answer=Accepted,
        status=202,
        about=ACCEPTED,
        fails=(404,),
        may_repeat=False,
        command="delete",
    )
    def delete_documents(
        self,
        *,
        tag: Annotated[
            str | None,
            Argument(
                kind=Text(least=1, message="must not be empty"),
                about="only documents with this tag; this or `filter` is required",
            ),
        ] = None,
        filter: Annotated[  # noqa: A002 - the name of the parameter
            str | None,
            Argument(kind=Text(), about="only documents that meet this, over fields of documents"),
        ] = None,
        dry_run: Annotated[
            bool,
            Argument(
                kind=Flag(),
                about="only say how many documents would be deleted, and which are the first",
            ),
        ] = False,
    ) -> Job:
        """Delete every document with a tag, or that meets a filter"""

    @get(f"{DOCUMENT}/content", Needed.read, for_tokens=True, fails=(404,))
    def content(self, document_id: int) -> Content:
        """Get the stored text of a document

        Returns plain text, or JSON if `Accept` prefers it. Offsets of chunks and results count its code
        points.
        """

    @get(f"{DOCUMENT}/file", Needed.read, for_tokens=True, fails=(404,))
    def file(self, document_id: int) -> None:
        """Get the file that a document was converted from

        Only if files are kept (`SHOAL_KEEP_ORIGINALS`). A PDF opens in the browser; other files are
        downloaded.
        """


OfJob = Annotated[Job | int, Argument(kind=Whole(1), member="job_id", about="a job, or its id")]
OneOfStatuses = Annotated[
    str | Iterable[str] | None,
    Argument(
        kind=Many(Choice(JobStatus)),
        about=f"only jobs with one of these statuses, comma-separated: {', '.join(JobStatus)}",
    ),
]
OneOfKinds = Annotated[
    str | Iterable[str] | None,
    Argument(
        kind=Many(Choice(JobKind)),
        about=f"only jobs of one of these kinds, comma-separated: {', '.join(JobKind)}",
    ),
]


class JobOperations:
    """Operations on accepted jobs. Unknown ids raise NotFoundError."""

    @get("/jobs", Needed.read, command="jobs")
    def jobs(
        self,
        *,
        status: OneOfStatuses = None,
        kind: OneOfKinds = None,
        limit: Limit = 20,
        offset: Offset = 0,
    ) -> JobPage:
        """List jobs, newest first

        A key that is bound to owners of notes sees no jobs that compare notes of others.
        """

    @each(jobs)
    def each_job(
        self, *, status: str | Iterable[str] | None = None, kind: str | Iterable[str] | None = None
    ) -> Iterable[Job]:
        """All jobs, newest first, read page by page"""

    @get(f"{JOB}/items", Needed.read, fails=(404,), command="jobs")
    def items(
        self,
        job: OfJob,
        *,
        status: Annotated[
            str | None, Argument(kind=Choice(ItemStatus), about="only items with this status")
        ] = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> ItemPage:
        """List the items of a job, in upload order"""

    @each(items)
    def each_item(self, job: Job | int, *, status: str | None = None) -> Iterable[Item]:
        """All items of a job, read page by page; with `status="failed"` those that failed"""

    @post(
        f"{JOB}/cancel",
        Needed.write,
        answer=Accepted,
        status=202,
        about="The job is canceled",
        fails=(404,),
        conflict=HAS_ENDED,
        command="jobs",
    )
    def cancel_job(self, job: OfJob) -> Job:
        """Cancel a job

        Items that have not ended are canceled at once, including those being processed. Stored documents
        stay. Canceling a canceled job has no effect. `retry` continues with the canceled items. A key that is
        bound to owners of notes may cancel comparisons of their notes only.
        """

    @post(
        f"{JOB}/retry",
        Needed.write,
        answer=Accepted,
        status=202,
        about="The items are enqueued again",
        fails=(404,),
        conflict="No item failed or was canceled, or none of these can be retried",
        may_repeat=False,
        command="jobs",
    )
    def retry_job(self, job: OfJob) -> Job:
        """Retry the failed and canceled items of a job

        The items go through all stages again, in the same job. Items refused on arrival, because their text
        could not be used, stay failed. Keys that are bound to owners may do so as with canceling.
        """


class OtherJobOperations:
    """What the client does in ways of its own: it follows jobs, and starts each kind by a method."""

    @get(JOB, Needed.read, fails=(404,), command="jobs")
    def job(
        self,
        job_id: int,
        *,
        wait: Annotated[
            float, Argument(kind=Number(0), about="seconds to wait for a change, at most 60")
        ] = 0.0,
    ) -> Job:
        """Get a job

        With `If-None-Match`, an unchanged job returns 304; changes of its rate and remaining time do not
        count. `wait=N` waits up to N seconds for a change since that `ETag`, or since now without one.
        `Retry-After` is set while the job runs.
        """

    @get(f"{JOB}/events", Needed.read, fails=(404, 503))
    def events(self, job_id: int) -> None:
        """Follow a job by server-sent events

        Each change is an event `job` with the body of `GET /jobs/{job_id}` as data and the revision as id.
        The first event holds the current state, the last one is `end`. Comments keep the connection alive
        between events. The number of streams is limited (`SHOAL_MAX_EVENT_STREAMS`): after a 503, use `GET
        /jobs/{job_id}?wait=N` instead. With API keys, use `fetch`, because `EventSource` sends no
        `Authorization`.
        """

    @post("/jobs", Needed.write, answer=Accepted, status=202, fails=(409,), key=SAME_JOB, command="rescore")
    def add_job(
        self,
        kind: Annotated[
            str,
            Argument(
                kind=Choice(("rescore", "embed")),
                about="`rescore` or `embed`; use `/documents` to upload and delete documents",
            ),
        ],
        *,
        idempotency_key: str | None = None,
    ) -> Job:
        """Rescore or embed the library

        `rescore` decides all learned words again and scores the documents that have stale chunks. Chunks and
        their ids stay the same. The job ends at once if nothing has changed since the last rescore.

        `embed` makes the vectors of chunks that lack one, with the encoder of the workers. An open job of
        this kind is continued, so a repeated request does no harm, and an idempotency key is not needed.
        """

    @delete(
        JOB,
        Needed.write,
        answer=Accepted,
        status=202,
        about="The job is canceled",
        fails=(404,),
        conflict=HAS_ENDED,
    )
    def delete_job(self, job_id: int) -> Job:
        """Cancel a job

        The same as `POST /jobs/{job_id}/cancel`. The job stays listed until `SHOAL_JOB_RETENTION` ends.
        """


class AllDocumentOperations(DocumentOperations, AccessOperations, JobOperations):
    """All that both clients have as they are declared."""
