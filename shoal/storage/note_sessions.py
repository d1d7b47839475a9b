"""What the agents' sessions of one owner were shown, and the log of their hooks. Every statement is bound to
the owner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from shoal.storage.database import Snapshot, Transaction
from shoal.storage.json_text import compact_json

SHOWN = "SELECT note_id FROM shown_notes WHERE owner = :owner AND session_id = :session_id"
TAGS = "SELECT tags FROM agent_sessions WHERE owner = :owner AND session_id = :session_id"
WRITE_SHOWN = """
    INSERT OR IGNORE INTO shown_notes (owner, session_id, note_id, event, shown_at)
    SELECT owner, :session_id, id, :event, :now FROM notes WHERE owner = :owner AND id = :note_id
"""
WRITE_EVENT = """
    INSERT INTO hook_events (owner, session_id, event, note_ids, context, created_at)
    VALUES (:owner, :session_id, :event, :note_ids, :context, :now)
"""
WRITE_SESSION = """
    INSERT INTO agent_sessions (
        owner, session_id, repo, tags, transcript_path, transcript_offset, waiting_since, extract_attempts,
        extract_error, created_at, updated_at)
    VALUES (:owner, :session_id, :repo, :tags, '', 0, NULL, 0, NULL, :now, :now)
    ON CONFLICT (owner, session_id) DO UPDATE SET
        repo = excluded.repo, tags = excluded.tags, updated_at = excluded.updated_at
"""


class SessionRows:
    """The sessions of one owner, in one transaction. Methods that write need a `Transaction`."""

    def __init__(self, snapshot: Snapshot, owner: str) -> None:
        self._snapshot = snapshot
        self.owner = owner

    def shown(self, session_id: str) -> list[int]:
        """Read the ids of the notes that a session was shown."""
        return [row[0] for row in self._snapshot.tuples(SHOWN, self._values(session_id=session_id))]

    def tags(self, session_id: str) -> tuple[str, ...]:
        """Read the tags of the environment in which a session works; none for an unknown session."""
        return tuple(json.loads(self._snapshot.value(TAGS, self._values(session_id=session_id)) or "[]"))

    def add_shown(self, session_id: str, note_ids: Iterable[int], *, event: str, now: str) -> None:
        """Write the notes that a session is shown; the first time counts."""
        rows = [
            self._values(session_id=session_id, note_id=note_id, event=event, now=now) for note_id in note_ids
        ]
        self._transaction.write_many(WRITE_SHOWN, rows)

    def add_event(
        self, session_id: str, *, event: str, note_ids: Sequence[int], context: str, now: str
    ) -> None:
        """Write a line of the event log."""
        values = self._values(
            session_id=session_id, event=event, note_ids=compact_json(note_ids), context=context, now=now
        )
        self._transaction.execute(WRITE_EVENT, values)

    def write_session(self, session_id: str, *, repo: str, tags: Sequence[str], now: str) -> None:
        """Write where a session works."""
        values = self._values(session_id=session_id, repo=repo, tags=compact_json(list(tags)), now=now)
        self._transaction.execute(WRITE_SESSION, values)

    @property
    def _transaction(self) -> Transaction:
        assert isinstance(self._snapshot, Transaction), "only a write transaction can change sessions"
        return self._snapshot

    def _values(self, **values: Any) -> dict[str, Any]:
        return {**values, "owner": self.owner}
