"""Jobs: what became of what was accepted."""

from __future__ import annotations

import dataclasses
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.jobs.queue import queries as protocol
from shoal.jobs.queue.progress import Estimate
from shoal.models import ItemStatus, JobKind, JobStatus
from shoal_api import events, service
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
from shoal_api.service import Service

RETRY_SECONDS = 1
"""What `Retry-After` suggests while a job runs: small jobs are done by then."""

IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "schema": {"type": "string"},
    "description": "the `ETag` of the job as it is known: while nothing has changed, the answer is 304 without a body",
}

LAST_EVENT_ID = {
    "in": "header",
    "name": "Last-Event-ID",
    "schema": {"type": "string"},
    "description": "id of the last event that was seen, which is not told again; browsers send it when they connect "
    "anew. What is no id is ignored",
}

blueprint = Blueprint("jobs", __name__, url_prefix=JOBS, description="The progress of accepted work")


@blueprint.get("")
@blueprint.parameters(JobQuerySchema)
@blueprint.answers(200, JobListSchema)
def list_jobs(query: dict[str, Any]) -> dict[str, Any]:
    """Jobs, the newest first"""
    here = service.current()
    database = here.engine.database
    statuses = [JobStatus(name) for name in query.get("status", ())]
    kinds = [JobKind(name) for name in query.get("kind", ())]
    found = protocol.list_jobs(database, statuses, query["limit"], query["offset"], kinds=kinds)
    return {
        "jobs": [represent(here, job) for job in found],
        "total": protocol.count_jobs(database, statuses, kinds=kinds),
    }


@blueprint.get(f"/<{ID}:job_id>")
@blueprint.parameters(WaitQuerySchema)
@blueprint.answers(200, JobSchema, headers={"ETag": {"schema": {"type": "string"}}})
@blueprint.also_answers(304, description="Unchanged since the `ETag` of `If-None-Match`")
@blueprint.fails(404)
@blueprint.describe(parameters=[IF_NONE_MATCH])
def get_job(query: dict[str, Any], job_id: int) -> Response:
    """One job

    With `If-None-Match` an unchanged job answers 304; its rate and the time left are not looked at for that. `wait=N` waits up to N seconds for a change: since that
    `ETag`, or since now where there is none. `Retry-After` is set while the job runs.
    """
    here = service.current()
    job = protocol.get_job(here.engine.database, job_id)
    known = flask.request.if_none_match
    changed = bool(known) and not known.contains_weak(etag(job))
    if not job.ended and not changed:
        revision = job.revision
        job = here.waiting.wait(
            query["wait"],
            lambda seconds: protocol.wait_for_change(here.engine.database, job_id, revision, seconds),
            lambda now: now.revision != revision,
        )
    unchanged = known.contains_weak(etag(job))
    response = Response(status=304) if unchanged else flask.jsonify(JobSchema().dump(represent(here, job)))
    response.headers["Cache-Control"] = "no-cache"
    # Weak: what time alone changes, such as the rate, makes no other job of it.
    response.set_etag(etag(job), weak=True)
    return with_retry(response, job)


@blueprint.get(f"/<{ID}:job_id>/events")
@blueprint.answers(
    200, {"type": "string"}, content_type="text/event-stream", description="Events, until the job has ended"
)
@blueprint.also_answers(
    204,
    description="The job has ended and `Last-Event-ID` is its last event: there is nothing to connect for",
)
@blueprint.fails(404, 503)
@blueprint.describe(parameters=[LAST_EVENT_ID])
def get_job_events(job_id: int) -> Response:
    """A job as it changes, as server-sent events

    Every change is an event `job` with the job as `GET /jobs/{job_id}` answers it, under its revision as the id; the
    first tells how it stands. The last event is `end`. Comments keep the connection alive meanwhile. There are places
    for a number of listeners (`SHOAL_MAX_EVENT_STREAMS`); whoever finds none (503) asks `GET /jobs/{job_id}?wait=N`.
    With API keys, listen by `fetch`: `EventSource` sends no `Authorization`.
    """
    here = service.current()
    database = here.engine.database
    job = protocol.get_job(database, job_id)
    seen = events.seen_revision(flask.request.headers.get("Last-Event-ID"))
    if job.ended and seen == job.revision:
        return Response(status=204)
    stand_up = here.listeners.acquire()
    try:
        dump = JobSchema().dump
        told = here.listeners.stream(database, job, seen, lambda job: dump(represent(here, job)))
        response = Response(told, content_type=events.CONTENT_TYPE)
    except BaseException:
        stand_up()
        raise
    # Also where nobody takes a byte of it.
    response.call_on_close(stand_up)
    # nginx would keep the events back until it has a page of them.
    response.headers["X-Accel-Buffering"] = "no"
    return response


@blueprint.get(f"/<{ID}:job_id>/items")
@blueprint.parameters(ItemQuerySchema)
@blueprint.answers(200, ItemListSchema)
@blueprint.fails(404)
def get_job_items(query: dict[str, Any], job_id: int) -> dict[str, Any]:
    """The items of a job, in the order of the upload"""
    database = service.current().engine.database
    status = ItemStatus(query["status"]) if "status" in query else None
    found = protocol.get_items(database, job_id, status, query["limit"], query["offset"])
    return {"items": found, "total": protocol.count_items(database, job_id, status)}


def etag(job: protocol.Job) -> str:
    return f"{job.id}-{job.revision}"


def address(job: protocol.Job) -> str:
    return f"{JOBS}/{job.id}"


def represent(here: Service, job: protocol.Job) -> dict[str, Any]:
    """A job with its pace and its links, for JobSchema."""
    waves = [] if job.ended else protocol.get_waves(here.engine.database, job.id)
    estimate = here.paces.estimate(job, waves)
    return {
        "id": job.id,
        "kind": job.kind.value,
        "status": job.status.value,
        "stage": job.stage.value if job.stage else None,
        "progress": {**dataclasses.asdict(job.progress), **_rounded(estimate)},
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "error": job.error,
        "links": {"self": address(job), "items": f"{address(job)}/items", "events": f"{address(job)}/events"},
    }


def _rounded(estimate: Estimate) -> dict[str, float | None]:
    """An estimate with as many digits as it is worth."""
    rates = dataclasses.asdict(estimate)
    return {
        name: None if value is None else round(value, 4 if name == "fraction" else 1)
        for name, value in rates.items()
    }


def with_retry(response: Response, job: protocol.Job) -> Response:
    """The response with `Retry-After` while the job runs."""
    if not job.ended:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response


def accepted(job: protocol.Job) -> Response:
    """202 with the job and where to follow it."""
    response = flask.jsonify({"job": JobSchema().dump(represent(service.current(), job))})
    response.status_code = 202
    response.headers["Location"] = address(job)
    return with_retry(response, job)
