"""The dedup stage: compare a range of an owner's notes with others."""

from __future__ import annotations

import logging
import time

from shoal.errors import ChatEndpointError
from shoal.jobs.queue.claims import WorkItem, check_held
from shoal.jobs.queue.dedup_items import DedupStep, add_next_pass
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler
from shoal.models.jobs import ItemStatus
from shoal.notes.context import NoteContext
from shoal.notes.dedup import compare_range, endpoint_of
from shoal.notes.index_cache import NoteIndexes
from shoal.notes.note_vectors import GetVectors
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction

PAUSE_SECONDS = 60.0
"""How long an endpoint that failed is not asked again: other items would meet the same failure."""

log = logging.getLogger(__name__)


class Deduplicating(ItemHandler):
    """The dedup stage. Its results are written in short transactions while an item is prepared; a repeated
    run finds less to do."""

    def __init__(
        self, database: Database, scorer: Scorer, settings: Settings, get_vectors: GetVectors = lambda: None
    ) -> None:
        self._database = database
        self._settings = settings
        indexes = NoteIndexes(settings.note_index_bytes)
        self._context = NoteContext(database, settings, lambda: scorer, indexes, get_vectors)
        self._paused_until = 0.0
        self._failure = ""

    def prepare(self, item: WorkItem) -> Outcome | None:
        """Compare the notes; return the outcome of an item that failed, else None.

        Raises LeaseLostError once the job is canceled or another worker has the item.
        """
        step = DedupStep.of(item)
        if time.monotonic() < self._paused_until:
            return _failed(self._failure)
        with endpoint_of(self._settings, self._database) as ask:
            result = compare_range(
                self._context,
                step.owner,
                step.range,
                ask,
                step.run_id(item.job_id),
                check=lambda snapshot: check_held(
                    snapshot, item, or_canceled=isinstance(snapshot, Transaction)
                ),
            )
        counts = {
            "compared": result.n_compared,
            "merged": result.n_merged,
            "proposed": result.n_proposed,
        }
        log.info("notes compared", extra={"job_id": item.job_id, **counts})
        if not result.error:
            return None
        self._failure = result.error
        self._paused_until = time.monotonic() + PAUSE_SECONDS
        return _failed(result.error)

    def store(self, transaction: Transaction, item: WorkItem, prepared: None) -> Outcome:
        add_next_pass(transaction, item, self._settings)
        return Outcome(ItemStatus.succeeded)


def _failed(error: str) -> Outcome:
    return Outcome(ItemStatus.failed, error=error, error_code=ChatEndpointError.code)
