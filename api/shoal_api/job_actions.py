"""Actions on jobs: rescore the library, cancel a job, retry failed items."""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal_api import idempotency, service
from shoal_api.jobs import accepted
from shoal_api.openapi import Blueprint
from shoal_api.paths import ID, JOBS
from shoal_api.problems import CONTENT_TYPE
from shoal_api.schemas.common import ProblemSchema
from shoal_api.schemas.jobs import AcceptedSchema, NewJobSchema

blueprint = Blueprint("actions", __name__, url_prefix=JOBS, description="Rescore, cancel and retry")


@blueprint.post("")
@blueprint.body(NewJobSchema)
@blueprint.responds(202, AcceptedSchema)
@blueprint.fails(400, 409, 413, 415)
@blueprint.describe(parameters=[idempotency.PARAMETER])
def add_job(data: dict[str, Any]) -> Response:
    """Rescore the library

    Decides all learned words again and scores the documents that have stale chunks. Chunks and their ids stay
    the same. The job ends at once if nothing has changed since the last rescore.
    """
    here = service.current()
    key = idempotency.key(flask.request)
    job = here.engine.jobs.submit_rescore(
        idempotency_key=key, request_hash=idempotency.fingerprint("job", data)
    )
    here.notify()
    return accepted(job)


@blueprint.post(f"/<{ID}:job_id>/cancel")
@blueprint.responds(202, AcceptedSchema, description="The job is canceled")
@blueprint.fails(404)
@blueprint.also_responds(
    409, ProblemSchema, content_type=CONTENT_TYPE, description="The job has ended: there is nothing to cancel"
)
def cancel_job(job_id: int) -> Response:
    """Cancel a job

    Items that have not ended are canceled at once, including those being processed. Stored documents stay.
    Canceling a canceled job has no effect.
    """
    return accepted(service.current().engine.jobs.cancel(job_id))


@blueprint.post(f"/<{ID}:job_id>/retry")
@blueprint.responds(202, AcceptedSchema, description="The failed items are enqueued again")
@blueprint.fails(404)
@blueprint.also_responds(
    409,
    ProblemSchema,
    content_type=CONTENT_TYPE,
    description="No item failed, no failed item can be retried, or the job was canceled",
)
def retry_job(job_id: int) -> Response:
    """Retry the failed items of a job

    The items go through all stages again, in the same job. Items refused on arrival, because their text could
    not be used, stay failed.
    """
    here = service.current()
    job = here.engine.jobs.retry(job_id)
    here.notify()
    return accepted(job)
