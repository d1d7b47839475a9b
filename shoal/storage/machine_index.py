"""The records of a machine's own index, in a small file beside its segments.

The library notes each change of a document with a revision. The machine copies what is new (`follow`), writes
segments, and notes here what they hold. A search looks at a snapshot of the library first and at these
records next, so one may be ahead of the other by a moment:

- Changes after the followed revision come from the snapshot itself.
- A document that changed after the snapshot counts as not indexed, and is read from the snapshot.

Revisions grow with every commit, because writers of a library take turns. They can go back only if the
database was replaced by an older one: by a failover that lost commits, by a restore, or by another library.
Then, and if the machine was away for so long that deletions are no longer noted, all documents are compared
with what was followed, and those that differ are indexed again.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.errors import DamagedDatabaseError, DatabaseUnavailableError, SchemaError
from shoal.storage import index_tables
from shoal.storage.database import IDS_PER_STATEMENT, Database, Query, Snapshot, Transaction, listed
from shoal.storage.index_records import (
    IndexRecords,
    IndexView,
    IndexWriter,
    Lag,
    NewSegment,
    VectorsFile,
    Version,
)
from shoal.storage.index_tables import ALL, Changes, OpenChange, SegmentRow, State
from shoal.storage.sqlite.database import SqliteDatabase

FILE_NAME = "index.db"
FORMAT = 1
"""Another one is deleted and made anew."""
TABLES = (
    """CREATE TABLE segments (
        id             INTEGER PRIMARY KEY AUTOINCREMENT,
        revision       INTEGER NOT NULL,
        n_documents    INTEGER NOT NULL,
        n_chunks       INTEGER NOT NULL,
        n_bytes        INTEGER NOT NULL,
        file_name      TEXT NOT NULL,
        vectors_file   TEXT,
        vectors_reset  INTEGER NOT NULL
    )""",
    """CREATE TABLE documents (
        id         INTEGER PRIMARY KEY,       -- of every document that was ever followed
        revision   INTEGER NOT NULL,          -- of the last change
        changed_at REAL NOT NULL,
        state      INTEGER NOT NULL           -- of the change, for segments: CLOSED, OPEN or SETTLED
    )""",
    "CREATE INDEX idx_documents_revision ON documents(revision)",
    "CREATE INDEX idx_documents_state ON documents(state) WHERE state < 2",
    # Ahead of what was followed, `revision` is -1.
    """CREATE TABLE followed (
        id                INTEGER PRIMARY KEY CHECK (id = 1),
        revision          INTEGER NOT NULL,
        epoch             TEXT NOT NULL,
        timeline          INTEGER NOT NULL,
        vectors_revision  INTEGER NOT NULL,
        generation        INTEGER NOT NULL,   -- counts comparisons of all documents
        number            INTEGER NOT NULL    -- grows with every change of these records
    )""",
    "INSERT INTO followed VALUES (1, -1, '', 0, -1, 0, 0)",
)
OPEN, CLOSED, SETTLED = 0, 1, 2
"""In no segment; in one, or deleted; and the same where no older segment has another state of it."""

FOLLOWED = "SELECT revision, epoch, timeline, vectors_revision, generation, number FROM followed"
SET_FOLLOWED = """
    UPDATE followed SET revision = :revision, epoch = :epoch, timeline = :timeline, number = number + 1
"""
SET_VECTORS_REVISION = "UPDATE followed SET vectors_revision = :revision, number = number + 1"
COUNT_UP = "UPDATE followed SET number = number + 1"
SEGMENTS = """
    SELECT id, revision, n_documents, n_chunks, n_bytes, file_name,
           CASE WHEN vectors_reset >= :reset THEN vectors_file END
    FROM segments ORDER BY id
"""
INSERT_SEGMENT = """
    INSERT INTO segments (revision, n_documents, n_chunks, n_bytes, file_name, vectors_file, vectors_reset)
    VALUES (:revision, :n_documents, :n_chunks, :n_bytes, :file_name, :vectors_file, :vectors_reset)
"""
SET_VECTORS = """
    UPDATE segments SET vectors_file = :vectors_file, vectors_reset = :vectors_reset WHERE id = :id
"""
COUNT_SEGMENTS = "SELECT COUNT(*) FROM segments WHERE id IN ({ids})"
DELETE_SEGMENTS = "DELETE FROM segments WHERE id IN ({ids})"
NOTED = "SELECT id, revision, state, changed_at FROM documents WHERE state < 2"
LATER = "SELECT id FROM documents WHERE revision > :revision"
NOTE = """
    INSERT INTO documents (id, revision, changed_at, state) VALUES (?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, changed_at = excluded.changed_at,
        state = excluded.state
"""
CLOSE = f"UPDATE documents SET state = {CLOSED} WHERE id = ? AND revision = ? AND state = {OPEN}"
SETTLE = f"UPDATE documents SET state = {SETTLED} WHERE id = ? AND revision = ? AND state = {CLOSED}"
ALL_FOLLOWED = "SELECT id, revision, changed_at, state FROM documents"
START_AGAIN = (
    "DELETE FROM segments",
    "DELETE FROM documents",
    "UPDATE followed SET revision = -1, vectors_revision = -1, number = number + 1",
)

# Of the library.
NEW_CHANGES = """
    SELECT c.document_id, c.revision, c.changed_at, d.id IS NULL
    FROM changed_documents c LEFT JOIN documents d ON d.id = c.document_id
    WHERE c.revision > :revision ORDER BY c.document_id
"""
ALL_DOCUMENTS = """
    SELECT d.id, COALESCE(c.revision, 0), COALESCE(c.changed_at, 0)
    FROM documents d LEFT JOIN changed_documents c ON c.document_id = d.id
"""
DELETIONS = """
    SELECT c.document_id, c.revision, c.changed_at
    FROM changed_documents c LEFT JOIN documents d ON d.id = c.document_id WHERE d.id IS NULL
"""
SIZES = "SELECT id, n_chunks, n_bytes FROM documents WHERE id IN ({ids})"
PRESENT = "SELECT id FROM documents WHERE id IN ({ids})"
NEW_VECTORS = "SELECT chunk_id FROM unindexed_vectors WHERE revision > :revision ORDER BY chunk_id"
# Another one after each failover. A standby knows it from its last restart point.
TIMELINE = """
    SELECT CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
                ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END,
           pg_is_in_recovery()
"""


class _Followed(NamedTuple):
    revision: int
    epoch: str
    timeline: int
    vectors_revision: int
    generation: int
    number: int


class _Library(NamedTuple):
    """The state of the library in a snapshot."""

    state: State
    timeline: int
    is_standby: bool

    def continues(self, followed: _Followed) -> bool:
        """Whether the changes after what was followed are all noted, and what was followed still holds."""
        return (
            (self.state.epoch, self.timeline) == (followed.epoch, followed.timeline)
            and followed.revision >= self.state.pruned_revision
            and followed.revision >= 0
        )


class MachineRecords(IndexRecords):
    """Records in a file of this machine."""

    queries = (Query(index_tables.STATE), Query(TIMELINE))

    def __init__(self, database: Database, folder: Path) -> None:
        """`folder`: of the index. Raises DatabaseUnavailableError."""
        self._database = weakref.ref(database)
        self.path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._opened: SqliteDatabase | None = None

    @property
    def _library(self) -> Database:
        database = self._database()
        assert database is not None, "the caller has it"
        return database

    @property
    def _records(self) -> SqliteDatabase:
        with self._lock:
            if self._opened is None or not self.path.exists():
                self._opened = _open(self.path)
            return self._opened

    @contextmanager
    def view(self, snapshot: Snapshot) -> Iterator[IndexView]:
        with self._records.snapshot(limited=False) as records:
            yield _MachineView(snapshot, self._state_of(snapshot), records)

    @contextmanager
    def write(self) -> Iterator[IndexWriter]:
        with self._records.write() as records:
            yield _MachineWriter(records)
            records.execute(COUNT_UP)

    def alone_if_free(self) -> AbstractContextManager[bool]:
        return self._records.alone_if_free("write")

    def follow(self) -> None:
        with self._library.snapshot(limited=False) as snapshot:
            library = self._state_of(snapshot)
            with self._records.write() as records:
                followed = _Followed(*records.first(FOLLOWED))
                if library.continues(followed) and library.state.revision >= followed.revision:
                    rows = snapshot.tuples(NEW_CHANGES, {"revision": followed.revision})
                    noted = [(row[0], row[1], row[2], CLOSED if row[3] else OPEN) for row in rows]
                    if not noted and library.state.revision == followed.revision:
                        return
                    records.write_many(NOTE, noted)
                elif library.continues(followed) and library.is_standby:
                    # A standby that is behind the one followed before: it catches up.
                    return
                else:
                    _compare(snapshot, records, library)
                records.execute(
                    SET_FOLLOWED,
                    {
                        "revision": library.state.revision,
                        "epoch": library.state.epoch,
                        "timeline": library.timeline,
                    },
                )

    def vectors_joined(self, revision: int) -> None:
        with self._records.write() as records:
            if _Followed(*records.first(FOLLOWED)).vectors_revision != revision:
                records.execute(SET_VECTORS_REVISION, {"revision": revision})

    def is_state_common(self) -> bool:
        return self._records.is_state_common()

    def _state_of(self, snapshot: Snapshot) -> _Library:
        snapshot.prefetch(self.queries)
        state = index_tables.state(snapshot)
        if self._library.is_sqlite:
            return _Library(state, timeline=0, is_standby=False)
        timeline, is_standby = snapshot.first(TIMELINE)
        return _Library(state, timeline, is_standby)


def _compare(snapshot: Snapshot, records: Transaction, library: _Library) -> None:
    """Compare all documents of the library with those followed, and note the ones that differ.

    Revisions of the library may have gone back, so those of segments mean nothing any more: every document
    that is noted is hidden in all of them.
    """
    before = {row[0]: tuple(row[1:]) for row in records.tuples(ALL_FOLLOWED)}
    noted: list[tuple[int, int, float, int]] = []
    for document_id, revision, changed_at in snapshot.tuples(ALL_DOCUMENTS):
        known = before.pop(document_id, None)
        if known is None or known[:2] != (revision, changed_at) or known[2] != SETTLED:
            noted.append((document_id, revision, changed_at, OPEN))
    # A snapshot from before a deletion may come, of a standby that is behind.
    deleted = {row[0]: (*row, CLOSED) for row in snapshot.tuples(DELETIONS)}
    for document_id in before.keys() - deleted.keys():
        deleted[document_id] = document_id, library.state.revision, 0.0, CLOSED
    noted += deleted.values()
    records.write_many(NOTE, noted)
    records.execute("UPDATE segments SET revision = -1, vectors_file = NULL")
    records.execute(SET_VECTORS_REVISION, {"revision": -1})
    records.execute("UPDATE followed SET generation = generation + 1")


class _MachineView(IndexView):
    def __init__(self, snapshot: Snapshot, library: _Library, records: Snapshot) -> None:
        super().__init__(snapshot)
        self._library = library
        self._records = records
        self._followed = _Followed(*records.first(FOLLOWED))
        self._is_continued = library.continues(self._followed)

    @property
    def version(self) -> Version:
        generation = self._followed.generation if self._is_continued else -1
        return Version(generation, self._library.state.revision, self._followed.number)

    @property
    def is_followed(self) -> bool:
        return self._is_continued

    def segments(self) -> list[SegmentRow]:
        if not self._is_continued:
            return []
        reset = {"reset": self._library.state.vectors_reset}
        return [SegmentRow(*row) for row in self._records.tuples(SEGMENTS, reset)]

    @functools.cached_property
    def _noted(self) -> dict[int, tuple[int, int, float, bool]]:
        """By document: the revision of its last change, its state, the time of the change, and whether it
        came after the snapshot."""
        if not self._is_continued:
            rows = self.snapshot.tuples(ALL_DOCUMENTS)
            return {row[0]: (row[1], OPEN, row[2], False) for row in rows}
        noted = {row[0]: (row[1], row[2], row[3], False) for row in self._records.tuples(NOTED)}
        here, followed = self._library.state.revision, self._followed.revision
        if here > followed:
            for row in self.snapshot.tuples(NEW_CHANGES, {"revision": followed}):
                noted[row[0]] = row[1], CLOSED if row[3] else OPEN, row[2], False
        elif here < followed:
            later = [row[0] for row in self._records.tuples(LATER, {"revision": here})]
            present = set(_by_ids(self.snapshot, PRESENT, later))
            for document_id in later:
                state = OPEN if (document_id,) in present else CLOSED
                noted[document_id] = here, state, 0.0, True
        return noted

    @functools.cached_property
    def _open(self) -> list[int]:
        return sorted(document_id for document_id, noted in self._noted.items() if noted[1] == OPEN)

    def changes(self) -> Changes:
        ids = sorted(self._noted)
        rows = [self._noted[document_id] for document_id in ids]
        return Changes(
            np.array(ids, dtype=np.int64),
            np.array([row[0] for row in rows], dtype=np.int64),
            np.array([row[1] != OPEN for row in rows], dtype=np.bool_),
            np.array([row[3] for row in rows], dtype=np.bool_),
        )

    def open_changes(self, limit: int = ALL) -> list[OpenChange]:
        return self._with_sizes(self._open if limit == ALL else self._open[:limit])

    def _with_sizes(self, ids: Sequence[int]) -> list[OpenChange]:
        return [
            OpenChange(document_id, self._noted[document_id][0], n_chunks, n_bytes)
            for document_id, n_chunks, n_bytes in sorted(_by_ids(self.snapshot, SIZES, ids))
        ]

    def due_changes(self, limit: int = ALL) -> tuple[list[OpenChange], int]:
        """Of what was followed: a segment with a change that comes after it would have it twice."""
        followed = self._followed.revision
        if not self._is_continued or self.revision < followed:
            return [], followed
        later = {row[0] for row in self.snapshot.tuples(NEW_CHANGES, {"revision": followed})}
        ids = [document_id for document_id in self._open if document_id not in later]
        return self._with_sizes(ids if limit == ALL else ids[:limit]), followed

    def count_open(self) -> int:
        return len(self._open)

    def waiting_vectors(self) -> list[int]:
        revision = self._followed.vectors_revision if self._is_continued else -1
        return [row[0] for row in self.snapshot.tuples(NEW_VECTORS, {"revision": revision})]

    def lag(self) -> Lag:
        times = [self._noted[document_id][2] for document_id in self._open]
        times = [moment for moment in times if moment]
        return Lag(len(self._open), max(0.0, self.snapshot.now() - min(times)) if times else 0.0)


def _by_ids(snapshot: Snapshot, statement: str, ids: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        names, parameters = listed("id", ids[start : start + IDS_PER_STATEMENT])
        yield from snapshot.tuples(statement.format(ids=names), parameters)


class _MachineWriter(IndexWriter):
    def __init__(self, records: Transaction) -> None:
        self._records = records

    def add(self, segment: NewSegment) -> None:
        values = segment._asdict()
        file: VectorsFile = values.pop("vectors")
        vectors = {"vectors_file": file.name, "vectors_reset": file.reset}
        self._records.execute(INSERT_SEGMENT, {**values, **vectors})

    def close(self, changes: Iterable[OpenChange]) -> None:
        self._records.write_many(CLOSE, [(change.document_id, change.revision) for change in changes])

    def forget(self, changes: Iterable[tuple[int, int]]) -> None:
        self._records.write_many(SETTLE, list(changes))

    def delete_segments(self, ids: Sequence[int]) -> bool:
        names, parameters = listed("id", ids)
        if self._records.value(COUNT_SEGMENTS.format(ids=names), parameters) != len(ids):
            return False
        self._records.execute(DELETE_SEGMENTS.format(ids=names), parameters)
        return True

    def set_vectors(self, segment_id: int, file: VectorsFile) -> bool:
        row = {"id": segment_id, "vectors_file": file.name, "vectors_reset": file.reset}
        return bool(self._records.execute(SET_VECTORS, row))

    def mark_vectors(self, chunk_ids: Sequence[int]) -> None:
        """Do nothing: `vectors_joined` notes the revision up to which all are in files."""

    def forget_vectors(self) -> None:
        self._records.execute("UPDATE segments SET vectors_file = NULL")
        self._records.execute(SET_VECTORS_REVISION, {"revision": -1})

    def start_again(self) -> None:
        for statement in START_AGAIN:
            self._records.execute(statement)


def _open(path: Path) -> SqliteDatabase:
    """Open the file of the records; make it anew if it is damaged or of another format."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnavailableError(f"the index cannot be written: {error.strerror}") from error
    opened = SqliteDatabase(f"sqlite:///{path}")
    with opened.alone("open"):
        try:
            if _is_ready(opened):
                return opened
        except (DamagedDatabaseError, SchemaError):
            pass
        opened.close()
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").unlink()
        opened = SqliteDatabase(f"sqlite:///{path}")
        with opened.write() as transaction:
            for statement in TABLES:
                transaction.execute(statement)
            transaction.execute(f"PRAGMA user_version = {FORMAT}")
    return opened


def _is_ready(opened: SqliteDatabase) -> bool:
    with opened.snapshot() as snapshot:
        if snapshot.value("PRAGMA user_version") != FORMAT:
            return False
        return snapshot.first(FOLLOWED) is not None


_OPENED: weakref.WeakKeyDictionary[Database, MachineRecords] = weakref.WeakKeyDictionary()


def machine_records(database: Database) -> MachineRecords:
    """Return the records of this machine for a library, one object for each `database`."""
    records = _OPENED.get(database)
    if records is None:
        records = _OPENED[database] = MachineRecords(database, database.index_folder)
    return records
