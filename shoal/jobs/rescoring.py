"""Rescoring within this process: an embedded job over all stored documents."""

from __future__ import annotations

from shoal.jobs import embedded
from shoal.jobs.embedded import Watcher
from shoal.jobs.queue import lease
from shoal.jobs.queue.queries import get_items
from shoal.jobs.queue.submission import submit_rescore
from shoal.jobs.stages.contract import Handlers
from shoal.models import ItemStatus, RescoreResult
from shoal.settings import Settings
from shoal.storage import vocabulary_queries
from shoal.storage.database import Database

MOST_FAILED = 1000
"""Maximum number of failed documents that a result names; normally there are none."""


def rescore(
    database: Database, handlers: Handlers, settings: Settings, watch: Watcher | None = None
) -> RescoreResult:
    """Rescore every stored document."""
    embedded.drop_abandoned_jobs(database, settings)
    job_id = submit_rescore(database, settings, local_owner=lease.new_owner())
    try:
        embedded.run_job(database, job_id, handlers, settings, watch)
        failed = get_items(database, job_id, ItemStatus.failed, limit=MOST_FAILED)
        n_documents = embedded.progress(database, job_id).items_total
    finally:
        embedded.drop(database, job_id)
    with database.snapshot() as snapshot:
        version = vocabulary_queries.newest(snapshot).number
    return RescoreResult(n_documents, tuple((item.title, item.error or "") for item in failed), version)
