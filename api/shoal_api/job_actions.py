"""What can be done with jobs besides following them: rescore the library, cancel, try again what failed."""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.errors import JobStateError
from shoal.jobs.queue import queries as protocol
from shoal.jobs.queue.cancel import cancel
from shoal.jobs.queue.retry import retry
from shoal.jobs.queue.submission import submit_rescore
from shoal.models import JobStatus
from shoal_api import idempotency, service
from shoal_api.jobs import accepted
from shoal_api.openapi import Blueprint
from shoal_api.paths import ID, JOBS
from shoal_api.problems import CONTENT_TYPE
from shoal_api.schemas.common import ProblemSchema
from shoal_api.schemas.jobs import AcceptedSchema, NewJobSchema

blueprint = Blueprint("actions", __name__, url_prefix=JOBS, description="What can be done with jobs")


@blueprint.post("")
@blueprint.body(NewJobSchema)
@blueprint.answers(202, AcceptedSchema)
@blueprint.fails(400, 409, 413, 415)
@blueprint.describe(parameters=[idempotency.PARAMETER])
def add_job(data: dict[str, Any]) -> Response:
    """Rescore the library

    Learns its words afresh from all documents and brings every chunk up to date with them; chunks and their ids stay
    as they are. Of a document that is up to date nothing is written.
    """
    here = service.current()
    key = idempotency.key(flask.request)
    job_id = submit_rescore(
        here.engine.database,
        here.settings,
        idempotency_key=key,
        request_hash=idempotency.fingerprint("job", data),
    )
    here.notify()
    return accepted(protocol.get_job(here.engine.database, job_id))


@blueprint.post(f"/<{ID}:job_id>/cancel")
@blueprint.answers(202, AcceptedSchema, description="It is canceled")
@blueprint.fails(404)
@blueprint.also_answers(
    409, ProblemSchema, content_type=CONTENT_TYPE, description="The job has ended: there is nothing to cancel"
)
def cancel_job(job_id: int) -> Response:
    """Cancel a job

    What has not ended of it ends at once, also what is being worked on; what is stored stays. A job that is canceled
    already stays as it is.
    """
    database = service.current().engine.database
    before = protocol.get_job(database, job_id)
    if before.ended and before.status is not JobStatus.canceled:
        raise JobStateError(f"job {job_id} has ended ({before.status}); there is nothing to cancel")
    return accepted(cancel(database, job_id))


@blueprint.post(f"/<{ID}:job_id>/retry")
@blueprint.answers(202, AcceptedSchema, description="They will be tried again")
@blueprint.fails(404)
@blueprint.also_answers(
    409,
    ProblemSchema,
    content_type=CONTENT_TYPE,
    description="No item has failed, none of those that have can be tried again, or the job was canceled",
)
def retry_job(job_id: int) -> Response:
    """Try the failed items of a job again

    They go through all stages once more, as part of the same job. Items that were refused on arrival, because their
    text could not be used, stay failed.
    """
    here = service.current()
    job = retry(here.engine.database, here.settings, job_id)
    here.notify()
    return accepted(job)
