"""The database of the catalog: where it is, and its schema.

The catalog is created when the first collection or key is. A service without one has the collection `main`
and the keys of `SHOAL_API_KEYS`. `MIGRATIONS` are lists of statements, and a
table of one row says how many of them were run.

All times are seconds since the epoch.
"""

from __future__ import annotations

import hashlib
from contextlib import closing

from shoal.errors import SchemaError, StorageError
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction
from shoal.storage.opening import SQLITE, open_database
from shoal.storage.postgres.address import parse_address, with_schema

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
)
"""The statements of each version. Never edit one that was released; append another."""

TEXT, POSTGRES_TEXT = "TEXT", 'TEXT COLLATE "C"'


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
            _run(transaction, statements, TEXT if database.is_sqlite else POSTGRES_TEXT)
            transaction.execute(SET_VERSION, {"version": number})


def _version(database: Database) -> int:
    """Return the version of the catalog; 0 if there is none."""
    try:
        with database.snapshot() as snapshot:
            return snapshot.value(VERSION) or 0
    except StorageError:
        # Without its table; whatever else it is, the migration meets it, too.
        return 0


def _run(transaction: Transaction, statements: tuple[str, ...], text: str) -> None:
    for statement in statements:
        transaction.execute(statement.format(text=text))
