"""Migration of a database to this version's schema.

The check costs one query; Alembic and SQLAlchemy are imported only when a migration is due. If two processes
start at the same time, a lock file beside the database serializes them, and the second finds nothing to do.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from shoal.errors import SchemaError
from shoal.storage.database import Database
from shoal.storage.file_lock import alone

HEAD = "0009"
"""The newest revision; a test compares it with the files in `migrations/versions`."""


def script_folder() -> Path:
    """Return the folder of the Alembic scripts: in the installed package, or at the top of a checkout."""
    installed = Path(__file__).parent / "migrations"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "migrations"


def current_revision(database: Database) -> str | None:
    """Read the revision of the database; None for an empty one."""
    with database.snapshot() as snapshot:
        if not snapshot.value(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
        ):
            return None
        revision: str | None = snapshot.value("SELECT version_num FROM alembic_version")
        return revision


def check(database: Database) -> None:
    """Raise SchemaError unless the database has exactly this version's schema."""
    revision = current_revision(database)
    if revision == HEAD:
        return
    if revision is None:
        raise SchemaError(f"{database.path.name} is empty; run `shoal migrate` to create its schema")
    raise SchemaError(
        _newer(database)
        if revision > HEAD
        else f"{database.path.name} has schema {revision}; run `shoal migrate` to bring it to {HEAD}"
    )


def upgrade(database: Database) -> bool:
    """Migrate the database to HEAD; True if a migration was due.

    Raises SchemaError if the database was written by a newer version or is not a Shoal database.
    """
    revision = current_revision(database)
    if revision == HEAD:
        return False
    if revision is not None and revision > HEAD:
        raise SchemaError(_newer(database))
    with alone(database.path, "migrate"):
        if current_revision(database) == HEAD:
            return False
        if revision is None and _tables(database):
            raise SchemaError(f"{database.path.name} is the database of another program")
        with database.write() as transaction:
            apply(transaction.connection)
    return True


def _newer(database: Database) -> str:
    return f"{database.path.name} was written by a newer Shoal; this version can't use it"


def _tables(database: Database) -> bool:
    with database.snapshot() as snapshot:
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
