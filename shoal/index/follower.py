"""Keeping the index of a machine current while nobody searches, and saying how far it is behind."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from shoal.errors import IndexBehindError, ShoalError
from shoal.index.upkeep import update_index
from shoal.storage.database import Database, Listener
from shoal.storage.index_records import Lag

POLL_SECONDS = 1.0
"""Interval at which the library is looked at without a notification."""
REST_SECONDS = 0.05
"""Shortest pause between two updates, so that a bulk upload is not indexed document by document."""
MOST_REST_SECONDS = 0.1
"""Longest pause: what changes in it waits for the next update."""

log = logging.getLogger(__name__)


class FollowedIndex(Protocol):
    """The index of a process, as the follower needs it."""

    def lag(self) -> Lag:
        """Return how far the index is behind the library. Raises StorageError."""

    def load(self) -> None:
        """Open the newest state."""


class IndexFollower:
    """A thread that follows a library. Any number of processes of a machine may: one of them writes."""

    def __init__(self, database: Database, index: FollowedIndex) -> None:
        self._database = database
        self._index = index
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._lag = Lag(0, 0.0)
        self._measured_at = time.monotonic()

    def start(self, *, listen: bool = True) -> None:
        """Begin to follow; does nothing the second time. To `listen` takes a connection to the database."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(listen,), name="index follower", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Stop after the update in progress."""
        self._stopped.set()

    @property
    def lag(self) -> Lag:
        """How far the index is behind, as last measured; what waited then has become older since."""
        n_documents, seconds = self._lag
        if not n_documents:
            return self._lag
        return Lag(n_documents, seconds + time.monotonic() - self._measured_at)

    def check(self, max_seconds: float) -> None:
        """Raise IndexBehindError if the index is behind by more than `max_seconds`; 0: never."""
        if max_seconds and self.lag.seconds > max_seconds:
            # It may have caught up since.
            lag = self.measure()
            if lag.seconds > max_seconds:
                raise IndexBehindError(lag.n_documents, lag.seconds)

    def measure(self) -> Lag:
        """Measure the lag now. Raises StorageError."""
        lag = self._index.lag()
        self._lag, self._measured_at = lag, time.monotonic()
        return lag

    def _run(self, listen: bool) -> None:
        listener = self._database.listener() if listen else None
        is_failing = False
        while not self._stopped.is_set():
            started = time.monotonic()
            try:
                if self.measure().n_documents:
                    update_index(self._database)
                    self.measure()
                # The next search finds it open.
                self._index.load()
                is_failing = False
            except ShoalError as error:
                if not is_failing:
                    log.warning("index not updated: %s", error)
                is_failing = True
            except Exception:
                log.exception("index not updated")
            # As far as the lag allows, half of the time is for searches.
            rest = min(MOST_REST_SECONDS, time.monotonic() - started)
            self._stopped.wait(max(REST_SECONDS, rest))
            if self._stopped.is_set():
                break
            self._wait_for_change(listener)
        if listener is not None:
            listener.close()
        # The last update may have opened connections after the library was closed.
        self._database.close()

    def _wait_for_change(self, listener: Listener | None) -> None:
        """Wait until the library may have changed, for POLL_SECONDS at most."""
        if listener is not None:
            try:
                listener.wait("index", POLL_SECONDS)
                return
            except Exception:
                log.exception("notifications not heard")
        self._stopped.wait(POLL_SECONDS)
