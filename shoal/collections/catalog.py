"""The catalog: which collections there are, which database each one means, and which may have work.

A collection has an id that never changes, and a name that may. Creating, renaming, swapping and deleting are
one transaction each. The database of a collection (`shoal.collections.registry`) is made before its row and
removed after the row is marked, so that a row with a name always has a database. When collections exchange
their names, the scopes of keys follow.

The catalog's own database is created when the first collection or key is. A service without one has the
collection `main` and the keys of `SHOAL_API_KEYS`. `MIGRATIONS` are lists of statements, and a table of one
row says how many of them were run. All times are seconds since the epoch.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from shoal.errors import (
    CollectionExistsError,
    CollectionNotFoundError,
    CollectionStateError,
    SchemaError,
    StorageError,
)
from shoal.settings import Settings
from shoal.storage.database import Database, Listener, Transaction, listed
from shoal.storage.opening import SQLITE, open_database
from shoal.storage.postgres.address import parse_address, with_schema
from shoal.support.collection_names import MAIN, check_new_name, is_name, shown

BY_NAME = "SELECT id, name, created_at FROM collections WHERE name = :name"
BY_ID = "SELECT id, name, created_at FROM collections WHERE id = :id AND name IS NOT NULL"
LIST = """
    SELECT id, name, created_at FROM collections WHERE name IS NOT NULL AND name > :after
    ORDER BY name LIMIT :limit
"""
PAGE = """
    SELECT id, name, created_at FROM collections WHERE name IS NOT NULL
    ORDER BY name LIMIT :limit OFFSET :offset
"""
COUNT = "SELECT COUNT(*) FROM collections WHERE name IS NOT NULL"
INSERT = "INSERT INTO collections (id, name, created_at) VALUES (:id, :name, :now)"
RENAME = "UPDATE collections SET name = :name WHERE id = :id"
DELETE = """
    UPDATE collections SET name = NULL, deleted_name = name, deleted_at = :now, has_work = 0 WHERE id = :id
"""
DELETE_LABEL = "DELETE FROM vector_stores WHERE collection_id = :id"
DELETED = "SELECT id FROM collections WHERE name IS NULL ORDER BY deleted_at, id LIMIT :limit"
FORGET = "DELETE FROM collections WHERE id = :id AND name IS NULL"
KNOWN_IDS = "SELECT id FROM collections WHERE id IN ({ids})"

MARK_WORK = """
    UPDATE collections SET has_work = 1, work_mark = work_mark + 1 WHERE id = :id AND name IS NOT NULL
"""
# The channel is that of a listener to the schema of the catalog.
NOTIFY_WORK = "SELECT pg_notify(:channel, 'work')"
WITH_WORK = """
    SELECT id, work_mark FROM collections WHERE has_work = 1 AND id > :after ORDER BY id LIMIT :limit
"""
CLEAR_WORK = "UPDATE collections SET has_work = 0 WHERE id = :id AND work_mark = :mark"
TO_SWEEP = """
    SELECT id FROM collections WHERE name IS NOT NULL AND swept_at < :before
    ORDER BY swept_at, id LIMIT :limit
"""
SWEPT = "UPDATE collections SET swept_at = :now WHERE id = :id"

LOOK_SECONDS = 1.0
"""How long a catalog on PostgreSQL that another process created may stay unseen."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection. `created_at` is in seconds since the epoch, None for `main`."""

    id: str
    name: str
    created_at: float | None


MAIN_COLLECTION = Collection(MAIN, MAIN, None)


class Catalog:
    """The collections of an installation besides `main`, which no method changes. May be shared between
    threads.

    The database of the catalog is created by the first write. Every method raises StorageError.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database: Database | None = None
        self._empty: Database | None = None
        self._opening = threading.Lock()
        self._looks_again_at = 0.0

    def database(self) -> Database:
        """The database of the catalog, created on first use."""
        if self._database is None:
            with self._opening:
                if self._database is None:
                    self._database = open_catalog(self._settings)
                    if self._empty is not None:
                        self._empty.close()
        return self._database

    def existing_database(self) -> Database | None:
        """The database of the catalog; None if there is none yet."""
        if self._database is not None:
            return self._database
        if self._settings.is_sqlite:
            return self.database() if catalog_exists(self._settings) else None
        if time.monotonic() < self._looks_again_at:
            return None
        with self._opening:
            if self._empty is None:
                # Kept, because a new connection takes longer than a search.
                self._empty = open_database(catalog_url(self._settings), self._settings.data_path)
                self._empty.max_idle = 1
            empty = self._empty
        if has_tables(empty, self._settings):
            return self.database()
        self._looks_again_at = time.monotonic() + LOOK_SECONDS
        return None

    def close(self) -> None:
        with self._opening:
            for database in (self._database, self._empty):
                if database is not None:
                    database.close()

    # Names

    def find(self, name: str) -> Collection:
        """Return the collection with this name. Raises CollectionNotFoundError."""
        if name == MAIN:
            return MAIN_COLLECTION
        row = self._first(BY_NAME, {"name": name}) if is_name(name) else None
        if row is None:
            raise _not_found(name)
        return _collection(row)

    def by_id(self, collection_id: str) -> Collection | None:
        """Return the collection with this id; None if it was deleted or never existed."""
        if collection_id == MAIN:
            return MAIN_COLLECTION
        row = self._first(BY_ID, {"id": collection_id})
        return None if row is None else _collection(row)

    def page(self, limit: int, offset: int = 0) -> list[Collection]:
        """List the collections: `main` first, the others by name."""
        first = [MAIN_COLLECTION] if offset == 0 and limit > 0 else []
        others = {"limit": limit - len(first), "offset": max(0, offset - 1)}
        return [*first, *map(_collection, self._rows(PAGE, others))]

    def after(self, name: str, limit: int) -> list[Collection]:
        """List up to `limit` collections other than `main` whose names follow `name`, by name."""
        return [_collection(row) for row in self._rows(LIST, {"after": name, "limit": limit})]

    def count(self) -> int:
        """Count the collections, with `main`."""
        row = self._first(COUNT, {})
        return 1 if row is None else 1 + int(row[0])

    def add(self, collection_id: str, name: str) -> Collection:
        """Give the database of `collection_id` a name. Raises CollectionNameError, CollectionExistsError."""
        check_new_name(name)
        now = time.time()
        with self.database().write() as transaction:
            if transaction.first(BY_NAME, {"name": name}) is not None:
                raise CollectionExistsError(name)
            transaction.execute(INSERT, {"id": collection_id, "name": name, "now": now})
        return Collection(collection_id, name, now)

    def rename(self, name: str, new_name: str) -> Collection:
        """Rename a collection; the collection with its new name.

        Raises CollectionNotFoundError, CollectionNameError, CollectionExistsError; CollectionStateError for
        `main`.
        """
        _refuse_main(name, "renamed")
        check_new_name(new_name)
        self.find(name)
        with self.database().write() as transaction:
            row = _row(transaction, name)
            if name != new_name and transaction.first(BY_NAME, {"name": new_name}) is not None:
                raise CollectionExistsError(new_name)
            transaction.execute(RENAME, {"id": row["id"], "name": new_name})
        return Collection(row["id"], new_name, row["created_at"])

    def swap(self, first: str, second: str) -> tuple[Collection, Collection]:
        """Let two collections exchange their names, in one transaction; those that have the names now.

        Raises CollectionNotFoundError; CollectionStateError for `main` or the same collection twice.
        """
        for name in (first, second):
            _refuse_main(name, "swapped")
            self.find(name)
        if first == second:
            raise CollectionStateError("a collection cannot be swapped with itself; name two")
        with self.database().write() as transaction:
            rows = [_row(transaction, name) for name in (first, second)]
            # Names are unique at every moment, so one of them is put aside.
            transaction.execute(RENAME, {"id": rows[0]["id"], "name": None})
            transaction.execute(RENAME, {"id": rows[1]["id"], "name": first})
            transaction.execute(RENAME, {"id": rows[0]["id"], "name": second})
            swap_scopes(transaction, str(rows[0]["id"]), str(rows[1]["id"]))
        return (
            Collection(rows[1]["id"], first, rows[1]["created_at"]),
            Collection(rows[0]["id"], second, rows[0]["created_at"]),
        )

    def remove(self, name: str) -> str:
        """Take the name from a collection, which is deleted with that; its id, whose database can go now.

        Raises CollectionNotFoundError; CollectionStateError for `main`.
        """
        _refuse_main(name, "deleted")
        self.find(name)
        with self.database().write() as transaction:
            row = _row(transaction, name)
            transaction.execute(DELETE, {"id": row["id"], "now": time.time()})
            transaction.execute(DELETE_LABEL, {"id": row["id"]})
        return str(row["id"])

    # Databases of deleted collections

    def deleted(self, limit: int) -> list[str]:
        """List ids of deleted collections whose databases may still be there, oldest first."""
        return [str(row["id"]) for row in self._rows(DELETED, {"limit": limit})]

    def forget(self, collection_id: str) -> None:
        """Remove the row of a deleted collection, whose database is gone."""
        with self.database().write() as transaction:
            transaction.execute(FORGET, {"id": collection_id})

    def unknown(self, ids: Sequence[str]) -> set[str]:
        """Return those of up to 500 ids that no collection has, deleted ones included."""
        names, parameters = listed("id", ids)
        known = (
            {str(row["id"]) for row in self._rows(KNOWN_IDS.format(ids=names), parameters)} if ids else set()
        )
        return set(ids) - known

    # Work

    def mark_work(self, collection_id: str) -> None:
        """Remember that a collection may have work for the workers, which look at `main` anyway."""
        if collection_id == MAIN:
            return
        database = self.database()
        with database.write() as transaction:
            transaction.execute(MARK_WORK, {"id": collection_id})
            if not database.is_sqlite:
                transaction.execute(NOTIFY_WORK, {"channel": f"shoal_{catalog_schema(self._settings)}"})

    def listener(self) -> Listener | None:
        """Return what waits for `work` in collections, also before there is a catalog; None on SQLite."""
        if self._settings.is_sqlite:
            return None
        with closing(open_database(catalog_url(self._settings), self._settings.data_path)) as database:
            return database.listener()

    def with_work(self, limit: int = 1_000, after: str = "") -> list[tuple[str, int]]:
        """List collections that may have work, as pairs of id and mark, by id: those after `after`, then
        those before."""
        rows = self._rows(WITH_WORK, {"after": after, "limit": limit})
        if after and len(rows) < limit:
            first = self._rows(WITH_WORK, {"after": "", "limit": limit - len(rows)})
            rows += [row for row in first if row["id"] <= after]
        return [(str(row["id"]), int(row["work_mark"])) for row in rows]

    def clear_work(self, collection_id: str, mark: int) -> None:
        """Note that a collection has no work, unless it was marked again after `mark`."""
        with self.database().write() as transaction:
            transaction.execute(CLEAR_WORK, {"id": collection_id, "mark": mark})

    def take_sweep(self, limit: int, older_than: float) -> list[str]:
        """Choose up to `limit` collections that no worker has looked at for `older_than` seconds, longest ago
        first; other workers do not choose them for as long."""
        if not self._rows(TO_SWEEP, {"before": self._now() - older_than, "limit": 1}):
            return []
        with self.database().write() as transaction:
            now = transaction.now()
            parameters = {"before": now - older_than, "limit": limit}
            ids = [str(row["id"]) for row in transaction.rows(TO_SWEEP, parameters)]
            for collection_id in ids:
                transaction.execute(SWEPT, {"id": collection_id, "now": now})
        return ids

    def _now(self) -> float:
        """The time of the database; hosts may differ."""
        database = self.existing_database()
        return time.time() if database is None else database.now()

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[Any]:
        database = self.existing_database()
        if database is None:
            return []
        with database.snapshot() as snapshot:
            return snapshot.rows(statement, parameters)

    def _first(self, statement: str, parameters: dict[str, Any]) -> Any:
        rows = self._rows(statement, parameters)
        return rows[0] if rows else None


def _row(transaction: Transaction, name: str) -> Any:
    """Read the row of a collection. Raises CollectionNotFoundError."""
    row = transaction.first(BY_NAME, {"name": name})
    if row is None:
        raise _not_found(name)
    return row


def _not_found(name: str) -> CollectionNotFoundError:
    return CollectionNotFoundError(f"there is no collection {shown(name)}")


def _collection(row: Any) -> Collection:
    return Collection(str(row["id"]), str(row["name"]), float(row["created_at"]))


def _refuse_main(name: str, change: str) -> None:
    if name == MAIN:
        raise CollectionStateError(
            f"{MAIN} is the library of SHOAL_DATABASE_URL and cannot be {change}; create another collection"
        )


WITH_SCOPES_IN = "SELECT id, scopes FROM keys WHERE scopes LIKE :first OR scopes LIKE :second"
SET_SCOPES = "UPDATE keys SET scopes = :scopes WHERE id = :id"


def swap_scopes(transaction: Transaction, first: str, second: str) -> None:
    """Let the keys of two collections, by id, exchange them.

    For the transaction in which the collections exchange their names: a key for `books` then opens the
    collection that is called `books` from now on.
    """
    other = {first: second, second: first}
    patterns = {"first": f'%"{first}"%', "second": f'%"{second}"%'}
    for row in transaction.rows(WITH_SCOPES_IN, patterns):
        scopes = json.loads(row["scopes"])
        for scope in scopes:
            scope["collection"] = other.get(scope["collection"], scope["collection"])
        transaction.execute(SET_SCOPES, {"id": row["id"], "scopes": json.dumps(scopes)})


FILE_NAME = "catalog.db"
MAX_BASE_CHARS, DIGEST_CHARS = 38, 8
"""The longest name that is added to a base has 19 characters, `_c_` and an id of a collection."""

HAS_TABLES = """
    SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :schema AND c.relname = 'catalog_version'
"""

CREATE_VERSION = "CREATE TABLE IF NOT EXISTS catalog_version (version BIGINT NOT NULL)"
VERSION = "SELECT MAX(version) FROM catalog_version"
SET_VERSION = "INSERT INTO catalog_version (version) VALUES (:version)"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # `name` is NULL once the collection is deleted; `deleted_name` is the one it had. `work_mark` counts
        # submissions, `has_work` is 1 while a worker should look. `swept_at`: when a worker last looked.
        """
        CREATE TABLE collections (
            id {text} NOT NULL PRIMARY KEY,
            name {text} UNIQUE,
            created_at DOUBLE PRECISION NOT NULL,
            deleted_name {text},
            deleted_at DOUBLE PRECISION,
            has_work BIGINT NOT NULL DEFAULT 0,
            work_mark BIGINT NOT NULL DEFAULT 0,
            swept_at DOUBLE PRECISION NOT NULL DEFAULT 0
        )
        """,
        "CREATE INDEX collections_with_work ON collections (id) WHERE has_work = 1",
        "CREATE INDEX collections_deleted ON collections (deleted_at) WHERE name IS NULL",
        "CREATE INDEX collections_swept ON collections (swept_at, id)",
        # `scopes` is JSON: a list of objects with `collection` (an id, or * for all) and `right` (read, write
        # or admin). `owner` is the owner of notes that the key is bound to, NULL for any.
        """
        CREATE TABLE keys (
            id {text} NOT NULL PRIMARY KEY,
            name {text} NOT NULL,
            digest {text} NOT NULL UNIQUE,
            scopes {text} NOT NULL,
            owner {text},
            created_at DOUBLE PRECISION NOT NULL,
            expires_at DOUBLE PRECISION,
            last_used_at DOUBLE PRECISION,
            revoked_at DOUBLE PRECISION,
            requests_per_second DOUBLE PRECISION
        )
        """,
        "CREATE INDEX keys_in_order ON keys (created_at, id)",
    ),
    (
        # `public_key`: Ed25519, base64url, of an application that signs search tokens; NULL for none. Tokens
        # that were issued before `tokens_before` are revoked.
        "ALTER TABLE keys ADD COLUMN public_key {text}",
        "ALTER TABLE keys ADD COLUMN tokens_before DOUBLE PRECISION",
        # `expires_at`: when no such token is valid any more.
        """
        CREATE TABLE revoked_tokens (
            key_id {text} NOT NULL REFERENCES keys(id),
            jti {text} NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (key_id, jti)
        )
        """,
    ),
    (
        # What programs that take a collection for a vector store said of it: JSON with `name`, `description`
        # and `metadata`.
        """
        CREATE TABLE vector_stores (
            collection_id {text} NOT NULL PRIMARY KEY,
            label {text} NOT NULL
        )
        """,
        # Files that such programs sent. `owner`: the key that sent it, empty without keys. `collections` is
        # JSON: the ids of those that it was added to.
        """
        CREATE TABLE uploaded_files (
            id {text} NOT NULL PRIMARY KEY,
            owner {text} NOT NULL,
            name {text} NOT NULL,
            purpose {text} NOT NULL,
            n_bytes BIGINT NOT NULL,
            created_at DOUBLE PRECISION NOT NULL,
            collections {text} NOT NULL DEFAULT '[]',
            data {blob} NOT NULL
        )
        """,
        "CREATE INDEX uploaded_files_in_order ON uploaded_files (created_at, id, owner)",
    ),
)
"""The statements of each version. Never edit one that was released; append another."""

TYPES = {"text": "TEXT", "blob": "BLOB"}
POSTGRES_TYPES = {"text": 'TEXT COLLATE "C"', "blob": "BYTEA"}


def catalog_url(settings: Settings) -> str:
    """Return the address of the catalog of an installation."""
    if settings.is_sqlite:
        return f"{SQLITE}{settings.data_path / FILE_NAME}"
    return with_schema(settings.database_url, catalog_schema(settings))


def catalog_schema(settings: Settings) -> str:
    """Return the schema of the catalog on PostgreSQL."""
    return f"{schema_base(settings)}_catalog"


def schema_base(settings: Settings) -> str:
    """Return what the names of all schemas of an installation on PostgreSQL begin with.

    It is the schema of `main`, so that two installations in one database share neither catalog nor
    collections; the beginning of a long one, and its digest.
    """
    schema = parse_address(settings.database_url).schema
    if len(schema) <= MAX_BASE_CHARS:
        return schema
    digest = hashlib.sha256(schema.encode()).hexdigest()[:DIGEST_CHARS]
    return f"{schema[: MAX_BASE_CHARS - DIGEST_CHARS - 1]}_{digest}"


def catalog_exists(settings: Settings) -> bool:
    """Whether the installation has a catalog; opening one creates it. Raises StorageError."""
    if settings.is_sqlite:
        return (settings.data_path / FILE_NAME).exists()
    with closing(open_database(catalog_url(settings), settings.data_path)) as database:
        return has_tables(database, settings)


def has_tables(database: Database, settings: Settings) -> bool:
    """Whether the catalog of an installation on PostgreSQL, opened as `database`, has its tables."""
    with database.snapshot() as snapshot:
        return snapshot.first(HAS_TABLES, {"schema": catalog_schema(settings)}) is not None


def open_catalog(settings: Settings) -> Database:
    """Open the catalog; create or migrate it if necessary. Raises SchemaError, DatabaseUnavailableError."""
    settings.data_path.mkdir(parents=True, exist_ok=True)
    database = open_database(catalog_url(settings), settings.data_path)
    try:
        migrate_catalog(database, None if database.is_sqlite else catalog_schema(settings))
    except BaseException:
        database.close()
        raise
    return database


def migrate_catalog(database: Database, schema: str | None = None) -> None:
    """Bring the catalog to this version's schema. Raises SchemaError if it was written by a newer version.

    `schema`: that of the catalog on PostgreSQL, which is created. One of this version is only read, so that
    it can be used on a standby.
    """
    if _version(database) == len(MIGRATIONS):
        return
    with database.write() as transaction:
        if schema is not None:
            transaction.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        transaction.execute(CREATE_VERSION)
        version = transaction.value(VERSION) or 0
        if version > len(MIGRATIONS):
            raise SchemaError(
                "the catalog of collections was written by a newer Shoal; this version can't use it"
            )
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            _run(transaction, statements, TYPES if database.is_sqlite else POSTGRES_TYPES)
            transaction.execute(SET_VERSION, {"version": number})


def _version(database: Database) -> int:
    """Return the version of the catalog; 0 if there is none."""
    try:
        with database.snapshot() as snapshot:
            return snapshot.value(VERSION) or 0
    except StorageError:
        # Without its table; whatever else it is, the migration meets it, too.
        return 0


def _run(transaction: Transaction, statements: tuple[str, ...], types: Mapping[str, str]) -> None:
    for statement in statements:
        transaction.execute(statement.format(**types))
