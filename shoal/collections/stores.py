"""The databases of collections: create, open, remove, and whether someone still uses one.

On SQLite each collection is a file in `{data_path}/collections`, named after its id. A process that has it
open holds a shared lock on a file beside it. The files of a deleted collection go when nobody holds that
lock. Locks end with their process, so a killed one keeps nothing.

On PostgreSQL each is a schema, named after that of `main` and the id. The comment of a schema says when its
creation began. So cleaning can distinguish an interrupted creation from one in progress. Nobody holds a lock
on a collection: `DROP SCHEMA` is tried again until no transaction runs there, and later ones fail, which the
API answers with 404.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from shoal.collections.catalog import schema_base
from shoal.errors import DatabaseUnavailableError, DiskFullError, StorageError
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.postgres.address import with_schema
from shoal.storage.sqlite.files import alone
from shoal.support.collection_names import MAIN, is_id

FOLDER = "collections"
USE_SUFFIX = ".use"
"""Suffix of the file on which processes hold a shared lock while they have the collection open."""
ORPHAN_SECONDS = 3600.0
"""Age at which a database without a row in the catalog is taken for the rest of an interrupted creation."""


class CollectionFiles:
    """The databases of the collections of an installation, as SQLite files. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.data_path / FOLDER

    def settings_of(self, collection_id: str) -> Settings:
        """Return the settings with which the collection is opened. Broker and spool are those of `main`."""
        if collection_id == MAIN:
            return self._settings
        url = f"sqlite:///{self._path(collection_id)}"
        return dataclasses.replace(
            self._settings, database_url=url, data_dir=str(self._settings.data_path), collection=MAIN
        )

    def exists(self, collection_id: str) -> bool:
        """Whether the database of a collection is there."""
        return self._path(collection_id).exists()

    def create(self, collection_id: str) -> None:
        """Create an empty library with this version's schema. It is complete when this returns.

        Raises DiskFullError, DatabaseUnavailableError.
        """
        path = self._path(collection_id)
        partial = path.with_name(f"{path.name}.new")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._empty(), partial)
            _sync(partial)
            partial.replace(path)
            _sync(self._folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise _translated(error) from error

    def use(self, collection_id: str) -> IO[str]:
        """Keep the files of a collection until the returned file is closed. Raises
        DatabaseUnavailableError."""
        path = self._path(collection_id).with_suffix(USE_SUFFIX)
        while True:
            try:
                # A lost disk takes the folder with it.
                self._folder.mkdir(parents=True, exist_ok=True)
                file = path.open("w")
            except OSError as error:
                raise _translated(error) from error
            # Never waits for long: a remover holds the lock only while it removes files.
            fcntl.flock(file, fcntl.LOCK_SH)
            if _is_at(file, path):
                return file
            file.close()

    def remove(self, collection_id: str) -> bool:
        """Remove the files of a deleted collection; False if a process uses them, which then stay."""
        path = self._path(collection_id).with_suffix(USE_SUFFIX)
        if not self._folder.is_dir():
            return True
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            # The database first: nothing opens a collection whose database is gone.
            for name in (f"{collection_id}.db", f"{collection_id}.db-wal", f"{collection_id}.db-shm"):
                (self._folder / name).unlink(missing_ok=True)
            for rest in self._folder.glob(f"{collection_id}.db*"):
                if rest.is_dir():
                    shutil.rmtree(rest, ignore_errors=True)
                else:
                    rest.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        return True

    def orphans(self, limit: int) -> Iterator[list[str]]:
        """Yield lists of up to `limit` ids of databases that were not changed for ORPHAN_SECONDS.

        Those that the catalog does not know are the rest of a creation that was interrupted.
        """
        before = time.time() - ORPHAN_SECONDS
        batch: set[str] = set()
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                collection_id = entry.name.partition(".")[0]
                if not is_id(collection_id) or collection_id in batch:
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat().st_mtime < before:
                        batch.add(collection_id)
                if len(batch) == limit:
                    yield sorted(batch)
                    batch = set()
        if batch:
            yield sorted(batch)

    def _path(self, collection_id: str) -> Path:
        assert is_id(collection_id), "an id names a file, so it is never what a caller sent"
        return self._folder / f"{collection_id}.db"

    def _empty(self) -> Path:
        """Return an empty library of this version's schema, which is made once: copying it takes a hundredth
        of the time of a migration."""
        path = self._folder / f"empty-{migrate.HEAD}.db"
        if path.exists():
            return path
        with alone(path, "create"):
            if not path.exists():
                self._make_empty(path)
        return path

    def _make_empty(self, path: Path) -> None:
        partial = path.with_name(f"{path.name}.new")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{partial}{suffix}").unlink(missing_ok=True)
        database = open_database(f"sqlite:///{partial}")
        try:
            migrate.upgrade(database)
        finally:
            # The last connection copies the log into the file, which is complete then.
            database.close()
        for old in self._folder.glob("empty-*.db"):
            old.unlink(missing_ok=True)
        _sync(partial)
        partial.replace(path)


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether `path` still is the open file: a remover unlinks it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _sync(path: Path) -> None:
    """Write a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _translated(error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError("no space for the database of a collection; nothing was changed")
    return DatabaseUnavailableError(f"cannot use the folder of collections: {error.strerror}")


EXISTS = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :name"
SCHEMAS = """
    SELECT nspname, obj_description(oid, 'pg_namespace') AS created FROM pg_catalog.pg_namespace
    WHERE starts_with(nspname, :prefix) AND nspname > :after ORDER BY nspname LIMIT :limit
"""
DROP_TIMEOUT = "SET LOCAL lock_timeout = '20ms'"
"""Writers of the catalog wait as long as a removal does."""
PAUSE_SECONDS = 10.0
"""Pause before a process tries again to remove a schema that is in use."""


class CollectionSchemas:
    """The collections of an installation, as schemas of one database. Safe to share between threads."""

    def __init__(self, settings: Settings, catalog: Callable[[], Database]) -> None:
        """`catalog` returns the database of the catalog, whose connections create and drop schemas."""
        self._settings = settings
        self._catalog = catalog
        self._prefix = f"{schema_base(settings)}_c_"
        self._found_in_use: dict[str, float] = {}

    def settings_of(self, collection_id: str) -> Settings:
        """Return the settings with which the collection is opened. Broker and data folder are those of
        `main`."""
        if collection_id == MAIN:
            return self._settings
        schema, standby = self._schema(collection_id), self._settings.read_database_url
        return dataclasses.replace(
            self._settings,
            database_url=with_schema(self._settings.database_url, schema),
            # A standby has the same schemas.
            read_database_url=with_schema(standby, schema) if standby else "",
            data_dir=str(self._settings.data_path),
            collection=MAIN,
        )

    def exists(self, collection_id: str) -> bool:
        """Whether the schema of a collection is there."""
        with self._catalog().snapshot() as snapshot:
            return snapshot.first(EXISTS, {"name": self._schema(collection_id)}) is not None

    def create(self, collection_id: str) -> None:
        """Create an empty library with this version's schema. Raises StorageError."""
        schema = self._schema(collection_id)
        with self._catalog().write() as transaction:
            transaction.execute(f"CREATE SCHEMA {schema}")
            transaction.execute(f"COMMENT ON SCHEMA {schema} IS '{transaction.now():.0f}'")
        settings = self.settings_of(collection_id)
        with contextlib.closing(open_database(settings.database_url, settings.data_path)) as database:
            migrate.upgrade(database)

    def use(self, collection_id: str) -> IO[str] | None:
        """Return None: a schema needs no lock."""

    def remove(self, collection_id: str) -> bool:
        """Drop the schema of a deleted collection; False if transactions use it, or did PAUSE_SECONDS ago."""
        if time.monotonic() - self._found_in_use.get(collection_id, -math.inf) < PAUSE_SECONDS:
            return False
        try:
            with self._catalog().write() as transaction:
                transaction.execute(DROP_TIMEOUT)
                transaction.execute(f"DROP SCHEMA IF EXISTS {self._schema(collection_id)} CASCADE")
        except StorageError:
            self._found_in_use[collection_id] = time.monotonic()
            return False
        self._found_in_use.pop(collection_id, None)
        shutil.rmtree(self._index_folder(collection_id), ignore_errors=True)
        return True

    def orphans(self, limit: int) -> Iterator[list[str]]:
        """Yield lists of up to `limit` ids of schemas that are older than ORPHAN_SECONDS, and of indexes of
        this machine: another machine may have dropped the schema."""
        indexed = self._indexed()
        for start in range(0, len(indexed), limit):
            yield indexed[start : start + limit]
        after = ""
        while True:
            with self._catalog().snapshot() as snapshot:
                rows = snapshot.rows(SCHEMAS, {"prefix": self._prefix, "after": after, "limit": limit})
                now = snapshot.now()
            if not rows:
                return
            after = str(rows[-1]["nspname"])
            before = now - ORPHAN_SECONDS
            ids = [
                str(row["nspname"]).removeprefix(self._prefix)
                for row in rows
                if row["created"] is not None
                and str(row["created"]).isdecimal()
                and int(row["created"]) < before
            ]
            yield [each for each in ids if is_id(each)]

    def _indexed(self) -> list[str]:
        """List the ids of collections with an index on this machine, without those made just now."""
        before = time.time() - ORPHAN_SECONDS
        with (
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._settings.data_path / "index") as entries,
        ):
            folders = [entry for entry in entries if entry.name.startswith(self._prefix)]
            names = [entry.name for entry in folders if entry.stat().st_mtime < before]
            return [each for name in names if is_id(each := name.removeprefix(self._prefix))]
        return []

    def _index_folder(self, collection_id: str) -> Path:
        return self._settings.data_path / "index" / self._schema(collection_id)

    def _schema(self, collection_id: str) -> str:
        assert is_id(collection_id), "an id is a part of a statement, so it is never what a caller sent"
        return f"{self._prefix}{collection_id}"
