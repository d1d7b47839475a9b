"""A copy becomes the library again. The library as it was is kept beside it.

Nobody may use the library meanwhile; SQLite's own locks tell. The copy is written over it in one transaction, so
whoever is killed half-way leaves the old library, and whoever opens it meanwhile waits and then sees the new one.
A library too damaged for that is moved aside.
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

from shoal.errors import BackupError, DatabaseInUseError, DiskFullError, NotFoundError, StorageError
from shoal.maintenance import backup
from shoal.maintenance.backup import Copy, Watcher
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.schema import missing_parts, triggers, with_content

SIBLINGS = ("-wal", "-shm", "-journal")

LOCK_BYTE = 0x40000000
LOCK_BYTES = 512
"""Where SQLite locks a database file (sqlite3.c, "PENDING_BYTE"): whoever has it open holds a part of this."""

IN_USE = (
    "something uses the database: stop the service, its workers and other commands, then restore. "
    "Nothing was changed"
)


@dataclass(frozen=True, slots=True)
class Restored:
    """The library as it is now; `aside` is where the one before is, None where there was none."""

    copy: Copy
    aside: Path | None


def restore(path: Path, source: Path, *, watch: Watcher | None = None) -> Restored:
    """Make the library at `path` what the copy `source` is, and bring it to this version's schema.

    The copy is prepared beside the library first, up to its schema. Raises NotFoundError, BackupError for a copy that
    can't be used, DatabaseInUseError and DiskFullError; nothing has changed then.
    """
    path = path.absolute()
    if not source.exists():
        raise NotFoundError(f"there is no file {source}")
    if not path.parent.is_dir():
        raise BackupError(f"there is no folder {path.parent} to hold the database")
    if path.exists() and path.samefile(source):
        raise BackupError(f"{source} is the database itself")
    if not source.is_file():
        raise BackupError(f"{source} is no file that `shoal backup` has made")
    found = backup.examine(source)
    _check_space(path, source)
    with backup.failures("the restored database"), backup.partial(path) as prepared:
        _prepare(source, prepared, watch)
        aside = _replace(path, prepared) if path.exists() else _move_aside(path, prepared)
    return Restored(Copy(path, backup.size_of(path), found.n_documents, found.schema), aside)


def _check_space(path: Path, source: Path) -> None:
    # The new one prepared and in place, the old one aside, and a journal of it while it is overwritten.
    needed = 2 * backup.size_of(source) + (2 * backup.size_of(path) if path.exists() else 0)
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise DiskFullError(f"{path.parent} has {free:,} bytes left; restoring takes about {needed:,}")


def _prepare(source: Path, prepared: Path, watch: Watcher | None) -> None:
    """Copy a backup, bring the copy to this version's schema and see that it has it. Raises BackupError."""
    with (
        contextlib.closing(backup.open_copy(source)) as reading,
        contextlib.closing(sqlite3.connect(prepared, isolation_level=None)) as writing,
    ):
        backup.copy_pages(reading, writing, watch)
    database = Database(f"sqlite:///{prepared}")
    try:
        with database.snapshot() as snapshot:
            # They would go on changing what is written, and work in the migrations that follow.
            if names := triggers(snapshot):
                raise BackupError(
                    f"{source.name} has triggers, which no Shoal makes: {', '.join(names)}; "
                    "drop them in a copy of the file to restore it"
                )
        migrate.upgrade(database)
        with database.snapshot() as snapshot:
            missing = with_content(missing_parts(snapshot))
        if missing:
            raise BackupError(f"{source.name} is not a whole library; it has no {', '.join(missing)}")
    except (DiskFullError, BackupError):
        raise
    except StorageError as error:
        raise BackupError(f"{source.name} cannot be brought to this version's schema: {error}") from error
    finally:
        database.close()
    backup.make_single_file(prepared)


def _replace(path: Path, prepared: Path) -> Path | None:
    try:
        with _alone(path) as target:
            if not target.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                aside = None
            elif target.execute(backup.IS_OURS).fetchone()[0] < 2:
                raise BackupError(f"{path.name} is a database of something else; `--db` names another file")
            else:
                aside = _copy_aside(target, path)
            with contextlib.closing(backup.open_copy(prepared)) as reading:
                backup.copy_pages(reading, target, None)
            return aside
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        # It cannot be read, which may be why a copy is restored.
        return _move_aside(path, prepared)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[sqlite3.Connection]:
    """The only connection to a database, until it is closed. Raises DatabaseInUseError."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        try:
            # Leaving the write-ahead log, which it also folds in, is allowed to the only connection.
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise DatabaseInUseError(IN_USE) from error
            raise
        yield connection
    finally:
        connection.close()


def _copy_aside(connection: sqlite3.Connection, path: Path) -> Path:
    aside = _free_name(path)
    with backup.partial(aside) as beside:
        with contextlib.closing(sqlite3.connect(beside, isolation_level=None)) as writing:
            writing.execute("PRAGMA synchronous = OFF")
            backup.copy_pages(connection, writing, None)
        backup.put_in_place(beside, aside, force=False)
    return aside


def _move_aside(path: Path, prepared: Path) -> Path | None:
    """As `_replace` without reading what is there; the log of a database that is gone must not become the new one's."""
    aside = _free_name(path)
    with contextlib.ExitStack() as held:
        if path.exists():
            file = held.enter_context(path.open("rb+"))
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCK_BYTES, LOCK_BYTE)
            except OSError as error:
                raise DatabaseInUseError(IN_USE) from error
        moved = [suffix for suffix in (*SIBLINGS, "") if Path(f"{path}{suffix}").exists()]
        for suffix in moved:
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        backup.put_in_place(prepared, path, force=False)
    return aside if "" in moved else None


def _free_name(path: Path) -> Path:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    names = [
        f"{path.name}.before-restore-{now}{suffix}" for suffix in ("", *(f"-{n}" for n in range(2, 100)))
    ]
    return next(free for name in names if not (free := path.with_name(name)).exists())
