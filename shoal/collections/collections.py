"""The collections of an installation: create, list, describe, rename, swap, delete, and use their engines."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

from shoal.collections.catalog import Collection
from shoal.collections.registry import Lease, OpenLibraries, Registry
from shoal.engine import Engine
from shoal.errors import CollectionNotFoundError
from shoal.settings import Settings
from shoal.storage import totals
from shoal.storage.index_records import Lag
from shoal.storage.statistics import jobs_by_status
from shoal.support.collection_names import MAIN, shown

IDLE_CONNECTIONS = 2
"""Connections that an unused collection keeps; each takes three open files."""
IDLE_CONNECTIONS_TO_SERVER = 1
"""The same on PostgreSQL, whose server serves a hundred by default."""


@dataclass(frozen=True, slots=True)
class CollectionDetails:
    """A collection and what it holds. `content_bytes` is text, `database_bytes` the size on disk."""

    id: str
    name: str
    created_at: float | None
    n_documents: int
    n_chunks: int
    content_bytes: int
    database_bytes: int
    jobs: dict[str, int]


class OpenCollection:
    """An open library of a collection, and the lock that keeps its files."""

    def __init__(self, engine: Engine, lock: IO[str] | None) -> None:
        self.engine = engine
        self._lock = lock

    def close(self) -> None:
        try:
            self.engine.close()
        finally:
            if self._lock is not None:
                self._lock.close()


class Collections(Registry):
    """Many libraries; `with Collections(settings) as collections, collections.engine("a") as engine:`.

    Safe to share between threads. `main` is the engine of the collection `main`, if there is one already: it
    is not closed with this. All engines share its scorer and encoder, and nothing that comes from documents.
    """

    def __init__(self, settings: Settings | None = None, *, main: Engine | None = None) -> None:
        super().__init__(settings or (main.settings if main else Settings.from_environment()))
        self._main = main
        self._owns_main = main is None
        self._opening_main = threading.Lock()
        self._is_following = False
        self._open = OpenLibraries[OpenCollection](
            self.settings.open_collections, self._open_library, OpenCollection.close
        )

    @property
    def main(self) -> Engine:
        """The engine of the collection `main`."""
        if self._main is None:
            with self._opening_main:
                if self._main is None:
                    self._main = Engine(settings=self.settings)
        return self._main

    def close(self) -> None:
        """Close every engine that nobody uses; those in use are closed when they are released."""
        self._open.close()
        super().close()
        if self._owns_main and self._main is not None:
            self._main.close()

    def __enter__(self) -> Collections:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Use

    @contextmanager
    def engine(self, name: str) -> Iterator[Engine]:
        """Use the engine of a collection within the block. Raises CollectionNotFoundError, StorageError."""
        lease = self.lease(self.catalog.find(name))
        try:
            yield lease.value
        finally:
            lease.release()

    def lease(self, collection: Collection) -> Lease[Engine]:
        """Use the engine of a collection until the lease is released, even if it is renamed or deleted.

        Raises CollectionNotFoundError if it is deleted already, StorageError.
        """
        if collection.id == MAIN:
            return Lease(self.main, _nothing)
        try:
            opened = self._open.acquire(collection.id)
        except CollectionNotFoundError:
            raise CollectionNotFoundError(f"there is no collection {shown(collection.name)}") from None
        return Lease(opened.value.engine, opened.release)

    def follow(self) -> None:
        """Keep the indexes of this machine current while their collections are open (`Engine.follow`).

        That of `main` follows notifications; the others look once a second, because each that listens takes a
        connection.
        """
        self._is_following = True
        self.main.follow()

    def open_ids(self) -> tuple[str, ...]:
        """List the ids of the collections other than `main` that are open in this process."""
        return tuple(self._open.ids())

    def index_lags(self) -> dict[str, Lag]:
        """Return how far the indexes of the open collections other than `main` are behind, as measured last,
        by id; empty where no index is ever behind."""
        lags = {id_: opened.engine.last_index_lag() for id_, opened in self._open.values().items()}
        return {id_: lag for id_, lag in lags.items() if lag is not None}

    def forget(self, collection_id: str) -> None:
        self._open.discard(collection_id)

    def describe(self, name: str, owners: Sequence[str] | None = None) -> CollectionDetails:
        """Count what a collection holds. `owners`: no jobs that compare notes of others; None for all. Raises
        CollectionNotFoundError, StorageError."""
        collection = self.catalog.find(name)
        lease = self.lease(collection)
        try:
            database = lease.value.database
            with database.snapshot() as snapshot:
                counts: dict[str, Any] = dict(snapshot.first(totals.LIBRARY))
                jobs = jobs_by_status(snapshot, owners)
            return CollectionDetails(
                collection.id,
                collection.name,
                collection.created_at,
                counts["n_documents"],
                counts["n_chunks"],
                counts["content_bytes"],
                database.size(),
                jobs,
            )
        finally:
            lease.release()

    def _open_library(self, collection_id: str) -> OpenCollection:
        with self.opening(collection_id) as lock:
            engine = self.main.sibling(self.settings_by_id(collection_id))
            is_file = engine.database.is_sqlite
            engine.database.max_idle = IDLE_CONNECTIONS if is_file else IDLE_CONNECTIONS_TO_SERVER
            if self._is_following:
                engine.follow(listen=False)
            return OpenCollection(engine, lock)


def _nothing() -> None:
    """Release nothing: `main` stays open."""
