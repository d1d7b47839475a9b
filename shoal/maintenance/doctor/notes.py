"""Checks of notes. Title and text are authoritative; words, profile and hash follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, examples
from shoal.notes.drafts import hash_of
from shoal.notes.rescoring import rebuild_notes
from shoal.notes.texts import TitledText, score_texts
from shoal.storage import note_maintenance, vocabulary_queries
from shoal.storage.database import Snapshot
from shoal.storage.note_maintenance import ScoredNote

READ_TOGETHER = 500


def _texts(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        damaged = list(_damaged(snapshot, context))
    if not damaged:
        return []
    return [
        Finding(
            "notes",
            f"words, profiles or hashes of {len(damaged):,} notes do not follow from their texts",
            "searches miss these notes or rank them wrongly; the texts themselves are intact",
            "--repair makes them again from the texts",
            n=len(damaged),
            examples=examples(f"note {note.id}" for note in damaged),
            can_repair=True,
        )
    ]


def _damaged(snapshot: Snapshot, context: CheckContext) -> Iterator[ScoredNote]:
    """Notes whose words, hash or profile are wrong. Profiles of older words or data are stale, not wrong."""
    version = vocabulary_queries.newest(snapshot).number
    for notes in note_maintenance.all_notes(snapshot, READ_TOGETHER):
        texts = [TitledText(note.title, note.text) for note in notes]
        expected = score_texts(
            snapshot, context.scorer, texts, reefs_per_note=context.settings.reefs_per_chunk
        )
        for note, scored in zip(notes, expected, strict=True):
            is_current = (note.vocabulary_version, note.data_checksum) == (version, scored.data_checksum)
            is_right = (
                note.words == scored.words
                and note.text_hash == hash_of(note.text)
                and (note.profile == scored.profile or not is_current)
            )
            if not is_right:
                yield note


def _rebuild(context: CheckContext) -> None:
    with context.database.snapshot() as snapshot:
        damaged = list(_damaged(snapshot, context))
    rebuild_notes(context.database, context.scorer, context.settings, damaged)


def _changes(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        if not note_maintenance.lacks_changes(snapshot):
            return []
    return [
        Finding(
            "note changes",
            "the number of the last change of notes is below that of a note",
            "processes may not see the next changes of notes",
            "--repair sets it",
            can_repair=True,
        )
    ]


def _repair_changes(context: CheckContext) -> None:
    with context.database.write() as transaction:
        note_maintenance.repair_changes(transaction)


def _owners(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        n_foreign = note_maintenance.count_foreign_shown(snapshot)
    if not n_foreign:
        return []
    return [
        Finding(
            "note owners",
            f"{n_foreign:,} records of shown notes belong to another owner than the note",
            "another program has changed the database; sessions miss notes that they were not shown",
            "--repair deletes these records",
            n=n_foreign,
            can_repair=True,
        )
    ]


def _repair_owners(context: CheckContext) -> None:
    with context.database.write() as transaction:
        note_maintenance.delete_foreign_shown(transaction)


CHECKS = (
    Check("notes", "words and profiles of notes", _texts, _rebuild, reads_all=True),
    Check("note changes", "numbers of changes of notes", _changes, _repair_changes),
    Check("note owners", "owners of shown notes", _owners, _repair_owners, reads_all=True),
)
