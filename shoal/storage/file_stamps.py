"""The files of synchronized folders as they were when they were read: rows of `file_stamps`.

A file with an equal stamp is not read again. The rows are a cache: without them, every file is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from shoal.storage.database import Database, Snapshot

WRITTEN_TOGETHER = 5000
"""Rows of one transaction, about 50 ms."""

# The bounds are the folder followed by `/`, and by the character after `/`.
BELOW = """
    SELECT path, size, mtime_ns, ctime_ns, file_hash FROM file_stamps
    WHERE path >= :first AND path < :end AND basis = :basis
"""
WRITE = """
    INSERT INTO file_stamps (path, size, mtime_ns, ctime_ns, basis, file_hash)
    VALUES (:path, :size, :mtime_ns, :ctime_ns, :basis, :file_hash)
    ON CONFLICT (path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns,
        ctime_ns = excluded.ctime_ns, basis = excluded.basis, file_hash = excluded.file_hash
"""
DELETE = "DELETE FROM file_stamps WHERE path = :path"


class Stamp(NamedTuple):
    """What the file system says of a file: its size in bytes, and its times of modification and change of
    content, name or rights, in nanoseconds since the epoch."""

    size: int
    mtime_ns: int
    ctime_ns: int


class StampedFile(NamedTuple):
    """A stamp, and the hash that shows a change of the file (`shoal.maintenance.sync.folder.hash_of`)."""

    stamp: Stamp
    file_hash: str


def stamps_below(snapshot: Snapshot, root: str, basis: str) -> dict[str, StampedFile]:
    """Return the files of a folder by path. `basis`: what their hashes depend on besides the bytes."""
    root = root.rstrip("/")
    rows = snapshot.tuples(BELOW, {"first": f"{root}/", "end": f"{root}0", "basis": basis})
    return {path: StampedFile(Stamp(*stamp), file_hash) for path, *stamp, file_hash in rows}


def write_stamps(
    database: Database, files: Mapping[str, StampedFile], gone: Iterable[str], basis: str
) -> None:
    """Write the files by path, and forget those that are gone."""
    writes = (
        (
            WRITE,
            (
                {"path": path, "basis": basis, "file_hash": file.file_hash, **file.stamp._asdict()}
                for path, file in files.items()
            ),
        ),
        (DELETE, ({"path": path} for path in gone)),
    )
    for statement, rows in writes:
        for group in _groups(rows):
            with database.write() as transaction:
                transaction.write_many(statement, group)


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while group := list(islice(rows, WRITTEN_TOGETHER)):
        yield group
