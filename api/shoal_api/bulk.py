"""Bulk uploads: many documents in one request, as files of a form or as lines of JSON.

The body is spooled and looked through once, then its documents become items of a job one after the other. A bad
one becomes a failed item with its reason; only a body that cannot be taken apart at all is refused as a whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any

import flask
import marshmallow as ma
import structlog
from werkzeug.wrappers import Response

from shoal.errors import DocumentError, DocumentTooLargeError, ShoalError
from shoal.jobs import jobs as protocol
from shoal.jobs.upload import Upload
from shoal.models import DocumentDraft
from shoal.parse.draft import draft_from_bytes, make_draft
from shoal.settings import Settings
from shoal_api import idempotency, jobs, multipart, service, strict_json
from shoal_api.documents import max_body_bytes
from shoal_api.openapi import Blueprint, check_charset
from shoal_api.paths import DOCUMENTS
from shoal_api.problems import ProblemError, field_problem, flatten
from shoal_api.schemas.documents import DocumentInputSchema
from shoal_api.schemas.jobs import AcceptedSchema
from shoal_api.schemas.unknown import closest
from shoal_api.service import Service
from shoal_api.spool import READ_BYTES, Tee, spool

FORM = "multipart/form-data"
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
ARCHIVES = (
    "application/zip",
    "application/x-zip-compressed",
    "application/gzip",
    "application/x-gzip",
    "application/x-tar",
    "application/x-gtar",
)
FIELDS = ("tags", "metadata", "format")

log = structlog.get_logger("shoal.api")

blueprint = Blueprint("bulk", __name__, url_prefix=DOCUMENTS, description="Many documents in one request")

BODY = {
    "required": True,
    "content": {
        FORM: {
            "schema": {
                "type": "object",
                "properties": {
                    "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
                    "tags": {"type": "string", "description": "separated by commas; for all files"},
                    "metadata": {"type": "string", "description": "a JSON object; for all files"},
                    "format": {"type": "string", "enum": ["markdown", "plaintext"]},
                },
            }
        },
        LINES[0]: {
            "schema": {"type": "string", "description": "one document a line, as in `POST /documents`"}
        },
    },
}


@dataclass(frozen=True)
class Refusal:
    """A document that cannot be taken, and why."""

    title: str
    source_path: str | None
    n_bytes: int
    reason: str


@dataclass(frozen=True)
class Common:
    """What the fields of a form say about all of its files."""

    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    format: str | None = None


@blueprint.post("/bulk")
@blueprint.answers(202, AcceptedSchema, description="Accepted")
@blueprint.fails(400, 409, 413, 415, 422)
@blueprint.describe(requestBody=BODY, parameters=[idempotency.PARAMETER])
def add_documents() -> Response:
    """Add many documents as one job

    The body is a form with any number of files, or JSON lines. A bad document becomes a failed item of the job,
    with its line or name and the reason; the others go on.
    """
    here = service.current()
    request = flask.request
    request.max_content_length = here.settings.max_upload_bytes
    key = idempotency.key(request)
    mimetype = request.mimetype
    if mimetype == FORM:
        read = _read_form
    elif mimetype in LINES:
        check_charset(request)
        read = _read_lines
    elif mimetype in ARCHIVES:
        raise ProblemError(
            415,
            "archives are not taken by this version; unpack it and send the files as multipart/form-data "
            "(`shoal upload FOLDER` does that)",
        )
    else:
        raise ProblemError(415, f"send the documents as {FORM} or {LINES[0]}")
    with spool(here.settings) as file:
        request_hash, documents = read(request, file, here.settings)
        job = idempotency.earlier_job(here, key, request_hash)
        if job is None:
            job_id = _store(here, documents, key, request_hash)
            here.nudge()
            job = protocol.get_job(here.engine.database, job_id)
    return jobs.accepted(job)


def _store(
    here: Service, documents: Iterator[DocumentDraft | Refusal], key: str | None, request_hash: str
) -> int:
    """Make the documents a job; its id. Nothing is left of them if anything goes wrong on the way."""
    limit = here.settings.max_upload_items
    upload = Upload(here.engine.database, here.settings).begin(idempotency_key=key, request_hash=request_hash)
    try:
        for document in documents:
            if upload.n_items >= limit:
                raise ProblemError(
                    413, f"an upload holds at most {limit:,} documents; send the rest as another"
                )
            if isinstance(document, Refusal):
                upload.refuse(document.title, document.source_path, document.n_bytes, document.reason)
            else:
                upload.add(document)
        if upload.n_items == 0:
            raise field_problem("documents", "there is no document in this upload")
        return upload.finish(request_hash)
    except BaseException:
        _abandon(upload)
        raise


def _abandon(upload: Upload) -> None:
    try:
        upload.abandon()
    except ShoalError as error:
        # It is dropped after `upload_timeout` then; what matters to the caller is the first error.
        log.warning("upload left behind", reason=str(error))


def _read_form(
    request: flask.Request, file: IO[bytes], settings: Settings
) -> tuple[str, Iterator[DocumentDraft | Refusal]]:
    """Spool a form. Fields may follow the files they apply to, so they are gathered before any file is read."""
    boundary = request.mimetype_params.get("boundary", "")
    if not boundary:
        raise ProblemError(400, "the content type names no multipart boundary")
    fields: dict[str, list[bytes]] = {}
    digest = hashlib.sha256()
    try:
        for part in multipart.parts(Tee(request.stream, file), boundary):
            content = hashlib.sha256()
            if part.filename is None:
                value = part.read(settings.max_metadata_bytes * 2)
                if value is None:
                    raise ProblemError(413, f"the field {_printable(part.name)} is too long")
                fields.setdefault(part.name, []).append(value)
                content.update(value)
            else:
                for data in part:
                    content.update(data)
            digest.update(json.dumps([part.name, part.filename, content.hexdigest()]).encode() + b"\n")
    except multipart.MalformedMultipartError as error:
        raise ProblemError(400, str(error)) from None
    common = _common(fields, settings)
    file.seek(0)
    return digest.hexdigest(), _files(multipart.parts(file, boundary), common, settings)


def _files(
    parts: Iterator[multipart.Part], common: Common, settings: Settings
) -> Iterator[DocumentDraft | Refusal]:
    for part in parts:
        if part.filename is None:
            continue
        data = part.read(settings.max_document_bytes)
        if part.filename or part.size:
            yield _file(part, data, common, settings)


def _file(
    part: multipart.Part, data: bytes | None, common: Common, settings: Settings
) -> DocumentDraft | Refusal:
    path = part.filename or None
    try:
        if data is None:
            raise DocumentTooLargeError(
                f"the file has {part.size:,} bytes; the limit is {settings.max_document_bytes:,}"
            )
        return draft_from_bytes(
            data,
            settings=settings,
            format=common.format,
            tags=common.tags,
            metadata=common.metadata,
            source_path=path,
        )
    except DocumentError as error:
        name = _printable(path or "(a file without a name)")
        return Refusal(PurePosixPath(name).name or name, path and name, part.size, str(error))


def _common(fields: dict[str, list[bytes]], settings: Settings) -> Common:
    """The fields of a form. Raises a 422 problem for one that is unknown or wrong."""
    for name in fields:
        if name not in FIELDS:
            raise field_problem(_printable(name), _not_a_file(name))
    try:
        texts = {name: [value.decode() for value in values] for name, values in fields.items()}
    except UnicodeDecodeError:
        raise ProblemError(400, "a field of the form is not UTF-8") from None
    tags = [tag.strip() for text in texts.get("tags", ()) for tag in text.split(",")]
    common = Common(
        tags=tuple(tag for tag in tags if tag),
        metadata=_metadata(texts.get("metadata", [])),
        format=next((text for text in texts.get("format", []) if text), None),
    )
    # A mistake here would fail every file alike: it is the request's, so it is told at once.
    make_draft(
        content="-", settings=settings, format=common.format, tags=common.tags, metadata=common.metadata
    )
    return common


def _not_a_file(name: str) -> str:
    """What to say of a field that is none of FIELDS: most likely `curl -F file=NAME` without the `@`."""
    meant = closest(name, FIELDS)
    if meant is not None:
        return f"is not known; did you mean `{meant}`?"
    return (
        "is not a file; did you forget the @ before its name? "
        f"Fields that are not files are {', '.join(FIELDS[:-1])} and {FIELDS[-1]}"
    )


def _metadata(texts: list[str]) -> dict[str, Any] | None:
    if len(texts) > 1:
        raise field_problem("metadata", "is given more than once")
    if not texts or not texts[0].strip():
        return None
    try:
        value = strict_json.parse_object(texts[0].encode())
        strict_json.check_surrogates(value)
    except strict_json.MalformedJSONError as error:
        raise field_problem("metadata", str(error)) from None
    except strict_json.LoneSurrogateError as error:
        raise field_problem("metadata", error.message) from None
    return value


def _read_lines(
    request: flask.Request, file: IO[bytes], settings: Settings
) -> tuple[str, Iterator[DocumentDraft | Refusal]]:
    """Spool JSON lines."""
    digest = hashlib.sha256()
    body = Tee(request.stream, file)
    while data := body.read(READ_BYTES):
        digest.update(data)
    file.seek(0)
    return digest.hexdigest(), _lines(file, settings)


def _lines(file: IO[bytes], settings: Settings) -> Iterator[DocumentDraft | Refusal]:
    limit = max_body_bytes(settings)
    schema = DocumentInputSchema()
    number = 0
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            size = len(line)
            while not line.endswith(b"\n") and (line := file.readline(READ_BYTES)):
                size += len(line)
            yield Refusal(f"(line {number})", None, size, f"line {number}: is longer than {limit:,} bytes")
        elif line.strip(b" \t\r\n\xef\xbb\xbf"):
            yield _line(line, number, schema, settings)


def _line(
    line: bytes, number: int, schema: DocumentInputSchema, settings: Settings
) -> DocumentDraft | Refusal:
    value: dict[str, Any] = {}
    try:
        # Without its end: a string that is not closed would else seem to hold a line break.
        value = strict_json.parse_object(line.rstrip(b"\r\n"))
        strict_json.check_surrogates(value, exempt=frozenset({"content"}))
        return make_draft(**schema.load(value), settings=settings)
    except (strict_json.MalformedJSONError, strict_json.LoneSurrogateError, DocumentError) as error:
        reason = str(error)
    except ma.ValidationError as error:
        reason = "; ".join(
            f"{name}: {', '.join(found)}" for name, found in flatten({"line": error.messages}).items()
        )
    title, path = value.get("title"), value.get("source_path")
    shown = _printable(title).strip() if isinstance(title, str) else ""
    return Refusal(
        shown or f"(line {number})",
        _printable(path) if isinstance(path, str) else None,
        len(line),
        _printable(f"line {number}: {reason}"),
    )


PRINTABLE_CHARS = 512


def _printable(text: str) -> str:
    """A name as it may be stored and shown: no control characters, no halves of surrogate pairs, not endless."""
    kept = "".join(c if c.isprintable() else " " for c in text[:PRINTABLE_CHARS])
    return kept.encode("utf-8", "replace").decode()
