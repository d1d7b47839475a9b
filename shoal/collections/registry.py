"""Collections and their databases: create, open, rename, swap, delete, and clean up.

This needs no engine, so a worker can use it, too. A process keeps a bounded number of libraries open, least
recently used first out, never one in use.

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
import logging
import math
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Generic, TypeVar

from shoal.collections.catalog import Catalog, Collection, schema_base
from shoal.errors import (
    CollectionExistsError,
    CollectionNotFoundError,
    CommitUnknownError,
    DatabaseUnavailableError,
    DiskFullError,
    SchemaError,
    StorageError,
)
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.postgres.address import with_schema
from shoal.storage.sqlite.database import alone
from shoal.support.collection_names import MAIN, check_new_name, is_id, new_id

T = TypeVar("T")


REMOVED_TOGETHER = 50
"""Databases of deleted collections that one call of `clean` removes."""
KNOWN_TOGETHER = 500
ANYTHING = "SELECT 1 FROM (SELECT id FROM documents UNION ALL SELECT id FROM jobs) AS stored LIMIT 1"

log = logging.getLogger(__name__)

_KEPT: list[IO[str] | None] = []
"""Locks on the files of collections that this process holds until it ends."""
FOLDER = "collections"
USE_SUFFIX = ".use"
"""Suffix of the file on which processes hold a shared lock while they have the collection open."""
ORPHAN_SECONDS = 3600.0
"""Age at which a database without a row in the catalog is taken for the rest of an interrupted creation."""
EXISTS = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :name"
SCHEMAS = """
    SELECT nspname, obj_description(oid, 'pg_namespace') AS created FROM pg_catalog.pg_namespace
    WHERE starts_with(nspname, :prefix) AND nspname > :after ORDER BY nspname LIMIT :limit
"""
DROP_TIMEOUT = "SET LOCAL lock_timeout = '20ms'"
"""Writers of the catalog wait as long as a removal does."""
PAUSE_SECONDS = 10.0
"""Pause before a process tries again to remove a schema that is in use."""


@dataclass(frozen=True, slots=True)
class CollectionPage:
    """A page of collections, `main` first and the others by name; `total` counts those on all pages."""

    collections: list[Collection]
    total: int


def open_store(settings: Settings, catalog: Callable[[], Database]) -> CollectionFiles | CollectionSchemas:
    """Return the store of the collections of an installation: files, or schemas of PostgreSQL."""
    if settings.is_sqlite:
        return CollectionFiles(settings)

    return CollectionSchemas(settings, catalog)


class Registry:
    """The collections of an installation. Safe to share between threads, not across a fork."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.catalog = Catalog(settings)
        self._files = open_store(settings, self.catalog.database)

    def close(self) -> None:
        self.catalog.close()

    # Databases

    def settings_of(self, name: str) -> Settings:
        """Return the settings whose database is that of a collection. Raises CollectionNotFoundError."""
        return self._files.settings_of(self.catalog.find(name).id)

    def settings_by_id(self, collection_id: str) -> Settings:
        """Return the same by id, whether or not there is such a collection."""
        return self._files.settings_of(collection_id)

    def has_database(self, collection_id: str) -> bool:
        """Whether the database of a collection other than `main` is there."""
        return self._files.exists(collection_id)

    def keep(self, collection_id: str, *, must_exist: bool = True) -> IO[str] | None:
        """Keep the files of a collection until the returned file is closed; None for `main`, which nobody
        removes.

        Raises CollectionNotFoundError if it is deleted, DatabaseUnavailableError, with `must_exist` also if
        its database is missing.
        """
        if collection_id == MAIN:
            return None
        lock = None
        try:
            lock = self._files.use(collection_id)
            exists = self._files.exists(collection_id) or not must_exist
            # After the lock: a deletion before it is seen here, and one after it waits for it.
            if self.catalog.by_id(collection_id) is None:
                raise CollectionNotFoundError("there is no such collection")
            if not exists:
                raise DatabaseUnavailableError(
                    "the database of the collection is missing; restore it, or delete the collection"
                )
        except BaseException:
            if lock is not None:
                lock.close()
            raise
        return lock

    @contextmanager
    def opening(self, collection_id: str) -> Iterator[IO[str] | None]:
        """Keep the files of a collection as `keep` does, which the block opens; an error there lets them go.

        Raises CollectionNotFoundError also if the collection was deleted meanwhile.
        """
        lock = self.keep(collection_id)
        try:
            yield lock
        except BaseException as error:
            if lock is not None:
                lock.close()
            # On PostgreSQL nothing keeps a schema.
            if isinstance(error, SchemaError) and self.catalog.by_id(collection_id) is None:
                raise CollectionNotFoundError("there is no such collection") from error
            raise

    # Manage

    def open_for_process(self, name: str, *, must_exist: bool = True) -> Settings:
        """Return the settings of a collection, whose files this process keeps until it ends.

        Raises as `keep`.
        """
        collection = self.catalog.find(name)
        _KEPT.append(self.keep(collection.id, must_exist=must_exist))
        return self.settings_by_id(collection.id)

    def create(self, name: str, make_database: Callable[[str], object] | None = None) -> Collection:
        """Create a collection, empty or with the database that `make_database` stores under the given id.

        Raises CollectionNameError, CollectionExistsError, StorageError.
        """
        check_new_name(name)
        if self._find(name) is not None:
            raise CollectionExistsError(name)
        collection_id = new_id()
        # First the database, then its name: a crash between the two leaves a file that `clean` removes.
        (make_database or self._files.create)(collection_id)
        try:
            return self.catalog.add(collection_id, name)
        except CommitUnknownError:
            # The collection may be there. If not, `clean` removes the rest.
            raise
        except BaseException:
            self._files.remove(collection_id)
            raise

    def list(self, limit: int = 100, offset: int = 0) -> CollectionPage:
        """List collections, `main` first and the others by name, without opening them."""
        return CollectionPage(self.catalog.page(limit, offset), self.catalog.count())

    def rename(self, name: str, new_name: str) -> Collection:
        """Give a collection another name. Raises as `Catalog.rename`."""
        return self.catalog.rename(name, new_name)

    def swap(self, first: str, second: str) -> tuple[Collection, Collection]:
        """Let two collections exchange their names at one moment. Raises as `Catalog.swap`."""
        return self.catalog.swap(first, second)

    def delete(self, name: str) -> bool:
        """Delete a collection with all it holds. True if its files are gone already; otherwise they go when
        no process uses them. Raises as `Catalog.remove`."""
        collection_id = self.catalog.remove(name)
        self.forget(collection_id)
        return self._remove(collection_id)

    def clean(self, *, orphans: bool = False) -> int:
        """Close collections that were deleted, and remove files that nobody uses any more; their number.

        With `orphans` also those of creations that were interrupted. Any process may do so at any time.
        """
        for collection_id in self.open_ids():
            if self.catalog.by_id(collection_id) is None:
                self.forget(collection_id)
        n_removed = sum(map(self._remove, self.catalog.deleted(REMOVED_TOGETHER)))
        if orphans:
            for ids in self._files.orphans(KNOWN_TOGETHER):
                empty = filter(self._is_empty, sorted(self.catalog.unknown(ids)))
                n_removed += sum(map(self._files.remove, empty))
        return n_removed

    def _is_empty(self, collection_id: str) -> bool:
        """Whether the rest of an interrupted creation is all there is of a collection.

        A library with documents or jobs had a name: then the catalog was lost or replaced by an older one,
        and nothing of the library may be lost with it.
        """
        if not self._files.exists(collection_id):
            return True
        settings = self.settings_by_id(collection_id)
        database = open_database(settings.database_url, settings.data_path)
        try:
            with database.snapshot() as snapshot:
                is_empty = snapshot.first(ANYTHING) is None
        except SchemaError:
            # Its schema is incomplete.
            return True
        except StorageError as error:
            log.warning("collection %s is not in the catalog and cannot be read: %s", collection_id, error)
            return False
        finally:
            database.close()
        if not is_empty:
            log.warning(
                "collection %s has documents and is not in the catalog, so it is kept: restore the catalog, "
                "or copy the library with `shoal copy`",
                collection_id,
            )
        return is_empty

    def open_ids(self) -> tuple[str, ...]:
        """List the ids of the collections other than `main` that are open in this process."""
        return ()

    def forget(self, collection_id: str) -> None:
        """Close a deleted collection in this process, now or when nobody uses it any more."""

    def _remove(self, collection_id: str) -> bool:
        if not self._files.remove(collection_id):
            return False
        self.catalog.forget(collection_id)
        return True

    def _find(self, name: str) -> Collection | None:
        try:
            return self.catalog.find(name)
        except CollectionNotFoundError:
            return None


class _Entry(Generic[T]):
    """An open library: `users` are the leases on it."""

    def __init__(self) -> None:
        self.users = 1
        self.opening = threading.Lock()
        self.values: list[T] = []


class Lease(Generic[T]):
    """The use of an open library. It stays open until `release`, which may be called again."""

    def __init__(self, value: T, release: Callable[[], None]) -> None:
        self.value = value
        self._release: Callable[[], None] | None = release
        self._lock = threading.Lock()

    def release(self) -> None:
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()


class OpenLibraries(Generic[T]):
    """Opens libraries by the id of their collection. Safe to share between threads, not across a fork.

    More than `limit` are open only while more are in use at the same moment.
    """

    def __init__(self, limit: int, open_library: Callable[[str], T], close: Callable[[T], None]) -> None:
        """`open_library` and `close` are called without a lock, for one library by one thread at a time."""
        self._limit = limit
        self._open = open_library
        self._close = close
        # Least recently used first.
        self._entries: OrderedDict[str, _Entry[T]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def acquire(self, collection_id: str) -> Lease[T]:
        """Open a library, or use the open one. Raises what `open_library` raises."""
        with self._lock:
            entry = self._entries.get(collection_id)
            if entry is None:
                entry = self._entries[collection_id] = _Entry()
            else:
                entry.users += 1
            self._entries.move_to_end(collection_id)
            surplus = self._take_surplus()
        self._close_all(surplus)
        try:
            with entry.opening:
                if not entry.values:
                    entry.values.append(self._open(collection_id))
        except BaseException:
            self._leave(collection_id, entry)
            raise
        return Lease(entry.values[0], lambda: self._leave(collection_id, entry))

    @contextmanager
    def using(self, collection_id: str) -> Iterator[T]:
        """Use a library within the block."""
        lease = self.acquire(collection_id)
        try:
            yield lease.value
        finally:
            lease.release()

    def ids(self) -> list[str]:
        """List the collections that are open."""
        with self._lock:
            return list(self._entries)

    def values(self) -> dict[str, T]:
        """Return the libraries that are open, by the id of their collection, without keeping them open."""
        with self._lock:
            return {id_: entry.values[0] for id_, entry in self._entries.items() if entry.values}

    def discard(self, collection_id: str) -> None:
        """Close a library now, or when its last user leaves it. A later `acquire` opens it again."""
        with self._lock:
            entry = self._entries.pop(collection_id, None)
            closed = entry is not None and entry.users == 0
        if entry is not None and closed:
            self._close_all([entry])

    def close(self) -> None:
        """Close all libraries that nobody uses, and the others when their last user leaves them."""
        for collection_id in self.ids():
            self.discard(collection_id)

    def _leave(self, collection_id: str, entry: _Entry[T]) -> None:
        with self._lock:
            entry.users -= 1
            is_kept = self._entries.get(collection_id) is entry
            if is_kept and not entry.users and not entry.values:
                # It could not be opened.
                del self._entries[collection_id]
            surplus = self._take_surplus()
            if not is_kept and entry.users == 0:
                surplus.append(entry)
        self._close_all(surplus)

    def _take_surplus(self) -> list[_Entry[T]]:
        """Remove what is open above the limit and unused."""
        taken: list[_Entry[T]] = []
        if len(self._entries) <= self._limit:
            return taken
        for collection_id in list(self._entries):
            if len(self._entries) <= self._limit:
                break
            if self._entries[collection_id].users == 0:
                taken.append(self._entries.pop(collection_id))
        return taken

    def _close_all(self, entries: list[_Entry[T]]) -> None:
        for entry in entries:
            while entry.values:
                self._close(entry.values.pop())


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
