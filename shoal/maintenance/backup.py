"""Backs up a library while it is in use. The target appears only after the copy is complete and checked.

SQLite's backup API copies page by page within one read transaction. The copy is therefore a snapshot of one
moment, and writers do not wait. Their changes stay in the write-ahead log until the copy is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from shoal.errors import BackupError, DiskFullError, NotFoundError
from shoal.maintenance.stored_values import describe_damage
from shoal.settings import Settings
from shoal.storage import index_tables, migrate
from shoal.storage.sqlite.database import SqliteSnapshot
from shoal.storage.sqlite.errors import is_full
from shoal.support.regular_files import is_regular_file

PAGES = 2000
"""Pages copied between two progress reports: 8 MB, about ten milliseconds."""
BUSY_SECONDS = 30.0
PARTIAL = ".partial"
"""Suffix of an incomplete copy."""

Watcher = Callable[[int, int], None]
"""Called with the bytes copied and the total bytes."""

COUNT_DOCUMENTS = "SELECT COUNT(*) FROM documents"
REVISION_FORMAT = re.compile(r"\d{4}")
HAS_INDEX = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'index_segments'"
COUNT_KEY_TABLES = """
    SELECT COUNT(*) FROM sqlite_master
    WHERE type = 'table' AND name IN ('schema_revision', 'alembic_version', 'documents')
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """A complete, checked copy of a library. `schema` is its migration revision."""

    path: Path
    n_bytes: int
    n_documents: int
    schema: str


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
    return Copy(target, target.stat().st_size, checked.n_documents, checked.schema)


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
            invalid = describe_damage(SqliteSnapshot(connection))
            if invalid is not None:
                raise BackupError(f"{path.name} is damaged: {invalid}; `shoal doctor` says what to do")
    except sqlite3.DatabaseError as error:
        raise BackupError(f"{path.name} is not a Shoal database, or is damaged ({error})") from error
    return Copy(path, path.stat().st_size, n_documents, schema)


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
