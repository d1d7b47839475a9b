"""The files of a vector store: documents, and files that are not stored or not yet."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import flask
from werkzeug.wrappers import Response

from shoal.collections.vector_stores import UploadedFile
from shoal.declared.arguments import MAX_ID
from shoal.declared.operations.drop_in import FileOperations as Files
from shoal.errors import INTERNAL_ERROR, FileConversionError, JobStateError, NotFoundError, UnknownFormatError
from shoal.jobs.queue.uploaded_files import (
    ENDED,
    OPEN,
    UNSTORED,
    UnstoredFile,
    open_job,
    unstored,
    unstored_file,
)
from shoal.models.documents import DocumentDraft, DocumentSort, UrlDraft
from shoal.models.files import LEAST_RATIO, MAX_TOKENS, MIN_TOKENS, FileDraft, TokenRange
from shoal.models.jobs import ItemStatus, OnConflict
from shoal.models.stored import StoredDocument
from shoal_api import access, limits
from shoal_api.documents import store
from shoal_api.drop_in.openai.files import being_processed, remove, require_settled, uploads, visible_upload
from shoal_api.drop_in.openai.objects import (
    attributes_of,
    checked_attributes,
    document_of_file,
    file_id_of,
    list_of,
    refuse,
    seconds_of,
)
from shoal_api.drop_in.openai.routes import PREFIX, blueprint, enter
from shoal_api.incoming import Common, Incoming, Refusal, draft_of
from shoal_api.problems import field_problem
from shoal_api.service import Service

Json = dict[str, Any]
StoreFile = StoredDocument | UnstoredFile

POLL_MS = {"openai-poll-after-ms": "500"}
"""When a client asks again for what is in progress."""
IN_PROGRESS, COMPLETED, FAILED, CANCELLED = "in_progress", "completed", "failed", "cancelled"
STATUS_OF = {
    ItemStatus.succeeded: COMPLETED,
    ItemStatus.failed: FAILED,
    ItemStatus.duplicate: FAILED,
    ItemStatus.canceled: CANCELLED,
}
"""The status of a file by that of its item; an item that has not ended is in progress."""
_UNSTORED_WITH = {
    IN_PROGRESS: OPEN,
    FAILED: frozenset({ItemStatus.failed, ItemStatus.duplicate}),
    CANCELLED: frozenset({ItemStatus.canceled}),
    None: UNSTORED,
}
_NOT_TEXT = frozenset({UnknownFormatError.code, FileConversionError.code})


class Addition(NamedTuple):
    """A file to add to a vector store."""

    file: UploadedFile
    attributes: Mapping[str, Any] | None
    chunk_tokens: str | None


def addition(given: Mapping[str, Any]) -> Addition:
    """Return what a request says of a file to add. Raises NotFoundError and problems."""
    attributes = given.get("attributes")
    return Addition(
        visible_upload(given["file_id"]),
        None if attributes is None else checked_attributes(attributes),
        chunk_tokens_of(given.get("chunking_strategy")),
    )


def chunk_tokens_of(strategy: Mapping[str, Any] | None) -> str | None:
    """Return the tokens of a passage that a strategy asks for; None for the default. Raises a problem."""
    place = "chunking_strategy"
    if strategy is None or strategy == {"type": "auto"}:
        return None
    sizes = strategy.get("static")
    is_static = strategy.get("type") == "static" and strategy.keys() == {"type", "static"}
    names = {"max_chunk_size_tokens", "chunk_overlap_tokens"}
    if not is_static or not isinstance(sizes, Mapping) or sizes.keys() != names:
        raise field_problem(place, 'must be {"type": "auto"}, or of the type static with its two sizes')
    most, overlap = sizes["max_chunk_size_tokens"], sizes["chunk_overlap_tokens"]
    if overlap != 0 or isinstance(overlap, bool):
        raise refuse(f"{place}.static.chunk_overlap_tokens", "passages do not overlap; send 0")
    least = LEAST_RATIO * MIN_TOKENS
    if isinstance(most, bool) or not isinstance(most, int) or not least <= most <= MAX_TOKENS:
        raise field_problem(f"{place}.static.max_chunk_size_tokens", f"must be {least} to {MAX_TOKENS:,}")
    return str(TokenRange(max(MIN_TOKENS, most // 4), most))


def add(here: Service, additions: Sequence[Addition]) -> int:
    """Add files to a collection as one job, and return its id. Files that are stored already get their new
    attributes. Raises problems, and the errors of `stored_before`."""
    limits.check_queue(here.engine.jobs, here.collection.id)
    for document, each in [(stored_before(here, each), each) for each in additions]:
        if document is not None:
            change_stored(here, document, each)
    request_hash = secrets.token_hex()
    incoming = Incoming(request_hash, _drafts(here, additions))
    job_id = store(here, incoming, None, request_hash, OnConflict.keep)
    uploads().note_collection((each.file.id for each in additions), here.collection.id)
    here.notify()
    return job_id


def stored_before(here: Service, added: Addition) -> StoredDocument | None:
    """Return the document of a file that is added again; None without one.

    Raises a problem if its passages would be others, and JobStateError if a job is to store the file with
    other attributes or passages than those given.
    """
    # Before the document is looked up, which the job may store meanwhile.
    job_id = open_job(here.engine.database, added.file.id)
    document = document_of_file(here.engine, added.file.id, source_path=added.file.source_path)
    if document is None:
        if job_id is not None and (added.attributes, added.chunk_tokens) != (None, None):
            raise being_processed(job_id)
    elif added.chunk_tokens not in (None, document.chunk_tokens):
        raise refuse("chunking_strategy", "the file is stored with other passages; delete it there first")
    return document


def change_stored(here: Service, document: StoredDocument, added: Addition) -> None:
    """Give a stored file its new attributes."""
    if added.attributes is not None:
        here.engine.jobs.submit_change(document.id, {"metadata": dict(added.attributes)})


def _drafts(
    here: Service, additions: Sequence[Addition]
) -> Iterator[DocumentDraft | FileDraft | UrlDraft | Refusal]:
    for file, attributes, chunk_tokens in additions:
        common = Common(metadata=dict(attributes or {}) or None, chunk_tokens=chunk_tokens)
        yield draft_of(file.source_path, uploads().data(file.id) or b"", common, here.settings)
    # Who deletes a file sees nothing of an upload that has not reached the database yet.
    for file, _, _ in additions:
        if uploads().get(file.id) is None:
            raise NotFoundError(f"no file {file.id!r} is found: it was deleted meanwhile")


def find(here: Service, file_id: str, source_path: str | None = None) -> StoreFile:
    """Return a file of the collection of the request. `source_path`: that of an upload, if it is known.
    Raises NotFoundError."""
    document = document_of_file(here.engine, file_id, here.collection.id, source_path=source_path)
    if document is not None:
        return document
    item = None if access.viewer() else unstored_file(here.engine.database, file_id)
    if item is None:
        raise NotFoundError(f"no file {file_id!r} is found in this vector store")
    return item


def represent(here: Service, file: StoreFile) -> Json:
    """Return the object of a file of a vector store."""
    if isinstance(file, UnstoredFile):
        status = STATUS_OF.get(file.status, IN_PROGRESS)
        attributes = attributes_of(json.loads(file.metadata))
        return _object(
            here, file.file_id, file.created_at, status, file.n_bytes, attributes, _error(here, file)
        )
    tokens = file.chunk_tokens.partition("-")[2]
    sizes = {"max_chunk_size_tokens": int(tokens or 0), "chunk_overlap_tokens": 0}
    return {
        **_object(
            here,
            id_of(here, file),
            file.created_at,
            COMPLETED,
            file.n_bytes,
            attributes_of(file.metadata),
            None,
        ),
        "chunking_strategy": {"type": "static", "static": sizes} if tokens else {"type": "other"},
    }


def _object(
    here: Service,
    file_id: str,
    created_at: str,
    status: str,
    n_bytes: int,
    attributes: Mapping[str, Any],
    error: Mapping[str, str] | None,
) -> Json:
    return {
        "id": file_id,
        "object": "vector_store.file",
        "created_at": seconds_of(created_at),
        "vector_store_id": PREFIX + here.collection.id,
        "status": status,
        "last_error": error,
        "usage_bytes": n_bytes,
        "attributes": attributes,
    }


def _error(here: Service, file: UnstoredFile) -> Mapping[str, str] | None:
    """Return why a file is not stored; None while it is in progress, and if it was canceled."""
    if file.status is ItemStatus.duplicate:
        other = file_id_of(here.collection.id, file.document_id or 0, file.stored_as)
        return {"code": "invalid_file", "message": f"its text is stored already, as {other}; it is kept once"}
    if file.status is not ItemStatus.failed:
        return None
    code = "server_error" if file.error_code == INTERNAL_ERROR else "invalid_file"
    if file.error_code in _NOT_TEXT:
        code = "unsupported_file"
    return {"code": code, "message": file.error or "the file could not be stored"}


def id_of(here: Service, file: StoreFile) -> str:
    """Return the id of a file."""
    if isinstance(file, UnstoredFile):
        return file.file_id
    return file_id_of(here.collection.id, file.id, file.source_path)


@blueprint.serves(Files.add_store_file)
def add_store_file(data: Json, vector_store_id: str) -> Response:
    here = enter(vector_store_id)
    added = addition(data)
    document = stored_before(here, added)
    if document is not None:
        change_stored(here, document, added)
        return answer(here, find(here, added.file.id, added.file.source_path))
    item = unstored_file(here.engine.database, added.file.id)
    if item is None or item.status in ENDED:
        add(here, [added])
    return answer(here, find(here, added.file.id, added.file.source_path))


def answer(here: Service, file: StoreFile) -> Response:
    """Return the response with a file of a vector store."""
    response = flask.jsonify(represent(here, file))
    if isinstance(file, UnstoredFile) and file.status in OPEN:
        response.headers.update(POLL_MS)
    return response


@blueprint.serves(Files.list_store_files)
def list_store_files(query: Json, vector_store_id: str) -> Response:
    here = enter(vector_store_id)
    files, has_more = _page(here, query)
    page = list_of(files, lambda each: id_of(here, each), has_more=has_more)
    return flask.jsonify({**page, "data": [represent(here, each) for each in files]})


def _page(here: Service, query: Mapping[str, Any]) -> tuple[list[StoreFile], bool]:
    """Return the files of a page, and whether others follow. Documents come before files that are not stored,
    in ascending order."""
    places = {name: _place(here, name, query[name]) for name in ("after", "before") if name in query}
    is_descending, is_backward = query["order"] == "desc", places.keys() == {"before"}
    low, high = places.get("after", (0, 0)), places.get("before", (1, MAX_ID))
    if is_descending:
        low, high = places.get("before", (0, 0)), places.get("after", (1, MAX_ID))
    reads_down, most = is_descending != is_backward, query["limit"] + 1
    found: list[StoreFile] = []
    for block in (1, 0) if reads_down else (0, 1):
        if low[0] <= block <= high[0] and len(found) < most:
            first = low[1] if low[0] == block else 0
            end = high[1] if high[0] == block else MAX_ID
            read = _unstored if block else _documents
            found += read(here, query.get("filter"), first, end, reads_down, most - len(found))
    page = found[: query["limit"]]
    return page[::-1] if is_backward else page, len(found) == most


def _place(here: Service, name: str, file_id: str) -> tuple[int, int]:
    try:
        file = find(here, file_id)
    except NotFoundError:
        raise field_problem(name, "is not the id of a file in this vector store") from None
    return (1, file.item_id) if isinstance(file, UnstoredFile) else (0, file.id)


def _documents(
    here: Service, status: str | None, first: int, end: int, is_descending: bool, limit: int
) -> Sequence[StoreFile]:
    if status not in (None, COMPLETED):
        return []
    between = None if (first, end) == (0, MAX_ID) else {"id": {"$gt": first, "$lt": end}}
    sort = DocumentSort.newest if is_descending else DocumentSort.oldest
    return here.engine.documents.list(filter=between, sort=sort, limit=limit).documents


def _unstored(
    here: Service, status: str | None, first: int, end: int, is_descending: bool, limit: int
) -> Sequence[StoreFile]:
    if status == COMPLETED or access.viewer():
        return []
    return unstored(
        here.engine.database,
        _UNSTORED_WITH[status],
        after=first,
        before=end,
        descending=is_descending,
        limit=limit,
    )


@blueprint.serves(Files.retrieve_store_file)
def retrieve_store_file(vector_store_id: str, file_id: str) -> Response:
    here = enter(vector_store_id)
    return answer(here, find(here, file_id))


def _stored(here: Service, file_id: str) -> StoredDocument:
    """Return the document of a file. Raises NotFoundError, and JobStateError for a file without one."""
    file = find(here, file_id)
    if isinstance(file, UnstoredFile):
        raise JobStateError("the file is not stored, or not yet")
    return file


@blueprint.serves(Files.update_store_file)
def update_store_file(data: Json, vector_store_id: str, file_id: str) -> Response:
    here = enter(vector_store_id)
    attributes = checked_attributes(data["attributes"])
    here.engine.jobs.submit_change(_stored(here, file_id).id, {"metadata": attributes or None})
    return answer(here, find(here, file_id))


@blueprint.serves(Files.delete_store_file)
def delete_store_file(vector_store_id: str, file_id: str) -> Response:
    here = enter(vector_store_id)
    file = find(here, file_id)
    require_settled(here.engine, file_id)
    if isinstance(file, StoredDocument):
        here.engine.documents.delete(file.id)
    remove(here.engine, file_id)
    uploads().note_collection([file_id], here.collection.id, is_deletion=True)
    if document_of_file(here.engine, file_id, source_path=file.source_path) or unstored_file(
        here.engine.database, file_id
    ):
        # It was added again meanwhile.
        uploads().note_collection([file_id], here.collection.id)
    return flask.jsonify({"id": file_id, "object": "vector_store.file.deleted", "deleted": True})


@blueprint.serves(Files.read_store_file)
def read_store_file(vector_store_id: str, file_id: str) -> Response:
    here = enter(vector_store_id)
    text = here.engine.documents.content(_stored(here, file_id).id)
    page = {
        "object": "vector_store.file_content.page",
        "data": [{"type": "text", "text": text}],
        "has_more": False,
        "next_page": None,
    }
    return flask.jsonify(page)
