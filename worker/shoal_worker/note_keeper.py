"""The thread of every worker process that looks after notes: it extracts lessons from waiting transcripts,
and deletes old events of hooks.

A request to the chat endpoint takes up to minutes, so this is no work of the reconciler.
"""

from __future__ import annotations

import signal
import threading
import time

import structlog

from shoal.errors import ChatEndpointError, StorageError
from shoal.notes.service import Notes
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.database import Database

LOOK_SECONDS = 5.0
"""Interval at which the queue is looked at; a stop hook comes after each answer of an agent."""
CLEAN_SECONDS = 3600.0

log = structlog.get_logger(__name__)


class NoteKeeper:
    """Looks after the notes of a library. Any number of processes may do so."""

    def __init__(self, database: Database, settings: Settings, scorer: Scorer) -> None:
        self._settings = settings
        self._notes = Notes(database, settings, lambda: scorer)
        self._cleaned_at = -CLEAN_SECONDS

    def start(self) -> None:
        threading.Thread(target=self._run, name="note keeper", daemon=True).start()

    def _run(self) -> None:
        # As in the reconciler: SIGTERM is for the main thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        while True:
            try:
                self.keep()
            except (StorageError, ChatEndpointError) as error:
                log.warning("notes not looked after", reason=str(error))
            except Exception:
                log.exception("notes not looked after")
            time.sleep(LOOK_SECONDS)

    def keep(self) -> None:
        """Extract what waits and clean up, once. Raises StorageError."""
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
        if time.monotonic() - self._cleaned_at >= CLEAN_SECONDS:
            self._notes.delete_old_events()
            self._cleaned_at = time.monotonic()
