"""Evidence: the sums of observations over all learned documents, by revision, and the learning lock.

For each word, the row with the greatest revision up to the published one is current. A learn writes rows
under the next revision in short transactions, and publishes the revision in one. The next learn deletes the
rows of an interrupted one.

No function here begins or ends a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from shoal.errors import LeaseLostError
from shoal.storage.column_values import pack_context
from shoal.storage.database import Snapshot, Transaction, listed_in_parts
from shoal.storage.observations import parts_text
from shoal.storage.vocabulary import EvidenceRow, StoredRow

STATE = "SELECT revision, basis, learner FROM learning"
TAKE_LOCK = "UPDATE learning SET learner = :learner"
HOLDS_LOCK = "SELECT 1 FROM learning WHERE learner = :learner"
VOID = "UPDATE learning SET basis = NULL WHERE learner = :learner"
PUBLISH = """
    UPDATE learning SET revision = :revision, basis = :basis, learner = NULL
    WHERE learner = :learner AND revision = :revision - 1
"""

_HOLDS = """e.revision = (
    SELECT MAX(f.revision) FROM word_evidence f
    WHERE f.word = e.word AND f.kind = e.kind AND f.revision <= :revision)"""
_COLUMNS = """e.kind, e.word, e.n_occurrences, e.n_short, e.n_documents, e.n_chunks, e.n_lower, e.parts,
    e.context"""
IN_FORCE = f"""
    SELECT {_COLUMNS} FROM word_evidence e WHERE e.word IN ({{words}}) AND e.n_occurrences > 0 AND {_HOLDS}
"""
WORDS_AFTER = f"""
    SELECT DISTINCT e.word FROM word_evidence e
    WHERE e.word > :after AND e.n_occurrences > 0 AND {_HOLDS} ORDER BY e.word LIMIT :limit
"""
INSERT = """
    INSERT INTO word_evidence (word, kind, revision, n_occurrences, n_short, n_documents, n_chunks, n_lower,
                               parts, context)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Rows that were superseded before the published revision.
DELETE_SUPERSEDED = """
    DELETE FROM word_evidence WHERE word = ? AND kind = ? AND revision < (
        SELECT MAX(f.revision) FROM word_evidence f WHERE f.word = ? AND f.kind = ? AND f.revision <= ?)
"""
# Pages of rows to delete: all rows, or rows of revisions that were never published.
KEYS = """
    SELECT word, kind, revision FROM word_evidence
    WHERE (word, kind, revision) > (:word, :kind, :last) AND revision > :beyond
    ORDER BY word, kind, revision LIMIT :limit
"""
DELETE_ROW = "DELETE FROM word_evidence WHERE word = ? AND kind = ? AND revision = ?"

Key = tuple[str, int, int]
FIRST_KEY: Key = ("", -1, -1)


class State(NamedTuple):
    """The state of learning.

    revision  the published revision
    basis     of the sums; None if they are invalid
    learner   owner of the learning lock: writes the next revision, or died writing it
    """

    revision: int
    basis: str | None
    learner: str | None


def state(snapshot: Snapshot) -> State:
    """Read the state of learning."""
    return State(*snapshot.first(STATE))


def acquire_learning_lock(transaction: Transaction, learner: str) -> State:
    """Take the learning lock, from another owner if necessary; return the state before."""
    before = State(*transaction.first(STATE))
    transaction.execute(TAKE_LOCK, {"learner": learner})
    return before


def check_learning_lock(transaction: Transaction, learner: str) -> None:
    """Raise LeaseLostError if another learner has taken the lock."""
    if transaction.first(HOLDS_LOCK, {"learner": learner}) is None:
        raise LeaseLostError("another learn has started; the result of this one is not stored")


def invalidate(transaction: Transaction, learner: str) -> None:
    """Mark all sums invalid before they are deleted."""
    transaction.execute(VOID, {"learner": learner})


def publish_revision(transaction: Transaction, learner: str, revision: int, basis: str) -> bool:
    """Publish the next revision and release the lock; False if the lock or the revision has changed."""
    row = {"learner": learner, "revision": revision, "basis": basis}
    return bool(transaction.execute(PUBLISH, row))


def in_force(snapshot: Snapshot, words: Iterable[str], revision: int) -> Iterator[StoredRow]:
    """Read the sums of words; '' stands for the totals. Words without evidence are left out."""
    all_words = list(words)
    for placeholders, parameters in listed_in_parts("word", all_words):
        rows = snapshot.tuples(IN_FORCE.format(words=placeholders), {**parameters, "revision": revision})
        yield from map(StoredRow._make, rows)


def words_after(snapshot: Snapshot, after: str, revision: int, limit: int) -> list[str]:
    """List the next words with evidence after `after`, in order; the totals ('') are not among them."""
    parameters = {"after": after, "revision": revision, "limit": limit}
    return [row[0] for row in snapshot.tuples(WORDS_AFTER, parameters)]


def write(transaction: Transaction, rows: Sequence[EvidenceRow], revision: int) -> None:
    """Write sums under an unpublished `revision`; delete rows that were superseded before the published
    one."""
    transaction.write_many(
        DELETE_SUPERSEDED, [(r.word, int(r.kind), r.word, int(r.kind), revision - 1) for r in rows]
    )
    transaction.write_many(INSERT, [_columns(row, revision) for row in rows])


def keys(snapshot: Snapshot, after: Key, beyond: int, limit: int) -> list[Key]:
    """List the keys of the next rows whose revision is greater than `beyond`."""
    word, kind, last = after
    parameters = {"word": word, "kind": kind, "last": last, "beyond": beyond, "limit": limit}
    return [(row[0], row[1], row[2]) for row in snapshot.tuples(KEYS, parameters)]


def delete(transaction: Transaction, rows: Sequence[Key]) -> None:
    """Delete rows by their keys."""
    transaction.write_many(DELETE_ROW, rows)


def _columns(r: EvidenceRow, revision: int) -> tuple[object, ...]:
    counts = (r.n_occurrences, r.n_short, r.n_documents, r.n_chunks, r.n_lower)
    return (r.word, int(r.kind), revision, *counts, parts_text(r), pack_context(r.reefs, r.sums))
