"""Bulk uploads: many documents in one request, as files of a form, as JSON or as an archive.

The body is spooled to disk and scanned once; then its documents become items of one job in order. A bad
document becomes a failed item with a reason. A body is refused as a whole only if it cannot be parsed at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import flask
import structlog
from werkzeug.wrappers import Response

from shoal.conversion import archives
from shoal.declared.operations.documents import OtherDocumentOperations
from shoal.errors import ShoalError
from shoal.jobs.queue.submission import Upload
from shoal.models.jobs import OnConflict
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
from shoal_api.problems import ProblemError, field_problem
from shoal_api.schemas.uploads import UploadQuerySchema
from shoal_api.service import Service
from shoal_api.spool import spooled

FORM = "multipart/form-data"
ARRAY = "application/json"
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")

log = structlog.get_logger("shoal.api")

blueprint = Blueprint("bulk", __name__, description="Many documents in one request")

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
                    "chunk_tokens": {"type": "string", "description": "such as 300-800; for all files"},
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


@blueprint.serves(OtherDocumentOperations.upload, query=UploadQuerySchema, describe={"requestBody": BODY})
def add_documents(query: dict[str, Any]) -> Response:
    here = service.current()
    request = flask.request
    key = idempotency.key(request)
    on_conflict = query["on_conflict"]
    read = _reader(request)
    with spooled(request, here.settings) as file:
        incoming = read(request, file, here.settings)
        request_hash = incoming.request_hash
        if on_conflict is not OnConflict.keep:
            request_hash = idempotency.fingerprint(on_conflict, request_hash)
        job = idempotency.earlier_job(here, key, request_hash)
        if job is None:
            job_id = _store(here, incoming, key, request_hash, on_conflict)
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


def _store(
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
