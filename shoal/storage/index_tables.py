"""The rows of the search index: segments, and documents that changed after they were indexed.

A revision counts the changes of the library. Every transaction that changes what a search could find notes
the documents with a new revision. A segment holds its documents as they were at its own revision, so a
document in it is outdated if it changed later. Segments are immutable: an outdated document is hidden until a
merge leaves it out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedDatabaseError
from shoal.storage.database import Snapshot, Transaction, listed

TABLES = frozenset({"index_segments", "changed_documents", "index_state"})

REVISION = "SELECT revision FROM index_state"
NEXT_REVISION = "UPDATE index_state SET revision = revision + 1 RETURNING revision"
NOTE_CHANGE = """
    INSERT INTO changed_documents (document_id, revision, is_indexed, changed_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (document_id) DO UPDATE SET revision = excluded.revision, is_indexed = excluded.is_indexed,
        changed_at = excluded.changed_at
"""
STATE = "SELECT revision, epoch, pruned_revision, vectors_reset FROM index_state"
OLDEST_OPEN = """
    SELECT MIN(o.changed_at) FROM changed_documents o JOIN documents d ON d.id = o.document_id
    WHERE o.is_indexed = 0
"""
SET_EPOCH = "UPDATE index_state SET epoch = :epoch"
RESET_VECTORS = "UPDATE index_state SET revision = revision + 1, vectors_reset = revision + 1"
SEGMENTS = """
    SELECT id, revision, n_documents, n_chunks, n_bytes, file_name, vectors_file
    FROM index_segments ORDER BY id
"""
CHANGES = "SELECT document_id, revision, is_indexed FROM changed_documents ORDER BY document_id"
OPEN_CHANGES = """
    SELECT o.document_id, o.revision, d.n_chunks, d.n_bytes
    FROM changed_documents o JOIN documents d ON d.id = o.document_id
    WHERE o.is_indexed = 0 ORDER BY o.document_id LIMIT :limit
"""
COUNT_OPEN = """
    SELECT COUNT(*) FROM changed_documents o JOIN documents d ON d.id = o.document_id WHERE o.is_indexed = 0
"""
IS_ANY_OPEN = f"SELECT EXISTS ({COUNT_OPEN.replace('COUNT(*)', '1')})"
INSERT_SEGMENT = """
    INSERT INTO index_segments (revision, n_documents, n_chunks, n_bytes, file_name, vectors_file)
    VALUES (:revision, :n_documents, :n_chunks, :n_bytes, :file_name, :vectors_file)
"""
SET_VECTOR_FILE = "UPDATE index_segments SET vectors_file = :vectors_file WHERE id = :id"
FORGET_VECTOR_FILES = "UPDATE index_segments SET vectors_file = NULL"
CLOSE_CHANGE = "UPDATE changed_documents SET is_indexed = 1 WHERE document_id = ? AND revision = ?"
FORGET_CHANGE = "DELETE FROM changed_documents WHERE document_id = ? AND revision = ? AND is_indexed = 1"
DELETE_SEGMENTS = "DELETE FROM index_segments WHERE id IN ({ids})"
COUNT_AMONG = "SELECT COUNT(*) FROM index_segments WHERE id IN ({ids})"
START_AGAIN = (
    "INSERT INTO index_state (id, revision) VALUES (1, 0) ON CONFLICT (id) DO NOTHING",
    "UPDATE index_state SET revision = revision + 1",
    "DELETE FROM index_segments",
    "DELETE FROM changed_documents",
    """INSERT INTO changed_documents (document_id, revision, is_indexed)
        SELECT d.id, s.revision, 0 FROM documents d, index_state s""",
)

# Notes of deletions that every follower of the last days has seen, and of vectors likewise.
SETTLED_REVISION = "SELECT MAX(revision) FROM changed_documents WHERE changed_at < :before"
PRUNE_DELETIONS = """
    DELETE FROM changed_documents WHERE revision <= :revision
      AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = changed_documents.document_id)
"""
PRUNE_VECTORS = "DELETE FROM unindexed_vectors WHERE revision <= :revision"
SET_PRUNED = """
    UPDATE index_state SET pruned_revision = :revision WHERE pruned_revision < :revision
"""

ALL = -1
NO_VECTORS = ""


class SegmentRow(NamedTuple):
    """A segment: the revision of its documents, its size, and its files in the folder of the index.

    `vectors_file` is NO_VECTORS if no chunk has a vector, and None if nobody looked for them.
    """

    id: int
    revision: int
    n_documents: int
    n_chunks: int
    n_bytes: int
    file_name: str
    vectors_file: str | None

    @property
    def file_names(self) -> list[str]:
        """The names of its files."""
        return [name for name in (self.file_name, self.vectors_file) if name]


class OpenChange(NamedTuple):
    """A document whose newest state is in no segment."""

    document_id: int
    revision: int
    n_chunks: int
    n_bytes: int


class Changes(NamedTuple):
    """The documents that changed after they were first indexed, and those in no segment.

    document_ids  i64 (n,), ascending
    revisions     i64 (n,): of the last change
    is_indexed    bool (n,): a segment holds the new state, or the document was deleted
    is_later      bool (n,): the last change came after the snapshot, so no segment is known to hold the state
                  in the snapshot; None if no change did
    """

    document_ids: NDArray[np.int64]
    revisions: NDArray[np.int64]
    is_indexed: NDArray[np.bool_]
    is_later: NDArray[np.bool_] | None = None


def revision(snapshot: Snapshot) -> int:
    """Read the revision of the library: equal revisions mean equal segments and changes."""
    number: int = snapshot.value(REVISION)
    return number


def note_changes(transaction: Transaction, document_ids: Iterable[int], *, deleted: bool = False) -> None:
    """Note that what searches find of these documents has changed."""
    number, now = transaction.value(NEXT_REVISION), transaction.now()
    rows = [(document_id, number, int(deleted), now) for document_id in document_ids]
    transaction.write_many(NOTE_CHANGE, rows)


class State(NamedTuple):
    """The state of the library that followers compare with theirs.

    revision         counts its changes
    epoch            random; another one whenever everything has to be indexed again
    pruned_revision  deletions and vectors up to it are no longer noted
    vectors_reset    files of vectors written before this revision hold none that count
    """

    revision: int
    epoch: str
    pruned_revision: int
    vectors_reset: int


def state(snapshot: Snapshot) -> State:
    """Read the state of the library. Raises DamagedDatabaseError."""
    row = snapshot.first(STATE)
    if row is None:
        raise DamagedDatabaseError
    return State(*row)


def vectors_revision(transaction: Transaction) -> int:
    """Return the revision for vectors that are stored now: 0 where the index is in the library itself, which
    notes each vector until a file has it."""
    return 0 if transaction.is_sqlite else int(transaction.value(NEXT_REVISION))


def prune_changes(transaction: Transaction, before: float) -> None:
    """Delete the notes of deletions and vectors from before a moment, which only followers need; one that
    has not seen them compares all documents."""
    number = transaction.value(SETTLED_REVISION, {"before": before})
    if number is None or not transaction.execute(SET_PRUNED, {"revision": number}):
        return
    transaction.execute(PRUNE_DELETIONS, {"revision": number})
    transaction.execute(PRUNE_VECTORS, {"revision": number})


def oldest_open(snapshot: Snapshot) -> float | None:
    """Return the time of the oldest change that is in no segment, by the store's clock; None if there is
    none."""
    moment: float | None = snapshot.value(OLDEST_OPEN)
    return moment


def segments(snapshot: Snapshot) -> list[SegmentRow]:
    """Read all segments, oldest first."""
    return [SegmentRow(*row) for row in snapshot.tuples(SEGMENTS)]


def changes(snapshot: Snapshot) -> Changes:
    """Read all noted changes."""
    rows = np.array(list(snapshot.tuples(CHANGES)), dtype=np.int64).reshape(-1, 3)
    return Changes(rows[:, 0], rows[:, 1], rows[:, 2] == 1)


def open_changes(snapshot: Snapshot, limit: int = ALL) -> list[OpenChange]:
    """Read the first changes, by document, whose new state is in no segment."""
    return [OpenChange(*row) for row in snapshot.tuples(OPEN_CHANGES, {"limit": limit})]


def count_open(snapshot: Snapshot) -> int:
    """Count the documents that are to be indexed."""
    number: int = snapshot.value(COUNT_OPEN)
    return number


def is_any_open(snapshot: Snapshot) -> bool:
    """Whether any document is to be indexed."""
    return bool(snapshot.value(IS_ANY_OPEN))


def add_segment(
    transaction: Transaction,
    *,
    revision: int,
    n_documents: int,
    n_chunks: int,
    n_bytes: int,
    file_name: str,
    vectors_file: str | None = None,
) -> None:
    """Write the row of a segment, whose files are complete."""
    row = {
        "revision": revision,
        "n_documents": n_documents,
        "n_chunks": n_chunks,
        "n_bytes": n_bytes,
        "file_name": file_name,
        "vectors_file": vectors_file,
    }
    transaction.execute(INSERT_SEGMENT, row)
    transaction.value(NEXT_REVISION)


def close_changes(transaction: Transaction, changes: Iterable[OpenChange]) -> None:
    """Mark documents as indexed, unless they changed again."""
    transaction.write_many(CLOSE_CHANGE, [(change.document_id, change.revision) for change in changes])


def forget_changes(transaction: Transaction, changes: Iterable[tuple[int, int]]) -> None:
    """Remove changes, given as document and revision, that no segment needs any more."""
    transaction.write_many(FORGET_CHANGE, list(changes))


def delete_segments(transaction: Transaction, ids: Sequence[int]) -> bool:
    """Delete at most IDS_PER_STATEMENT segments; False, having deleted nothing, if any of them is gone
    already."""
    names, parameters = listed("id", ids)
    if transaction.value(COUNT_AMONG.format(ids=names), parameters) != len(ids):
        return False
    transaction.execute(DELETE_SEGMENTS.format(ids=names), parameters)
    transaction.value(NEXT_REVISION)
    return True


def set_vectors_file(transaction: Transaction, segment_id: int, vectors_file: str | None) -> bool:
    """Name the complete file of the vectors of a segment; False if the segment is gone."""
    row = {"id": segment_id, "vectors_file": vectors_file}
    if not transaction.execute(SET_VECTOR_FILE, row):
        return False
    transaction.value(NEXT_REVISION)
    return True


def forget_vector_files(transaction: Transaction) -> None:
    """Let no segment have vectors, until they are looked for again."""
    transaction.execute(FORGET_VECTOR_FILES)
    transaction.execute(RESET_VECTORS)


def start_again(transaction: Transaction) -> None:
    """Delete all segments, so that all documents are indexed again."""
    for statement in START_AGAIN:
        transaction.execute(statement)
    transaction.execute(SET_EPOCH, {"epoch": uuid.uuid4().hex})
