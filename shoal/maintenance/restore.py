"""Restores a library from a backup. The previous library is kept beside the restored one.

The library must not be in use, which SQLite's locks show. The copy overwrites it in one transaction: a killed
restore leaves the previous library, and a process that opens the library meanwhile waits for the restored
one. A library too damaged for this is moved aside.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from shoal.errors import (
    BackupError,
    DatabaseInUseError,
    DiskFullError,
    NotFoundError,
    SchemaError,
    StorageError,
)
from shoal.maintenance import backup
from shoal.maintenance.backup import Copy, Watcher
from shoal.maintenance.stored_texts import describe_damaged_text
from shoal.maintenance.stored_values import describe_damage
from shoal.storage import migrate
from shoal.storage.opening import open_database
from shoal.storage.schema import foreign_triggers, missing_parts, tables_with_content
from shoal.storage.sqlite.errors import is_busy

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
    checked = backup.check_copy(source)
    try:
        migrate.check_can_migrate(source.name, checked.schema)
    except SchemaError as error:
        raise BackupError(str(error)) from error
    _check_space(path, source)
    with backup.translated_errors("the restored database"), backup.partial_file(path) as prepared:
        _prepare(source, prepared, watch)
        aside = _replace(path, prepared) if path.exists() else _move_aside(path, prepared)
    return Restored(Copy(path, backup.size_of(path), checked.n_documents, checked.schema), aside)


def _check_space(path: Path, source: Path) -> None:
    # The new library twice (prepared and in place), the old one aside, and the journal of its overwriting.
    needed = 2 * backup.size_of(source) + (2 * backup.size_of(path) if path.exists() else 0)
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise DiskFullError(f"{path.parent} has {free:,} free bytes; restoring needs about {needed:,}")


def _prepare(source: Path, prepared: Path, watch: Watcher | None) -> None:
    """Copy a backup, migrate the copy to this version's schema and check its tables, values and texts. Raises
    BackupError."""
    with (
        contextlib.closing(backup.open_copy(source)) as reading,
        contextlib.closing(sqlite3.connect(prepared, isolation_level=None)) as writing,
    ):
        backup.copy_pages(reading, writing, watch)
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
    backup.make_single_file(prepared)
    backup.forget_index(prepared)


def _replace(path: Path, prepared: Path) -> Path | None:
    try:
        with _exclusive_connection(path) as target:
            if not target.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                aside = None
            elif target.execute(backup.COUNT_KEY_TABLES).fetchone()[0] < 2:
                raise BackupError(f"{path.name} belongs to another program; name another file with `--db`")
            else:
                aside = _copy_aside(target, path)
            with contextlib.closing(backup.open_copy(prepared)) as reading:
                backup.copy_pages(reading, target, None)
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
    with backup.partial_file(aside) as part:
        with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as writing:
            writing.execute("PRAGMA synchronous = OFF")
            backup.copy_pages(connection, writing, None)
        backup.publish(part, aside, force=False)
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
        backup.publish(prepared, path, force=False)
    return aside if "" in moved else None


def _free_name(path: Path) -> Path:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    names = [
        f"{path.name}.before-restore-{now}{suffix}" for suffix in ("", *(f"-{n}" for n in range(2, 100)))
    ]
    return next(free for name in names if not (free := path.with_name(name)).exists())
