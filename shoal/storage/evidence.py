"""The running sums over all documents that were learned from, by revision, and who is writing the next.

Of each word the row with the greatest revision up to the one in force holds. A learn writes its rows under the next
revision, in short transactions, and brings it into force in one; what an interrupted learn has written is wiped by
the one after it.

Nothing here begins or ends a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from shoal.errors import LeaseLostError
from shoal.storage.database import IDS_PER_STATEMENT, Snapshot, listed
from shoal.storage.observations import context_text, parts_text, row_from
from shoal.storage.vocabulary_records import EvidenceRow

STATE = "SELECT revision, basis, learner FROM learning"
TAKE_TURN = sa.text("UPDATE learning SET learner = :learner")
IS_MY_TURN = sa.text("SELECT 1 FROM learning WHERE learner = :learner")
VOID = sa.text("UPDATE learning SET basis = NULL WHERE learner = :learner")
COME_INTO_FORCE = sa.text("""
    UPDATE learning SET revision = :revision, basis = :basis, learner = NULL
    WHERE learner = :learner AND revision = :revision - 1
""")

_HOLDS = """e.revision = (
    SELECT MAX(f.revision) FROM word_evidence f
    WHERE f.word = e.word AND f.kind = e.kind AND f.revision <= :revision)"""
_COLUMNS = """e.kind, e.word, e.n_occurrences, e.n_short, e.n_documents, e.n_chunks, e.parts, e.context"""
IN_FORCE = f"""
    SELECT {_COLUMNS} FROM word_evidence e WHERE e.word IN ({{words}}) AND e.n_occurrences > 0 AND {_HOLDS}
"""
WORDS_AFTER = f"""
    SELECT DISTINCT e.word FROM word_evidence e
    WHERE e.word > :after AND e.n_occurrences > 0 AND {_HOLDS} ORDER BY e.word LIMIT :limit
"""
INSERT = """
    INSERT INTO word_evidence (word, kind, revision, n_occurrences, n_short, n_documents, n_chunks, parts, context)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Sums that were overtaken before the revision in force.
DELETE_SUPERSEDED = """
    DELETE FROM word_evidence WHERE word = ? AND kind = ? AND revision < (
        SELECT MAX(f.revision) FROM word_evidence f WHERE f.word = ? AND f.kind = ? AND f.revision <= ?)
"""
# Rows from `after` on, for wiping: all of them, or those that never came into force.
KEYS = """
    SELECT word, kind, revision FROM word_evidence
    WHERE (word, kind, revision) > (:word, :kind, :last) AND revision > :beyond
    ORDER BY word, kind, revision LIMIT :limit
"""
DELETE_ROW = "DELETE FROM word_evidence WHERE word = ? AND kind = ? AND revision = ?"

Key = tuple[str, int, int]
FIRST_KEY: Key = ("", -1, -1)


class State(NamedTuple):
    """`revision` in force; `basis` of the sums, None where they are good for nothing; `learner`, who writes the next
    revision or died writing it."""

    revision: int
    basis: str | None
    learner: str | None


def state(snapshot: Snapshot) -> State:
    """Where learning stands."""
    return State(*snapshot.first(STATE))


def acquire_learning_lock(connection: sa.Connection, learner: str) -> State:
    """Become the one who writes the next revision, and stop whoever was; the state as it was before."""
    before = State(*connection.exec_driver_sql(STATE).one())
    connection.execute(TAKE_TURN, {"learner": learner})
    return before


def check_learning_lock(connection: sa.Connection, learner: str) -> None:
    """Raise LeaseLostError if another one has taken over."""
    if connection.execute(IS_MY_TURN, {"learner": learner}).first() is None:
        raise LeaseLostError("another learn has begun meanwhile; this one is not stored")


def void(connection: sa.Connection, learner: str) -> None:
    """Declare all sums good for nothing, before they are wiped."""
    connection.execute(VOID, {"learner": learner})


def publish_revision(connection: sa.Connection, learner: str, revision: int, basis: str) -> bool:
    """Make the rows of the revision after the one in force hold; False if that is another one by now."""
    row = {"learner": learner, "revision": revision, "basis": basis}
    return bool(connection.execute(COME_INTO_FORCE, row).rowcount)


def in_force(snapshot: Snapshot, words: Iterable[str], revision: int) -> Iterator[EvidenceRow]:
    """The sums of words; '' for the totals. Words without any are left out."""
    asked = list(words)
    for start in range(0, len(asked), IDS_PER_STATEMENT):
        some, parameters = listed("word", asked[start : start + IDS_PER_STATEMENT])
        yield from map(
            row_from, snapshot.tuples(IN_FORCE.format(words=some), {**parameters, "revision": revision})
        )


def words_after(snapshot: Snapshot, after: str, revision: int, limit: int) -> list[str]:
    """The next words that have sums, in order; the totals ('') are none."""
    asked = {"after": after, "revision": revision, "limit": limit}
    return [row[0] for row in snapshot.tuples(WORDS_AFTER, asked)]


def write(connection: sa.Connection, rows: Sequence[EvidenceRow], revision: int) -> None:
    """Write sums under the revision after the one in force, and remove what was overtaken before that one."""
    connection.exec_driver_sql(
        DELETE_SUPERSEDED, [(r.word, int(r.kind), r.word, int(r.kind), revision - 1) for r in rows]
    )
    connection.exec_driver_sql(INSERT, [_columns(row, revision) for row in rows])


def keys(snapshot: Snapshot, after: Key, beyond: int, limit: int) -> list[Key]:
    """Keys of the next rows whose revision is greater than `beyond`."""
    word, kind, last = after
    asked = {"word": word, "kind": kind, "last": last, "beyond": beyond, "limit": limit}
    return [(row[0], row[1], row[2]) for row in snapshot.tuples(KEYS, asked)]


def delete(connection: sa.Connection, rows: Sequence[Key]) -> None:
    """Remove rows by their keys."""
    if rows:
        connection.exec_driver_sql(DELETE_ROW, list(rows))


def _columns(r: EvidenceRow, revision: int) -> tuple[object, ...]:
    counts = (r.n_occurrences, r.n_short, r.n_documents, r.n_chunks)
    return (r.word, int(r.kind), revision, *counts, parts_text(r), context_text(r))
