"""What is indexed: the segments of this machine, and the changes of the library that they do not have.

A library in one SQLite file has the records among its own tables (`LibraryRecords`), so that a snapshot shows
documents and index together. Machines that share a database keep records of their own (`machine_index.py`).

A token says what was written, so that a search on a replica can wait until it has it. On PostgreSQL it is a
position of the write-ahead log, on SQLite the revision of the library.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar, NamedTuple

from shoal.errors import InvalidFieldError
from shoal.storage import index_tables, vectors
from shoal.storage.database import Database, Query, Snapshot, Transaction
from shoal.storage.index_tables import ALL, NO_VECTORS, Changes, OpenChange, SegmentRow

POSITION = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")
REVISION = re.compile(r"[0-9]{1,18}")
CURRENT = "SELECT CAST(pg_current_wal_lsn() AS text)"
# A primary has everything.
HAS = """
    SELECT NOT pg_is_in_recovery() OR COALESCE(pg_last_wal_replay_lsn() >= CAST(:token AS pg_lsn), false)
"""


class Version(NamedTuple):
    """A state of a library and its index. Equal ones mean equal results, and later ones are greater.

    generation  another one where revisions of the library may have gone back
    revision    of the library
    number      of the state of the index
    """

    generation: int
    revision: int
    number: int


class VectorsFile(NamedTuple):
    """The file of the vectors of a segment, NO_VECTORS without any.

    epoch  of the vectors; None if the library has none
    reset  `vectors_reset` of the library when they were read
    """

    name: str
    epoch: str | None
    reset: int


NOT_WRITTEN = VectorsFile(NO_VECTORS, None, 0)


class NewSegment(NamedTuple):
    """A segment whose files are complete, with its size."""

    revision: int
    n_documents: int
    n_chunks: int
    n_bytes: int
    file_name: str
    vectors: VectorsFile


class Lag(NamedTuple):
    """How far the index is behind the library: documents that are in no segment, and the seconds since the
    oldest of these changes, by the store's clock."""

    n_documents: int
    seconds: float


class IndexView(ABC):
    """What is indexed, as of a snapshot of the library."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    @property
    @abstractmethod
    def version(self) -> Version: ...

    @property
    def revision(self) -> int:
        """The revision of the library in the snapshot."""
        return self.version.revision

    @property
    def is_followed(self) -> bool:
        """Whether the records belong to this library; otherwise `follow` has to compare all documents."""
        return True

    @abstractmethod
    def segments(self) -> list[SegmentRow]:
        """Return all segments, oldest first."""

    @abstractmethod
    def changes(self) -> Changes:
        """Return the changes that segments do not have, ascending by document."""

    @abstractmethod
    def open_changes(self, limit: int = ALL) -> list[OpenChange]:
        """Return the first changes, by document, whose new state is in no segment."""

    def due_changes(self, limit: int = ALL) -> tuple[list[OpenChange], int]:
        """Return the first of the open changes that a segment may take now, and its revision."""
        return self.open_changes(limit), self.revision

    @abstractmethod
    def count_open(self) -> int:
        """Count the documents that are to be indexed."""

    def is_any_open(self) -> bool:
        """Whether any document is to be indexed."""
        return self.count_open() > 0

    @abstractmethod
    def waiting_vectors(self) -> list[int]:
        """Return the chunks whose vectors may be in no file, ascending."""

    @abstractmethod
    def lag(self) -> Lag: ...


class IndexWriter(ABC):
    """A transaction that changes the records."""

    @abstractmethod
    def add(self, segment: NewSegment) -> None: ...

    @abstractmethod
    def close(self, changes: Iterable[OpenChange]) -> None:
        """Mark documents as indexed, unless they changed again."""

    @abstractmethod
    def forget(self, changes: Iterable[tuple[int, int]]) -> None:
        """Leave out changes, given as document and revision, that no segment needs any more."""

    @abstractmethod
    def delete_segments(self, ids: Sequence[int]) -> bool:
        """Delete segments; False, having deleted nothing, if any of them is gone already."""

    @abstractmethod
    def set_vectors(self, segment_id: int, file: VectorsFile) -> bool:
        """Name the file of the vectors of a segment; False if the segment or the epoch is gone."""

    @abstractmethod
    def mark_vectors(self, chunk_ids: Sequence[int]) -> None:
        """Note that files have the vectors of these chunks."""

    @abstractmethod
    def forget_vectors(self) -> None:
        """Let no segment have vectors, until they are looked for again."""

    @abstractmethod
    def start_again(self) -> None:
        """Delete all segments, so that all documents are indexed again."""


class IndexRecords(ABC):
    """The records of the index of a library on this machine.

    `queries`: what `view` reads of the snapshot, for its `prefetch`.
    """

    queries: ClassVar[tuple[Query, ...]] = (Query(index_tables.REVISION),)

    @abstractmethod
    def view(self, snapshot: Snapshot) -> AbstractContextManager[IndexView]:
        """What is indexed, as of a snapshot of the library."""

    @contextmanager
    def newest(self, database: Database) -> Iterator[IndexView]:
        """What is indexed, as of now."""
        with database.snapshot(limited=False) as snapshot, self.view(snapshot) as view:
            yield view

    @abstractmethod
    def write(self) -> AbstractContextManager[IndexWriter]:
        """Change the records: commit at the end of the block, roll back if it raises."""

    @abstractmethod
    def alone_if_free(self) -> AbstractContextManager[bool]:
        """Be the only process of this machine that writes segments; False at once if another one is."""

    @abstractmethod
    def follow(self) -> None:
        """Note what has changed in the library. Only who is alone calls it."""

    @abstractmethod
    def vectors_joined(self, revision: int) -> None:
        """Note that all segments have the vectors as of a revision of the library."""

    @abstractmethod
    def is_state_common(self) -> bool:
        """Whether nobody reads an older state of the records than the present one."""


class LibraryRecords(IndexRecords):
    """Records among the tables of the library itself."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def view(self, snapshot: Snapshot) -> Iterator[IndexView]:
        yield _LibraryView(snapshot)

    @contextmanager
    def write(self) -> Iterator[IndexWriter]:
        with self._database.write() as transaction:
            yield _LibraryWriter(transaction)

    def alone_if_free(self) -> AbstractContextManager[bool]:
        return self._database.alone_if_free("index")

    def follow(self) -> None:
        """Do nothing: the changes are noted where they are made."""

    def vectors_joined(self, revision: int) -> None:
        """Do nothing: `mark_vectors` has noted each."""

    def is_state_common(self) -> bool:
        return self._database.is_state_common()


class _LibraryView(IndexView):
    @property
    def version(self) -> Version:
        return Version(0, index_tables.revision(self.snapshot), 0)

    def segments(self) -> list[SegmentRow]:
        return index_tables.segments(self.snapshot)

    def changes(self) -> Changes:
        return index_tables.changes(self.snapshot)

    def open_changes(self, limit: int = ALL) -> list[OpenChange]:
        return index_tables.open_changes(self.snapshot, limit)

    def count_open(self) -> int:
        return index_tables.count_open(self.snapshot)

    def is_any_open(self) -> bool:
        return index_tables.is_any_open(self.snapshot)

    def waiting_vectors(self) -> list[int]:
        return vectors.unindexed(self.snapshot)

    def lag(self) -> Lag:
        oldest = index_tables.oldest_open(self.snapshot)
        return Lag(self.count_open(), 0.0 if oldest is None else max(0.0, self.snapshot.now() - oldest))


class _LibraryWriter(IndexWriter):
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def add(self, segment: NewSegment) -> None:
        values = segment._asdict()
        file = values.pop("vectors")
        index_tables.add_segment(self._transaction, **values, vectors_file=self._name(file))

    def _name(self, file: VectorsFile) -> str | None:
        """None if the vectors are of another epoch by now."""
        stored = vectors.encoder(self._transaction)
        return file.name if stored is not None and stored.epoch == file.epoch else None

    def close(self, changes: Iterable[OpenChange]) -> None:
        index_tables.close_changes(self._transaction, changes)

    def forget(self, changes: Iterable[tuple[int, int]]) -> None:
        index_tables.forget_changes(self._transaction, changes)

    def delete_segments(self, ids: Sequence[int]) -> bool:
        return index_tables.delete_segments(self._transaction, ids)

    def set_vectors(self, segment_id: int, file: VectorsFile) -> bool:
        name = self._name(file)
        return name is not None and index_tables.set_vectors_file(self._transaction, segment_id, name)

    def mark_vectors(self, chunk_ids: Sequence[int]) -> None:
        vectors.mark_indexed(self._transaction, chunk_ids)

    def forget_vectors(self) -> None:
        index_tables.forget_vector_files(self._transaction)

    def start_again(self) -> None:
        index_tables.start_again(self._transaction)


def open_records(database: Database) -> IndexRecords:
    """Return the records of the index of a library on this machine."""
    if database.has_index_records:
        return LibraryRecords(database)
    from shoal.storage.machine_index import machine_records

    return machine_records(database)


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
