"""Rows of merges, proposals and sessions as an import writes them. Every statement is bound to the owner."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.models.notes import NoteMerge
from shoal.notes.merge_rows import BLOBS, LINK_MERGE, LINK_PROPOSAL, Rows
from shoal.storage.column_values import compact_json
from shoal.storage.database import Transaction

SET_SURVIVOR = """
    UPDATE notes SET merged_into = :survivor_id,
        deprecated_reason = CASE deprecated_reason WHEN :exported THEN :reason ELSE deprecated_reason END
    WHERE owner = :owner AND id = :id AND deprecated_at IS NOT NULL AND merged_into IS NULL
"""
NTH_CHANGE = """
    SELECT h.id, h.before FROM note_history h JOIN notes n ON n.id = h.note_id AND n.owner = :owner
    WHERE h.note_id = :id ORDER BY h.id LIMIT 1 OFFSET :place
"""
SET_BEFORE = "UPDATE note_history SET before = :before WHERE id = :id"
FIND_MERGE = """
    SELECT id FROM note_merges
    WHERE +owner = :owner AND id IN (SELECT merge_id FROM note_merge_notes WHERE note_id = :survivor_id)
        AND survivor_id = :survivor_id AND absorbed_ids = :absorbed_ids AND created_at = :created_at
"""
INSERT_MERGE = """
    INSERT INTO note_merges (owner, run_id, survivor_id, absorbed_ids, canonical_text, confidence, reason,
        decided_by, before, created_at, undone_at)
    VALUES (:owner, :run_id, :survivor_id, :absorbed_ids, :canonical_text, :confidence, :reason,
        :decided_by, :before, :created_at, :undone_at)
    RETURNING id
"""
NTH_FEEDBACK = """
    SELECT COALESCE(MAX(id), 0) FROM (
        SELECT f.id FROM note_feedback f JOIN notes n ON n.id = f.note_id AND n.owner = :owner
        WHERE f.note_id = :id ORDER BY f.id LIMIT :n) first
"""
# Of the same notes at the same time, or open: there is one open proposal for some notes.
INSERT_PROPOSAL = """
    INSERT INTO merge_proposals (owner, note_ids, similarity, is_opposite, canonical_text, confidence, reason,
        status, created_at, decided_at)
    SELECT :owner, :note_ids, :similarity, :is_opposite, :canonical_text, :confidence, :reason, :status,
        :created_at, :decided_at
    WHERE NOT EXISTS (
        SELECT 1 FROM merge_proposal_notes l JOIN merge_proposals p ON p.id = l.proposal_id
        WHERE l.note_id = :first AND p.owner = :owner AND p.note_ids = :note_ids
            AND (p.created_at = :created_at OR (p.status = 'open' AND :status = 'open')))
    RETURNING id
"""
INSERT_SESSION = """
    INSERT INTO agent_sessions (
        owner, session_id, repo, tags, transcript_path, transcript_offset, waiting_since, extract_attempts,
        extract_error, retry_at, created_at, updated_at)
    VALUES (:owner, :session_id, :repo, :tags, '', 0, NULL, 0, NULL, NULL, :created_at, :updated_at)
    ON CONFLICT DO NOTHING
"""
INSERT_SHOWN = """
    INSERT INTO shown_notes (owner, session_id, note_id, event, shown_at)
    SELECT owner, :session_id, id, :event, :shown_at FROM notes WHERE owner = :owner AND id = :id
    ON CONFLICT DO NOTHING
"""


class NoteImports:
    """Writes what refers to the notes of one owner, in one transaction."""

    def __init__(self, transaction: Transaction, owner: str) -> None:
        self._transaction = transaction
        self.owner = owner

    def set_survivor(self, note_id: int, survivor_id: int, *, exported_id: int) -> None:
        """Write which note absorbed a deprecated one. `exported_id`: of the survivor, in its reason."""
        reasons = {"exported": _reason(exported_id), "reason": _reason(survivor_id)}
        self._transaction.execute(SET_SURVIVOR, self._values(id=note_id, survivor_id=survivor_id, **reasons))

    def set_former_survivor(self, note_id: int, place: int, survivor_id: int) -> None:
        """Write which note a change in the history of a note names. `place`: of the change, from 0."""
        change = self._transaction.first(NTH_CHANGE, self._values(id=note_id, place=place))
        before = {} if change is None else json.loads(change["before"])
        if before.get("merged_into", survivor_id) is None:
            before["merged_into"] = survivor_id
            self._transaction.execute(SET_BEFORE, {"id": change["id"], "before": compact_json(before)})

    def find_merge(self, merge: NoteMerge) -> int | None:
        """Find the same merge, stored by an earlier import."""
        merge_id: int | None = self._transaction.value(FIND_MERGE, self._merge(merge))
        return merge_id

    def insert_merge(self, merge: NoteMerge, before: Rows) -> int:
        """Write a merge; return its id. `before`: as in `MergeRows.rows_before`."""
        values = {**self._merge(merge), "before": compact_json(before)}
        merge_id: int = self._transaction.value(INSERT_MERGE, values)
        links = [{"note_id": note_id, "id": merge_id} for note_id in (merge.survivor_id, *merge.absorbed_ids)]
        self._transaction.write_many(LINK_MERGE, links)
        return merge_id

    def nth_feedback(self, note_id: int, n: int) -> int:
        """Read the id of the `n`-th judgement of a note, from 1, or of the last; 0 if there is none."""
        feedback_id: int = self._transaction.value(NTH_FEEDBACK, self._values(id=note_id, n=n))
        return feedback_id

    def insert_proposal(self, note_ids: Sequence[int], columns: Mapping[str, Any]) -> bool:
        """Write a proposal; False if it is there already."""
        values = self._values(note_ids=compact_json(note_ids), first=note_ids[0], **columns)
        proposal_id = self._transaction.value(INSERT_PROPOSAL, values)
        if proposal_id is None:
            return False
        links = [{"note_id": note_id, "id": proposal_id} for note_id in note_ids]
        self._transaction.write_many(LINK_PROPOSAL, links)
        return True

    def insert_session(
        self, session_id: str, columns: Mapping[str, Any] | None, shown: Sequence[tuple[int, str, str]]
    ) -> bool:
        """Write a session, and what it was shown: note, event, time. Return whether anything is new."""
        n_new = 0
        if columns is not None:
            values = self._values(session_id=session_id, **columns)
            n_new = self._transaction.execute(INSERT_SESSION, values)
        rows = [
            self._values(session_id=session_id, id=note_id, event=event, shown_at=shown_at)
            for note_id, event, shown_at in shown
        ]
        return n_new + self._transaction.write_many(INSERT_SHOWN, rows) > 0

    def _merge(self, merge: NoteMerge) -> dict[str, Any]:
        return self._values(
            run_id=merge.run_id,
            survivor_id=merge.survivor_id,
            absorbed_ids=compact_json(merge.absorbed_ids),
            canonical_text=merge.canonical_text,
            confidence=merge.confidence,
            reason=merge.reason,
            decided_by=merge.decided_by,
            created_at=merge.created_at,
            undone_at=merge.undone_at,
        )

    def _values(self, **values: Any) -> dict[str, Any]:
        return {**values, "owner": self.owner}


def former_rows(
    notes: Sequence[Mapping[str, Any]], *, shown: Sequence[Sequence[Any]], last_feedback: int
) -> Rows:
    """Return `Rows` of notes as they were before a merge.

    Each note has the columns of its table and, by name, what its other tables have. The events of hooks are
    not exported, so there are none to rename.
    """
    children = ("tags", "categories", "sessions", "repo_matches", "tag_set_matches", "tag_relevance")
    rows: Rows = {
        "notes": [],
        "note_tags": [[note["id"], tag] for note in notes for tag in note["tags"]],
        "note_categories": [[note["id"], path] for note in notes for path in note["categories"]],
        "note_sources": [[note["id"], session] for note in notes for session in note["sessions"]],
        "note_repo_matches": [[note["id"], *each] for note in notes for each in note["repo_matches"].items()],
        "note_tag_set_matches": [
            [note["id"], compact_json(sorted(tags)), n]
            for note in notes
            for tags, n in note["tag_set_matches"].items()
        ],
        "note_tag_relevance": [
            [note["id"], tag, *each] for note in notes for tag, each in note["tag_relevance"].items()
        ],
        "shown_notes": sorted(map(list, shown)),
        "hook_events": [],
        "last_feedback": last_feedback,
    }
    for note in notes:
        columns = {name: value for name, value in note.items() if name not in children}
        blobs = {name: base64.b64encode(columns[name]).decode() for name in BLOBS}
        defaults = {"merged_into": None, "dedup_attempts": 0, "dedup_last_error": None}
        rows["notes"].append({**defaults, **columns, **blobs})
    return rows


def _reason(survivor_id: int) -> str:
    return f"merged into note {survivor_id}"
