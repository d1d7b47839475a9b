"""A library brought up to date within this process: a rescore as a job of its own, worked off before it is told."""

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
"""Documents that could not be rescored and are named; there should be none."""


def rescore(database: Database, handlers: Handlers, settings: Settings, watch: Watcher) -> RescoreResult:
    """Rescore every document that is stored now."""
    embedded.tidy(database, settings)
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
