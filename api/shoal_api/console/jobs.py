"""Pages of jobs and their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.jobs.queue.queries import Job, WaveProgress
from shoal.models.jobs import ItemStatus, JobKind, JobStatus
from shoal_api import access, service
from shoal_api.console import query_params
from shoal_api.console.layout import blueprint, page
from shoal_api.jobs import visible_job
from shoal_api.paths import ID

JOBS = 50
ITEMS = 100
FAILED = 20
"""Failed items shown above the list of all items."""


@blueprint.get("/jobs")
@page("page", "status")
def jobs() -> tuple[str, Mapping[str, Any]]:
    """List jobs with their progress."""
    here = service.current()
    number = query_params.page_number()
    status = query_params.choice("status", JobStatus, "status of a job")
    owners = access.current().owners
    listed = here.engine.jobs.list(status, JOBS, (number - 1) * JOBS, owners=owners)
    return "jobs.html", {
        "jobs": [
            (
                job,
                here.progress_estimator.estimate(job, _waves(job), here.collection.id),
                here.engine.jobs.can_retry(job),
            )
            for job in listed
        ],
        "any_open": any(not job.ended for job in listed),
        "total": here.engine.jobs.count(status, owners=owners),
        "statuses": [member.value for member in JobStatus],
        "status": status,
        "page": number,
        "per_page": JOBS,
    }


@blueprint.get(f"/jobs/<{ID}:job_id>")
@page("page", "items")
def job(job_id: int) -> tuple[str, Mapping[str, Any]]:
    """Show a job, live while it runs, with its failed items."""
    here = service.current()
    shown, all_jobs = visible_job(job_id), here.engine.jobs
    number = query_params.page_number()
    status = query_params.choice("items", ItemStatus, "status of an item")
    failed = all_jobs.items(job_id, ItemStatus.failed, FAILED, 0) if shown.progress.failed else []
    return "job.html", {
        "job": shown,
        "estimate": here.progress_estimator.estimate(shown, _waves(shown), here.collection.id),
        "can_retry": here.engine.jobs.can_retry(shown),
        "owners": all_jobs.compared_owners(job_id) if shown.kind is JobKind.dedup else (),
        "failed": failed,
        "items": all_jobs.items(job_id, status, ITEMS, (number - 1) * ITEMS),
        "status": status,
        "statuses": [member.value for member in ItemStatus],
        "total": here.engine.jobs.count_items(job_id, status),
        "page": number,
        "per_page": ITEMS,
    }


def _waves(job: Job) -> Sequence[WaveProgress]:
    return service.current().engine.jobs.waves(job.id)
