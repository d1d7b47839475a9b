"""The libraries that a worker process serves: `main`, and the collections that may have work."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from shoal.collections.registry import OpenLibraries, Registry
from shoal.jobs.jobs import EmbeddingStarter
from shoal.jobs.queue import statements
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import handlers_for
from shoal.notes.session_maintenance import due_sessions
from shoal.saved_searches import delivering, matching
from shoal.saved_searches.matching import MAX_WAITING
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.sources import rows as source_rows
from shoal.storage import migrate, saved_search_changes
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp
from shoal.support.collection_names import MAIN
from shoal_worker.keepers import NoteKeeper, SavedSearchKeeper, SourceKeeper

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder

OPEN_SHARE = 4
"""A worker process keeps `open_collections` / OPEN_SHARE collections open: it works in one at a time."""
IDLE_CONNECTIONS = 2
MARKED_TOGETHER = 64
"""Marked collections that a process reads at once; later ones follow in the next turn."""


class WorkerLibrary:
    """A library that is open in this process. What its work needs is made on first use."""

    def __init__(
        self,
        collection_id: str,
        settings: Settings,
        scorer: Scorer,
        encoder: Callable[[], Encoder | None],
        notify: Callable[[], None],
        lock: IO[str] | None = None,
    ) -> None:
        self.collection_id = collection_id
        self.settings = settings
        self._scorer = scorer
        self._encoder = encoder
        self._notify = notify
        self._lock = lock
        self.database: Database = open_database(settings.database_url, settings.data_path)
        if collection_id != MAIN:
            self.database.max_idle = IDLE_CONNECTIONS
            # The API migrates `main`; a collection is migrated by who opens it first.
            migrate.upgrade(self.database, creates=False)
        self.database.write_guard = migrate.check_writable

    @functools.cached_property
    def handlers(self) -> Handlers:
        return handlers_for(self.database, self._scorer, self.settings, self._encoder)

    @functools.cached_property
    def notes(self) -> NoteKeeper:
        return NoteKeeper(self.database, self.settings, self._scorer)

    @functools.cached_property
    def searches(self) -> SavedSearchKeeper:
        return SavedSearchKeeper(self.database, self.settings, self._scorer)

    @functools.cached_property
    def sources(self) -> SourceKeeper:
        return SourceKeeper(self.database, self.settings, self._notify)

    @functools.cached_property
    def look(self) -> Callable[[], None]:
        """What has documents embedded that lack vectors."""
        if not self.settings.embed or self._encoder() is None:
            return _look_nowhere
        return EmbeddingStarter(self.database, self.settings, self._notify).look

    def is_quiet(self) -> bool:
        """Whether nothing waits here: no open job, no saved search that is due, no webhook and no run of a
        source, also none that is due later, and no transcript. Raises StorageError."""
        with self.database.snapshot() as snapshot:
            if snapshot.first(statements.OPEN_WORK) is not None:
                return False
            now, last = snapshot.now(), saved_search_changes.latest_evaluation(snapshot)
            if (
                saved_search_changes.is_any_ended(snapshot)
                or matching.is_any_due(snapshot, last, now, MAX_WAITING)
                or delivering.is_any_waiting(snapshot)
                or source_rows.is_any_expected(snapshot)
            ):
                return False
            return not (self.settings.llm_url and due_sessions(snapshot, timestamp(), limit=1))

    def close(self) -> None:
        try:
            self.database.close()
        finally:
            if self._lock is not None:
                self._lock.close()


class Libraries:
    """`main` and the open collections of one worker process. Made after the fork."""

    def __init__(
        self,
        settings: Settings,
        scorer: Scorer,
        encoder: Callable[[], Encoder | None],
        notify: Callable[[], None],
    ) -> None:
        self.registry = Registry(settings)
        self._settings = settings
        self._scorer = scorer
        self._encoder = encoder
        self._notify = notify
        self.main = WorkerLibrary(MAIN, settings, scorer, encoder, notify)
        self._open = OpenLibraries[WorkerLibrary](
            max(1, settings.open_collections // OPEN_SHARE), self._open_library, WorkerLibrary.close
        )
        # Processes begin at different places, so that they do not all look at the same collections.
        self._last_served = random.SystemRandom().randbytes(8).hex()
        self._was_main = False

    @contextmanager
    def using(self, collection_id: str) -> Iterator[WorkerLibrary]:
        """Use a library within the block. Raises CollectionNotFoundError, StorageError."""
        if collection_id == MAIN:
            yield self.main
            return
        with self._open.using(collection_id) as library:
            yield library

    @contextmanager
    def opened(self, collection_id: str) -> Iterator[WorkerLibrary]:
        """Open a library for a look, without closing one of those that are used."""
        library = self._open_library(collection_id)
        try:
            yield library
        finally:
            library.close()

    def turn(self) -> list[str]:
        """List collections for the next claim, in their order: `main` and the marked ones take turns."""
        marked = [each for each, _ in self.registry.catalog.with_work(MARKED_TOGETHER, self._last_served)]
        return [*marked, MAIN] if self._was_main and marked else [MAIN, *marked]

    def served(self, collection_id: str) -> None:
        """Note that a batch of a collection was processed; the next turn begins after it."""
        self._was_main = collection_id == MAIN
        if collection_id != MAIN:
            self._last_served = collection_id

    def clean(self, *, orphans: bool) -> int:
        """Close deleted collections, and remove files that nobody uses."""
        for collection_id in self._open.ids():
            if self.registry.catalog.by_id(collection_id) is None:
                self._open.discard(collection_id)
        return self.registry.clean(orphans=orphans)

    def _open_library(self, collection_id: str) -> WorkerLibrary:
        with self.registry.opening(collection_id) as lock:
            settings = self.registry.settings_by_id(collection_id)
            return WorkerLibrary(
                collection_id, settings, self._scorer, self._encoder, self._notify_of(collection_id), lock
            )

    def _notify_of(self, collection_id: str) -> Callable[[], None]:
        def notify() -> None:
            self.registry.catalog.mark_work(collection_id)
            self._notify()

        return notify


def _look_nowhere() -> None:
    """Stand for the look at documents without vectors where there is no encoder."""
