"""Migration of a database to this version's schema, whose SQL is in `migrations/` (`revisions.py`).

The check costs two queries. If two processes start at the same time, a lock serializes them, and the second
finds nothing to do. A migration is one transaction, so that a crash leaves nothing of it. PostgreSQL's own
part is in `postgres/migration.py`.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator

from shoal.errors import SchemaError
from shoal.storage import revisions
from shoal.storage.database import Database, Snapshot, Transaction

HEAD = revisions.HEAD
"""The revision of this version's schema."""
COPYING = "copying"
"""The revision of a library that `shoal copy` has not finished (`shoal.maintenance.copying`)."""

STAMPED = "0033"
"""The oldest revision that is migrated: the schema is that of INITIAL, but for the table that says so."""
INITIAL = "0034"
STAMP = (
    "CREATE TABLE schema_revision (revision TEXT NOT NULL PRIMARY KEY)",
    f"INSERT INTO schema_revision (revision) VALUES ('{INITIAL}')",
    "DROP TABLE alembic_version",
)
LAST_TO_UPGRADE = "053f5a6"
"""A commit that brings older libraries to the revision STAMPED."""

MOVED = (
    "another version of Shoal has migrated the database, so this process stores nothing more: replace it by "
    "that version"
)

HAS_TABLE = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name",
    "postgresql": """
        SELECT 1 FROM pg_class
        WHERE relname = :name AND relkind = 'r' AND relnamespace = current_schema()::regnamespace
    """,
}
REVISION = "SELECT revision FROM schema_revision"
REVISION_BEFORE = "SELECT version_num FROM alembic_version"
SET_REVISION = "UPDATE schema_revision SET revision = :revision"

log = logging.getLogger(__name__)


def current_revision(database: Database) -> str | None:
    """Read the revision of the database; None for an empty one."""
    with database.snapshot() as snapshot:
        return revision_of(snapshot)


def revision_of(snapshot: Snapshot) -> str | None:
    """Read the revision of a database; None for an empty one."""
    has_table = HAS_TABLE[_store(snapshot)]
    for table, statement in (("schema_revision", REVISION), ("alembic_version", REVISION_BEFORE)):
        if snapshot.value(has_table, {"name": table}):
            revision: str | None = snapshot.value(statement)
            return revision
    return None


def check(database: Database) -> None:
    """Raise SchemaError unless the database has exactly this version's schema."""
    revision = current_revision(database)
    if revision == HEAD:
        return
    if revision is None:
        raise _is_empty(database)
    check_can_migrate(database.name, revision)
    raise SchemaError(f"{database.name} has schema {revision}; run `shoal migrate` to bring it to {HEAD}")


def check_can_migrate(name: str, revision: str) -> None:
    """Raise SchemaError unless a database of this revision, called `name`, can be brought to HEAD."""
    if revision == COPYING:
        raise SchemaError(f"{name} holds an unfinished copy; run the same `shoal copy` again to finish it")
    if revision > HEAD:
        raise SchemaError(f"{name} was written by a newer Shoal; this version can't use it")
    if revision < STAMPED:
        raise SchemaError(
            f"{name} has schema {revision}, and this version migrates {STAMPED} and later ones: bring it "
            f"there with Shoal at the commit {LAST_TO_UPGRADE} first (`shoal migrate`; for a backup, "
            "`shoal restore`)"
        )


def is_outdated(database: Database) -> bool:
    """Whether a newer version than this one has migrated the database."""
    revision = current_revision(database)
    return revision is not None and revision > HEAD


def check_writable(transaction: Transaction) -> None:
    """Raise SchemaError if the database no longer has this version's schema: what this version writes could
    mean something else there. For `Database.write_guard`."""
    if transaction.value(REVISION) != HEAD:
        raise SchemaError(MOVED)


def _is_empty(database: Database) -> SchemaError:
    return SchemaError(f"{database.name} is empty; run `shoal migrate` to create its schema")


def upgrade(database: Database, *, creates: bool = True) -> bool:
    """Migrate the database to HEAD; True if a migration was due.

    Raises SchemaError if the database was written by a newer version, is too old or not a Shoal database, or
    is empty unless this `creates` the schema.
    """
    revision = current_revision(database)
    if revision == HEAD:
        return False
    if revision is not None:
        check_can_migrate(database.name, revision)
    elif not creates:
        raise _is_empty(database)
    with database.alone("migrate"):
        revision = current_revision(database)
        if revision == HEAD:
            return False
        if revision is None and _tables(database):
            raise SchemaError(f"{database.name} is the database of another program")
        if revision is not None:
            log.info("migrating: from schema %s to %s", revision, HEAD)
        with database.write() as transaction:
            _apply(database, transaction, revision)
    return True


def create_in(connection: sqlite3.Connection) -> None:
    """Create this version's schema in an empty SQLite database, within a transaction if one is open."""
    for statement in revisions.statements("sqlite"):
        connection.execute(statement)


def _apply(database: Database, transaction: Transaction, revision: str | None) -> None:
    due = _due(transaction, revision)
    if database.is_sqlite:
        for statement in due:
            transaction.connection.execute(statement)
    else:
        from shoal.storage.postgres import migration
        from shoal.storage.postgres.address import parse_address

        migration.apply(transaction.connection, parse_address(database.url).schema, due)
    transaction.execute(SET_REVISION, {"revision": HEAD})


def _due(snapshot: Snapshot, revision: str | None) -> Iterator[str]:
    """The statements that bring a library from a revision, None for an empty one, to the newest."""
    if revision == STAMPED:
        yield from STAMP
        revision = INITIAL
    yield from revisions.statements(_store(snapshot), after=revision or "")


def _store(snapshot: Snapshot) -> revisions.Store:
    return "sqlite" if snapshot.is_sqlite else "postgresql"


def _tables(database: Database) -> bool:
    with database.snapshot() as snapshot:
        if not database.is_sqlite:
            from shoal.storage.postgres import migration

            return migration.has_tables(snapshot.connection)
        return bool(snapshot.value("SELECT COUNT(*) FROM sqlite_master"))
