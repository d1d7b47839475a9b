"""What the agents' sessions of one owner were shown, and the log of their hooks. Every statement is bound to
the owner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction

SHOWN = "SELECT note_id FROM shown_notes WHERE owner = :owner AND session_id = :session_id"
TAGS = "SELECT tags FROM agent_sessions WHERE owner = :owner AND session_id = :session_id"
WRITE_SHOWN = """
    INSERT INTO shown_notes (owner, session_id, note_id, event, shown_at)
    SELECT owner, :session_id, id, :event, :now FROM notes WHERE owner = :owner AND id = :note_id
    ON CONFLICT DO NOTHING
"""
WRITE_EVENT = """
    INSERT INTO hook_events (owner, session_id, event, note_ids, context, created_at)
    VALUES (:owner, :session_id, :event, :note_ids, :context, :now)
"""
WRITE_SESSION = """
    INSERT INTO agent_sessions (
        owner, session_id, repo, tags, transcript_path, transcript_offset, waiting_since, extract_attempts,
        extract_error, retry_at, created_at, updated_at)
    VALUES (:owner, :session_id, :repo, :tags, '', 0, NULL, 0, NULL, NULL, :now, :now)
    ON CONFLICT (owner, session_id) DO UPDATE SET
        repo = excluded.repo, tags = excluded.tags, updated_at = excluded.updated_at
"""

# One queue entry for each session: the latest transcript counts, and the longest wait.
QUEUE = """
    UPDATE agent_sessions SET
        transcript_offset = CASE WHEN transcript_path = :path THEN transcript_offset ELSE 0 END,
        transcript_path = :path, waiting_since = COALESCE(waiting_since, :now), updated_at = :now
    WHERE owner = :owner AND session_id = :session_id
"""
SESSION = """
    SELECT session_id, repo, tags, transcript_path, transcript_offset, updated_at, extract_attempts
    FROM agent_sessions WHERE owner = :owner AND session_id = :session_id
"""
# A stop hook that came during the extraction keeps the session waiting.
FINISH = """
    UPDATE agent_sessions SET
        transcript_offset = :offset, extract_attempts = 0, extract_error = NULL, retry_at = NULL,
        waiting_since = CASE WHEN :is_done = 1 AND updated_at = :seen THEN NULL ELSE waiting_since END
    WHERE owner = :owner AND session_id = :session_id AND transcript_path = :path
        AND transcript_offset = :before
"""
FAIL = """
    UPDATE agent_sessions SET extract_attempts = extract_attempts + 1, extract_error = :reason,
        retry_at = :retry_at, waiting_since = CASE WHEN :is_final = 1 THEN NULL ELSE waiting_since END
    WHERE owner = :owner AND session_id = :session_id
"""
WAITING = """
    SELECT COUNT(*) AS n_waiting, MIN(waiting_since) AS waiting_since, MIN(retry_at) AS retry_at,
        MAX(extract_error) AS error
    FROM agent_sessions WHERE owner = :owner AND waiting_since IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class ExtractionState:
    """How far the transcript of a session is extracted.

    tags     of the environment in which the session works
    path     of the transcript; empty if it is unknown
    offset   bytes of the transcript that are done
    seen     time of the last change by a hook
    """

    session_id: str
    repo: str
    tags: tuple[str, ...]
    path: str
    offset: int
    seen: str
    attempts: int


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

    def queue(self, session_id: str, path: str, now: str) -> None:
        """Mark that the transcript of a known session has more to extract."""
        self._transaction.execute(QUEUE, self._values(session_id=session_id, path=path, now=now))

    def state(self, session_id: str) -> ExtractionState | None:
        """Read how far the transcript of a session is extracted; None for an unknown session."""
        row = self._snapshot.first(SESSION, self._values(session_id=session_id))
        if row is None:
            return None
        return ExtractionState(
            session_id=row["session_id"],
            repo=row["repo"],
            tags=tuple(json.loads(row["tags"])),
            path=row["transcript_path"],
            offset=row["transcript_offset"],
            seen=row["updated_at"],
            attempts=row["extract_attempts"],
        )

    def finish(self, state: ExtractionState, offset: int, *, is_done: bool) -> bool:
        """Write that a transcript is extracted up to `offset`; False if another process was quicker.

        `is_done`: nothing more waits, unless a hook came in the meantime.
        """
        values = self._values(
            session_id=state.session_id,
            path=state.path,
            before=state.offset,
            offset=offset,
            is_done=is_done,
            seen=state.seen,
        )
        return self._transaction.execute(FINISH, values) == 1

    def fail(self, session_id: str, reason: str, *, retry_at: str | None) -> None:
        """Write that an extraction failed; it waits until `retry_at`, or for the next hook if that is
        None."""
        values = self._values(
            session_id=session_id, reason=reason, retry_at=retry_at, is_final=retry_at is None
        )
        self._transaction.execute(FAIL, values)

    def waiting(self) -> dict[str, Any]:
        """Read `n_waiting` sessions, since when the first one waits, the next attempt, and an error."""
        return dict(self._snapshot.first(WAITING, self._values()))

    @property
    def _transaction(self) -> Transaction:
        assert isinstance(self._snapshot, Transaction), "only a write transaction can change sessions"
        return self._snapshot

    def _values(self, **values: Any) -> dict[str, Any]:
        return {**values, "owner": self.owner}
