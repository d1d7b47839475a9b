"""Copies of a library from one store to another, table by table: `shoal.maintenance.copying` makes them."""

from __future__ import annotations

import functools
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.storage import index_tables, migrate
from shoal.storage.database import Snapshot, Transaction
from shoal.storage.schema import missing_parts

if TYPE_CHECKING:
    import psycopg


LEFT_OUT = frozenset(
    {
        *("schema_revision", "sqlite_sequence"),
        *("ranks", "all_bytes"),  # the same in every library
        *("index_segments", "changed_documents", "index_state"),  # the index, which is built again
        "workers",  # which run on the source
    }
)
CONTENT = (
    *("documents", "notes", "jobs", "custom_words", "observed_documents", "synonyms", "pins"),
    *("saved_searches", "logged_queries", "sources"),
)
"""Tables without a row in an empty library; the rows of most others depend on theirs."""
TYPES = {"INTEGER": "int8", "REAL": "float8", "TEXT": "text", "BLOB": "bytea"}
"""The types of PostgreSQL by those of SQLite."""

LONGEST_KEY = {"file_stamps": "path", "fetched_pages": "url", "note_tag_set_matches": "tag_set"}
"""Columns whose values PostgreSQL does not store if they have more than MAX_KEY_BYTES bytes
(`migrations/0034_initial.postgresql.sql`)."""
MAX_KEY_BYTES = 2600

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
COLUMNS = "SELECT name, type, pk FROM pragma_table_info(:table) ORDER BY cid"
PARENTS = 'SELECT DISTINCT "table" FROM pragma_foreign_key_list(:table)'


class Table(NamedTuple):
    """A table, its columns with their types on PostgreSQL, and the columns of its primary key."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def has_large_rows(self) -> bool:
        """Whether single rows can have many megabytes, so that few of them are fetched at once."""
        return self.name in ("document_files", "job_item_files", "job_item_contents", "job_item_cuts")


@functools.cache
def copied_tables() -> tuple[Table, ...]:
    """List the tables of this version that a copy has, each after those that its foreign keys refer to."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate.create_in(connection)
        names = [name for (name,) in connection.execute(TABLES) if name not in LEFT_OUT]
        parents = {
            name: {parent for (parent,) in connection.execute(PARENTS, {"table": name})} for name in names
        }
        return tuple(_table(connection, name) for name in _ordered(parents))


def _table(connection: sqlite3.Connection, name: str) -> Table:
    columns = connection.execute(COLUMNS, {"table": name}).fetchall()
    key = [column for column, _, place in sorted(columns, key=lambda row: row[2]) if place]
    assert key, f"{name} has no primary key"
    return Table(
        name,
        tuple(column for column, _, _ in columns),
        tuple(TYPES[sql_type] for _, sql_type, _ in columns),
        tuple(key),
    )


def _ordered(parents: dict[str, set[str]]) -> list[str]:
    ordered: list[str] = []
    while len(ordered) < len(parents):
        free = [name for name in parents if name not in ordered and parents[name] <= set(ordered)]
        assert free, "foreign keys form a circle"
        ordered.extend(free)
    return ordered


BATCH_ROWS, BATCH_BYTES = 5_000, 8 << 20
"""Bounds of a batch: it ends with the row that reaches one of them."""
FETCHED_ROWS, FETCHED_LARGE_ROWS = 500, 1
"""Rows that PostgreSQL sends at once."""

Row = tuple[Any, ...]
Key = tuple[Any, ...]
Filter = Callable[[Table], str]
"""The condition of the rows of a table that are copied."""


class Digest:
    """A digest of a set of rows, independent of their order: the sum of their hashes, 128 bits."""

    def __init__(self, text: str = "0") -> None:
        self._sum = int(text, 16)

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows. Equal values must have equal types, as both stores return them."""
        total = self._sum
        for row in rows:
            text = repr(row).encode()
            total += int.from_bytes(hashlib.blake2b(text, digest_size=16).digest())
        self._sum = total & (1 << 128) - 1

    def __str__(self) -> str:
        return f"{self._sum:x}"


def count(connection: Any, table: Table, condition: str) -> int:
    """Count the rows that are copied."""
    statement = f"SELECT COUNT(*) FROM {table.name} WHERE {condition}"
    return int(connection.execute(statement).fetchone()[0])


def read(
    connection: Any, table: Table, condition: str, *, after: Key | None = None, up_to: Key | None = None
) -> Iterator[list[Row]]:
    """Yield batches of the rows of a table that meet a condition, in the order of their keys.

    `after`, `up_to`: only rows with keys between these, the first excluded and the second included.
    """
    is_sqlite = isinstance(connection, sqlite3.Connection)
    key, place = ", ".join(table.key), "?" if is_sqlite else "%s"
    bounds = [(">", after), ("<=", up_to)]
    parameters = [value for _, values in bounds if values is not None for value in values]
    conditions = [
        condition,
        *(
            f"({key}) {comparison} ({', '.join([place] * len(values))})"
            for comparison, values in bounds
            if values is not None
        ),
    ]
    columns = ", ".join(table.columns)
    where = " AND ".join(conditions)
    statement = f"SELECT {columns} FROM {table.name} WHERE {where} ORDER BY {key}"
    yield from _batches(
        (_sqlite_rows if is_sqlite else _postgres_rows)(connection, table, statement, parameters)
    )


def _sqlite_rows(
    connection: sqlite3.Connection, _: Table, statement: str, parameters: Sequence[Any]
) -> Iterator[Row]:
    with closing(connection.cursor()) as cursor:
        cursor.row_factory = None
        yield from cursor.execute(statement, parameters)


def _postgres_rows(
    connection: psycopg.Connection[Any], table: Table, statement: str, parameters: Sequence[Any]
) -> Iterator[Row]:
    from psycopg.rows import tuple_row

    with connection.cursor(name="shoal_copy", row_factory=tuple_row) as cursor:
        cursor.itersize = FETCHED_LARGE_ROWS if table.has_large_rows else FETCHED_ROWS
        yield from cursor.execute(statement.encode(), parameters)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    n_bytes = 0
    for row in rows:
        batch.append(row)
        n_bytes += size(row)
        if len(batch) >= BATCH_ROWS or n_bytes >= BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def size(row: Row) -> int:
    """The approximate size of a row in bytes."""
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)


def storable(table: Table, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows without those whose keys are too long for PostgreSQL."""
    if table.name not in LONGEST_KEY:
        return rows
    place = table.columns.index(LONGEST_KEY[table.name])
    return [row for row in rows if len(row[place].encode()) <= MAX_KEY_BYTES]


def write(connection: Any, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows in bulk, within the open transaction of a connection."""
    columns = ", ".join(table.columns)
    if isinstance(connection, sqlite3.Connection):
        places = ", ".join("?" * len(table.columns))
        connection.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)
        return
    from shoal.storage.postgres.statements import escaped

    texts = frozenset(i for i, sql_type in enumerate(table.types) if sql_type == "text")
    statement = f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.set_types(table.types)
        for row in rows:
            copy.write_row(
                [escaped(value) if i in texts and value is not None else value for i, value in enumerate(row)]
            )


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
