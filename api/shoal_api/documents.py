"""Documents: add one or many, list, show, tag, replace, delete; and their chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Any

import flask
import structlog
from werkzeug.http import quote_etag
from werkzeug.wrappers import Response

from shoal.conversion import archives
from shoal.conversion.converted import draft_of_fields
from shoal.declared.operations.documents import AccessOperations, OtherDocumentOperations
from shoal.declared.operations.documents import DocumentOperations as Documents
from shoal.declared.operations.documents import OtherDocumentOperations as Others
from shoal.errors import FETCH_CODES, INTERNAL_ERROR, NotFoundError, ShoalError
from shoal.jobs.jobs import Duplicate
from shoal.jobs.queue.queries import Job, duplicate_warnings
from shoal.jobs.queue.submission import Upload
from shoal.models.jobs import Item, ItemStatus, JobKind, OnConflict
from shoal.models.responses import Accepted, PlannedDeletion, Stored
from shoal.models.stored import DocumentDetail, StoredChunk
from shoal.settings import Settings
from shoal_api import idempotency, jobs, service
from shoal_api.incoming import (
    FIELDS,
    Incoming,
    Refusal,
    check_number,
    read_archive,
    read_array,
    read_form,
    read_lines,
)
from shoal_api.openapi import Blueprint, check_charset
from shoal_api.paths import DOCUMENTS
from shoal_api.problems import ProblemError, field_problem
from shoal_api.schemas.documents import (
    ChangesSchema,
    DocumentInputSchema,
    NewContentSchema,
)
from shoal_api.schemas.records import record_schema
from shoal_api.service import Service, engine, library, preferred_wait
from shoal_api.spool import spooled

SUMMARIES = 100
"""Chunk summaries shown with a document; a book has thousands of chunks."""

NOT_MERGED = ("title", "source_path", "metadata", "rights")
"""Fields that a stored document keeps when the same content is uploaded again."""

PREFER = {
    "in": "header",
    "name": "Prefer",
    "schema": {"type": "string"},
    "description": "`wait=N`: wait up to N seconds (at most 60) for the document to be stored. An invalid "
    "value, such as `wait=abc`, is ignored (RFC 7240); `Preference-Applied` names the preference that was "
    "applied",
}

IF_MATCH = {
    "in": "header",
    "name": "If-Match",
    "schema": {"type": "string"},
    "description": "the `ETag` of the document; 412 if it has another by now, and nothing is changed",
}

PDF_POLICY = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'"
"""What a browser's own viewer of PDF needs."""

blueprint = Blueprint("documents", __name__, description="Stored documents")
rights = Blueprint("access", __name__, description="Who may see documents without rights")
chunks = Blueprint("chunks", __name__, description="Single chunks, as cited in results")

BINARY = {"type": "string", "format": "binary"}
_OF_CHUNK = tuple(record_schema(StoredChunk)().fields)


@blueprint.serves(Others.add_document, body=DocumentInputSchema, describe={"parameters": [PREFER]})
@blueprint.also_responds(
    200,
    schema=record_schema(Stored),
    description="The content was stored already; tags are merged",
    success=True,
)
@blueprint.also_responds(202, record=Accepted, description="Accepted", success=True)
def add_document(data: dict[str, Any]) -> Response:
    here = service.current()
    key = idempotency.key(flask.request)
    request_hash = idempotency.fingerprint("document", data)
    job = idempotency.earlier_job(here, key, request_hash)
    draft = draft_of_fields(data, settings=here.settings)
    # A generated title is not reported as lost when the document is a duplicate.
    given = {
        name: getattr(draft, name, None) if name == "rights" or data[name] is not None else None
        for name in NOT_MERGED
    }
    if job is None:
        accepted = here.engine.jobs.submit(draft, idempotency_key=key, request_hash=request_hash)
        if isinstance(accepted, Duplicate):
            return _stored(here, accepted.document_id, duplicate=True, given=given)
        job = accepted
        if not job.ended:
            here.notify()
    return _await_document(here, job, given)


def _await_document(here: Service, job: Job, given: Mapping[str, Any] | None = None) -> Response:
    """Wait as `Prefer: wait` says and return the document, or the job if it has not ended.

    `given`: see `_stored`.
    """
    wait = preferred_wait(flask.request.headers.get("Prefer"))
    if wait is None:
        return _duplicate_of(here, job, given) or jobs.accepted(job)
    job_id = job.id
    job = here.waiting.wait(
        wait,
        lambda seconds: here.engine.jobs.wait(job_id, seconds),
        lambda now: now.ended or here.is_deleted(),
    )
    response = (_outcome(here, job, given) if job.ended else None) or jobs.accepted(job)
    response.headers["Preference-Applied"] = f"wait={wait}"
    return response


def _duplicate_of(here: Service, job: Job, given: Mapping[str, Any] | None) -> Response | None:
    """Return the stored document if a job of one document ended as a duplicate, else None."""
    return _outcome(here, job, given) if job.ended and job.progress.duplicate else None


def _outcome(here: Service, job: Job, given: Mapping[str, Any] | None) -> Response | None:
    """Return the document that a job of one document stored; None if it was deleted since.

    Raises a problem if the job failed.
    """
    item = here.engine.jobs.items(job.id, limit=1)[0]
    if item.status is ItemStatus.failed:
        raise _failure(job, item)
    if item.document_id is None:
        return None
    is_old = item.status is ItemStatus.duplicate or job.kind is JobKind.replacing
    try:
        return _stored(
            here,
            item.document_id,
            duplicate=item.status is ItemStatus.duplicate,
            is_old=is_old,
            given=given,
        )
    except NotFoundError:
        return None


def _failure(job: Job, item: Item) -> ProblemError:
    """Return 422 for a document that could not be stored, or 500 if the worker reported an internal error."""
    reason = item.error or "the document could not be stored"
    if item.error_code == INTERNAL_ERROR:
        problem = ProblemError(500, reason, code=INTERNAL_ERROR)
    else:
        problem = field_problem("url" if item.error_code in FETCH_CODES else "content", reason)
        problem.code = item.error_code or problem.code
    problem.members["links"] = {"job": jobs.address(service.current(), job)}
    return problem


def _stored(
    here: Service,
    document_id: int,
    *,
    duplicate: bool,
    is_old: bool = True,
    given: Mapping[str, Any] | None = None,
) -> Response:
    """Return 201 for a new document, 200 for an existing one.

    `given` holds the fields sent with a duplicate; those not taken over become warnings. Raises
    NotFoundError.
    """
    detail = here.engine.documents.get(document_id)
    warnings: tuple[str, ...] = ()
    if duplicate and given is not None:
        stored = {name: getattr(detail.document, name) for name in NOT_MERGED}
        warnings = duplicate_warnings(document_id, stored, **given)
    body = {
        "id": document_id,
        "title": detail.document.title,
        "n_chunks": detail.document.n_chunks,
        "tags": detail.document.tags,
        "duplicate": duplicate,
        "warnings": [*detail.report.warnings, *warnings],
    }
    response = flask.jsonify(record_schema(Stored)().dump(body))
    response.status_code = 200 if is_old else 201
    response.headers["Location"] = f"{DOCUMENTS}/{document_id}"
    return response


@blueprint.serves(Documents.documents)
def list_documents(query: dict[str, Any]) -> Any:
    given: dict[str, Any] = {name: None if value == "" else value for name, value in query.items()}
    return engine().documents.list(**given)


@blueprint.serves(Others.delete_documents)
@blueprint.also_responds(
    200, record_schema(PlannedDeletion), description="With `dry_run`: nothing is deleted"
)
def delete_documents(query: dict[str, Any]) -> Any:
    here = service.current()
    deletion = here.engine.documents.deletion(tag=query.get("tag"), filter=query.get("filter"))
    if query["dry_run"]:
        body = {"n_documents": len(deletion.document_ids), "documents": deletion.first}
        return flask.jsonify(record_schema(PlannedDeletion)().dump(body))
    if not deletion.document_ids:
        which = "with this tag" if not query.get("filter") else "that meets the filter"
        raise ProblemError(404, f"there is no document {which}")
    job = here.engine.jobs.submit_delete(deletion.document_ids)
    here.notify()
    return jobs.accepted(job)


@blueprint.serves(Documents.document, headers={"ETag": {"schema": {"type": "string"}}})
def get_document(document_id: int) -> Any:
    version = engine().documents.version(document_id)
    detail: DocumentDetail = engine().documents.get(document_id)
    document = detail.document
    address = f"{DOCUMENTS}/{document_id}"
    members = {
        **{name: getattr(document, name) for name in document.__slots__},
        "sections": detail.sections,
        "report": detail.report,
        "file": detail.file,
        "parents": detail.parents,
        "attachments": detail.attachments,
        "chunks": engine().documents.chunks(document_id, limit=SUMMARIES, n_reefs=0).chunks,
        "links": {"self": address, "chunks": f"{address}/chunks", "content": f"{address}/content"},
    }
    return members, 200, {"ETag": quote_etag(version)}


blueprint.serves_all(library, get_document_chunks=(Documents.chunks, "documents.chunks"))


@blueprint.serves(Others.content)
@blueprint.also_responds(200, schema={"type": "string"}, content_type="text/plain")
def get_document_content(document_id: int) -> Response:
    content = engine().documents.content(document_id)
    accepts = flask.request.accept_mimetypes
    if accepts["application/json"] > accepts["text/plain"]:
        return flask.jsonify({"id": document_id, "content": content})
    return Response(content, mimetype="text/plain")


@blueprint.serves(Others.file, schema=BINARY, content_type="application/pdf")
@blueprint.also_responds(200, schema=BINARY, content_type="application/octet-stream")
def get_document_file(document_id: int) -> Response:
    file = engine().documents.file(document_id)
    is_pdf = file.media_type == "application/pdf" and file.data.startswith(b"%PDF-")
    # Any other type could run scripts with the rights of this site.
    response = Response(file.data, mimetype="application/pdf" if is_pdf else "application/octet-stream")
    disposition = "inline" if is_pdf else "attachment"
    response.headers.set("Content-Disposition", disposition, filename=file.name)
    if is_pdf:
        response.headers["Content-Security-Policy"] = PDF_POLICY
    return response


@blueprint.serves(Documents.delete_document)
def delete_document(document_id: int) -> None:
    if not engine().documents.delete(document_id):
        raise ProblemError(404, f"there is no document {document_id}")


@blueprint.serves(Others.replace_document, body=NewContentSchema, describe={"parameters": [PREFER]})
@blueprint.also_responds(202, record=Accepted, description="Accepted", success=True)
def replace_document(data: dict[str, Any], document_id: int) -> Response:
    here = service.current()
    job = here.engine.jobs.submit_replacement(document_id, data)
    if job is None:
        return _stored(here, document_id, duplicate=True)
    here.notify()
    return _await_document(here, job)


@blueprint.serves(Others.change_document, body=ChangesSchema, describe={"parameters": [IF_MATCH, PREFER]})
@blueprint.also_responds(202, record=Accepted, description="Accepted", success=True)
def change_document(data: dict[str, Any], document_id: int) -> Response:
    here = service.current()
    wanted = flask.request.if_match
    versions = None if not wanted or wanted.star_tag else frozenset(wanted.as_set())
    job = here.engine.jobs.submit_change(document_id, data, versions)
    if job is None:
        return _stored(here, document_id, duplicate=False)
    here.notify()
    return _await_document(here, job)


blueprint.serves_all(library, set_document_tags=(Documents.set_tags, "documents.set_tags"))
rights.serves_all(
    library,
    get_access_settings=(AccessOperations.access_settings, "documents.access_settings"),
    change_access_settings=(AccessOperations.change_access_settings, "documents.change_access_settings"),
)


@chunks.serves(Documents.chunk)
def get_chunk(query: dict[str, Any], chunk_id: int) -> dict[str, Any]:
    detail = engine().documents.chunk(chunk_id, context=query["context"])
    chunk = detail.chunk
    return {
        **{name: getattr(chunk, name) for name in _OF_CHUNK},
        "document": detail.document,
        "before": detail.before,
        "after": detail.after,
    }


FORM = "multipart/form-data"
ARRAY = "application/json"
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")

log = structlog.get_logger("shoal.api")

uploads = Blueprint("bulk", __name__, description="Many documents in one request")

BODY: dict[str, Any] = {
    "required": True,
    "content": {
        FORM: {
            "schema": {
                "type": "object",
                "properties": {
                    "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
                    "tags": {"type": "string", "description": "comma-separated; for all files"},
                    "metadata": {"type": "string", "description": "a JSON object; for all files"},
                    "format": {"type": "string", "enum": ["markdown", "plaintext"]},
                    "language": {"type": "string", "description": "such as de; for all files"},
                    "chunk_tokens": {"type": "string", "description": "such as 300-800; for all files"},
                    "allow": {"type": "string", "description": "comma-separated; who may see all files"},
                    "deny": {"type": "string", "description": "comma-separated; who may not see them"},
                },
            }
        },
        LINES[0]: {
            "schema": {"type": "string", "description": "one document per line, as in `POST /documents`"}
        },
        ARRAY: {
            "schema": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/DocumentInput"},
                "description": "documents, as in `POST /documents`",
            }
        },
        archives.ZIP[0]: {
            "schema": {"type": "string", "format": "binary", "description": "each file is a document"}
        },
        archives.GZIP[0]: {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": "a tar archive; each file is a document",
            }
        },
    },
}


ADVICE = {
    "tar": "compress it with gzip and send it as application/gzip",
    "csv": "a table is one document: send the file in a form (its rows are cited), or send its rows as an "
    "array of documents",
    "urlencoded": "name the content type in the header `Content-Type`",
}
"""What to do with bodies of other types, by a part of the name of the type."""


@uploads.serves(OtherDocumentOperations.upload, describe={"requestBody": BODY})
def add_documents(query: dict[str, Any]) -> Response:
    here = service.current()
    request = flask.request
    key = idempotency.key(request)
    on_conflict = OnConflict(query["on_conflict"])
    read = _reader(request)
    with spooled(request, here.settings) as file:
        incoming = read(request, file, here.settings)
        request_hash = incoming.request_hash
        if on_conflict is not OnConflict.keep:
            request_hash = idempotency.fingerprint(on_conflict, request_hash)
        job = idempotency.earlier_job(here, key, request_hash)
        if job is None:
            job_id = store(here, incoming, key, request_hash, on_conflict)
            here.notify()
            job = here.engine.jobs.get(job_id)
    return jobs.accepted(job)


def _reader(request: flask.Request) -> Callable[[flask.Request, IO[bytes], Settings], Incoming]:
    """Return the function that reads a body of the request's content type. Raises a problem for other
    types."""
    mimetype = request.mimetype
    if mimetype in (*archives.ZIP, *archives.GZIP):
        return read_archive
    if name := next((name for name in FIELDS if name in request.args), None):
        raise field_problem(
            name,
            "is a query parameter for archives only; a form or a JSON line has fields instead",
        )
    if mimetype == FORM:
        return read_form
    if mimetype in LINES:
        check_charset(request)
        return read_lines
    if mimetype == ARRAY:
        check_charset(request)
        return read_array
    advice = next((f"; {advice}" for kind, advice in ADVICE.items() if kind in mimetype), "")
    raise ProblemError(
        415,
        f"send the documents as {ARRAY} (an array), {LINES[0]}, {FORM}, {archives.ZIP[0]} or "
        f"{archives.GZIP[0]}{advice}",
        headers={"Accept-Post": ", ".join(BODY["content"])},
    )


def store(
    here: Service, incoming: Incoming, key: str | None, request_hash: str, on_conflict: OnConflict
) -> int:
    """Store the documents as a job and return its id. After an error nothing of them stays stored."""
    upload = here.engine.jobs.open_upload(
        idempotency_key=key, request_hash=request_hash, on_conflict=on_conflict
    )
    try:
        for document in incoming.documents:
            check_number(upload.n_items + 1, here.settings)
            if isinstance(document, Refusal):
                upload.refuse(
                    document.title, document.source_path, document.n_bytes, document.reason, document.code
                )
            else:
                upload.add(document)
        if upload.n_items == 0:
            raise field_problem("documents", _empty_message(incoming))
        upload.set_skipped(incoming.skipped)
        return upload.finish(request_hash)
    except BaseException:
        _abandon(upload)
        raise


def _empty_message(incoming: Incoming) -> str:
    if not incoming.skipped:
        return "this upload contains no documents"
    return (
        f"there is no document in this archive, only folders and hidden files ({incoming.skipped:,} entries)"
    )


def _abandon(upload: Upload) -> None:
    try:
        upload.abandon()
    except ShoalError as error:
        # The upload is then dropped after `upload_timeout`; the caller gets the first error.
        log.warning("upload left behind", reason=str(error))
