"""The thread of every worker process that looks after notes: it extracts lessons from waiting transcripts,
submits the job that compares notes when it is due, and deletes what is old, logged queries too.

A request to the chat endpoint takes up to minutes, so this is no work of the reconciler.
"""

from __future__ import annotations

import time

import structlog

from shoal.jobs.queue.dedup_items import submit_due_dedup
from shoal.notes.notes import Notes
from shoal.query_log.query_log import QueryLog
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import index_tables
from shoal.storage.database import Database
from shoal_worker.background import repeat

LOOK_SECONDS = 5.0
"""Interval at which the queue is looked at; a stop hook comes after each answer of an agent."""
CLEAN_SECONDS = 3600.0
FOLLOWED_SECONDS = 7 * 86_400.0
"""How long deletions stay noted for machines that follow the library."""

log = structlog.get_logger(__name__)


class NoteKeeper:
    """Looks after the notes of a library. Any number of processes may do so."""

    def __init__(self, database: Database, settings: Settings, scorer: Scorer) -> None:
        self._database = database
        self._settings = settings
        self._notes = Notes(database, settings, lambda: scorer)
        self._queries = QueryLog(database, settings)
        self._cleaned_at = -CLEAN_SECONDS

    def start(self) -> None:
        repeat("note keeper", self.keep, LOOK_SECONDS)

    def prune(self) -> None:
        """Delete what is older than the settings say. Raises StorageError."""
        self._notes.prune()
        self._queries.prune()
        self._prune_changes()
        self._cleaned_at = time.monotonic()

    def _prune_changes(self) -> None:
        """Forget deletions that machines with an index of their own have had days to follow."""
        if not self._database.has_index_records:
            with self._database.write() as transaction:
                index_tables.prune_changes(transaction, transaction.now() - FOLLOWED_SECONDS)

    def keep(self) -> None:
        """Do what is due, once. Raises StorageError, ChatEndpointError."""
        job_id = submit_due_dedup(self._database, self._settings)
        if job_id is not None:
            log.info("notes are compared", job=job_id)
        if time.monotonic() - self._cleaned_at >= CLEAN_SECONDS:
            self.prune()
        if self._settings.llm_url and self._settings.llm_model:
            for result in self._notes.extract_waiting():
                log.info(
                    "transcript extracted",
                    session=result.session_id,
                    added=result.n_added,
                    duplicates=result.n_duplicates,
                    refused=len(result.refused),
                    reason=result.reason,
                )
