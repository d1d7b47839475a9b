"""Imports what an export has besides documents: notes, pins, synonyms, and vectors of passages.

Pins and vectors come after the documents, which are found by their contents. Vectors are kept by the hashes
of their texts until then; those of another encoder than that of the library, or of the settings, are left
out.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.errors import (
    EncoderError,
    InvalidFieldError,
    PinConflictError,
    PinError,
    SynonymConflictError,
    SynonymError,
)
from shoal.index.upkeep import update_index
from shoal.index.vectors import MAX_DIMENSION, has_unit_length
from shoal.library.acronyms import store_decided
from shoal.library.library import Library
from shoal.library.pins import MAX_PINS, CheckedPin, checked_pin, store_pin
from shoal.library.synonyms import add_entry, checked_entry, is_stored
from shoal.models.pins import MAX_HIDDEN, MAX_PINNED, PinTarget
from shoal.notes.merge_records import RELATED_TYPES, Related, RelatedImport, checked_related
from shoal.notes.note_records import ImportedNote, checked_note, store_notes
from shoal.search import pins as stored
from shoal.storage import vectors
from shoal.storage.database import Transaction

NOTE_TYPES = RELATED_TYPES | {"note"}
NOTES_TOGETHER = 100
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
        if len(self._notes) + len(self._related) >= NOTES_TOGETHER:
            self._store()

    def finish(self) -> None:
        """Store the rest."""
        if self._of_owner is None:
            return
        self._store()
        self._of_owner.name_survivors(NOTES_TOGETHER)
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
            self._of_owner.name_survivors(NOTES_TOGETHER)
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


PIN_TYPE = "pin"
LISTS = {"pinned": MAX_PINNED, "hidden": MAX_HIDDEN}


class PinRecords:
    """Stores records at the end, in one transaction. A pin for words that have one is not stored again."""

    def __init__(self, library: Library) -> None:
        self._database = library.database
        self._waiting: list[tuple[int, Mapping[str, Any]]] = []
        self.n_stored = 0
        self.refused: list[tuple[int, str]] = []

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Check the record of a line. Raises InvalidFieldError."""
        try:
            # Any target makes a pin valid; those of the record are found at the end.
            checked_pin(record.get("query"), [1], [], record.get("match"))
        except PinError as error:
            raise InvalidFieldError(error.field, error.message) from None
        for name, limit in LISTS.items():
            targets = record.get(name, [])
            if not isinstance(targets, list) or len(targets) > limit or not all(map(_is_target, targets)):
                raise InvalidFieldError(name, f"must be a list of up to {limit} documents and passages")
        if len(self._waiting) >= MAX_PINS:
            raise InvalidFieldError("query", f"is of a pin beyond the first {MAX_PINS:,}, which is the limit")
        self._waiting.append((line, record))

    def finish(self) -> None:
        """Store all pins. One whose documents are all missing is refused."""
        if not self._waiting:
            return
        with self._database.write() as transaction:
            for line, record in self._waiting:
                try:
                    pin = _found(transaction, record)
                    if stored.id_of(transaction, pin.words, pin.match) is None:
                        store_pin(transaction, pin)
                        self.n_stored += 1
                except (PinConflictError, PinError) as error:
                    self.refused.append((line, str(error)))
        self._waiting = []


def _is_target(target: object) -> bool:
    if not isinstance(target, Mapping) or not isinstance(target.get("document"), str):
        return False
    start = target.get("start_char")
    return start is None or (isinstance(start, int) and not isinstance(start, bool) and 0 <= start < 2**53)


def _found(transaction: Transaction, record: Mapping[str, Any]) -> CheckedPin:
    """The pin of a record with the documents that the library has. Raises PinError if it has none."""
    lists: dict[str, list[PinTarget]] = {}
    for name in LISTS:
        targets = [
            stored.find_target(transaction, each["document"], each.get("start_char"))
            for each in record.get(name, [])
        ]
        lists[name] = list(dict.fromkeys(target for target in targets if target is not None))
    if not any(lists.values()) and any(record.get(name) for name in LISTS):
        raise PinError("pinned", "none of its documents is in the library")
    return checked_pin(record.get("query"), lists["pinned"], lists["hidden"], record.get("match"))


SYNONYM_TYPES = frozenset({"synonym", "acronym"})
SYNONYMS_TOGETHER = 500
"""Entries of one transaction."""


class SynonymRecords:
    """Stores records in short transactions. An entry that the library has already is not stored again."""

    def __init__(self, library: Library) -> None:
        self._database = library.database
        self._waiting: list[tuple[int, tuple[str | None, tuple[str, ...]]]] = []
        self.n_stored = 0
        self.refused: list[tuple[int, str]] = []

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Check the record of a line. Raises InvalidFieldError."""
        try:
            if record["type"] == "acronym":
                entry = checked_entry(None, (record.get("acronym"), record.get("expansion")))
                self.finish()  # The entry of a confirmed one comes before it.
                with self._database.write() as transaction:
                    store_decided(transaction, entry[1][0], entry[1][1], record.get("status"))
                return
            self._waiting.append((line, checked_entry(record.get("root"), record.get("synonyms"))))
        except SynonymError as error:
            raise InvalidFieldError(error.field, error.message) from None
        if len(self._waiting) >= SYNONYMS_TOGETHER:
            self.finish()

    def finish(self) -> None:
        """Store the rest."""
        if not self._waiting:
            return
        with self._database.write() as transaction:
            for line, entry in self._waiting:
                if is_stored(transaction, *entry):
                    continue
                try:
                    add_entry(transaction, *entry)
                    self.n_stored += 1
                except SynonymConflictError as error:
                    self.refused.append((line, str(error)))
        self._waiting = []


VECTORS_TOGETHER = 1_000
MAX_NAME_CHARS = 1_000


class VectorImport:
    """The vectors of one export."""

    def __init__(self, library: Library, head: Mapping[str, Any]) -> None:
        """`head`: the first record of the export. Raises StorageError."""
        self._library = library
        self._title = ""
        self._waiting: list[tuple[bytes, bytes]] = []
        self._identity = _identity(head.get("encoder"))
        vectors.delete_imported(library.database)
        if self._identity is not None and not self._is_accepted(self._identity):
            self._identity = None

    def _is_accepted(self, identity: tuple[str, str, int]) -> bool:
        database = self._library.database
        with database.snapshot() as snapshot:
            has_own = vectors.is_any(snapshot)
        if not has_own and self._library.encoder is not None:
            try:
                if tuple(self._library.encoder.identity) != identity:
                    return False
            except EncoderError:
                # Whether it is the same cannot be known now.
                return False
        return vectors.begin(database, identity).identity == identity

    def begin_document(self, record: Mapping[str, Any]) -> None:
        """Note the document that the next chunks belong to; records of other types have no chunks."""
        title = record.get("title")
        self._title = title if isinstance(title, str) else ""

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep the vector of a chunk, if it has one. Raises ValueError for one that is damaged."""
        encoded, text = record.get("vector"), record.get("text")
        if self._identity is None or encoded is None:
            return
        if not isinstance(encoded, str) or not isinstance(text, str):
            raise ValueError("vector: must be base64, and the chunk must have its text")
        try:
            blob = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ValueError("vector: is not base64") from None
        if not has_unit_length([blob], self._identity[2])[0]:
            raise ValueError("vector: has not the size or the length of those of its encoder")
        self._waiting.append((vectors.text_hash(vectors.embedded_text(self._title, text)), blob))
        if len(self._waiting) >= VECTORS_TOGETHER:
            self._store()

    def finish(self, document_ids: Iterable[int]) -> int:
        """Give the chunks of stored documents their vectors; return how many got one."""
        if self._identity is None:
            return 0
        self._store()
        n = vectors.adopt(self._library.database, document_ids)
        vectors.delete_imported(self._library.database)
        update_index(self._library.database)
        return n

    def _store(self) -> None:
        if not self._waiting:
            return
        with self._library.database.write() as transaction:
            vectors.add_imported(transaction, self._waiting)
        self._waiting = []


def _identity(value: object) -> tuple[str, str, int] | None:
    """The encoder that an export names; None if it names none."""
    if not isinstance(value, dict):
        return None
    name, revision, dimension = (value.get(part) for part in ("name", "revision", "dimension"))
    is_valid = (
        isinstance(name, str)
        and isinstance(revision, str)
        and type(dimension) is int
        and max(len(name), len(revision)) <= MAX_NAME_CHARS
        and 1 <= dimension <= MAX_DIMENSION
    )
    return (name, revision, dimension) if is_valid else None  # type: ignore[return-value]
