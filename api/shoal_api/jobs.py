"""Jobs: what became of what was accepted."""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.jobs import jobs as protocol
from shoal.jobs.names import ItemStatus, JobStatus
from shoal_api import service
from shoal_api.openapi import Blueprint
from shoal_api.paths import ID, JOBS
from shoal_api.schemas.jobs import (
    ItemListSchema,
    ItemQuerySchema,
    JobListSchema,
    JobQuerySchema,
    JobSchema,
    WaitQuerySchema,
)

RETRY_SECONDS = 1
"""What `Retry-After` suggests while a job runs: small jobs are done by then."""

blueprint = Blueprint("jobs", __name__, url_prefix=JOBS, description="The progress of accepted work")


@blueprint.get("")
@blueprint.parameters(JobQuerySchema)
@blueprint.answers(200, JobListSchema)
def list_jobs(query: dict[str, Any]) -> dict[str, Any]:
    """Jobs, the newest first"""
    database = service.current().engine.database
    status = JobStatus(query["status"]) if "status" in query else None
    found = protocol.list_jobs(database, status, query["limit"], query["offset"])
    return {"jobs": [represent(job) for job in found], "total": protocol.count_jobs(database, status)}


@blueprint.get(f"/<{ID}:job_id>")
@blueprint.parameters(WaitQuerySchema)
@blueprint.answers(200, JobSchema, headers={"ETag": {"schema": {"type": "string"}}})
@blueprint.also_answers(304, description="Unchanged since the `ETag` of `If-None-Match`")
@blueprint.fails(404)
def get_job(query: dict[str, Any], job_id: int) -> Response:
    """One job

    With `If-None-Match` an unchanged job answers 304. `wait=N` waits up to N seconds for a change: since that
    `ETag`, or since now where there is none. `Retry-After` is set while the job runs.
    """
    here = service.current()
    job = protocol.get_job(here.engine.database, job_id)
    known = flask.request.if_none_match
    changed = bool(known) and etag(job) not in known
    if not job.ended and not changed:
        revision = job.revision
        job = here.waiting.wait(
            query["wait"],
            lambda seconds: protocol.wait_for_change(here.engine.database, job_id, revision, seconds),
            lambda now: now.revision != revision,
        )
    unchanged = etag(job) in known
    response = Response(status=304) if unchanged else flask.jsonify(JobSchema().dump(represent(job)))
    response.headers["Cache-Control"] = "no-cache"
    response.set_etag(etag(job))
    return with_retry(response, job)


@blueprint.get(f"/<{ID}:job_id>/items")
@blueprint.parameters(ItemQuerySchema)
@blueprint.answers(200, ItemListSchema)
@blueprint.fails(404)
def get_items(query: dict[str, Any], job_id: int) -> dict[str, Any]:
    """The items of a job, in the order of the upload"""
    database = service.current().engine.database
    status = ItemStatus(query["status"]) if "status" in query else None
    found = protocol.get_items(database, job_id, status, query["limit"], query["offset"])
    return {"items": found, "total": protocol.count_items(database, job_id, status)}


def etag(job: protocol.Job) -> str:
    return f"{job.id}-{job.revision}"


def address(job: protocol.Job) -> str:
    return f"{JOBS}/{job.id}"


def represent(job: protocol.Job) -> dict[str, Any]:
    """A job with its links, for JobSchema."""
    return {
        "id": job.id,
        "kind": job.kind.value,
        "status": job.status.value,
        "stage": job.stage.value if job.stage else None,
        "progress": job.progress,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "error": job.error,
        "links": {"self": address(job), "items": f"{address(job)}/items"},
    }


def with_retry(response: Response, job: protocol.Job) -> Response:
    """The response with `Retry-After` while the job runs."""
    if not job.ended:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response


def accepted(job: protocol.Job) -> Response:
    """202 with the job and where to follow it."""
    response = flask.jsonify({"job": JobSchema().dump(represent(job))})
    response.status_code = 202
    response.headers["Location"] = address(job)
    return with_retry(response, job)
