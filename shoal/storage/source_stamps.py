"""What sources said when they were read, so that nothing unchanged is read again.

`file_stamps` has the files of synchronized folders, and is a cache: without its rows, every file is read.
`fetched_pages` has what servers said of pages. A row counts as long as its document has the content that was
fetched, converted as this version does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from shoal.models.documents import Validators
from shoal.storage.database import Database, Snapshot, Transaction

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
DELETE_STAMP = "DELETE FROM file_stamps WHERE path = :path"


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
        (DELETE_STAMP, ({"path": path} for path in gone)),
    )
    for statement, rows in writes:
        for group in _groups(rows):
            with database.write() as transaction:
                transaction.write_many(statement, group)


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while group := list(islice(rows, WRITTEN_TOGETHER)):
        yield group


FIND = """
    SELECT p.document_id, p.etag, p.last_modified
    FROM fetched_pages p JOIN documents d ON d.id = p.document_id AND d.content_hash = p.content_hash
    WHERE p.url = :url AND p.converter = :converter AND d.chunk_tokens = :chunk_tokens
"""
PUT = """
    INSERT INTO fetched_pages (url, document_id, content_hash, converter, etag, last_modified, checked_at)
    SELECT :url, id, content_hash, :converter, :etag, :last_modified, :now
    FROM documents WHERE id = :document_id
    ON CONFLICT (url) DO UPDATE SET document_id = excluded.document_id, content_hash = excluded.content_hash,
        converter = excluded.converter, etag = excluded.etag, last_modified = excluded.last_modified,
        checked_at = excluded.checked_at
"""
DELETE_PAGE = "DELETE FROM fetched_pages WHERE url = :url"
TOUCH = "UPDATE fetched_pages SET checked_at = :now WHERE url = :url"


class FetchedPage(NamedTuple):
    """The document that a page became or duplicates, and the version of the page."""

    document_id: int
    validators: Validators


def find_page(snapshot: Snapshot, url: str, converter: int, chunk_tokens: str) -> FetchedPage | None:
    """Return the version of a page that is stored, cut with `chunk_tokens`; None if it is not known."""
    row = snapshot.first(FIND, {"url": url, "converter": converter, "chunk_tokens": chunk_tokens})
    return None if row is None else FetchedPage(row[0], Validators(row[1], row[2]))


def write_page(
    transaction: Transaction, url: str, document_id: int, validators: Validators, converter: int, *, now: str
) -> None:
    """Write the version of a page that an existing document has now; without validators, forget the page."""
    if validators == (None, None):
        transaction.execute(DELETE_PAGE, {"url": url})
        return
    row = {"url": url, "document_id": document_id, "converter": converter, "now": now}
    transaction.execute(PUT, {**row, **validators._asdict()})


def touch_page(transaction: Transaction, url: str, *, now: str) -> None:
    """Write that a page has not changed."""
    transaction.execute(TOUCH, {"url": url, "now": now})
