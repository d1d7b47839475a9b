"""Backup of all collections into a folder, and restoring them from it.

The folder has a file for each collection, `NAME.db`, and `collections.json`, which is written last: a folder
with it is complete. The files are backups like those of a single library.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from shoal.collections.catalog import Collection
from shoal.collections.registry import Registry
from shoal.errors import BackupError, CollectionNotFoundError
from shoal.maintenance.backup import (
    Copy,
    Restored,
    Watcher,
    check_copy,
    check_is_file,
    create_backup,
    create_folder,
    restore,
)
from shoal.settings import Settings
from shoal.support.collection_names import MAIN, is_name

LIST_NAME = "collections.json"
FORMAT = 1
PAGE = 500


@dataclass(frozen=True, slots=True)
class CollectionCopy:
    """A copy of a collection."""

    name: str
    copy: Copy


@dataclass(frozen=True, slots=True)
class RestoredCollection:
    """A restored collection. `is_new`: the catalog did not have it, so its id is new.

    `aside` is the path of the previous library, None if there was none.
    """

    name: str
    aside: Path | None
    is_new: bool


def backup_all(
    settings: Settings, folder: Path, *, force: bool = False, watch: Watcher | None = None
) -> list[CollectionCopy]:
    """Copy `main` and every collection to files in `folder`, each as it is at one moment.

    A collection that is deleted meanwhile is left out. Raises BackupError if the folder holds anything,
    unless `force`: then files of the same names are replaced; also for libraries on PostgreSQL. Raises
    NotFoundError, DiskFullError.
    """
    check_is_file(settings, "backup")
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not force)):
        raise BackupError(f"{folder} is not an empty folder; name a new one, or use --force to replace files")
    copies: list[CollectionCopy] = []
    listing = folder / LIST_NAME
    listing.unlink(missing_ok=True)
    with closing(Registry(settings)) as registry:
        for collection in all_collections(registry):
            try:
                kept = registry.keep(collection.id)
            except CollectionNotFoundError:
                continue
            with kept or nullcontext():
                source = registry.settings_by_id(collection.id).database_path
                copy = create_backup(source, folder / f"{collection.name}.db", force=force, watch=watch)
            copies.append(CollectionCopy(collection.name, copy))
    partial = listing.with_name(f"{LIST_NAME}.partial")
    partial.write_text(
        json.dumps({"format": FORMAT, "collections": [copy.name for copy in copies]}, indent=2)
    )
    partial.replace(listing)
    return copies


def restore_all(
    settings: Settings, folder: Path, *, watch: Callable[[RestoredCollection], None] | None = None
) -> list[RestoredCollection]:
    """Restore `main` and every collection of a backup; `watch` is called after each.

    Collections of the catalog keep their ids, also if their databases are missing. Collections that the
    backup lacks stay. Every file is checked before anything changes. Raises BackupError, and
    DatabaseInUseError while a process uses one of the libraries; repeating it then restores the rest.
    """
    check_is_file(settings, "restore")
    names = _names(folder)
    for name in names:
        check_copy(folder / f"{name}.db")
    collections: list[RestoredCollection] = []
    with closing(Registry(settings)) as registry:
        for name in names:
            collections.append(_restore_one(registry, name, folder / f"{name}.db"))
            if watch is not None:
                watch(collections[-1])
    return collections


def _restore_one(registry: Registry, name: str, file: Path) -> RestoredCollection:
    def put(collection_id: str) -> Restored:
        path = registry.settings_by_id(collection_id).database_path
        create_folder(path.parent)
        return restore(path, file)

    try:
        collection = registry.catalog.find(name)
    except CollectionNotFoundError:
        registry.create(name, put)
        return RestoredCollection(name, None, is_new=True)
    with registry.keep(collection.id, must_exist=False) or nullcontext():
        return RestoredCollection(name, put(collection.id).aside, is_new=False)


def all_collections(registry: Registry) -> Iterator[Collection]:
    """Yield `main` and all collections, by name."""
    yield registry.catalog.find(MAIN)
    after = ""
    while page := registry.catalog.after(after, PAGE):
        yield from page
        after = page[-1].name


def _names(folder: Path) -> list[str]:
    """Return the names of the collections in a backup. Raises BackupError."""
    try:
        listing = json.loads((folder / LIST_NAME).read_text())
        names = listing["collections"]
        is_valid = listing["format"] == FORMAT and all(
            isinstance(name, str) and is_name(name) for name in names
        )
    except FileNotFoundError:
        raise BackupError(
            f"{folder} has no {LIST_NAME}: it is no backup of all collections, or incomplete"
        ) from None
    except (ValueError, KeyError, TypeError):
        is_valid = False
    if not is_valid:
        raise BackupError(f"{folder / LIST_NAME} is damaged, or of a newer version")
    return list(names)
