"""Notes of all owners, for maintenance: rescore, export, import and the doctor.

Nothing here answers a caller who asks for notes; that is `NoteRows`, which is bound to one owner. Rescoring
brings the notes of all owners to the newest words and data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from shoal.models.notes import ScoredText
from shoal.notes.drafts import hash_of
from shoal.notes.note_rows import NEXT_CHANGES
from shoal.notes.texts import TitledText, score_texts
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import vocabulary
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.storage.profiles import write_names

OWNERS = "SELECT owner FROM note_owners ORDER BY owner"
_COLUMNS = """
    id, title, text, text_hash, words, profile, data_checksum, vocabulary_version, change_number
"""
# Ranges of an index, so that the time grows with the stale notes and not with all.
STALE = " UNION ALL ".join(
    f"SELECT * FROM (SELECT {_COLUMNS} FROM notes WHERE {condition} LIMIT :limit) part"
    for condition in (
        "vocabulary_version < :version",
        "vocabulary_version > :version",
        "vocabulary_version = :version AND data_checksum < :data_checksum",
        "vocabulary_version = :version AND data_checksum > :data_checksum",
    )
)
AFTER = f"SELECT {_COLUMNS} FROM notes WHERE id > :after ORDER BY id LIMIT :limit"
# Only if nobody has changed the note since it was read.
WRITE_SCORES = """
    UPDATE notes SET words = :words, profile = :profile, data_checksum = :data_checksum,
        vocabulary_version = :vocabulary_version, text_hash = :text_hash,
        change_number = COALESCE(:new_change, change_number)
    WHERE id = :id AND change_number = :change_number
"""
LAST_CHANGE = "SELECT COALESCE((SELECT last FROM note_changes WHERE id = 1), -1)"
LARGEST_CHANGE = "SELECT COALESCE(MAX(change_number), 0) FROM notes"
WRITE_LAST_CHANGE = """
    INSERT INTO note_changes (id, last) VALUES (1, :last) ON CONFLICT (id) DO UPDATE SET last = excluded.last
"""
FOREIGN_SHOWN = """
    FROM shown_notes WHERE NOT EXISTS (
        SELECT 1 FROM notes n WHERE n.id = shown_notes.note_id AND n.owner = shown_notes.owner)
"""
RESCORED_TOGETHER = 100
"""Notes of one transaction: the write lock is held for a few milliseconds."""


class ScoredNote(NamedTuple):
    """A note of any owner with what follows from its title and text."""

    id: int
    title: str
    text: str
    text_hash: str
    words: bytes
    profile: bytes
    data_checksum: str
    vocabulary_version: int
    change_number: int

    @property
    def scored(self) -> ScoredText:
        return ScoredText(self.words, self.profile, self.data_checksum, self.vocabulary_version)


def owners(snapshot: Snapshot) -> list[str]:
    """List the owners that have notes."""
    return [row[0] for row in snapshot.tuples(OWNERS)]


def stale_notes(snapshot: Snapshot, version: int, data_checksum: str, limit: int) -> list[ScoredNote]:
    """Read some notes that were scored with other words or data, `limit` of each kind at most."""
    values = {"version": version, "data_checksum": data_checksum, "limit": limit}
    return [ScoredNote(*row) for row in snapshot.tuples(STALE, values)]


def notes_after(snapshot: Snapshot, note_id: int, limit: int) -> list[ScoredNote]:
    """Read the next notes by id."""
    return [ScoredNote(*row) for row in snapshot.tuples(AFTER, {"after": note_id, "limit": limit})]


def write_scores(transaction: Transaction, note: ScoredNote, scored: ScoredText, text_hash: str) -> bool:
    """Write what follows from title and text of a note, unless it was changed since it was read; return
    whether searches see a difference."""
    is_changed = (scored.words, scored.profile, scored.data_checksum) != note[4:7]
    new_change = transaction.value(NEXT_CHANGES, {"n": 1}) if is_changed else None
    values: dict[str, Any] = {
        **scored._asdict(),
        "text_hash": text_hash,
        "id": note.id,
        "change_number": note.change_number,
        "new_change": new_change,
    }
    return transaction.execute(WRITE_SCORES, values) == 1 and is_changed


def lacks_changes(snapshot: Snapshot) -> bool:
    """Whether the number of the last change is below that of a note, so that indexes would miss changes."""
    return bool(snapshot.value(LAST_CHANGE) < snapshot.value(LARGEST_CHANGE))


def repair_changes(transaction: Transaction) -> None:
    """Set the number of the last change."""
    transaction.execute(WRITE_LAST_CHANGE, {"last": transaction.value(LARGEST_CHANGE)})


def count_foreign_shown(snapshot: Snapshot) -> int:
    """Count what sessions of one owner were shown of another's notes, which is impossible."""
    n_foreign: int = snapshot.value(f"SELECT COUNT(*) {FOREIGN_SHOWN}")
    return n_foreign


def delete_foreign_shown(transaction: Transaction) -> None:
    """Delete what `count_foreign_shown` counts."""
    transaction.execute(f"DELETE {FOREIGN_SHOWN}")


def all_notes(snapshot: Snapshot, together: int) -> Iterator[list[ScoredNote]]:
    """Read all notes in batches."""
    after = 0
    while batch := notes_after(snapshot, after, together):
        yield batch
        after = batch[-1].id


def rescore_notes(database: Database, scorer: Scorer, settings: Settings) -> int:
    """Score the notes again that were scored with other words or data; return how many have changed.

    An interrupted call is resumed by the next one: a note that is done is no longer stale. `scorer` has no
    learned words.
    """
    n_changed = 0
    while True:
        with database.snapshot(limited=False) as snapshot:
            version = vocabulary.newest(snapshot).number
            notes = stale_notes(snapshot, version, scorer.data_checksum, RESCORED_TOGETHER)
            if not notes:
                return n_changed
            texts = [TitledText(note.title, note.text) for note in notes]
            scored = score_texts(snapshot, scorer, texts, reefs_per_note=settings.reefs_per_chunk)
        with database.write() as transaction:
            write_names(transaction, scorer.data_checksum, scorer.reefs, scorer.islands)
            for note, each in zip(notes, scored, strict=True):
                n_changed += write_scores(transaction, note, each, note.text_hash)


def rebuild_notes(
    database: Database, scorer: Scorer, settings: Settings, notes: Sequence[ScoredNote]
) -> None:
    """Make words, profiles and hashes of some notes again from their texts."""
    for start in range(0, len(notes), RESCORED_TOGETHER):
        some = notes[start : start + RESCORED_TOGETHER]
        texts = [TitledText(note.title, note.text) for note in some]
        with database.write() as transaction:
            scored = score_texts(transaction, scorer, texts, reefs_per_note=settings.reefs_per_chunk)
            write_names(transaction, scorer.data_checksum, scorer.reefs, scorer.islands)
            for note, each in zip(some, scored, strict=True):
                write_scores(transaction, note, each, hash_of(note.text))
