"""Jobs: status, progress, items and events of accepted work."""

from __future__ import annotations

import dataclasses
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.declared.operations.documents import JobOperations as Jobs
from shoal.declared.operations.documents import OtherJobOperations as Others
from shoal.errors import NotFoundError
from shoal.jobs.queue.progress import Estimate
from shoal.jobs.queue.queries import Job
from shoal.models.jobs import ItemStatus, JobKind, JobStatus
from shoal_api import access, events, idempotency, service
from shoal_api.openapi import Blueprint
from shoal_api.paths import JOBS
from shoal_api.schemas.documents import JobSchema
from shoal_api.service import Service, engine

RETRY_SECONDS = 1
"""Value of `Retry-After` while a job runs: small jobs are done by then."""

IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "schema": {"type": "string"},
    "description": "the `ETag` of an earlier response; returns 304 without a body if the job is unchanged",
}

LAST_EVENT_ID = {
    "in": "header",
    "name": "Last-Event-ID",
    "schema": {"type": "string"},
    "description": "id of the last event received, which is not sent again; browsers send this header when "
    "they reconnect. Invalid ids are ignored",
}

blueprint = Blueprint("jobs", __name__, description="The progress of accepted work")
actions = Blueprint("actions", __name__, description="Rescore, cancel and retry")


@blueprint.serves(Jobs.jobs)
def list_jobs(query: dict[str, Any]) -> dict[str, Any]:
    here = service.current()
    statuses = [JobStatus(name) for name in query.get("status", ())]
    kinds = [JobKind(name) for name in query.get("kind", ())]
    owners = access.current().owners
    page = here.engine.jobs.list(statuses, query["limit"], query["offset"], kinds=kinds, owners=owners)
    return {
        "jobs": [represent(here, job) for job in page],
        "total": here.engine.jobs.count(statuses, kinds=kinds, owners=owners),
    }


@blueprint.serves(
    Others.job,
    describe={"parameters": [IF_NONE_MATCH]},
    headers={"ETag": {"schema": {"type": "string"}}},
)
@blueprint.also_responds(304, description="Unchanged since the `ETag` of `If-None-Match`")
def get_job(query: dict[str, Any], job_id: int) -> Response:
    here = service.current()
    job = visible_job(job_id)
    client_etags = flask.request.if_none_match
    changed = bool(client_etags) and not client_etags.contains_weak(etag(job))
    if not job.ended and not changed:
        revision = job.revision
        job = here.waiting.wait(
            query["wait"],
            lambda seconds: here.engine.jobs.wait_for_change(job_id, revision, seconds),
            lambda now: now.revision != revision or here.is_deleted(),
        )
    unchanged = client_etags.contains_weak(etag(job))
    response = Response(status=304) if unchanged else flask.jsonify(JobSchema().dump(represent(here, job)))
    response.headers["Cache-Control"] = "no-cache"
    # Weak, because values that change with time alone, such as the rate, are not part of it.
    response.set_etag(etag(job), weak=True)
    return with_retry(response, job)


@blueprint.serves(
    Others.events,
    schema={"type": "string"},
    content_type="text/event-stream",
    description="Events until the job has ended",
    describe={"parameters": [LAST_EVENT_ID]},
)
@blueprint.also_responds(
    204,
    description="The job has ended and `Last-Event-ID` is its last event, so nothing follows",
)
def get_job_events(job_id: int) -> Response:
    here = service.current()
    job = visible_job(job_id)
    seen = events.seen_revision(flask.request.headers.get("Last-Event-ID"))
    if job.ended and seen == job.revision:
        return Response(status=204)
    release = here.listeners.acquire()
    try:
        dump = JobSchema().dump
        stream = here.listeners.stream(
            here.engine.jobs, job, seen, lambda job: dump(represent(here, job)), here.is_deleted
        )
        response = Response(stream, content_type=events.CONTENT_TYPE)
    except BaseException:
        release()
        raise
    # Runs even if the client never reads from the stream.
    response.call_on_close(release)
    # Otherwise nginx buffers events until it has a page of them.
    response.headers["X-Accel-Buffering"] = "no"
    return response


@blueprint.serves(Jobs.items)
def get_job_items(query: dict[str, Any], job_id: int) -> dict[str, Any]:
    status = ItemStatus(query["status"]) if "status" in query else None
    visible_job(job_id)
    all_jobs = engine().jobs
    items = all_jobs.items(job_id, status, query["limit"], query["offset"])
    return {"items": items, "total": all_jobs.count_items(job_id, status)}


def visible_job(job_id: int) -> Job:
    """Return a job. Raises NotFoundError, also for one that compares notes of an owner that the key may not
    name: its numbers say how many notes there are."""
    all_jobs, caller = engine().jobs, access.current()
    job = all_jobs.get(job_id)
    if caller.owners is not None and not all(map(caller.may_name, all_jobs.owners_of(job_id))):
        raise NotFoundError(f"there is no job {job_id}")
    return job


def etag(job: Job) -> str:
    return f"{job.id}-{job.revision}"


def address(here: Service, job: Job) -> str:
    return here.local(f"{JOBS}/{job.id}")


def represent(here: Service, job: Job) -> dict[str, Any]:
    """Return the values of JobSchema for a job: its state, rate and links."""
    estimate = here.progress_estimator.estimate(job, here.engine.jobs.waves(job.id), here.collection.id)
    own = address(here, job)
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
        "links": {"self": own, "items": f"{own}/items", "events": f"{own}/events"},
    }


def _rounded(estimate: Estimate) -> dict[str, float | None]:
    """Return an estimate, rounded to a sensible number of digits."""
    rates = dataclasses.asdict(estimate)
    return {
        name: None if value is None else round(value, 4 if name == "fraction" else 1)
        for name, value in rates.items()
    }


def with_retry(response: Response, job: Job) -> Response:
    """Add `Retry-After` to the response while the job runs."""
    if not job.ended:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response


def accepted(job: Job) -> Response:
    """Return 202 with the job, and its URL in `Location`."""
    here = service.current()
    response = flask.jsonify({"job": JobSchema().dump(represent(here, job))})
    response.status_code = 202
    response.headers["Location"] = address(here, job)
    return with_retry(response, job)


@actions.serves(Others.add_job)
def add_job(data: dict[str, Any]) -> Response:
    here = service.current()
    if data["kind"] == JobKind.embed:
        job = here.engine.jobs.submit_embedding()
        here.notify()
        return accepted(job)
    key = idempotency.key(flask.request)
    job = here.engine.jobs.submit_rescore(
        idempotency_key=key, request_hash=idempotency.fingerprint("job", data)
    )
    here.notify()
    return accepted(job)


@actions.serves(Jobs.cancel_job)
def cancel_job(job_id: int) -> Response:
    visible_job(job_id)
    return accepted(engine().jobs.cancel(job_id))


@actions.serves(Others.delete_job)
def delete_job(job_id: int) -> Response:
    return cancel_job(job_id)


@actions.serves(Jobs.retry_job)
def retry_job(job_id: int) -> Response:
    visible_job(job_id)
    here = service.current()
    job = here.engine.jobs.retry(job_id)
    here.notify()
    return accepted(job)
