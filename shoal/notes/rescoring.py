"""Bringing the notes of all owners to the newest words and data."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.notes.drafts import hash_of
from shoal.notes.note_maintenance import ScoredNote, stale_notes, write_scores
from shoal.notes.texts import TitledText, score_texts
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import vocabulary
from shoal.storage.database import Database
from shoal.storage.reef_names import write_names

RESCORED_TOGETHER = 100
"""Notes of one transaction: the write lock is held for a few milliseconds."""


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
