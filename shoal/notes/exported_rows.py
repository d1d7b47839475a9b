"""The notes of an export, owner by owner: each `note`, then each `note_merge` with what an undo needs, each
`merge_proposal`, and each `agent_session` with the notes that it was shown.

Merges and proposals of purged notes are left out: they have no texts, and cannot be undone or decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from shoal.models.notes import Note
from shoal.notes import drafts
from shoal.notes.merge_rows import Rows, rows_of
from shoal.notes.note_maintenance import owners
from shoal.notes.note_rows import NoteRows
from shoal.storage.database import Snapshot

FIELDS = (
    "id", "owner", "kind", "title", "text", "domain", "tags", "categories", "prerequisites", "source",
    "metadata", "verified", "pinned_by", "pin_tags", "occurrence_count", "times_matched", "last_matched",
    "deprecated_at", "deprecated_reason", "sessions", "valid_to", "created_at", "updated_at",
)  # fmt: skip
NOTES_TOGETHER = 200
NO_LABELS = 2.0
"""A threshold that no probability reaches: labels follow from the text."""
MAX_SHOWN = 10_000
"""Shown notes of one line; a session with more has several lines."""

COMPARED = "SELECT id FROM notes WHERE owner = :owner AND dedup_verified = 1"
MERGE_IDS = "SELECT id FROM note_merges WHERE owner = :owner ORDER BY id"
MERGE = """
    SELECT id, run_id, survivor_id, absorbed_ids, canonical_text, confidence, reason, decided_by, before,
           created_at, undone_at
    FROM note_merges WHERE +owner = :owner AND id = :id
"""
PROPOSAL_IDS = "SELECT id FROM merge_proposals WHERE owner = :owner ORDER BY id"
PROPOSAL = """
    SELECT id, note_ids, similarity, is_opposite, canonical_text, confidence, reason, status, created_at,
           decided_at
    FROM merge_proposals WHERE +owner = :owner AND id = :id
"""
COUNT_FEEDBACK = "SELECT COUNT(*) FROM note_feedback WHERE note_id = :id AND id <= :last"
SESSION_IDS = """
    SELECT session_id FROM agent_sessions WHERE owner = :owner
    UNION SELECT session_id FROM shown_notes WHERE owner = :owner ORDER BY session_id
"""
SESSION = """
    SELECT repo, tags, created_at, updated_at FROM agent_sessions
    WHERE owner = :owner AND session_id = :session_id
"""
SHOWN = """
    SELECT s.note_id, s.event, s.shown_at
    FROM shown_notes s JOIN notes n ON n.id = s.note_id AND n.owner = :owner
    WHERE s.owner = :owner AND s.session_id = :session_id ORDER BY s.shown_at, n.text_hash, n.id
"""


def note_records(snapshot: Snapshot, *, canonical: bool) -> Iterator[dict[str, Any]]:
    """Generate the records of all owners.

    `canonical`: only the notes, in the order of their texts. Otherwise they come in the order in which they
    were added, which decides between the notes of a merge.
    """
    for owner in owners(snapshot):
        rows = NoteRows(snapshot, owner)
        ids = rows.ids_by_text() if canonical else rows.ids()
        known = frozenset(ids)
        yield from _notes(snapshot, owner, ids)
        if canonical:
            continue
        yield from _each(snapshot, owner, MERGE_IDS, MERGE, lambda row: _merge(snapshot, row), known)
        yield from _each(snapshot, owner, PROPOSAL_IDS, PROPOSAL, _proposal, known)
        yield from _sessions(snapshot, owner)


def _notes(snapshot: Snapshot, owner: str, ids: Sequence[int]) -> Iterator[dict[str, Any]]:
    rows, known = NoteRows(snapshot, owner), frozenset(ids)
    compared = {row[0] for row in snapshot.tuples(COMPARED, {"owner": owner})}
    for start in range(0, len(ids), NOTES_TOGETHER):
        for note in rows.get_many(ids[start : start + NOTES_TOGETHER], label_threshold=NO_LABELS):
            history = [
                {"action": entry.action, "before": entry.before, "created_at": entry.created_at}
                for entry in rows.history(note.id)
            ]
            yield {
                "type": "note",
                **{name: getattr(note, name) for name in FIELDS},
                # Times that follow from when a note was stored are left out.
                "said_at": None if note.said_at == note.created_at else note.said_at,
                "valid_from": None if note.valid_from == _said_from(note) else note.valid_from,
                "superseded_by": note.superseded_by if note.superseded_by in known else None,
                "merged_into": note.merged_into if note.merged_into in known else None,
                "is_compared": note.id in compared,
                **_evidence(note),
                "feedback": [entry._asdict() for entry in rows.feedbacks(note.id)],
                "history": history,
            }


def _said_from(note: Note) -> str:
    """The first day on which a note holds by its text."""
    day: str = drafts.times_of(note.text, note.said_at)["valid_from"]
    return day


def _evidence(note: Note) -> dict[str, Any]:
    return {
        "repo_matches": note.repo_matches,
        "tag_set_matches": [[list(tags), n_matches] for tags, n_matches in note.tag_set_matches],
        "tag_relevance": {tag: list(each) for tag, each in note.tag_relevance.items()},
    }


def _each(
    snapshot: Snapshot,
    owner: str,
    ids: str,
    statement: str,
    record: Callable[[Any], dict[str, Any]],
    known: Collection[int],
) -> Iterator[dict[str, Any]]:
    """Records of rows, oldest first, whose notes all exist."""
    for (row_id,) in snapshot.tuples(ids, {"owner": owner}):
        fields = record(snapshot.first(statement, {"owner": owner, "id": row_id}))
        if all(note_id in known for note_id in fields["note_ids"]):
            yield {"type": fields.pop("type"), "owner": owner, **fields}


def _merge(snapshot: Snapshot, row: Any) -> dict[str, Any]:
    fields = {name: row[name] for name in row.keys() if name != "before"}  # noqa: SIM118 - values otherwise
    note_ids = [fields.pop("survivor_id"), *json.loads(fields.pop("absorbed_ids"))]
    before: Rows = json.loads(row["before"])
    return {
        "type": "note_merge",
        **fields,
        "note_ids": note_ids,
        "before": _before(snapshot, before, row["survivor_id"]) if before else None,
    }


def _before(snapshot: Snapshot, before: Rows, survivor_id: int) -> dict[str, Any]:
    """What an undo needs: the notes as they were, what sessions were shown of them, and the number of
    judgements of the survivor until then."""
    counted = {"id": survivor_id, "last": before["last_feedback"]}
    return {
        "notes": [_former_note(before, note) for note in before["notes"]],
        "shown": before["shown_notes"],
        "n_feedback": snapshot.value(COUNT_FEEDBACK, counted),
    }


PLAIN = (
    "id", "kind", "title", "text", "domain", "source", "pinned_by", "occurrence_count", "times_matched",
    "last_matched", "created_at", "updated_at",
)  # fmt: skip


def _former_note(rows: Rows, note: Mapping[str, Any]) -> dict[str, Any]:
    """A note in `Rows` as the record of a note."""

    def names(table: str) -> list[str]:
        return [name for (name,) in rows_of(rows, table, note["id"])]

    return {
        **{name: note[name] for name in PLAIN},
        **{name: json.loads(note[name]) for name in ("prerequisites", "metadata", "pin_tags")},
        "verified": bool(note["verified"]),
        "is_compared": bool(note["dedup_verified"]),
        "tags": names("note_tags"),
        "categories": names("note_categories"),
        "sessions": names("note_sources"),
        "repo_matches": dict(rows_of(rows, "note_repo_matches", note["id"])),
        "tag_set_matches": [
            [json.loads(tags), n] for tags, n in rows_of(rows, "note_tag_set_matches", note["id"])
        ],
        "tag_relevance": {tag: each for tag, *each in rows_of(rows, "note_tag_relevance", note["id"])},
    }


def _proposal(row: Any) -> dict[str, Any]:
    note_ids, is_opposite = json.loads(row["note_ids"]), bool(row["is_opposite"])
    return {"type": "merge_proposal", **dict(row), "note_ids": note_ids, "is_opposite": is_opposite}


def _sessions(snapshot: Snapshot, owner: str) -> Iterator[dict[str, Any]]:
    """The sessions of an owner. Their transcripts stay: a path means nothing on another machine."""
    for (session_id,) in snapshot.tuples(SESSION_IDS, {"owner": owner}):
        values = {"owner": owner, "session_id": session_id}
        row = snapshot.first(SESSION, values)
        session = None if row is None else {**dict(row), "tags": json.loads(row["tags"])}
        shown = [list(each) for each in snapshot.tuples(SHOWN, values)]
        for start in range(0, max(len(shown), 1), MAX_SHOWN):
            part = shown[start : start + MAX_SHOWN]
            yield {"type": "agent_session", **values, "environment": session, "shown": part}
