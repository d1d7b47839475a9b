"""Batches of files for a vector store: each is a job."""

from __future__ import annotations

import re
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.declared.operations.drop_in import MAX_BATCH
from shoal.declared.operations.drop_in import FileOperations as Files
from shoal.errors import NotFoundError
from shoal.jobs.queue.queries import Job
from shoal.jobs.queue.uploaded_files import UnstoredFile, count_stored_before
from shoal.models.jobs import Item, ItemStatus, JobKind, JobStatus
from shoal_api.drop_in.openai.objects import UPLOADED, page_of, seconds_of
from shoal_api.drop_in.openai.routes import PREFIX, blueprint, enter
from shoal_api.drop_in.openai.store_files import (
    CANCELLED,
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    POLL_MS,
    STATUS_OF,
    Addition,
    add,
    addition,
    find,
    represent,
)
from shoal_api.problems import field_problem
from shoal_api.service import Service

Json = dict[str, Any]

_BATCH = re.compile(r"vsfb_(\d{1,18})", re.ASCII)


@blueprint.serves(Files.create_file_batch)
def create_file_batch(data: Json, vector_store_id: str) -> Response:
    here = enter(vector_store_id)
    return _answer(here, here.engine.jobs.get(add(here, additions(data))))


def additions(data: Json) -> list[Addition]:
    """Return the files that a request names, with what it says of them. Raises problems."""
    of_all = {name: data[name] for name in ("attributes", "chunking_strategy") if data.get(name) is not None}
    files, file_ids = data.get("files"), data.get("file_ids")
    if bool(files) == bool(file_ids):
        raise field_problem("file_ids", "must name the files, or `files`, and not both")
    if files and of_all:
        raise field_problem(next(iter(of_all)), "is not for `files`, which have their own")
    given = files or [{"file_id": each, **of_all} for each in file_ids or ()]
    if len({each["file_id"] for each in given}) < len(given):
        raise field_problem("file_ids", "must name each file once")
    return list(map(addition, given))


def _job(here: Service, batch_id: str) -> Job:
    match = _BATCH.fullmatch(batch_id)
    job = None if match is None else here.engine.jobs.get(int(match[1]))
    if job is None or job.kind is not JobKind.ingest:
        raise NotFoundError(f"no batch {batch_id!r} is found in this vector store")
    return job


def _answer(here: Service, job: Job) -> Response:
    progress = job.progress
    own = count_stored_before(here.engine.database, job.id) if progress.duplicate else 0
    failed = progress.failed + progress.duplicate - own
    counts = {
        IN_PROGRESS: progress.total - progress.done,
        COMPLETED: progress.done - failed - progress.canceled,
        FAILED: failed,
        CANCELLED: progress.canceled,
        "total": progress.total,
    }
    status = COMPLETED if job.ended else IN_PROGRESS
    if job.status is JobStatus.canceled:
        status = CANCELLED
    elif job.ended and failed == progress.total:
        status = FAILED
    response = flask.jsonify(
        {
            "id": f"vsfb_{job.id}",
            "object": "vector_store.files_batch",
            "created_at": seconds_of(job.created_at),
            "vector_store_id": PREFIX + here.collection.id,
            "status": status,
            "file_counts": counts,
        }
    )
    if not job.ended:
        response.headers.update(POLL_MS)
    return response


@blueprint.serves(Files.retrieve_file_batch)
def retrieve_file_batch(vector_store_id: str, batch_id: str) -> Response:
    here = enter(vector_store_id)
    return _answer(here, _job(here, batch_id))


@blueprint.serves(Files.cancel_file_batch)
def cancel_file_batch(vector_store_id: str, batch_id: str) -> Response:
    here = enter(vector_store_id)
    return _answer(here, here.engine.jobs.cancel(_job(here, batch_id).id))


@blueprint.serves(Files.list_batch_files)
def list_batch_files(query: Json, vector_store_id: str, batch_id: str) -> Response:
    here = enter(vector_store_id)
    job = _job(here, batch_id)
    items = [item for item in here.engine.jobs.items(job.id, limit=MAX_BATCH) if _file_id(item)]
    if query.get("filter"):
        items = [item for item in items if _status(here, job, item) == query["filter"]]
    page = page_of(items[::-1] if query["order"] == "desc" else items, _file_id, query)
    return flask.jsonify({**page, "data": [_represent(here, job, item) for item in page["data"]]})


def _file_id(item: Item) -> str:
    match = UPLOADED.match(item.source_path or "")
    return match[1] if match else ""


def _status(here: Service, job: Job, item: Item) -> str:
    if item.status is ItemStatus.duplicate:
        return str(_represent(here, job, item)["status"])
    return STATUS_OF.get(item.status, IN_PROGRESS)


def _represent(here: Service, job: Job, item: Item) -> Json:
    """Return a file as it is in the vector store, or as the item of the job left it."""
    try:
        return represent(here, find(here, _file_id(item), item.source_path))
    except NotFoundError:
        pass
    left = UnstoredFile(
        file_id=_file_id(item),
        item_id=0,
        job_id=job.id,
        status=item.status,
        error=item.error,
        error_code=item.error_code,
        n_bytes=item.bytes,
        source_path=item.source_path or "",
        metadata="{}",
        created_at=job.created_at,
        document_id=item.document_id,
        stored_as=None,
    )
    return represent(here, left)
