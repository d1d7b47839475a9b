"""Opening of the database that an URL names."""

from __future__ import annotations

from pathlib import Path

from shoal.errors import DatabaseUnavailableError
from shoal.settings import Settings
from shoal.storage.database import Database

SQLITE, POSTGRES = "sqlite:///", "postgresql://"


def open_database(url: str, data_path: Path | None = None) -> Database:
    """Return the database of a URL: `sqlite:///PATH` or `postgresql://USER@HOST:PORT/DATABASE?schema=NAME`.

    `data_path`: folder of this machine below which files derived from a database on PostgreSQL are kept.
    Raises DatabaseUnavailableError if the URL cannot name a database; it may be empty or away.
    """
    if url.startswith(SQLITE):
        from shoal.storage.sqlite.database import SqliteDatabase

        return SqliteDatabase(url)
    if url.startswith(POSTGRES):
        try:
            from shoal.storage.postgres.database import PostgresDatabase
        except ImportError as error:
            raise DatabaseUnavailableError(
                f"a database on PostgreSQL needs a package that is not installed ({error.name}): "
                "`pip install shoal[postgres]`"
            ) from error

        return PostgresDatabase(url, data_path or Settings(database_url=url).data_path)
    raise DatabaseUnavailableError(f"the database must be {SQLITE}PATH or {POSTGRES}HOST/DATABASE")
