"""The databases of collections on PostgreSQL: a schema each, named after that of `main` and the id.

The comment of a schema says when its creation began. So cleaning can distinguish an interrupted creation from
one in progress. Nobody holds a lock on a collection: `DROP SCHEMA` is tried again until no transaction runs
there, and later ones fail, which the API answers with 404.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from shoal.collections.catalog_database import schema_base
from shoal.collections.stores import ORPHAN_SECONDS
from shoal.errors import StorageError
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.postgres.address import with_schema
from shoal.support.collection_names import MAIN, is_id

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
