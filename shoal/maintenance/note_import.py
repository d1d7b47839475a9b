"""Imports the notes of an export with what refers to them, owner by owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from shoal.library.library import Library
from shoal.notes.merge_records import RELATED_TYPES, Related, RelatedImport, checked_related
from shoal.notes.note_records import ImportedNote, checked_note, store_notes

NOTE_TYPES = RELATED_TYPES | {"note"}
TOGETHER = 100
"""Records of one transaction."""


class NoteImport:
    """Stores records in short transactions, in the order of their lines: the notes of an owner, then what
    refers to them. An import that was killed is completed by another."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._notes: list[ImportedNote] = []
        self._related: list[Related] = []
        self._seen = Counter[tuple[str, str]]()
        self._of_owner: RelatedImport | None = None
        self._counts = Counter[str]()

    def add(self, record: Mapping[str, Any]) -> None:
        """Check a record. Raises NoteError."""
        settings = self._library.settings
        if record["type"] == "note":
            note = checked_note(settings, record)
            self._begin(note.owner)
            self._notes.append(note)
        else:
            related = checked_related(settings, record)
            self._begin(related.owner)
            self._store_notes()
            self._related.append(related)
        if len(self._notes) + len(self._related) >= TOGETHER:
            self._store()

    def finish(self) -> None:
        """Store the rest."""
        if self._of_owner is None:
            return
        self._store()
        self._of_owner.name_survivors(TOGETHER)
        self._counts.update(
            merges=self._of_owner.n_merges,
            proposals=self._of_owner.n_proposals,
            sessions=self._of_owner.n_sessions,
            left_out=self._of_owner.n_left_out,
        )
        self._of_owner = None

    def counts(self) -> dict[str, int]:
        """Return the numbers of an `Imported` by name."""
        return dict(self._counts)

    def _begin(self, owner: str) -> None:
        if self._of_owner is not None and self._of_owner.owner == owner:
            return
        self.finish()
        library = self._library
        self._of_owner = RelatedImport(library.database, library.scorer, library.settings, owner)

    def _store(self) -> None:
        self._store_notes()
        if self._related and self._of_owner is not None:
            # A merge can be undone once its notes name the survivor.
            self._of_owner.name_survivors(TOGETHER)
            self._of_owner.store(self._related)
            self._related = []

    def _store_notes(self) -> None:
        library, notes = self._library, self._notes
        if not notes or self._of_owner is None:
            return
        stored = store_notes(library.database, library.scorer, library.settings, notes, self._seen)
        self._notes = []
        for note, each in zip(notes, stored, strict=True):
            self._counts["notes" if each.is_new else "duplicate_notes"] += 1
            self._of_owner.add_note(note, each)
