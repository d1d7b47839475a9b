"""Backs up a library while it is in use, and restores it from a backup.

The target of a backup appears only after the copy is complete and checked. SQLite's backup API copies page by
page within one read transaction. The copy is therefore a snapshot of one moment, and writers do not wait.
Their changes stay in the write-ahead log until the copy is complete.

A library that is restored must not be in use, which SQLite's locks show. The previous one is kept beside it.
The copy overwrites it in one transaction: a killed restore leaves the previous library, and a process that
opens the library meanwhile waits for the restored one. A library too damaged for this is moved aside.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from shoal.errors import (
    BackupError,
    DatabaseInUseError,
    DiskFullError,
    NotFoundError,
    SchemaError,
    StorageError,
)
from shoal.maintenance.stored_values import describe_damage, describe_damaged_text
from shoal.settings import Settings
from shoal.storage import index_tables, migrate
from shoal.storage.opening import open_database
from shoal.storage.schema import foreign_triggers, missing_parts, tables_with_content
from shoal.storage.sqlite.database import SqliteSnapshot, is_busy, is_full
from shoal.support.regular_files import is_regular_file

PAGES = 2000
"""Pages copied between two progress reports: 8 MB, about ten milliseconds."""
BUSY_SECONDS = 30.0
PARTIAL = ".partial"
"""Suffix of an incomplete copy."""

Watcher = Callable[[int, int], None]
"""Called with the bytes copied and the total bytes."""

COUNT_DOCUMENTS = "SELECT COUNT(*) FROM documents"
HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
REVISION_FORMAT = re.compile(r"\d{4}")
HAS_INDEX = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'index_segments'"
COUNT_KEY_TABLES = """
    SELECT COUNT(*) FROM sqlite_master
    WHERE type = 'table' AND name IN ('schema_revision', 'alembic_version', 'documents')
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """A complete, checked copy of a library. `schema` is its migration revision; `n_forgotten`: of how many
    notes that were forgotten it has a digest, and no text."""

    path: Path
    n_bytes: int
    n_documents: int
    schema: str
    n_notes: int = 0
    n_forgotten: int = 0


def check_is_file(settings: Settings, command: str) -> None:
    """Raise BackupError unless the library is a file. `command`: what cannot be done then."""
    if not settings.is_sqlite:
        raise BackupError(
            f"`shoal {command}` is for libraries on SQLite, and this one is on PostgreSQL: use pg_dump and "
            "pg_restore, or pg_basebackup for the whole server (docs/postgresql.md); `shoal copy` makes a "
            "file of it"
        )


def create_backup(source: Path, target: Path, *, force: bool = False, watch: Watcher | None = None) -> Copy:
    """Copy the library at `source` to `target`, which appears only after the copy is complete and checked.

    Creates the folder of `target` if it does not exist. An existing `target` is replaced only with `force`.
    Raises NotFoundError, BackupError, DiskFullError.
    """
    if not source.exists():
        raise NotFoundError(f"there is no database {source}")
    target = target.absolute()
    check_target(target, source, force=force)
    with translated_errors("the backup"), partial_file(target) as part:
        with contextlib.closing(open_copy(source)) as reading:
            # Without this read transaction, a write by another process would restart the copy.
            reading.execute("BEGIN")
            reading.execute("SELECT 1 FROM sqlite_master").fetchall()
            with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as writing:
                # The file is private until it is complete, and is then synced as a whole.
                writing.execute("PRAGMA journal_mode = OFF")
                writing.execute("PRAGMA synchronous = OFF")
                copy_pages(reading, writing, watch)
        make_single_file(part)
        forget_index(part)
        checked = check_copy(part)
        publish(part, target, force=force)
    return dataclasses.replace(checked, path=target, n_bytes=target.stat().st_size)


def check_copy(path: Path) -> Copy:
    """Check that a file is an intact library that this version can use.

    Raises BackupError with the reason.
    """
    try:
        with contextlib.closing(open_copy(path)) as connection:
            if connection.execute(COUNT_KEY_TABLES).fetchone()[0] < 2:
                raise BackupError(f"{path.name} is not a Shoal database")
            schema = str(migrate.revision_of(SqliteSnapshot(connection)))
            if not REVISION_FORMAT.fullmatch(schema):
                raise BackupError(f"{path.name} does not name its schema; it is not a Shoal database")
            if schema > migrate.HEAD:
                raise BackupError(
                    f"{path.name} was written by a newer version of Shoal (schema {schema}); this version "
                    f"supports schemas up to {migrate.HEAD}: install the newer version first"
                )
            damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if damage != "ok":
                raise BackupError(f"{path.name} is damaged: {damage.splitlines()[-1]}")
            orphan = connection.execute("PRAGMA foreign_key_check").fetchone()
            if orphan is not None:
                raise BackupError(f"{path.name} is damaged: rows of {orphan[0]} refer to missing rows")
            n_documents = int(connection.execute(COUNT_DOCUMENTS).fetchone()[0])
            # Databases of older versions have no such tables.
            n_notes, n_forgotten = (
                connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
                if connection.execute(HAS_TABLE, (table,)).fetchone()
                else 0
                for table in ("notes", "forgotten_notes")
            )
            invalid = describe_damage(SqliteSnapshot(connection))
            if invalid is not None:
                raise BackupError(f"{path.name} is damaged: {invalid}; `shoal doctor` says what to do")
    except sqlite3.DatabaseError as error:
        raise BackupError(f"{path.name} is not a Shoal database, or is damaged ({error})") from error
    return Copy(path, path.stat().st_size, n_documents, schema, n_notes, n_forgotten)


def open_copy(path: Path) -> sqlite3.Connection:
    """Open an existing database for reading, also on a read-only medium."""
    try:
        connection = _connect(path, "mode=rw")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # `immutable` ignores the write-ahead log, so it is safe only without one.
        if Path(f"{path}-wal").exists():
            raise
        connection = _connect(path, "mode=ro&immutable=1")
    return connection


def _connect(path: Path, parameters: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{parameters}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    # The file may be untrusted (sqlite.org/security.html).
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def copy_pages(source: sqlite3.Connection, target: sqlite3.Connection, watch: Watcher | None) -> None:
    """Copy one database over another in one transaction of the target."""
    page_size = source.execute("PRAGMA page_size").fetchone()[0]

    def progress(_status: int, remaining: int, total: int) -> None:
        if watch is not None:
            watch((total - remaining) * page_size, total * page_size)

    source.backup(target, pages=PAGES, progress=progress)


def make_single_file(path: Path) -> None:
    """Turn the write-ahead log off, so that the copy is one file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()


def forget_index(path: Path) -> None:
    """Note in a copy that all documents wait to be indexed: the files of the index are not beside it."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)) as connection:
        # Schemas before 0013 have no index.
        if connection.execute(HAS_INDEX).fetchone()[0]:
            connection.execute("BEGIN")
            (revision,) = connection.execute(index_tables.NEXT_REVISION).fetchone()
            for statement in index_tables.START_AGAIN:
                connection.execute(statement.format(revision=revision))
            connection.execute("COMMIT")


def check_target(target: Path, source: Path, *, force: bool) -> None:
    """Create the folder of `target`.

    Raises BackupError or DiskFullError if a copy of `source` can't go there.
    """
    if target.is_dir():
        raise BackupError(f"{target} is a folder; name a file in it")
    if target.is_symlink() or target.exists():
        if target.exists() and target.samefile(source):
            raise BackupError(f"{target} is the database itself; name another file")
        if not is_regular_file(target):
            raise BackupError(
                f"{target} is not a regular file, but a link, a pipe or a device; name another file"
            )
        if not force:
            raise BackupError(f"{target} exists; choose another name, or use --force to replace it")
    create_folder(target.parent)
    needed, free = size_of(source), shutil.disk_usage(target.parent).free
    if free < needed:
        raise DiskFullError(f"{target.parent} has {free:,} free bytes; the copy needs about {needed:,}")


def create_folder(folder: Path) -> None:
    """Create a folder and its parents, durably, if they do not exist. Raises BackupError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync_folder(path.parent)
    except OSError as error:
        raise BackupError(f"cannot create the folder {folder}: {error.strerror or error}") from error


def size_of(path: Path) -> int:
    """Bytes of a database with its write-ahead log."""
    files = (path, Path(f"{path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


@contextlib.contextmanager
def partial_file(target: Path) -> Iterator[Path]:
    """A temporary file beside `target`, removed at the end.

    Also removes those that killed processes have left.
    """
    _remove_leftovers(target)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PARTIAL}")
    # The lock marks the file as in use. It is closed last: closing any descriptor ends SQLite's locks.
    with part.open("xb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield part
        finally:
            _remove_with_siblings(part)


def _remove_leftovers(target: Path) -> None:
    for leftover in target.parent.glob(f".{_escaped(target.name)}.*{PARTIAL}"):
        with contextlib.suppress(OSError), leftover.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_with_siblings(leftover)


def _escaped(name: str) -> str:
    """A glob pattern that matches only `name`."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _remove_with_siblings(path: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm", ".migrate-lock"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def publish(part: Path, target: Path, *, force: bool) -> None:
    """Rename a complete file to `target`, durably. Raises BackupError if `target` exists, unless `force`."""
    umask = os.umask(0)
    os.umask(umask)
    part.chmod(0o666 & ~umask)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    if force:
        part.replace(target)
    else:
        try:
            os.link(part, target)
        except FileExistsError:
            raise BackupError(
                f"{target} exists by now; choose another name, or use --force to replace it"
            ) from None
        except OSError:
            # A file system without hard links, such as FAT.
            part.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that renames in it survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """Raise errors of SQLite and the file system as DiskFullError or BackupError."""
    try:
        yield
    except sqlite3.Error as error:
        if is_full(error):
            raise DiskFullError(f"there is no space left on the disk; {what} was not made") from error
        raise BackupError(f"{what} was not made: {error}") from error
    except OSError as error:
        raise BackupError(f"{what} was not made: {error.strerror or error}") from error


SIBLINGS = ("-wal", "-shm", "-journal")

LOCK_BYTE = 0x40000000
LOCK_BYTES = 512
"""Bytes that SQLite locks (sqlite3.c, "PENDING_BYTE"): every process with an open database holds some of
them."""

IN_USE = (
    "the database is in use: stop the service, its workers and other commands, then restore. "
    "Nothing was changed"
)


@dataclass(frozen=True, slots=True)
class Restored:
    """The restored library. `aside` is the path of the previous one, None if there was none."""

    copy: Copy
    aside: Path | None


def restore(path: Path, source: Path, *, watch: Watcher | None = None) -> Restored:
    """Replace the library at `path` by the copy `source`, and migrate it to this version's schema.

    The copy is prepared and migrated beside the library first. Raises NotFoundError, BackupError for an
    unusable copy, DatabaseInUseError and DiskFullError; the library is unchanged then.
    """
    path = path.absolute()
    if not source.exists():
        raise NotFoundError(f"there is no file {source}")
    if not path.parent.is_dir():
        raise BackupError(f"there is no folder {path.parent} to hold the database")
    if path.exists() and path.samefile(source):
        raise BackupError(f"{source} is the database itself")
    if not source.is_file():
        raise BackupError(f"{source} is not a file made by `shoal backup`")
    checked = check_copy(source)
    try:
        migrate.check_can_migrate(source.name, checked.schema)
    except SchemaError as error:
        raise BackupError(str(error)) from error
    _check_space(path, source)
    with translated_errors("the restored database"), partial_file(path) as prepared:
        _prepare(source, prepared, watch)
        aside = _replace(path, prepared) if path.exists() else _move_aside(path, prepared)
    return Restored(dataclasses.replace(checked, path=path, n_bytes=size_of(path)), aside)


def _check_space(path: Path, source: Path) -> None:
    # The new library twice (prepared and in place), the old one aside, and the journal of its overwriting.
    needed = 2 * size_of(source) + (2 * size_of(path) if path.exists() else 0)
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise DiskFullError(f"{path.parent} has {free:,} free bytes; restoring needs about {needed:,}")


def _prepare(source: Path, prepared: Path, watch: Watcher | None) -> None:
    """Copy a backup, migrate the copy to this version's schema and check its tables, values and texts. Raises
    BackupError."""
    with (
        contextlib.closing(open_copy(source)) as reading,
        contextlib.closing(sqlite3.connect(prepared, isolation_level=None)) as writing,
    ):
        copy_pages(reading, writing, watch)
    database = open_database(f"sqlite:///{prepared}")
    try:
        with database.snapshot() as snapshot:
            # Triggers would run during a migration, and on every later write.
            if names := foreign_triggers(snapshot):
                raise BackupError(
                    f"{source.name} has triggers that Shoal never creates: {', '.join(names)}; "
                    "drop them in a copy of the file to restore it"
                )
        migrate.upgrade(database)
        with database.snapshot() as snapshot:
            missing = tables_with_content(missing_parts(snapshot))
            damage = None if missing else describe_damage(snapshot) or describe_damaged_text(snapshot)
        if missing:
            raise BackupError(f"{source.name} is an incomplete library; it has no {', '.join(missing)}")
        if damage is not None:
            raise BackupError(
                f"{source.name} is damaged: {damage}. Restore another backup; without one, copy this file to "
                "the place of the library yourself and run `shoal doctor --repair`"
            )
    except (DiskFullError, BackupError):
        raise
    except StorageError as error:
        raise BackupError(f"{source.name} cannot be migrated to this version's schema: {error}") from error
    finally:
        database.close()
    make_single_file(prepared)
    forget_index(prepared)


def _replace(path: Path, prepared: Path) -> Path | None:
    try:
        with _exclusive_connection(path) as target:
            if not target.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                aside = None
            elif target.execute(COUNT_KEY_TABLES).fetchone()[0] < 2:
                raise BackupError(f"{path.name} belongs to another program; name another file with `--db`")
            else:
                aside = _copy_aside(target, path)
            with contextlib.closing(open_copy(prepared)) as reading:
                copy_pages(reading, target, None)
            return aside
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        # The library cannot be read, which may be the reason for the restore.
        return _move_aside(path, prepared)


@contextlib.contextmanager
def _exclusive_connection(path: Path) -> Iterator[sqlite3.Connection]:
    """The only connection to a database. Raises DatabaseInUseError if there are others."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        try:
            # Merges the write-ahead log and leaves WAL mode, which SQLite allows only to the sole connection.
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                raise DatabaseInUseError(IN_USE) from error
            raise
        yield connection
    finally:
        connection.close()


def _copy_aside(connection: sqlite3.Connection, path: Path) -> Path:
    aside = _free_name(path)
    with partial_file(aside) as part:
        with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as writing:
            writing.execute("PRAGMA synchronous = OFF")
            copy_pages(connection, writing, None)
        publish(part, aside, force=False)
    return aside


def _move_aside(path: Path, prepared: Path) -> Path | None:
    """As `_replace`, without reading the library.

    Its log is moved too, so that it cannot become part of the new one.
    """
    aside = _free_name(path)
    with contextlib.ExitStack() as stack:
        if path.exists():
            file = stack.enter_context(path.open("rb+"))
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCK_BYTES, LOCK_BYTE)
            except OSError as error:
                raise DatabaseInUseError(IN_USE) from error
        moved = [suffix for suffix in (*SIBLINGS, "") if Path(f"{path}{suffix}").exists()]
        for suffix in moved:
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        publish(prepared, path, force=False)
    return aside if "" in moved else None


def _free_name(path: Path) -> Path:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    names = [
        f"{path.name}.before-restore-{now}{suffix}" for suffix in ("", *(f"-{n}" for n in range(2, 100)))
    ]
    return next(free for name in names if not (free := path.with_name(name)).exists())
