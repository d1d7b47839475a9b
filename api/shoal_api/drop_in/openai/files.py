"""Files that are uploaded, and wait to be added to vector stores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.access.rights import SERVICE
from shoal.collections.vector_stores import UploadedFile, UploadedFiles
from shoal.conversion.converted import largest_file
from shoal.declared.operations.drop_in import PURPOSES
from shoal.declared.operations.drop_in import FileOperations as Files
from shoal.engine import Engine
from shoal.errors import CollectionNotFoundError, JobStateError, NotFoundError
from shoal.jobs.queue.uploaded_files import forget, open_job
from shoal.models.keys import Needed, Right
from shoal.models.stored import StoredDocument
from shoal.support.collection_names import ID_PATTERN, MAIN
from shoal_api import access, request_collection
from shoal_api.drop_in.openai.objects import (
    document_of_file,
    file_id_of,
    filename_of,
    list_of,
    refuse,
    seconds_of,
)
from shoal_api.drop_in.openai.routes import blueprint
from shoal_api.incoming import MalformedMultipartError, parts
from shoal_api.problems import ProblemError, field_problem
from shoal_api.service import current
from shoal_api.spool import spooled

Json = dict[str, Any]

FORM = "multipart/form-data"
MAX_FIELD_BYTES, MAX_PARTS, MAX_NAME_CHARS = 1_000, 10, 255
_OF_DOCUMENT = re.compile(rf"file-({MAIN}|{ID_PATTERN})-(\d{{1,18}})", re.ASCII)
"""The id of a file that was not uploaded as one."""


def uploads() -> UploadedFiles:
    """Return the uploaded files of the installation."""
    return UploadedFiles(current().collections.catalog)


def visible_upload(file_id: str) -> UploadedFile:
    """Return a file that the key of the request has uploaded, may see in a collection, or may see as every
    other. Raises NotFoundError."""
    caller = access.current()
    file = uploads().get(file_id)
    if file is not None and (
        _is_own(file) or any(caller.right_in(each) is not None for each in _collections(file))
    ):
        return file
    raise NotFoundError(f"no file {file_id!r} is found")


def _collections(file: UploadedFile) -> list[str]:
    """Return the ids of the collections that a file is in, without those that were deleted."""
    catalog = current().collections.catalog
    return [each for each in file.collections if catalog.by_id(each) is not None]


def _is_own(file: UploadedFile) -> bool:
    caller = access.current()
    return caller.right_in(SERVICE) is not None or file.owner == caller.key_id


@blueprint.serves(Files.upload_file)
def upload_file() -> Response:
    access.require_somewhere(Right.write)
    fields = _form(flask.request)
    name, data = fields.pop("file", ("", b""))
    purpose = fields.pop("purpose", ("", b""))[1].decode("utf-8", "replace")
    if fields:
        field = next(iter(fields))
        raise refuse(field, "files do not expire; delete it when it is not needed any more")
    if purpose not in PURPOSES:
        raise field_problem("purpose", f"must be {' or '.join(PURPOSES)}: files are for searches")
    settings = current().settings
    file = uploads().add(access.current().key_id or "", name, purpose, data, settings.uploaded_bytes)
    if file is None:
        raise ProblemError(413, "the uploaded files would have too many bytes; delete some before")
    return flask.jsonify(_object(file))


def _form(request: flask.Request) -> dict[str, tuple[str, bytes]]:
    """Return the name and the content of each part of a form by its field. Raises a problem."""
    boundary = request.mimetype_params.get("boundary", "")
    if request.mimetype != FORM or not boundary:
        raise ProblemError(415, f"send the file as {FORM}")
    settings, found = current().settings, dict[str, tuple[str, bytes]]()
    try:
        with spooled(request, settings) as body:
            for part in parts(body, boundary):
                data = part.read(largest_file(settings) if part.name == "file" else MAX_FIELD_BYTES)
                if data is None:
                    raise ProblemError(413, f"{part.name[:40]}: {part.size:,} bytes are above the limit")
                if part.name in found or len(found) >= MAX_PARTS:
                    raise field_problem(part.name, "is given more than once")
                found[part.name] = _checked_name(part.filename or ""), data
    except MalformedMultipartError as error:
        raise ProblemError(400, str(error)) from None
    if "file" not in found or not found["file"][1]:
        raise field_problem("file", "is missing or empty")
    return found


def _checked_name(given: str) -> str:
    """Return the name of a file without folders and signs that cannot be shown."""
    name = given.replace("\\", "/").rpartition("/")[2]
    shown = "".join(each for each in name if each.isprintable()).strip()
    return shown[-MAX_NAME_CHARS:] or "file"


@blueprint.serves(Files.list_files)
def list_files(query: Json) -> Response:
    caller, files = access.current(), uploads()
    owner = None if caller.right_in(SERVICE) is not None else caller.key_id or ""
    after = None if query.get("after") is None else files.get(query["after"])
    if query.get("after") is not None and (after is None or not _is_own(after)):
        raise field_problem("after", "is not the id of a file in this list")
    limit, newest = query["limit"], query["order"] == "desc"
    found = files.page(owner, query.get("purpose"), after, limit + 1, newest=newest)
    page = list_of(found[:limit], lambda each: each.id, has_more=len(found) > limit)
    return flask.jsonify({**page, "data": list(map(_object, page["data"]))})


@blueprint.serves(Files.retrieve_file)
def retrieve_file(file_id: str) -> Response:
    document = _document(file_id)
    return flask.jsonify(_object(visible_upload(file_id)) if document is None else _as_file(document))


@blueprint.serves(Files.retrieve_file_content)
def retrieve_file_content(file_id: str) -> Response:
    document = _document(file_id)
    if document is None:
        file = visible_upload(file_id)
        data, name = uploads().data(file.id), file.name
    else:
        data, name = current().engine.documents.content(document.id).encode(), filename_of(document)
    # Any other type could run scripts with the rights of this site.
    response = Response(data, mimetype="application/octet-stream")
    response.headers.set("Content-Disposition", "attachment", filename=name)
    return response


@blueprint.serves(Files.delete_file)
def delete_file(file_id: str) -> Response:
    document = _document(file_id)
    if document is not None:
        current().engine.documents.delete(document.id)
    else:
        _delete_upload(visible_upload(file_id))
    return flask.jsonify({"id": file_id, "object": "file", "deleted": True})


def _delete_upload(file: UploadedFile) -> None:
    """Delete a file and its documents, or nothing. Raises a 403 problem, and JobStateError for a file that is
    being processed."""
    caller, gate = access.current(), access.gate()
    if not _is_own(file):
        raise ProblemError(403, "another key has uploaded the file")
    access.require_somewhere(Right.write)
    collection_ids = _collections(file)
    for collection_id in collection_ids:
        gate.judge(caller, Needed.write, collection_id, "this key does not open a vector store of the file")
    for collection_id in collection_ids:
        with _library(collection_id) as library:
            if library is not None:
                require_settled(library, file.id)
    for collection_id in collection_ids:
        with _library(collection_id) as library:
            if library is not None:
                remove(library, file.id)
    uploads().delete(file.id)


@contextmanager
def _library(collection_id: str) -> Iterator[Engine | None]:
    """Open a collection; None if it was deleted."""
    collections = current().collections
    collection = collections.catalog.by_id(collection_id)
    try:
        lease = None if collection is None else collections.lease(collection)
    except CollectionNotFoundError:
        lease = None
    try:
        yield None if lease is None else lease.value
    finally:
        if lease is not None:
            lease.release()


def require_settled(library: Engine, file_id: str) -> None:
    """Raise JobStateError while a job may still store a file."""
    job_id = open_job(library.database, file_id)
    if job_id is not None:
        raise being_processed(job_id)


def being_processed(job_id: int) -> JobStateError:
    """Return the error for a file that a job may still store."""
    return JobStateError(f"the file is being processed; cancel vsfb_{job_id}, or wait")


def remove(library: Engine, file_id: str) -> None:
    """Delete the document of a file from a library, and let its items that have none be of no file."""
    document = document_of_file(library, file_id)
    if document is not None:
        library.documents.delete(document.id)
    forget(library.database, file_id)


def _document(file_id: str) -> StoredDocument | None:
    """Return the document that a file is which was not uploaded as one, and let the request into its
    collection; None for another file."""
    match = _OF_DOCUMENT.fullmatch(file_id)
    if match is None:
        return None
    here = request_collection.enter_by_id(match[1], f"no file {file_id!r} is found")
    document = here.engine.documents.get(int(match[2])).document
    if file_id_of(match[1], document.id, document.source_path) != file_id:
        raise NotFoundError(f"no file {file_id!r} is found")
    return document


def _object(file: UploadedFile) -> Json:
    return _file(file.id, file.n_bytes, int(file.created_at), file.name, file.purpose)


def _as_file(document: StoredDocument) -> Json:
    file_id = file_id_of(current().collection.id, document.id, document.source_path)
    return _file(
        file_id, document.n_bytes, seconds_of(document.created_at), filename_of(document), PURPOSES[0]
    )


def _file(file_id: str, n_bytes: int, created_at: int, name: str, purpose: str) -> Json:
    return {
        "id": file_id,
        "object": "file",
        "bytes": n_bytes,
        "created_at": created_at,
        "filename": name,
        "purpose": purpose,
        "status": "processed",
        "status_details": None,
        "expires_at": None,
    }
