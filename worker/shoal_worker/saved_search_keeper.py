"""The threads of every worker process that evaluate saved searches and send their webhooks.

A receiver may take seconds to answer, so sending has a thread of its own. Evaluation rests for as long as it
worked, so that it leaves time for jobs.
"""

from __future__ import annotations

import time

from shoal.saved_searches.delivering import Deliverer
from shoal.saved_searches.matching import Matcher
from shoal.scorer import Scorer
from shoal.search.library_index import IndexCache
from shoal.search.searcher import Searcher
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal_worker.background import repeat

LOOK_SECONDS = 2.0
"""Interval at which both threads look for work."""
PRUNE_SECONDS = 3600.0


class SavedSearchKeeper:
    """Looks after the saved searches of a library. Any number of processes may do so."""

    def __init__(self, database: Database, settings: Settings, scorer: Scorer) -> None:
        self._matcher = Matcher(database, Searcher(database, scorer, settings, IndexCache(database)))
        self._deliverer = Deliverer(database, settings)
        self._pruned_at = -PRUNE_SECONDS

    def start(self) -> None:
        repeat("saved searches", self._matcher.match_batch, LOOK_SECONDS, rests=True)
        repeat("webhooks", self.deliver, LOOK_SECONDS, rests=True)

    def match(self) -> bool:
        """Evaluate some searches; False if none was due. Raises StorageError."""
        return self._matcher.match_batch()

    def deliver(self) -> bool:
        """Make a delivery that is due, and delete what is old; False if none was due. Raises StorageError."""
        if time.monotonic() - self._pruned_at >= PRUNE_SECONDS and self._deliverer.prune() == 0:
            self._pruned_at = time.monotonic()
        return self._deliverer.deliver_one()
