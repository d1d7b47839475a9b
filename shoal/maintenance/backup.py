"""Copies of a library while it is in use: whole, checked, and in place only once they are both.

SQLite's own backup copies page by page within one read transaction, so the copy shows one moment whatever is written
meanwhile, and writers do not wait for it. What they write stays in the write-ahead log until the copy is made.
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
from shoal.storage import migrate
from shoal.support.regular_files import is_plain_file

PAGES = 2000
"""Pages copied between two reports of progress: 8 MB, some ten milliseconds."""
BUSY_SECONDS = 30.0
PARTIAL = ".partial"
"""End of the name of a copy that is not whole."""

Watcher = Callable[[int, int], None]
"""Is told bytes copied, and bytes in all."""

COUNT_DOCUMENTS = "SELECT COUNT(*) FROM documents"
REVISION = "SELECT version_num FROM alembic_version"
IS_REVISION = re.compile(r"\d{4}")
IS_OURS = (
    "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name IN ('alembic_version', 'documents')"
)


@dataclass(frozen=True, slots=True)
class Copy:
    """A whole and healthy copy of a library; `schema` is the revision it was made with."""

    path: Path
    n_bytes: int
    n_documents: int
    schema: str


def back_up(source: Path, target: Path, *, force: bool = False, watch: Watcher | None = None) -> Copy:
    """Copy the library at `source` to `target`, which appears only when the copy is whole and healthy.

    A `target` that exists is replaced only with `force`. Raises NotFoundError, BackupError, DiskFullError.
    """
    if not source.exists():
        raise NotFoundError(f"there is no database {source}")
    target = target.absolute()
    check_target(target, source, force=force)
    with failures("the backup"), partial(target) as beside:
        with contextlib.closing(open_copy(source)) as reading:
            # Held for the whole time: without it, every write of another process would make the copy begin anew.
            reading.execute("BEGIN")
            reading.execute("SELECT 1 FROM sqlite_master").fetchall()
            with contextlib.closing(sqlite3.connect(beside, isolation_level=None)) as writing:
                # Until the end nobody knows this file; then it is written out as a whole.
                writing.execute("PRAGMA journal_mode = OFF")
                writing.execute("PRAGMA synchronous = OFF")
                copy_pages(reading, writing, watch)
        make_single_file(beside)
        found = examine(beside)
        put_in_place(beside, target, force=force)
    return Copy(target, target.stat().st_size, found.n_documents, found.schema)


def examine(path: Path) -> Copy:
    """Look whether a file is a library that this version can use, and whole. Raises BackupError that says what not."""
    try:
        with contextlib.closing(open_copy(path)) as connection:
            if connection.execute(IS_OURS).fetchone()[0] < 2:
                raise BackupError(f"{path.name} is not a Shoal database")
            revision = connection.execute(REVISION).fetchone()
            if revision is None or not IS_REVISION.fullmatch(str(revision[0])):
                raise BackupError(f"{path.name} does not say which schema it has; it is not a Shoal database")
            schema = str(revision[0])
            if schema > migrate.HEAD:
                raise BackupError(
                    f"{path.name} was written by a newer Shoal (schema {schema}); this version knows schemas up to "
                    f"{migrate.HEAD}: install the newer one first"
                )
            damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if damage != "ok":
                raise BackupError(f"{path.name} is damaged: {damage.splitlines()[-1]}")
            broken = connection.execute("PRAGMA foreign_key_check").fetchone()
            if broken is not None:
                raise BackupError(f"{path.name} is damaged: rows of {broken[0]} belong to nothing")
            n_documents = int(connection.execute(COUNT_DOCUMENTS).fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise BackupError(f"{path.name} is not a Shoal database, or is damaged ({error})") from error
    return Copy(path, path.stat().st_size, n_documents, schema)


def open_copy(path: Path) -> sqlite3.Connection:
    """A connection that reads a file which exists; also one on a medium that can't be written."""
    try:
        connection = _connect(path, "mode=rw")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # What others write could be missed or half seen this way.
        if Path(f"{path}-wal").exists():
            raise
        connection = _connect(path, "mode=ro&immutable=1")
    return connection


def _connect(path: Path, how: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{how}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    # The file may come from anywhere (sqlite.org/security.html).
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def copy_pages(source: sqlite3.Connection, target: sqlite3.Connection, watch: Watcher | None) -> None:
    """Copy one database over another, which has the old content until all of the new is there."""
    page_size = source.execute("PRAGMA page_size").fetchone()[0]

    def progress(_status: int, remaining: int, total: int) -> None:
        if watch is not None:
            watch((total - remaining) * page_size, total * page_size)

    source.backup(target, pages=PAGES, progress=progress)


def make_single_file(path: Path) -> None:
    """Leave nothing of a database outside its file: a copy is carried about."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()


def check_target(target: Path, source: Path, *, force: bool) -> None:
    """Raise BackupError or DiskFullError where a copy of `source` can't go to `target`."""
    if not target.parent.is_dir():
        raise BackupError(f"there is no folder {target.parent}")
    if target.is_dir():
        raise BackupError(f"{target} is a folder; name a file in it")
    if target.is_symlink() or target.exists():
        if target.exists() and target.samefile(source):
            raise BackupError(f"{target} is the database itself; name another file")
        if not is_plain_file(target):
            raise BackupError(
                f"{target} is no regular file, but a link, a pipe or a device; name another file"
            )
        if not force:
            raise BackupError(f"{target} exists; choose another name, or --force to replace it")
    needed, free = size_of(source), shutil.disk_usage(target.parent).free
    if free < needed:
        raise DiskFullError(f"{target.parent} has {free:,} bytes left; the copy takes about {needed:,}")


def size_of(path: Path) -> int:
    """Bytes of a database with what is not yet folded into its file."""
    files = (path, Path(f"{path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


@contextlib.contextmanager
def partial(target: Path) -> Iterator[Path]:
    """A file beside `target` to write to; what is left of it at the end is removed, and what killed ones have left."""
    _remove_leftovers(target)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PARTIAL}")
    # The lock says that someone lives who writes here. Closed last: closing any descriptor of a file ends SQLite's locks.
    with beside.open("xb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield beside
        finally:
            _remove_with_siblings(beside)


def _remove_leftovers(target: Path) -> None:
    for left in target.parent.glob(f".{_literal(target.name)}.*{PARTIAL}"):
        with contextlib.suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_with_siblings(left)


def _literal(name: str) -> str:
    """A name as a pattern that fits only itself."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _remove_with_siblings(path: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm", ".migrate-lock"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def put_in_place(beside: Path, target: Path, *, force: bool) -> None:
    """Give a whole file its name, durably. Raises BackupError where another one has it by now, without `force`."""
    umask = os.umask(0)
    os.umask(umask)
    beside.chmod(0o666 & ~umask)
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    if force:
        beside.replace(target)
    else:
        try:
            os.link(beside, target)
        except FileExistsError:
            raise BackupError(
                f"{target} exists by now; choose another name, or --force to replace it"
            ) from None
        except OSError:
            # A file system without links, such as that of a memory stick.
            beside.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were given in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def failures(what: str) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into ours."""
    try:
        yield
    except sqlite3.Error as error:
        if "full" in str(error):
            raise DiskFullError(f"there is no space left on the disk; {what} was not made") from error
        raise BackupError(f"{what} was not made: {error}") from error
    except OSError as error:
        raise BackupError(f"{what} was not made: {error.strerror or error}") from error
