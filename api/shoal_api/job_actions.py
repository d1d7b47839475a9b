"""Actions on jobs: rescore or embed the library, cancel a job, retry failed items."""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.models.jobs import JobKind
from shoal_api import idempotency, service
from shoal_api.jobs import accepted, visible_job
from shoal_api.openapi import Blueprint
from shoal_api.paths import ID, JOBS
from shoal_api.schemas.jobs import AcceptedSchema, NewJobSchema

blueprint = Blueprint("actions", __name__, url_prefix=JOBS, description="Rescore, cancel and retry")


@blueprint.post("")
@blueprint.body(NewJobSchema)
@blueprint.responds(202, AcceptedSchema)
@blueprint.fails(409)
@blueprint.describe(parameters=[idempotency.PARAMETER])
def add_job(data: dict[str, Any]) -> Response:
    """Rescore or embed the library

    `rescore` decides all learned words again and scores the documents that have stale chunks. Chunks and
    their ids stay the same. The job ends at once if nothing has changed since the last rescore.

    `embed` makes the vectors of chunks that lack one, with the encoder of the workers. An open job of this
    kind is continued, so a repeated request does no harm, and an idempotency key is not needed.
    """
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


HAS_ENDED = "The job has ended: there is nothing to cancel"


@blueprint.post(f"/<{ID}:job_id>/cancel")
@blueprint.responds(202, AcceptedSchema, description="The job is canceled")
@blueprint.fails(404)
@blueprint.conflicts(HAS_ENDED)
def cancel_job(job_id: int) -> Response:
    """Cancel a job

    Items that have not ended are canceled at once, including those being processed. Stored documents stay.
    Canceling a canceled job has no effect. `retry` continues with the canceled items. A key that is bound to
    owners of notes may cancel comparisons of their notes only.
    """
    visible_job(job_id)
    return accepted(service.current().engine.jobs.cancel(job_id))


@blueprint.delete(f"/<{ID}:job_id>")
@blueprint.responds(202, AcceptedSchema, description="The job is canceled")
@blueprint.fails(404)
@blueprint.conflicts(HAS_ENDED)
def delete_job(job_id: int) -> Response:
    """Cancel a job

    The same as `POST /jobs/{job_id}/cancel`. The job stays listed until `SHOAL_JOB_RETENTION` ends.
    """
    return cancel_job(job_id)


@blueprint.post(f"/<{ID}:job_id>/retry")
@blueprint.responds(202, AcceptedSchema, description="The items are enqueued again")
@blueprint.fails(404)
@blueprint.conflicts("No item failed or was canceled, or none of these can be retried")
def retry_job(job_id: int) -> Response:
    """Retry the failed and canceled items of a job

    The items go through all stages again, in the same job. Items refused on arrival, because their text could
    not be used, stay failed. Keys that are bound to owners may do so as with canceling.
    """
    visible_job(job_id)
    here = service.current()
    job = here.engine.jobs.retry(job_id)
    here.notify()
    return accepted(job)
