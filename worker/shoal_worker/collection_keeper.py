"""The threads of every worker process that look after the collections besides `main`.

They look at collections that are marked as having work, a bounded number in a round, and sweep through all
others slowly: a process that died between the commit of a job and its mark leaves a job that only the sweep
finds. What may take long (a chat endpoint, an evaluation, a receiver of webhooks) has a thread of its own, so
that the recovery of collections does not wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from shoal.errors import ChatEndpointError, CollectionNotFoundError, StorageError
from shoal.jobs.queue.claims import has_claimable_work
from shoal.jobs.queue.dedup_items import submit_due_dedup
from shoal.jobs.queue.metrics import Counters
from shoal.settings import Settings
from shoal_worker.keepers import repeat
from shoal_worker.libraries import Libraries, WorkerLibrary
from shoal_worker.reconciler import recover

MARKED_PER_ROUND = 32
"""Marked collections that one round looks at."""
SWEPT_PER_ROUND = 25
"""Collections without a mark that one round looks at, each for about three milliseconds."""
SWEEP_SECONDS, SWEEP_SECONDS_EACH = 60.0, 0.1
"""Shortest time between two looks at a collection, and the same for each collection that there is: all
processes together look at ten a second at most. A sweep through 10,000 collections takes 17 minutes."""
PRUNE_SECONDS = 3600.0
ORPHAN_SECONDS = 600.0
"""Time between two looks for what interrupted creations left."""
LOOK_SECONDS = 2.0
NOTES_SECONDS = 5.0

log = structlog.get_logger(__name__)


class CollectionKeeper:
    """Looks after collections. Any number of processes may do so."""

    def __init__(
        self, libraries: Libraries, settings: Settings, notify: Callable[[], None], counters: Counters
    ) -> None:
        self._libraries = libraries
        self._catalog = libraries.registry.catalog
        self._settings = settings
        self._notify = notify
        self._counters = counters
        self._is_waiting = False
        self._after = ""
        self._pruned_at: dict[str, float] = {}
        self._cleaned_at = time.monotonic()

    def start(self) -> None:
        repeat("collections", self.keep, self._settings.reconcile_seconds)
        notes = _Rounds(self._libraries, lambda library: library.notes.keep())
        repeat("collection notes", notes.run, NOTES_SECONDS)
        searches = _Rounds(self._libraries, lambda library: library.searches.match())
        repeat("collection searches", searches.run, LOOK_SECONDS)
        webhooks = _Rounds(self._libraries, lambda library: library.searches.deliver())
        repeat("collection webhooks", webhooks.run, LOOK_SECONDS)
        sources = _Rounds(self._libraries, lambda library: library.sources.step())
        repeat("collection sources", sources.run, LOOK_SECONDS)

    def has_waiting(self) -> bool:
        """Whether the last round saw work that could be claimed."""
        return self._is_waiting

    def keep(self) -> None:
        """Recover, notify and clean up, once."""
        is_waiting = False
        for collection_id, mark in self._catalog.with_work(MARKED_PER_ROUND, self._after):
            self._after = collection_id
            try:
                with self._libraries.using(collection_id) as library:
                    is_waiting = self._recover(library) or is_waiting
                    if library.is_quiet():
                        self._catalog.clear_work(collection_id, mark)
            except CollectionNotFoundError:
                continue
            except StorageError as error:
                log.warning("collection not reconciled", collection=collection_id, reason=str(error))
        self._is_waiting = is_waiting
        pause = max(SWEEP_SECONDS, SWEEP_SECONDS_EACH * self._catalog.count())
        for collection_id in self._catalog.take_sweep(SWEPT_PER_ROUND, pause):
            self._sweep(collection_id)
        now = time.monotonic()
        orphans = now - self._cleaned_at >= ORPHAN_SECONDS
        if orphans:
            self._cleaned_at = now
        self._libraries.clean(orphans=orphans)

    def _recover(self, library: WorkerLibrary) -> bool:
        """Reconcile a collection; True if work waits there."""
        collection = {"collection": library.collection_id}
        recover(library.database, library.settings, self._notify, self._counters, **collection)
        library.look()
        return has_claimable_work(library.database)

    def _sweep(self, collection_id: str) -> None:
        """Look at a collection without a mark; mark it if something waits there."""
        try:
            with self._libraries.opened(collection_id) as library:
                is_waiting = self._recover(library)
                submit_due_dedup(library.database, library.settings)
                pruned_at = self._pruned_at.get(collection_id)
                if pruned_at is None or time.monotonic() - pruned_at >= PRUNE_SECONDS:
                    self._pruned_at[collection_id] = time.monotonic()
                    library.notes.prune()
                if is_waiting or not library.is_quiet():
                    self._catalog.mark_work(collection_id)
        except CollectionNotFoundError:
            self._pruned_at.pop(collection_id, None)
        except StorageError as error:
            log.warning("collection not swept", collection=collection_id, reason=str(error))


class _Rounds:
    """Takes a step in each of the marked collections, in turn. An error in one stops no other."""

    def __init__(self, libraries: Libraries, step: Callable[[WorkerLibrary], object]) -> None:
        self._libraries = libraries
        self._step = step
        self._after = ""

    def run(self) -> None:
        catalog = self._libraries.registry.catalog
        for collection_id, _ in catalog.with_work(MARKED_PER_ROUND, self._after):
            self._after = collection_id
            try:
                with self._libraries.using(collection_id) as library:
                    self._step(library)
            except CollectionNotFoundError:
                continue
            except (StorageError, ChatEndpointError) as error:
                log.warning("collection not looked after", collection=collection_id, reason=str(error))
