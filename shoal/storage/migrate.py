"""Migration of a database to this version's schema.

The check costs one query; Alembic and SQLAlchemy are imported only when a migration is due. If two processes
start at the same time, a lock serializes them, and the second finds nothing to do. What is PostgreSQL's own
is in `postgres/migration.py`.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import DiskFullError, SchemaError
from shoal.storage.database import Database, Snapshot, Transaction

if TYPE_CHECKING:
    from alembic.script import Script

HEAD = "0033"
"""The newest revision; a test compares it with the files in `migrations/versions`."""
COPYING = "copying"
"""The revision of a library that `shoal copy` has not finished (`shoal.maintenance.copying`)."""
PREPARED = ("0010", "0014")
"""The revisions whose migrations prepare their data in short transactions, ascending."""
SPARE_BYTES = 64 << 20
"""Free disk space that a migration needs beside its data, for the WAL."""

MOVED = (
    "another version of Shoal has migrated the database, so this process stores nothing more: replace it by "
    "that version"
)

Report = Callable[[int], None]

log = logging.getLogger(__name__)


def script_folder() -> Path:
    """Return the folder of the Alembic scripts: in the installed package, or at the top of a checkout."""
    installed = Path(__file__).parent / "migrations"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "migrations"


def current_revision(database: Database) -> str | None:
    """Read the revision of the database; None for an empty one."""
    with database.snapshot() as snapshot:
        return revision_of(snapshot)


def revision_of(snapshot: Snapshot) -> str | None:
    """Read the revision of a database; None for an empty one."""
    if not isinstance(snapshot.connection, sqlite3.Connection):
        from shoal.storage.postgres import migration

        return migration.revision_of(snapshot.connection)
    if not snapshot.value("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"):
        return None
    revision: str | None = snapshot.value("SELECT version_num FROM alembic_version")
    return revision


def interim_triggers(revision: str | None) -> set[tuple[str, str]]:
    """The triggers, as name and statement, that an interrupted migration leaves in a library of this
    revision; continuing the migration drops them."""
    if revision is None:
        return set()
    return {
        (name, sql.strip())
        for prepared in PREPARED
        if revision < prepared
        for name, sql in _script_of(prepared).module.TRIGGERS.items()
    }


def check(database: Database) -> None:
    """Raise SchemaError unless the database has exactly this version's schema."""
    revision = current_revision(database)
    if revision == HEAD:
        return
    if revision is None:
        raise _is_empty(database)
    _check_not_newer(database, revision)
    raise SchemaError(f"{database.name} has schema {revision}; run `shoal migrate` to bring it to {HEAD}")


def is_outdated(database: Database) -> bool:
    """Whether a newer version than this one has migrated the database."""
    revision = current_revision(database)
    return revision is not None and revision > HEAD


def check_writable(transaction: Transaction) -> None:
    """Raise SchemaError if the database no longer has this version's schema: what this version writes could
    mean something else there. For `Database.write_guard`."""
    if transaction.value("SELECT version_num FROM alembic_version") != HEAD:
        raise SchemaError(MOVED)


def _is_empty(database: Database) -> SchemaError:
    return SchemaError(f"{database.name} is empty; run `shoal migrate` to create its schema")


def upgrade(database: Database, report: Report | None = None, *, creates: bool = True) -> bool:
    """Migrate the database to HEAD; True if a migration was due.

    A migration that moves much data prepares it in short transactions first, and continues after an
    interruption. `report` is called after each of these with the number of passages that are left. Raises
    SchemaError if the database was written by a newer version or is not a Shoal database, or is empty unless
    this `creates` the schema, and DiskFullError before anything is written if the disk has too little free
    space.
    """
    revision = current_revision(database)
    if revision == HEAD:
        return False
    if revision is not None:
        _check_not_newer(database, revision)
    elif not creates:
        raise _is_empty(database)
    with database.alone("migrate"):
        revision = current_revision(database)
        if revision == HEAD:
            return False
        if revision is None and _tables(database):
            raise SchemaError(f"{database.name} is the database of another program")
        if database.is_sqlite:
            for prepared in PREPARED:
                if revision is not None and revision < prepared:
                    _prepare(database, prepared, report or _log_progress)
        if revision is not None:
            log.info("migrating: from schema %s to %s", revision, HEAD)
        with database.write() as transaction:
            _apply(database, transaction)
    return True


def _apply(database: Database, transaction: Transaction) -> None:
    if database.is_sqlite:
        apply(transaction.connection)
        return
    from shoal.storage.postgres import migration
    from shoal.storage.postgres.address import parse_address

    migration.apply(transaction.connection, parse_address(database.url).schema)


def _prepare(database: Database, revision: str, report: Report) -> None:
    """Bring a library to the revision before this one, and do the part of its migration that needs no single
    transaction."""
    script = _script_of(revision)
    with database.write() as transaction:
        apply(transaction.connection, str(script.down_revision))
    migration = script.module
    with database.snapshot(limited=False) as snapshot:
        needed = migration.bytes_needed(snapshot.connection) + SPARE_BYTES
    free = shutil.disk_usage(Path(database.location).parent).free
    if free < needed:
        raise DiskFullError(
            f"the migration of {database.name} needs {needed / 1e6:,.0f} MB of free disk space, and "
            f"there are {free / 1e6:,.0f} MB; free some and start it again"
        )
    done = 0
    while True:
        with database.write() as transaction:
            prepared = migration.prepare(transaction.connection, done)
        if prepared is None:
            return
        done, remaining = prepared
        report(remaining)


def _script_of(revision: str) -> Script:
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(script_folder())).get_revision(revision)


def _log_progress(remaining: int) -> None:
    log.info("migrating: %s passages are left", f"{remaining:,}")


def _check_not_newer(database: Database, revision: str) -> None:
    if revision == COPYING:
        raise SchemaError(
            f"{database.name} holds an unfinished copy; run the same `shoal copy` again to finish it"
        )
    if revision > HEAD:
        raise SchemaError(f"{database.name} was written by a newer Shoal; this version can't use it")


def _tables(database: Database) -> bool:
    with database.snapshot() as snapshot:
        if not database.is_sqlite:
            from shoal.storage.postgres import migration

            return migration.has_tables(snapshot.connection)
        return bool(snapshot.value("SELECT COUNT(*) FROM sqlite_master"))


def apply(connection: sqlite3.Connection, revision: str = "head") -> None:
    """Run the outstanding migrations up to `revision` within the open transaction of `connection`."""
    import sqlalchemy as sa
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(script_folder()))
    engine = sa.create_engine("sqlite://", creator=lambda: _Borrowed(connection), poolclass=sa.NullPool)
    try:
        with engine.connect() as config.attributes["connection"]:
            command.upgrade(config, revision)
    except sa.exc.DBAPIError as error:
        raise error.orig or error from error


class _Borrowed:
    """A connection whose transaction SQLAlchemy cannot end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None:
        """Do nothing: the owner of the transaction commits."""

    rollback = close = commit
