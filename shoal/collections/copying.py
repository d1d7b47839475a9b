"""Copies of the collections of an installation in another one, on the same store or the other.

Each collection is copied as `shoal.maintenance.copying` copies a library. Until all are complete, a table in
the catalog of the target names the state of the source that each copy has, so that a run after an
interruption leaves complete ones alone. Keys, uploaded files and labels of vector stores are not copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from shoal.collections.backup import all_collections
from shoal.collections.catalog import Catalog, Collection, catalog_url
from shoal.collections.registry import Registry
from shoal.errors import CollectionNotFoundError, CopyError
from shoal.maintenance.copying import CopyResult, CopyStep, copy_library, holds_library, library_state
from shoal.settings import Settings
from shoal.support.collection_names import shown

CREATE_MARKS = """
    CREATE TABLE IF NOT EXISTS copied_collections (
        id TEXT NOT NULL PRIMARY KEY, source TEXT NOT NULL, state TEXT NOT NULL
    )
"""
MARK = """
    INSERT INTO copied_collections (id, source, state) VALUES (:id, :source, :state)
    ON CONFLICT (id) DO UPDATE SET source = excluded.source, state = excluded.state
"""
MARK_OF = "SELECT source, state FROM copied_collections WHERE id = :id"
DROP_MARKS = "DROP TABLE copied_collections"

Watcher = Callable[[str, CopyStep], None]
"""Gets the name of a collection and how far its copy is."""


@dataclass(frozen=True, slots=True)
class CollectionCopy:
    """A collection in the target; `result` is None if an earlier run has completed it."""

    name: str
    result: CopyResult | None


@contextmanager
def paired(
    sources: Registry, targets: Registry, collection: Collection
) -> Iterator[tuple[Collection, str, str]]:
    """Keep a collection in two installations; the target's, and the URLs of both libraries.

    The target's has the same name, and is created if it is missing. Raises CollectionNotFoundError if that of
    the source is deleted meanwhile, and StorageError.
    """
    held = [sources.keep(collection.id)]
    try:
        try:
            target = targets.catalog.find(collection.name)
        except CollectionNotFoundError:
            target = targets.create(collection.name)
        held.append(targets.keep(target.id))
        yield (
            target,
            sources.settings_by_id(collection.id).database_url,
            targets.settings_by_id(target.id).database_url,
        )
    finally:
        for lock in held:
            if lock is not None:
                lock.close()


def copy_all(
    source: Settings,
    target: Settings,
    *,
    without_jobs: bool = False,
    restart: bool = False,
    watch: Watcher = lambda *_: None,
) -> Iterator[CollectionCopy]:
    """Copy `main` and every collection of one installation to another, and yield each when it is complete.

    After an interruption, the same call continues. `without_jobs` and `restart` are those of `copy_library`;
    complete collections are not begun again. Collections that only the target has stay. Raises what
    `copy_library` raises, and CopyError if a collection was changed in the source since it was copied.
    """
    if catalog_url(source) == catalog_url(target):
        raise CopyError(
            "source and target have one catalog of collections, so they are one installation; SHOAL_DATA_DIR "
            "must not name one folder for both"
        )
    library_state(source.database_url)  # before a target is created for a source that cannot be read
    with closing(Registry(source)) as sources, closing(Registry(target)) as targets:
        with targets.catalog.database().write() as transaction:
            transaction.execute(CREATE_MARKS)
        for collection in all_collections(sources):
            try:
                with paired(sources, targets, collection) as (copied, source_url, target_url):
                    result = None
                    if not _is_copied(targets.catalog, copied, source_url, target_url):
                        result = copy_library(
                            source_url,
                            target_url,
                            without_jobs=without_jobs,
                            restart=restart,
                            watch=functools.partial(watch, collection.name),
                        )
            except CollectionNotFoundError:
                continue
            except CopyError as error:
                raise CopyError(f"collection {shown(collection.name)}: {error}") from error
            yield CollectionCopy(collection.name, result)
        with targets.catalog.database().write() as transaction:
            transaction.execute(DROP_MARKS)


def _is_copied(catalog: Catalog, copied: Collection, source_url: str, target_url: str) -> bool:
    """Whether an earlier run has completed a collection. If not, store the state that its copy will have.

    Raises CopyError if it was changed in the source since.
    """
    mark = {
        "source": Settings(database_url=source_url).database_place,
        "state": library_state(source_url),
    }
    with catalog.database().snapshot() as snapshot:
        before = snapshot.first(MARK_OF, {"id": copied.id})
    if before is not None and holds_library(target_url):
        if dict(before) != mark:
            raise CopyError(
                "its copy is complete, and the source was changed since or is another one; delete the copy, "
                "or name an empty target"
            )
        return True
    with catalog.database().write() as transaction:
        transaction.execute(MARK, {"id": copied.id, **mark})
    return False
