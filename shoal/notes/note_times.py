"""When the notes of one owner were said and hold, and which replaced which. Every statement is bound to the
owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.models.notes import ContextTurn, ReplacedNote
from shoal.notes.note_rows import OWN_NOTE, NoteRows
from shoal.storage.database import listed

FACT_NOTES = """
    SELECT t.fact_id, n.id, n.text, t.valid_from, t.valid_to
    FROM note_times t JOIN notes n ON n.id = t.note_id AND +n.owner = :owner AND n.deprecated_at IS NULL
    WHERE t.fact_id IN ({ids}) ORDER BY t.valid_from DESC, n.id DESC
"""
HOLDING = """
    SELECT n.id, t.valid_from, COALESCE(t.fact_id, 0) FROM notes n JOIN note_times t ON t.note_id = n.id
    WHERE n.owner = :owner AND n.id = :id AND n.deprecated_at IS NULL AND t.superseded_by IS NULL
"""
ADD_TIMES = """
    INSERT INTO note_times (note_id, said_at, event_from, event_to, event_words, valid_from, valid_to,
        superseded_by, fact_id)
    SELECT id, created_at, NULL, NULL, '', substr(created_at, 1, 10), NULL, NULL, NULL
    FROM notes WHERE owner = :owner AND id = :id
    ON CONFLICT DO NOTHING
"""
SUPERSEDE = f"""
    UPDATE note_times SET superseded_by = :new_id, valid_to = :valid_to WHERE note_id = {OWN_NOTE}
"""
JOIN_FACT = f"UPDATE note_times SET fact_id = :fact_id WHERE note_id = {OWN_NOTE} AND fact_id IS NULL"
JOIN_FACTS = """
    UPDATE note_times SET fact_id = :fact_id
    WHERE fact_id = :other AND note_id IN (SELECT id FROM notes WHERE owner = :owner)
"""
IDS_OF_FACT = """
    SELECT n.id FROM note_times t JOIN notes n ON n.id = t.note_id AND n.owner = :owner
    WHERE t.fact_id = :fact_id ORDER BY n.id
"""
WRITE_TIMES = f"UPDATE note_times SET {{columns}} WHERE note_id = {OWN_NOTE}"
TURNS = """
    SELECT id, title, text FROM notes
    WHERE +owner = :owner AND deprecated_at IS NULL AND kind = 'turn' AND id IN ({ids})
"""
TIME_COLUMNS = frozenset(
    {"said_at", "event_from", "event_to", "event_words", "valid_from", "valid_to", "superseded_by", "fact_id"}
)
"""Columns that `NoteRows.write_times` may write."""


class NoteTimes:
    """The times of notes, in the transaction of their rows."""

    def __init__(self, rows: NoteRows) -> None:
        self._rows = rows

    def of_facts(self, fact_ids: Sequence[int]) -> dict[int, list[ReplacedNote]]:
        """Read the active notes of some facts, newest first, at most IDS_PER_STATEMENT facts."""
        ids, parameters = listed("id", fact_ids)
        found: dict[int, list[ReplacedNote]] = {}
        for fact_id, *columns in self._rows.snapshot.tuples(
            FACT_NOTES.format(ids=ids), self._rows.values(**parameters)
        ):
            found.setdefault(fact_id, []).append(ReplacedNote(*columns))
        return found

    def turns(self, note_ids: Sequence[int]) -> dict[int, ContextTurn]:
        """Read some turns by id; other notes are missing. At most IDS_PER_STATEMENT."""
        ids, parameters = listed("id", note_ids)
        rows = self._rows.snapshot.tuples(TURNS.format(ids=ids), self._rows.values(**parameters))
        return {note_id: ContextTurn(note_id, speaker, text) for note_id, speaker, text in rows}

    def supersede(self, note_id: int, new_id: int, now: str, *, history: bool = True) -> bool:
        """Let a note replace another from its `valid_from` on; return False, and do nothing, if that one is
        not active, no longer holds, or begins later."""
        for each in (note_id, new_id):
            self._execute(ADD_TIMES, id=each)
        old = self._rows.snapshot.first(HOLDING, self._rows.values(id=note_id))
        new = self._rows.snapshot.first(HOLDING, self._rows.values(id=new_id))
        if old is None or new is None or note_id == new_id or new[1] < old[1]:
            return False
        self._rows.set(note_id, dedup_verified=1)
        self._rows.transaction.execute(
            SUPERSEDE, self._rows.values(id=note_id, new_id=new_id, valid_to=new[1])
        )
        fact_id = old[2] or note_id
        self._execute(JOIN_FACT, id=note_id, fact_id=fact_id)
        if new[2]:
            self._execute(JOIN_FACTS, other=new[2], fact_id=fact_id)
            for (each,) in list(self._rows.snapshot.tuples(IDS_OF_FACT, self._rows.values(fact_id=fact_id))):
                self._rows.change(each, now)
        else:
            self._execute(JOIN_FACT, id=new_id, fact_id=fact_id)
            self._rows.change(note_id, now)
            self._rows.change(new_id, now)
        if history:
            self._rows.add_history(note_id, "superseded", {"superseded_by": None}, now)
        return True

    def write(self, note_id: int, **columns: Any) -> None:
        """Write columns of the times of a note; a search sees them after `change`."""
        assert columns.keys() <= TIME_COLUMNS, "a column of note_times"
        self._execute(ADD_TIMES, id=note_id)
        names = ", ".join(f"{name} = :{name}" for name in columns)
        self._rows.transaction.execute(
            WRITE_TIMES.format(columns=names), self._rows.values(id=note_id, **columns)
        )

    def _execute(self, statement: str, **values: Any) -> None:
        self._rows.transaction.execute(statement, self._rows.values(**values))
