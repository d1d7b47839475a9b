"""Rescoring within this process: an embedded job over the documents that need it."""

from __future__ import annotations

from shoal.jobs import embedded
from shoal.jobs.embedded import Watcher
from shoal.jobs.queue import lease
from shoal.jobs.queue.queries import get_items
from shoal.jobs.queue.rescore_selection import has_nothing_to_do
from shoal.jobs.queue.submission import submit_rescore
from shoal.jobs.stages.contract import Handlers
from shoal.models.jobs import ItemStatus, RescoreResult
from shoal.settings import Settings
from shoal.storage import vocabulary_queries
from shoal.storage.database import Database

MOST_FAILED = 1000
"""Maximum number of failed documents that a result names; normally there are none."""


def rescore(
    database: Database,
    handlers: Handlers,
    settings: Settings,
    data_checksum: str,
    watch: Watcher | None = None,
) -> RescoreResult:
    """Bring the library up to date with its words; writes nothing if it is.

    `data_checksum`: of lagoon's data that the handlers score with."""
    embedded.drop_abandoned_jobs(database, settings)
    with database.snapshot() as snapshot:
        if has_nothing_to_do(snapshot, settings, data_checksum):
            return RescoreResult(0, (), vocabulary_queries.newest(snapshot).number)
    job_id = submit_rescore(database, settings, local_owner=lease.new_owner(), data_checksum=data_checksum)
    try:
        embedded.run_job(database, job_id, handlers, settings, watch)
        failed = get_items(database, job_id, ItemStatus.failed, limit=MOST_FAILED)
        n_documents = embedded.progress(database, job_id).items_total
    finally:
        embedded.drop(database, job_id)
    with database.snapshot() as snapshot:
        version = vocabulary_queries.newest(snapshot).number
    return RescoreResult(n_documents, tuple((item.title, item.error or "") for item in failed), version)
