"""Threads of every worker process that repeat a step: for notes, saved searches, webhooks and sources.

The keeper of notes extracts lessons from waiting transcripts, submits the job that compares notes when it is
due, and deletes what is old, logged queries too. A request to the chat endpoint takes up to minutes, so this
is no work of the reconciler.

A receiver of a webhook may take seconds to answer, so sending has a thread of its own, and so has reading
from sources. Evaluation of saved searches rests for as long as it worked, so that it leaves time for jobs.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import structlog

from shoal.errors import ChatEndpointError, StorageError
from shoal.jobs.queue.dedup_items import submit_due_dedup
from shoal.notes.notes import Notes
from shoal.query_log.query_log import QueryLog
from shoal.saved_searches.delivering import Deliverer
from shoal.saved_searches.matching import Matcher
from shoal.scorer import Scorer
from shoal.search.library_index import IndexCache
from shoal.search.searcher import Searcher
from shoal.settings import Settings
from shoal.sources.run_steps import Follower
from shoal.storage import index_tables
from shoal.storage.database import Database

log = structlog.get_logger(__name__)


def repeat(name: str, step: Callable[[], object], seconds: float, *, rests: bool = False) -> None:
    """Start a thread that repeats a step, with a pause of `seconds`. An error is logged and ends nothing.

    With `rests`, a pause is at least as long as the step before it, so that jobs have half of the time, and
    no longer if the step returned True: there is more to do.
    """
    threading.Thread(target=_repeat, args=(name, step, seconds, rests), name=name, daemon=True).start()


def block_sigterm() -> None:
    """Leave SIGTERM to the main thread: Celery blocks it there while the process holds a lock shared by the
    pool. In another thread it would end the process together with the lock."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _repeat(name: str, step: Callable[[], object], seconds: float, rests: bool) -> None:
    block_sigterm()
    while True:
        started = time.monotonic()
        has_more: object = False
        try:
            has_more = step()
        except (StorageError, ChatEndpointError) as error:
            log.warning("step of a thread failed", thread=name, reason=str(error))
        except Exception:
            # Recovery depends on these threads, so no error may end them.
            log.exception("step of a thread failed", thread=name)
        worked = time.monotonic() - started if rests else 0.0
        time.sleep(worked if rests and has_more is True else max(seconds, worked))


NOTE_LOOK_SECONDS = 5.0
"""Interval at which the queue is looked at; a stop hook comes after each answer of an agent."""
CLEAN_SECONDS = 3600.0
FOLLOWED_SECONDS = 7 * 86_400.0
"""How long deletions stay noted for machines that follow the library."""


class NoteKeeper:
    """Looks after the notes of a library. Any number of processes may do so."""

    def __init__(self, database: Database, settings: Settings, scorer: Scorer) -> None:
        self._database = database
        self._settings = settings
        self._notes = Notes(database, settings, lambda: scorer)
        self._queries = QueryLog(database, settings)
        self._cleaned_at = -CLEAN_SECONDS

    def start(self) -> None:
        repeat("note keeper", self.keep, NOTE_LOOK_SECONDS)

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


SEARCH_LOOK_SECONDS = 2.0
"""Interval at which both threads look for work."""
PRUNE_SECONDS = 3600.0


class SavedSearchKeeper:
    """Looks after the saved searches of a library. Any number of processes may do so."""

    def __init__(self, database: Database, settings: Settings, scorer: Scorer) -> None:
        self._matcher = Matcher(database, Searcher(database, scorer, settings, IndexCache(database)))
        self._deliverer = Deliverer(database, settings)
        self._pruned_at = -PRUNE_SECONDS

    def start(self) -> None:
        repeat("saved searches", self._matcher.match_batch, SEARCH_LOOK_SECONDS, rests=True)
        repeat("webhooks", self.deliver, SEARCH_LOOK_SECONDS, rests=True)

    def match(self) -> bool:
        """Evaluate some searches; False if none was due. Raises StorageError."""
        return self._matcher.match_batch()

    def deliver(self) -> bool:
        """Make a delivery that is due, and delete what is old; False if none was due. Raises StorageError."""
        if time.monotonic() - self._pruned_at >= PRUNE_SECONDS and self._deliverer.prune() == 0:
            self._pruned_at = time.monotonic()
        return self._deliverer.deliver_one()


SOURCE_LOOK_SECONDS = 2.0
"""Interval at which runs of sources are looked for."""


class SourceKeeper:
    """Takes the steps of runs of sources. Any number of processes may do so."""

    def __init__(self, database: Database, settings: Settings, notify: Callable[[], None]) -> None:
        self._follower = Follower(database, settings, notify=notify)

    def start(self) -> None:
        repeat("sources", self.step, SOURCE_LOOK_SECONDS, rests=True)

    def step(self) -> bool:
        """Take a step of a run; False if none is due. Raises StorageError."""
        return self._follower.step()
