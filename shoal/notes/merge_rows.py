"""Merges of one owner's notes: the queue of notes to compare, proposals, the log of merges, and the rows that
a merge changes. Every statement is bound to the owner."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.declared.arguments import MAX_ID
from shoal.models.notes import MergeProposal, NoteMerge, ProposedNote
from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction, listed, listed_in_parts

# The queue

# `dedup_verified` is 0 for a note that waits; those that failed come last.
QUEUED = """
    SELECT id, dedup_attempts FROM notes
    WHERE owner = :owner AND deprecated_at IS NULL AND dedup_verified = 0 ORDER BY dedup_attempts, id
"""
COUNT_COMPARED = """
    SELECT COUNT(*) FROM (
        SELECT 1 FROM notes
        WHERE owner = :owner AND deprecated_at IS NULL AND dedup_verified = 1 LIMIT :limit) verified
"""
# Only if nobody has changed its text since it was read: such a note waits again.
SET_COMPARED = """
    UPDATE notes SET dedup_verified = 1, dedup_attempts = 0, dedup_last_error = NULL
    WHERE owner = :owner AND id = :id AND deprecated_at IS NULL AND dedup_verified = 0
        AND text_hash = :text_hash
"""
SET_FAILED = """
    UPDATE notes SET dedup_attempts = dedup_attempts + 1, dedup_last_error = :error
    WHERE owner = :owner AND id = :id AND dedup_verified = 0
"""
QUEUE_ALL = """
    UPDATE notes SET dedup_verified = 0, dedup_attempts = 0, dedup_last_error = NULL
    WHERE owner = :owner AND deprecated_at IS NULL AND dedup_verified = 1 AND kind <> 'turn'
        AND NOT EXISTS (
            SELECT 1 FROM note_times t WHERE t.note_id = notes.id AND t.superseded_by IS NOT NULL)
"""
COMPARABLE = """
    SELECT id, kind, title, text, text_hash, words, profile, data_checksum, dedup_verified FROM notes
    WHERE +owner = :owner AND deprecated_at IS NULL AND id IN ({ids}) ORDER BY id
"""

# Proposals

_PROPOSAL = """
    SELECT id, note_ids, similarity, is_opposite, canonical_text, confidence, reason, status, created_at,
           decided_at FROM merge_proposals
"""
PROPOSALS = f"""
    {_PROPOSAL} WHERE owner = :owner AND status = :status ORDER BY id LIMIT :limit OFFSET :offset
"""
COUNT_PROPOSALS = "SELECT COUNT(*) FROM merge_proposals WHERE owner = :owner AND status = :status"
PROPOSAL = f"{_PROPOSAL} WHERE owner = :owner AND id = :id"
TEXTS = "SELECT id, text FROM notes WHERE +owner = :owner AND id IN ({ids})"
INSERT_PROPOSAL = """
    INSERT INTO merge_proposals (owner, note_ids, similarity, is_opposite, canonical_text, confidence, reason,
        status, created_at, decided_at)
    VALUES (:owner, :note_ids, :similarity, :is_opposite, :canonical_text, :confidence, :reason, :status,
        :now, CASE :status WHEN 'open' THEN NULL ELSE :now END)
    ON CONFLICT (owner, note_ids) WHERE status = 'open' DO UPDATE SET
        similarity = excluded.similarity, is_opposite = excluded.is_opposite,
        canonical_text = excluded.canonical_text, confidence = excluded.confidence, reason = excluded.reason
    RETURNING id
"""
LINK_PROPOSAL = """
    INSERT INTO merge_proposal_notes (note_id, proposal_id) VALUES (:note_id, :id) ON CONFLICT DO NOTHING
"""
DECIDE = """
    UPDATE merge_proposals SET status = :status, decided_at = :now
    WHERE owner = :owner AND id = :id AND status = 'open'
"""
OF_NOTES = """
    SELECT DISTINCT p.id, p.note_ids
    FROM merge_proposal_notes l JOIN merge_proposals p ON p.id = l.proposal_id AND p.owner = :owner
    WHERE l.note_id IN ({ids}) AND p.status = :status
"""

# Merges

_MERGE = """
    SELECT id, run_id, survivor_id, absorbed_ids, canonical_text, confidence, reason, decided_by, created_at,
           undone_at FROM note_merges
"""
OF_NOTE = " AND id IN (SELECT merge_id FROM note_merge_notes WHERE note_id = :note_id)"
MERGES = f"{_MERGE} WHERE owner = :owner{{condition}} ORDER BY id DESC LIMIT :limit OFFSET :offset"
COUNT_MERGES = "SELECT COUNT(*) FROM note_merges WHERE owner = :owner{condition}"
MERGE = f"{_MERGE} WHERE owner = :owner AND id = :id"
BEFORE = "SELECT before FROM note_merges WHERE owner = :owner AND id = :id"
INSERT_MERGE = """
    INSERT INTO note_merges (owner, run_id, survivor_id, absorbed_ids, canonical_text, confidence, reason,
        decided_by, before, created_at, undone_at)
    VALUES (:owner, :run_id, :survivor_id, :absorbed_ids, :canonical_text, :confidence, :reason,
        :decided_by, :before, :now, NULL)
    RETURNING id
"""
LINK_MERGE = "INSERT INTO note_merge_notes (note_id, merge_id) VALUES (:note_id, :id)"
# The copy of the rows is no longer needed.
SET_UNDONE = """
    UPDATE note_merges SET undone_at = :now, before = '{}'
    WHERE owner = :owner AND id = :id AND undone_at IS NULL
"""
LATER_MERGE = """
    SELECT MAX(m.id) FROM note_merge_notes l
    JOIN note_merges m ON m.id = l.merge_id AND m.owner = :owner AND m.undone_at IS NULL
    WHERE l.note_id IN ({ids}) AND m.id > :id
"""

# Rows of notes

NOTES = "SELECT * FROM notes WHERE +owner = :owner AND id IN ({ids}) ORDER BY id"
CHILDREN = {
    "note_tags": ("tag",),
    "note_categories": ("path",),
    "note_sources": ("session_id",),
    "note_repo_matches": ("repo", "n_matches"),
    "note_tag_set_matches": ("tag_set", "n_matches"),
    "note_tag_relevance": ("tag", "score", "n_positive", "n_negative"),
}
"""Tables that a merge rewrites for the survivor: their columns beside `note_id`."""
CHILDREN_OF = """
    SELECT x.note_id, {columns} FROM {table} x JOIN notes n ON n.id = x.note_id AND +n.owner = :owner
    WHERE x.note_id IN ({ids}) ORDER BY x.note_id, {columns}
"""
_OWN = "(SELECT id FROM notes WHERE owner = :owner AND id = :id)"
DELETE_CHILDREN = f"DELETE FROM {{table}} WHERE note_id = {_OWN}"
INSERT_CHILD = f"INSERT INTO {{table}} (note_id, {{columns}}) VALUES ({_OWN}, {{values}})"
SHOWN = """
    SELECT note_id, session_id, event, shown_at FROM shown_notes
    WHERE +owner = :owner AND note_id IN ({ids}) ORDER BY note_id, session_id
"""
# The events of a note are events of sessions that were shown it.
EVENTS = """
    SELECT e.id, e.note_ids FROM hook_events e
    WHERE e.owner = :owner
        AND e.session_id IN (SELECT session_id FROM shown_notes WHERE +owner = :owner AND note_id IN ({ids}))
        AND EXISTS (SELECT 1 FROM json_each(e.note_ids) j WHERE CAST(j.value AS BIGINT) IN ({ids}))
    ORDER BY e.id
"""
EVENTS_BY_ID = "SELECT id, note_ids FROM hook_events WHERE +owner = :owner AND id IN ({ids})"
WRITE_EVENT = "UPDATE hook_events SET note_ids = :note_ids WHERE owner = :owner AND id = :id"
MOVE_SHOWN = """
    UPDATE shown_notes SET note_id = :survivor_id
    WHERE owner = :owner AND note_id = :id AND NOT EXISTS (
        SELECT 1 FROM shown_notes s
        WHERE s.owner = :owner AND s.session_id = shown_notes.session_id AND s.note_id = :survivor_id)
"""
DELETE_SHOWN = "DELETE FROM shown_notes WHERE owner = :owner AND note_id = :id"
DELETE_MOVED = """
    DELETE FROM shown_notes
    WHERE owner = :owner AND session_id = :session_id AND note_id = :id AND shown_at = :shown_at
"""
INSERT_SHOWN = """
    INSERT INTO shown_notes (owner, session_id, note_id, event, shown_at)
    VALUES (:owner, :session_id, :id, :event, :shown_at) ON CONFLICT DO NOTHING
"""
LAST_FEEDBACK = "SELECT COALESCE(MAX(id), 0) FROM note_feedback"
FEEDBACK_AFTER = """
    SELECT f.tag_scores FROM note_feedback f JOIN notes n ON n.id = f.note_id AND n.owner = :owner
    WHERE f.note_id = :id AND f.id > :after ORDER BY f.id
"""

COMPARED_TOGETHER = 50
"""Waiting notes that one step compares: about half a second without an endpoint."""
BLOBS = ("profile", "words")
Rows = dict[str, Any]
"""Rows of notes by table, as JSON values: `notes` as objects, others as lists of columns."""


class QueuedNote(NamedTuple):
    """A note that waits to be compared."""

    id: int
    n_attempts: int


class QueueRange(NamedTuple):
    """Waiting notes by id, both ends included."""

    first: int
    last: int


class ComparableNote(NamedTuple):
    """What comparing notes needs of one."""

    id: int
    kind: str
    title: str
    text: str
    text_hash: str
    words: bytes
    profile: bytes
    data_checksum: str
    is_compared: int


class MergeRows:
    """The merges and proposals of one owner, in one transaction. Methods that write need a `Transaction`."""

    def __init__(self, snapshot: Snapshot, owner: str) -> None:
        self._snapshot = snapshot
        self.owner = owner

    # The queue

    def queued(self) -> list[QueuedNote]:
        """Read the active notes that wait to be compared: those that failed least often first, then by id."""
        rows = self._snapshot.tuples(QUEUED, self._values())
        return list(map(QueuedNote._make, rows))

    def queue_ranges(self) -> list[QueueRange]:
        """Divide the notes that wait into steps of at most COMPARED_TOGETHER."""
        ids = sorted(note.id for note in self.queued())
        steps = [ids[at : at + COMPARED_TOGETHER] for at in range(0, len(ids), COMPARED_TOGETHER)]
        return [QueueRange(step[0], step[-1]) for step in steps]

    def n_compared(self, limit: int) -> int:
        """Count the active notes that were compared, up to a limit."""
        n_notes: int = self._snapshot.value(COUNT_COMPARED, self._values(limit=limit))
        return n_notes

    def comparable(self, note_ids: Sequence[int]) -> list[ComparableNote]:
        """Read the active ones of some notes, ascending by id."""
        rows = self._of_ids(COMPARABLE, sorted(note_ids))
        return [ComparableNote(*row) for row in rows]

    def set_compared(self, notes: Iterable[ComparableNote]) -> None:
        """Take notes from the queue, unless their texts have changed."""
        rows = [self._values(id=note.id, text_hash=note.text_hash) for note in notes]
        self._transaction.write_many(SET_COMPARED, rows)

    def set_failed(self, note_ids: Iterable[int], error: str) -> None:
        """Count a failed attempt of notes, which stay in the queue."""
        rows = [self._values(id=note_id, error=error) for note_id in note_ids]
        self._transaction.write_many(SET_FAILED, rows)

    def queue_all(self) -> int:
        """Queue all active notes; return how many were not."""
        return self._transaction.execute(QUEUE_ALL, self._values())

    # Proposals

    def proposals(self, status: str, limit: int, offset: int) -> tuple[list[MergeProposal], int]:
        """Read a page of the proposals with a status, by id, and the number of all of them."""
        values = self._values(status=status, limit=limit, offset=offset)
        rows = self._snapshot.rows(PROPOSALS, values)
        return self._with_texts(rows), self._snapshot.value(COUNT_PROPOSALS, values)

    def proposal(self, proposal_id: int) -> MergeProposal | None:
        """Read a proposal."""
        if not _is_id(proposal_id):
            return None
        row = self._snapshot.first(PROPOSAL, self._values(id=proposal_id))
        return None if row is None else self._with_texts([row])[0]

    def propose(
        self,
        note_ids: Sequence[int],
        *,
        similarity: float,
        is_opposite: bool,
        now: str,
        canonical_text: str = "",
        confidence: float | None = None,
        reason: str = "",
        status: str = "open",
    ) -> int:
        """Write a proposal; one about the same notes that is open is replaced. Return its id."""
        values = self._values(
            note_ids=compact_json(sorted(note_ids)),
            similarity=similarity,
            is_opposite=int(is_opposite),
            canonical_text=canonical_text,
            confidence=confidence,
            reason=reason,
            status=status,
            now=now,
        )
        proposal_id: int = self._transaction.value(INSERT_PROPOSAL, values)
        links = [{"note_id": note_id, "id": proposal_id} for note_id in note_ids]
        self._transaction.write_many(LINK_PROPOSAL, links)
        return proposal_id

    def decide(self, proposal_id: int, status: str, now: str) -> bool:
        """Give an open proposal its final status; False if it is not open."""
        values = self._values(id=proposal_id, status=status, now=now)
        return self._transaction.execute(DECIDE, values) == 1

    def groups(self, note_ids: Sequence[int], status: str) -> dict[int, frozenset[int]]:
        """Read the proposals with a status that have any of these notes: the notes of each, by id."""
        found: dict[int, frozenset[int]] = {}
        for proposal_id, ids in self._of_ids(OF_NOTES, note_ids, status=status):
            found[proposal_id] = frozenset(json.loads(ids))
        return found

    # Merges

    def merges(self, limit: int, offset: int, *, note_id: int | None = None) -> tuple[list[NoteMerge], int]:
        """Read a page of the merges, newest first, and the number of all; `note_id`: those with this note."""
        condition = "" if note_id is None else OF_NOTE
        values = self._values(limit=limit, offset=offset, note_id=note_id)
        rows = self._snapshot.rows(MERGES.format(condition=condition), values)
        total = self._snapshot.value(COUNT_MERGES.format(condition=condition), values)
        return [_merge(row) for row in rows], total

    def merge(self, merge_id: int) -> NoteMerge | None:
        """Read a merge."""
        if not _is_id(merge_id):
            return None
        row = self._snapshot.first(MERGE, self._values(id=merge_id))
        return None if row is None else _merge(row)

    def rows_before(self, merge_id: int) -> Rows:
        """Read the rows of the notes as they were before a merge; empty if they were deleted."""
        rows: Rows = json.loads(self._snapshot.value(BEFORE, self._values(id=merge_id)))
        return rows

    def insert_merge(self, merge: NoteMerge, before: Rows) -> int:
        """Write a merge; return its id. That of `merge` does not count."""
        values = self._values(
            run_id=merge.run_id,
            survivor_id=merge.survivor_id,
            absorbed_ids=compact_json(merge.absorbed_ids),
            canonical_text=merge.canonical_text,
            confidence=merge.confidence,
            reason=merge.reason,
            decided_by=merge.decided_by,
            before=compact_json(before),
            now=merge.created_at,
        )
        merge_id: int = self._transaction.value(INSERT_MERGE, values)
        links = [{"note_id": note_id, "id": merge_id} for note_id in (merge.survivor_id, *merge.absorbed_ids)]
        self._transaction.write_many(LINK_MERGE, links)
        return merge_id

    def set_undone(self, merge_id: int, now: str) -> bool:
        """Write that a merge is undone; False if it was already."""
        return self._transaction.execute(SET_UNDONE, self._values(id=merge_id, now=now)) == 1

    def later_merge(self, merge: NoteMerge) -> int | None:
        """Find the newest merge of any of the notes after a merge that is not undone."""
        ids, parameters = listed("id", (merge.survivor_id, *merge.absorbed_ids))
        statement = LATER_MERGE.format(ids=ids)
        merge_id: int | None = self._snapshot.value(statement, self._values(**parameters) | {"id": merge.id})
        return merge_id

    # Rows of notes

    def read_rows(self, note_ids: Sequence[int]) -> Rows:
        """Read all rows of notes that a merge changes."""
        rows: Rows = {"notes": [_as_json(row) for row in self._named(NOTES, note_ids)]}
        for table, columns in CHILDREN.items():
            statement = CHILDREN_OF.format(table=table, columns=", ".join(columns), ids="{ids}")
            rows[table] = list(map(list, self._of_ids(statement, note_ids)))
        rows["shown_notes"] = list(map(list, self._of_ids(SHOWN, note_ids)))
        rows["hook_events"] = list(map(list, self._of_ids(EVENTS, note_ids)))
        rows["last_feedback"] = self._snapshot.value(LAST_FEEDBACK)
        return rows

    def write_children(self, note_id: int, children: Mapping[str, Iterable[Sequence[Any]]]) -> None:
        """Replace the rows of a note in the tables of CHILDREN; rows are given without `note_id`."""
        assert children.keys() == CHILDREN.keys(), "every table"
        for table, rows in children.items():
            self._transaction.execute(DELETE_CHILDREN.format(table=table), self._values(id=note_id))
            columns = CHILDREN[table]
            statement = INSERT_CHILD.format(
                table=table, columns=", ".join(columns), values=", ".join(f":{name}" for name in columns)
            )
            self._transaction.write_many(
                statement, [self._values(id=note_id, **dict(zip(columns, row, strict=True))) for row in rows]
            )

    def move_shown(self, rows: Rows, absorbed_ids: Sequence[int], survivor_id: int) -> None:
        """Write that sessions were shown the survivor instead of the absorbed notes. `rows`: as they were."""
        for note_id in absorbed_ids:
            values = self._values(id=note_id, survivor_id=survivor_id)
            self._transaction.execute(MOVE_SHOWN, values)
            self._transaction.execute(DELETE_SHOWN, values)
        self._transaction.write_many(
            WRITE_EVENT,
            [
                self._values(id=event_id, note_ids=_renamed(note_ids, absorbed_ids, survivor_id))
                for event_id, note_ids in rows["hook_events"]
            ],
        )

    def move_shown_back(self, rows: Rows, absorbed_ids: Sequence[int], survivor_id: int) -> None:
        """Take `move_shown` back. What sessions were shown since stays."""
        shown = [
            self._values(id=note_id, session_id=session_id, event=event, shown_at=shown_at)
            for note_id, session_id, event, shown_at in rows["shown_notes"]
        ]
        of_survivor = {row["session_id"] for row in shown if row["id"] == survivor_id}
        moved = [
            {**row, "id": survivor_id}
            for row in shown
            if row["id"] != survivor_id and row["session_id"] not in of_survivor
        ]
        self._transaction.write_many(DELETE_MOVED, moved)
        self._transaction.write_many(INSERT_SHOWN, [row for row in shown if row["id"] != survivor_id])
        former = dict(rows["hook_events"])
        unchanged = [
            self._values(id=event_id, note_ids=former[event_id])
            for event_id, note_ids in self._of_ids(EVENTS_BY_ID, sorted(former))
            if note_ids == _renamed(former[event_id], absorbed_ids, survivor_id)
        ]
        self._transaction.write_many(WRITE_EVENT, unchanged)

    def judgements_after(self, note_id: int, feedback_id: int) -> list[Mapping[str, float]]:
        """Read the scores by tag of the feedback on a note after some feedback, oldest first."""
        rows = self._snapshot.tuples(FEEDBACK_AFTER, self._values(id=note_id, after=feedback_id))
        return [json.loads(tag_scores) for (tag_scores,) in rows]

    # Inside

    @property
    def _transaction(self) -> Transaction:
        assert isinstance(self._snapshot, Transaction), "only a write transaction can merge notes"
        return self._snapshot

    def _values(self, **values: Any) -> dict[str, Any]:
        return {**values, "owner": self.owner}

    def _of_ids(self, statement: str, note_ids: Sequence[int], **values: Any) -> Iterator[tuple[Any, ...]]:
        for ids, parameters in listed_in_parts("id", note_ids):
            yield from self._snapshot.tuples(statement.format(ids=ids), self._values(**parameters, **values))

    def _named(self, statement: str, note_ids: Sequence[int]) -> list[Any]:
        ids, parameters = listed("id", note_ids)
        return self._snapshot.rows(statement.format(ids=ids), self._values(**parameters))

    def _with_texts(self, rows: Sequence[Any]) -> list[MergeProposal]:
        ids = sorted({note_id for row in rows for note_id in json.loads(row["note_ids"])})
        texts = dict(self._of_ids(TEXTS, ids))
        return [_proposal(row, texts) for row in rows]


def rows_of(rows: Rows, table: str, note_id: int) -> list[list[Any]]:
    """Return the rows of a note in a table of `Rows`, without its id."""
    return [row[1:] for row in rows[table] if row[0] == note_id]


def from_json(note: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a note in `Rows` as they are stored."""
    return {**note, **{name: base64.b64decode(note[name]) for name in BLOBS}}


def _as_json(row: Any) -> dict[str, Any]:
    note = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a row iterates over its values
    return {**note, **{name: base64.b64encode(note[name]).decode() for name in BLOBS}}


def _renamed(note_ids: str, absorbed_ids: Sequence[int], survivor_id: int) -> str:
    renamed = [survivor_id if note_id in absorbed_ids else note_id for note_id in json.loads(note_ids)]
    return compact_json(list(dict.fromkeys(renamed)))


def _proposal(row: Any, texts: Mapping[int, str]) -> MergeProposal:
    note_ids = json.loads(row["note_ids"])
    return MergeProposal(
        id=row["id"],
        notes=tuple(ProposedNote(note_id, texts.get(note_id, "")) for note_id in note_ids),
        similarity=row["similarity"],
        is_opposite=bool(row["is_opposite"]),
        canonical_text=row["canonical_text"],
        confidence=row["confidence"],
        reason=row["reason"],
        status=row["status"],
        created_at=row["created_at"],
        decided_at=row["decided_at"],
    )


def _merge(row: Any) -> NoteMerge:
    fields = dict(row)
    return NoteMerge(**{**fields, "absorbed_ids": tuple(json.loads(fields["absorbed_ids"]))})


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_ID
