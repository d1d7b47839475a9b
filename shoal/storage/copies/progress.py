"""The target of a copy: its preparation, the progress that it stores, and its completion.

Until the copy is complete, the revision of the target is `migrate.COPYING`, so that no service uses it, and
it has no triggers and no indexes besides those of its keys. Each batch is stored together with the progress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.storage import index_tables, migrate
from shoal.storage.copies.tables import CONTENT, Table, copied_tables
from shoal.storage.database import Snapshot, Transaction
from shoal.storage.schema import missing_parts

CREATE = (
    """CREATE TABLE copy_origin (
        id {integer} PRIMARY KEY, source TEXT NOT NULL, without_jobs {integer} NOT NULL,
        revision TEXT NOT NULL
    )""",
    """CREATE TABLE copy_tables (
        name TEXT PRIMARY KEY, last_key TEXT NOT NULL, n_rows {integer} NOT NULL, digest TEXT NOT NULL,
        is_complete {integer} NOT NULL
    )""",
)
DROP = ("DROP TABLE copy_tables", "DROP TABLE copy_origin")
SET_ORIGIN = """
    INSERT INTO copy_origin (id, source, without_jobs, revision) VALUES (1, :source, :without_jobs, :revision)
"""
ORIGIN = "SELECT source, without_jobs, revision FROM copy_origin"
PROGRESS = "SELECT name, last_key, n_rows, digest, is_complete FROM copy_tables"
SET_PROGRESS = """
    INSERT INTO copy_tables (name, last_key, n_rows, digest, is_complete)
    VALUES (:name, :last_key, :n_rows, :digest, :is_complete)
    ON CONFLICT (name) DO UPDATE SET last_key = excluded.last_key, n_rows = excluded.n_rows,
        digest = excluded.digest, is_complete = excluded.is_complete
"""
FORGET_LEARNER = "UPDATE learning SET learner = NULL"
# What a job that is left out observed would wait for it for ever.
DROP_PENDING = "UPDATE observed_documents SET state = 'removed' WHERE state = 'pending'"
ANY_ROW = "SELECT EXISTS (SELECT 1 FROM {table})"

SQLITE_PARTS = """
    SELECT type, name, tbl_name FROM sqlite_master WHERE type IN ('trigger', 'index') AND sql IS NOT NULL
"""
SQLITE_LAST_IDS = "SELECT name, seq FROM sqlite_sequence"
SQLITE_SET_LAST_ID = (
    "DELETE FROM sqlite_sequence WHERE name = :name",
    "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)",
)
POSTGRES_PARTS = """
    SELECT 'trigger', t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal AND t.tgname NOT LIKE 'skip%'
    UNION ALL
    SELECT 'index', c.relname, '' FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'i'
        AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid = c.oid)
"""
POSTGRES_COUNTERS = """
    SELECT c.relname, pg_get_serial_sequence(quote_ident(c.relname), 'id') FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attidentity <> ''
"""
NO_TIMEOUTS = ("SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = 0")


class Origin(NamedTuple):
    """The source of a copy, as its database calls itself, whether its open jobs are left out, and the
    revision of its schema."""

    source: str
    without_jobs: bool
    revision: str = migrate.HEAD


class Progress(NamedTuple):
    """The rows of a table that are copied: up to a key, their number, and their digest. A table without rows
    has none."""

    last_key: tuple[Any, ...]
    n_rows: int
    digest: str
    is_complete: bool


def allow_time(transaction: Transaction) -> None:
    """Let the statements of a transaction take their time."""
    if not transaction.is_sqlite:
        for statement in NO_TIMEOUTS:
            transaction.execute(statement)


def allow_loss(transaction: Transaction) -> None:
    """Let a transaction commit without waiting for the disk: after a crash of the server, the copy continues
    from what is left."""
    if not transaction.is_sqlite:
        transaction.execute("SET LOCAL synchronous_commit = off")


def tables_in_use(snapshot: Snapshot) -> list[str]:
    """List the tables with content; none in an empty library."""
    return [table for table in CONTENT if snapshot.value(ANY_ROW.format(table=table))]


def prepare(transaction: Transaction, origin: Origin) -> None:
    """Turn a library into the target of a copy: without rows, triggers and indexes.

    The caller has checked that it is empty or another unfinished copy.
    """
    allow_time(transaction)
    for statement in _drops(transaction):
        transaction.execute(statement)
    for table in reversed(copied_tables()):
        transaction.execute(f"DELETE FROM {table.name}")
    integer = "INTEGER" if transaction.is_sqlite else "BIGINT"
    for statement in CREATE:
        transaction.execute(statement.format(integer=integer))
    values = {**origin._asdict(), "without_jobs": int(origin.without_jobs)}
    transaction.execute(SET_ORIGIN, values)
    transaction.execute(migrate.SET_REVISION, {"revision": migrate.COPYING})


def begin_again(transaction: Transaction) -> None:
    """Forget an unfinished copy; `prepare` follows."""
    for statement in DROP:
        transaction.execute(statement)


def _drops(snapshot: Snapshot) -> list[str]:
    if snapshot.is_sqlite:
        parts = [(kind, name, "") for kind, name, _ in snapshot.tuples(SQLITE_PARTS)]
    else:
        parts = [
            (kind, name, f" ON {table}" if table else "")
            for kind, name, table in snapshot.connection.execute(POSTGRES_PARTS)
        ]
    return [f"DROP {kind.upper()} {name}{of_table}" for kind, name, of_table in parts]


def origin_of(snapshot: Snapshot) -> Origin:
    """Read the origin of an unfinished copy."""
    source, without_jobs, revision = snapshot.first(ORIGIN)
    return Origin(source, bool(without_jobs), revision)


def progress_of(snapshot: Snapshot) -> dict[str, Progress]:
    """Read the progress of an unfinished copy by table."""
    return {
        name: Progress(_unpacked(last_key), n_rows, digest, bool(is_complete))
        for name, last_key, n_rows, digest, is_complete in snapshot.tuples(PROGRESS)
    }


def write_progress(transaction: Transaction, table: Table, progress: Progress) -> None:
    """Store the progress of a table, in the transaction of its rows."""
    values = {
        **progress._asdict(),
        "last_key": _packed(progress.last_key),
        "is_complete": int(progress.is_complete),
    }
    transaction.execute(SET_PROGRESS, {"name": table.name, **values})


def _packed(key: tuple[Any, ...]) -> str:
    return json.dumps([{"hex": value.hex()} if isinstance(value, bytes) else value for value in key])


def _unpacked(text: str) -> tuple[Any, ...]:
    return tuple(
        bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in json.loads(text)
    )


def create_parts(transaction: Transaction) -> None:
    """Create the triggers and indexes that `prepare` dropped."""
    allow_time(transaction)
    for kind in ("index", "trigger"):
        for _, _, sql in (part for part in missing_parts(transaction) if part[0] == kind):
            transaction.connection.execute(sql)


def last_ids(snapshot: Snapshot) -> dict[str, int]:
    """Read the last id that was given in each table that gives ids, deleted rows included."""
    if snapshot.is_sqlite:
        return {name: seq for name, seq in snapshot.tuples(SQLITE_LAST_IDS) if seq}
    return {
        name: last
        for name, sequence in snapshot.connection.execute(POSTGRES_COUNTERS).fetchall()
        for last, is_called in snapshot.rows(f"SELECT last_value, is_called FROM {sequence}")
        if is_called
    }


def finish(transaction: Transaction, last: Mapping[str, int], origin: Origin) -> None:
    """Make a complete target a library: its next ids, an index to be built, and its revision."""
    allow_time(transaction)
    _set_last_ids(transaction, last)
    transaction.execute(FORGET_LEARNER)
    if origin.without_jobs:
        transaction.execute(DROP_PENDING)
    index_tables.start_again(transaction)
    for statement in DROP:
        transaction.execute(statement)
    transaction.execute(migrate.SET_REVISION, {"revision": migrate.HEAD})


def _set_last_ids(transaction: Transaction, last: Mapping[str, int]) -> None:
    if transaction.is_sqlite:
        own = {name for (name,) in transaction.tuples("SELECT name FROM sqlite_sequence")}
        names = {table.name for table in copied_tables()}
        for name in last.keys() & (own | names):
            if _gives_ids(transaction, name):
                for statement in SQLITE_SET_LAST_ID:
                    transaction.execute(statement, {"name": name, "last": last[name]})
        return
    for name, sequence in transaction.connection.execute(POSTGRES_COUNTERS).fetchall():
        highest = transaction.value(f"SELECT COALESCE(MAX(id), 0) FROM {name}")
        number = max(last.get(name, 0), highest)
        if number:
            transaction.value(f"SELECT setval('{sequence}', {number})")


def _gives_ids(transaction: Transaction, table: str) -> bool:
    sql = transaction.value(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name", {"name": table}
    )
    return "AUTOINCREMENT" in (sql or "")
