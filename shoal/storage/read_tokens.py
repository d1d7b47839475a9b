"""Tokens of what was written, so that a search on a replica can wait until it has it.

On PostgreSQL a token is a position of the write-ahead log, on SQLite the revision of the library.
"""

from __future__ import annotations

import re

from shoal.errors import InvalidFieldError
from shoal.storage import index_tables
from shoal.storage.database import Database, Snapshot

POSITION = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")
REVISION = re.compile(r"[0-9]{1,18}")
CURRENT = "SELECT CAST(pg_current_wal_lsn() AS text)"
# A primary has everything.
HAS = """
    SELECT NOT pg_is_in_recovery() OR COALESCE(pg_last_wal_replay_lsn() >= CAST(:token AS pg_lsn), false)
"""


def token_of(database: Database) -> str:
    """Return a token of all that was committed until now. Raises StorageError."""
    with database.snapshot() as snapshot:
        if database.is_sqlite:
            return str(index_tables.revision(snapshot))
        return str(snapshot.value(CURRENT))


def check_token(token: str, *, is_sqlite: bool) -> str:
    """Return a token of a caller. Raises InvalidFieldError."""
    if not (REVISION if is_sqlite else POSITION).fullmatch(token):
        raise InvalidFieldError("Shoal-Read-After", "must be the Shoal-Written of an answer of this service")
    return token


def has(snapshot: Snapshot, token: str) -> bool:
    """Whether a checked token's writes are in the database."""
    if snapshot.is_sqlite:
        # There is no replica, and the token may be of another collection or of the file before a restore.
        return True
    return bool(snapshot.value(HAS, {"token": token}))
