"""Schemas of a PostgreSQL server for tests, which are skipped where there is none."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from shoal.storage import migrate, revisions
from shoal.storage.opening import open_database
from shoal.storage.postgres.address import parse_address

URL = os.environ.get("SHOAL_TEST_POSTGRES_URL", "postgresql://root@127.0.0.1:5432/test")
"""A database in which tests may create schemas."""
VARIABLE = "SHOAL_TEST_POSTGRES_URL"

sqlite_only = pytest.mark.skipif(
    os.environ.get("SHOAL_TEST_POSTGRES") == "1",
    reason="about a part of SQLite that PostgreSQL has otherwise",
)
"""Marks a test of files, index records in the database, plans and pages of SQLite."""


@contextmanager
def new_schema() -> Iterator[str]:
    """The name of a schema that does not exist yet and is dropped at the end; skips without a server."""
    psycopg = pytest.importorskip("psycopg")
    try:
        connection = psycopg.connect(URL, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at {URL} ({VARIABLE}): {error}")
    name = f"shoal_test_{secrets.token_hex(4)}"
    with connection:
        try:
            yield name
        finally:
            drop_schemas(connection, [name, *collection_schemas(connection, name)])


def collection_schemas(connection: Any, schema: str) -> list[str]:
    """The schemas of the catalog and the collections of the installation whose `main` is in a schema."""
    return [name for (name,) in connection.execute(OF_COLLECTIONS, [f"{schema}_catalog", f"{schema}_c_"])]


def drop_schemas(connection: Any, names: Iterable[str]) -> None:
    """Drop schemas that exist, one by one: a transaction has a limited number of locks."""
    for name in names:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def url_of(schema: str) -> str:
    """The address of the library in a schema."""
    return f"{URL}{'&' if '?' in URL else '?'}schema={schema}"


class MigratedSchema:
    """A migrated library, which is emptied between tests: that is much faster than another schema."""

    def __init__(self, url: str) -> None:
        self.url = url
        with closing(open_database(url)) as database:
            migrate.upgrade(database)

    def empty(self) -> None:
        """Make the library as a migration leaves it, without collections and keys."""
        self._drop_collections()
        with closing(open_database(self.url)) as database, database.write() as transaction:
            tables = [name for (name,) in transaction.rows(TABLES)]
            filled = transaction.first("SELECT " + ", ".join(f"EXISTS (SELECT 1 FROM {t})" for t in tables))
            used = transaction.rows(USED_SEQUENCES)
            # Without triggers and foreign keys.
            transaction.execute("SET LOCAL session_replication_role = replica")
            for name, has_rows in zip(tables, filled, strict=True):
                if has_rows:
                    transaction.execute(f"DELETE FROM {name}")
            for (name,) in used:
                transaction.execute(f"ALTER SEQUENCE {name} RESTART")
            for statement in revisions.statements("postgresql"):
                if statement.startswith("INSERT INTO"):
                    transaction.connection.execute(statement.encode())
            transaction.execute(migrate.SET_REVISION, {"revision": migrate.HEAD})

    def _drop_collections(self) -> None:
        import psycopg

        address = parse_address(self.url)
        with psycopg.connect(address.url, autocommit=True) as connection:
            drop_schemas(connection, collection_schemas(connection, address.schema))


OF_COLLECTIONS = "SELECT nspname FROM pg_namespace WHERE nspname = %s OR starts_with(nspname, %s)"
TABLES = """
    SELECT relname FROM pg_class
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY relname
"""
USED_SEQUENCES = """
    SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema() AND last_value IS NOT NULL
"""
