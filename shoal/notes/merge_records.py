"""Merges, proposals and sessions of an export, checked, and stored for the notes that an import has stored.

Every id of the export becomes that of the stored note. A merge or proposal is left out if one of its notes
was not in the export, or if the owner had another note with the text before: then it says nothing about the
stored notes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.declared.notes import MAX_MERGED
from shoal.errors import NoteError
from shoal.models.notes import DECIDED_BY, PROPOSAL_STATUSES, NoteMerge, ScoredText
from shoal.notes import drafts
from shoal.notes.imported_rows import NoteImports, former_rows
from shoal.notes.merging import checked_confidence
from shoal.notes.note_records import (
    MAX_ENTRIES,
    ImportedNote,
    StoredNote,
    checked_count,
    checked_flag,
    checked_id,
    checked_note,
    checked_time,
    entries_of,
)
from shoal.notes.note_rows import NoteRows
from shoal.notes.note_times import NoteTimes
from shoal.notes.texts import TitledText, score_texts
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.column_values import compact_json
from shoal.storage.database import Database, Transaction
from shoal.support.clock import timestamp

MAX_SHOWN_OF_MERGE = MAX_MERGED * MAX_ENTRIES
UNDONE = re.compile(r"merge (\d{1,18}) was undone")
"""The reason of a proposal that follows an undo names the merge."""


@dataclass(frozen=True, slots=True)
class Shown:
    """That a session was shown a note. `note_id` of the export."""

    note_id: int
    session_id: str
    event: str
    shown_at: str


@dataclass(frozen=True, slots=True)
class ImportedMerge:
    """A merge with the ids of the export.

    notes        as they were before; empty: it cannot be undone
    n_feedback   judgements of the survivor until the merge
    """

    owner: str
    merge: NoteMerge
    notes: tuple[ImportedNote, ...]
    shown: tuple[Shown, ...]
    n_feedback: int

    @property
    def note_ids(self) -> tuple[int, ...]:
        return (self.merge.survivor_id, *self.merge.absorbed_ids)


@dataclass(frozen=True, slots=True)
class ImportedProposal:
    """A proposal with the ids of the export. `columns` are those of the table without the ids."""

    owner: str
    note_ids: tuple[int, ...]
    columns: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session with what it was shown. `columns`: where it works; None if that is unknown."""

    owner: str
    session_id: str
    columns: Mapping[str, Any] | None
    shown: tuple[Shown, ...]


Related = ImportedMerge | ImportedProposal | ImportedSession


def checked_related(settings: Settings, record: Mapping[str, Any]) -> Related:
    """Check a record of an export that refers to notes. Raises NoteError, which names the field."""
    checks: dict[str, Callable[[Settings, Mapping[str, Any]], Related]] = {
        "note_merge": _merge,
        "merge_proposal": _proposal,
        "agent_session": _session,
    }
    return checks[record["type"]](settings, record)


RELATED_TYPES = frozenset({"note_merge", "merge_proposal", "agent_session"})


class RelatedImport:
    """Stores what refers to the notes of one owner, in short transactions."""

    def __init__(self, database: Database, scorer: Scorer, settings: Settings, owner: str) -> None:
        self._database, self._scorer, self._settings = database, scorer, settings
        self.owner = owner
        self._notes: dict[int, StoredNote] = {}
        self._merge_ids: dict[int, int] = {}
        self._absorbed: list[tuple[int, int]] = []
        self._unmerged: list[tuple[int, int, int]] = []
        self._superseded: list[tuple[int, int]] = []
        self.n_merges = self.n_proposals = self.n_sessions = self.n_left_out = 0

    def add_note(self, note: ImportedNote, stored: StoredNote) -> None:
        """Remember where a note of the export is stored."""
        if note.id is None:
            return
        self._notes[note.id] = stored
        if not stored.is_same:
            return
        if note.merged_into is not None:
            self._absorbed.append((note.id, note.merged_into))
        if note.superseded_by is not None and stored.is_new:
            self._superseded.append((note.id, note.superseded_by))
        for place, change in enumerate(note.history):
            survivor_id = change["before"].get("merged_into")
            if isinstance(survivor_id, int) and not isinstance(survivor_id, bool):
                self._unmerged.append((note.id, survivor_id, place))

    def name_survivors(self, together: int) -> None:
        """Write which note absorbed or replaced which, now and in the history, once all notes are stored."""
        for start in range(0, len(self._absorbed), together):
            with self._database.write() as transaction:
                imports = NoteImports(transaction, self.owner)
                for absorbed_id, survivor_id in self._absorbed[start : start + together]:
                    if (survivor := self._notes.get(survivor_id)) is not None:
                        absorbed = self._notes[absorbed_id].id
                        imports.set_survivor(absorbed, survivor.id, exported_id=survivor_id)
        for start in range(0, len(self._unmerged), together):
            with self._database.write() as transaction:
                imports = NoteImports(transaction, self.owner)
                for absorbed_id, survivor_id, place in self._unmerged[start : start + together]:
                    if (survivor := self._notes.get(survivor_id)) is not None:
                        imports.set_former_survivor(self._notes[absorbed_id].id, place, survivor.id)
        for start in range(0, len(self._superseded), together):
            with self._database.write() as transaction:
                times = NoteTimes(NoteRows(transaction, self.owner))
                for old_id, new_id in self._superseded[start : start + together]:
                    old, new = self._notes[old_id], self._notes.get(new_id)
                    if new is not None:
                        times.supersede(old.id, new.id, timestamp(), history=False)
        self._absorbed, self._unmerged, self._superseded = [], [], []

    def store(self, records: Sequence[Related]) -> None:
        """Store records in one transaction, without those that are stored already."""
        scored = self._scored([record for record in records if isinstance(record, ImportedMerge)])
        with self._database.write() as transaction:
            for record in records:
                if isinstance(record, ImportedSession):
                    self._store_session(transaction, record)
                elif not all(self._is_same(note_id) for note_id in record.note_ids):
                    self.n_left_out += 1
                elif isinstance(record, ImportedMerge):
                    self._store_merge(transaction, record, scored)
                else:
                    self._store_proposal(transaction, record)

    def _is_same(self, note_id: int) -> bool:
        return note_id in self._notes and self._notes[note_id].is_same

    def _scored(self, merges: Sequence[ImportedMerge]) -> dict[TitledText, ScoredText]:
        """An undo gives a note its former words and profile back: here, those of this library."""
        notes = [note for merge in merges for note in merge.notes]
        texts = list(dict.fromkeys(TitledText(note.draft.title, note.draft.text) for note in notes))
        if not texts:
            return {}
        with self._database.snapshot(limited=False) as snapshot:
            found = score_texts(snapshot, self._scorer, texts, reefs_per_note=self._settings.reefs_per_chunk)
        return dict(zip(texts, found, strict=True))

    def _store_merge(
        self, transaction: Transaction, record: ImportedMerge, scored: Mapping[TitledText, ScoredText]
    ) -> None:
        imports = NoteImports(transaction, self.owner)
        survivor_id, *absorbed_ids = (self._notes[note_id].id for note_id in record.note_ids)
        merge = dataclasses.replace(record.merge, survivor_id=survivor_id, absorbed_ids=tuple(absorbed_ids))
        merge_id = imports.find_merge(merge)
        if merge_id is None:
            former = {self._notes[note.id].id: note for note in record.notes if note.id is not None}
            before = former_rows(
                [self._former(note_id, note, scored) for note_id, note in sorted(former.items())],
                shown=[
                    (self._notes[each.note_id].id, each.session_id, each.event, each.shown_at)
                    for each in record.shown
                ],
                last_feedback=imports.nth_feedback(survivor_id, record.n_feedback),
            )
            merge_id = imports.insert_merge(merge, before if former else {})
            self.n_merges += 1
        self._merge_ids[record.merge.id] = merge_id

    def _former(
        self, note_id: int, note: ImportedNote, scored: Mapping[TitledText, ScoredText]
    ) -> dict[str, Any]:
        draft = note.draft
        return {
            "id": note_id,
            "owner": self.owner,
            **{name: getattr(draft, name) for name in ("kind", "title", "text", "domain", "source")},
            "text_hash": drafts.hash_of(draft.text),
            "metadata": compact_json(draft.metadata),
            "prerequisites": compact_json(draft.prerequisites),
            "verified": int(draft.verified),
            **note.columns,
            **scored[TitledText(draft.title, draft.text)]._asdict(),
            "tags": draft.tags,
            "categories": draft.categories,
            "sessions": note.sessions,
            "repo_matches": note.repo_matches,
            "tag_set_matches": note.tag_set_matches,
            "tag_relevance": note.tag_relevance,
        }

    def _store_proposal(self, transaction: Transaction, record: ImportedProposal) -> None:
        note_ids = sorted(self._notes[note_id].id for note_id in record.note_ids)
        columns = dict(record.columns)
        if undone := UNDONE.fullmatch(columns["reason"]):
            merge_id = self._merge_ids.get(int(undone[1]))
            columns["reason"] = "a merge was undone" if merge_id is None else f"merge {merge_id} was undone"
        self.n_proposals += NoteImports(transaction, self.owner).insert_proposal(note_ids, columns)

    def _store_session(self, transaction: Transaction, record: ImportedSession) -> None:
        shown = [
            (self._notes[each.note_id].id, each.event, each.shown_at)
            for each in record.shown
            if each.note_id in self._notes
        ]
        imports = NoteImports(transaction, self.owner)
        self.n_sessions += imports.insert_session(record.session_id, record.columns, shown)


# Checks


def _ids(record: Mapping[str, Any]) -> tuple[int, ...]:
    ids = tuple(checked_id("note_ids", value) for value in entries_of(record, "note_ids", MAX_MERGED))
    if len(ids) < 2 or len(set(ids)) < len(ids):
        raise NoteError("note_ids", f"must be 2 to {MAX_MERGED} different ids")
    return ids


def _time(field: str, value: object) -> str:
    return checked_time(field, value) or timestamp()


def _text(field: str, value: object) -> str:
    return "" if value == "" else drafts.checked_text(value)


def _merge(settings: Settings, record: Mapping[str, Any]) -> ImportedMerge:
    owner, (survivor_id, *absorbed_ids) = drafts.checked_owner(record.get("owner")), _ids(record)
    before = record.get("before") or {}
    if not isinstance(before, Mapping):
        raise NoteError("before", "must be an object")
    notes = []
    for entry in entries_of(before, "notes", MAX_MERGED):
        if not isinstance(entry, Mapping):
            raise NoteError("before", "must have a list of notes")
        former = {name: value for name, value in entry.items() if not name.startswith("deprecated")}
        notes.append(checked_note(settings, {**former, "merged_into": None, "owner": owner}))
    known = {survivor_id, *absorbed_ids}
    if (notes and {note.id for note in notes} != known) or len(notes) not in (0, len(known)):
        raise NoteError("before", "must have each note of the merge once")
    shown = entries_of(before, "shown", MAX_SHOWN_OF_MERGE)
    merge = NoteMerge(
        id=checked_id("id", record.get("id")),
        run_id=drafts.checked_line("run_id", record.get("run_id"), drafts.MAX_SESSION_CHARS),
        survivor_id=survivor_id,
        absorbed_ids=tuple(absorbed_ids),
        canonical_text=drafts.checked_text(record.get("canonical_text")),
        confidence=checked_confidence(record.get("confidence")),
        reason=drafts.checked_line("reason", record.get("reason"), drafts.MAX_REASON_CHARS),
        decided_by=drafts.checked_choice("decided_by", record.get("decided_by"), DECIDED_BY),
        created_at=_time("created_at", record.get("created_at")),
        undone_at=checked_time("undone_at", record.get("undone_at")),
    )
    return ImportedMerge(
        owner=owner,
        merge=merge,
        notes=() if merge.undone_at is not None else tuple(notes),
        shown=tuple(_shown(entry, known) for entry in shown),
        n_feedback=checked_count("n_feedback", before.get("n_feedback", 0)),
    )


def _shown(entry: object, known: set[int] | None = None, session_id: str | None = None) -> Shown:
    """Check what a session was shown: note, session (unless given), event, time."""
    if not isinstance(entry, list) or len(entry) != (4 if session_id is None else 3):
        raise NoteError("shown", "must be lists of a note, a session, an event and a time")
    if session_id is not None:
        entry = [entry[0], session_id, *entry[1:]]
    note_id = checked_id("shown", entry[0])
    if known is not None and note_id not in known:
        raise NoteError("shown", f"names note {note_id}, which is not of this merge")
    return Shown(
        note_id,
        drafts.checked_line("shown", entry[1], drafts.MAX_SESSION_CHARS),
        drafts.checked_line("shown", entry[2], drafts.MAX_SESSION_CHARS),
        _time("shown", entry[3]),
    )


def _proposal(settings: Settings, record: Mapping[str, Any]) -> ImportedProposal:
    status = drafts.checked_choice("status", record.get("status"), PROPOSAL_STATUSES)
    decided_at = checked_time("decided_at", record.get("decided_at"))
    confidence = record.get("confidence")
    columns = {
        "similarity": checked_confidence(record.get("similarity")),
        "is_opposite": int(checked_flag("is_opposite", record.get("is_opposite"))),
        "canonical_text": _text("canonical_text", record.get("canonical_text")),
        "confidence": None if confidence is None else checked_confidence(confidence),
        "reason": drafts.checked_line("reason", record.get("reason"), drafts.MAX_REASON_CHARS),
        "status": status,
        "created_at": _time("created_at", record.get("created_at")),
        "decided_at": None if status == "open" else decided_at or timestamp(),
    }
    return ImportedProposal(drafts.checked_owner(record.get("owner")), _ids(record), columns)


def _session(settings: Settings, record: Mapping[str, Any]) -> ImportedSession:
    session_id = drafts.checked_line("session_id", record.get("session_id"), drafts.MAX_SESSION_CHARS)
    environment = record.get("environment")
    if environment is not None and not isinstance(environment, Mapping):
        raise NoteError("environment", "must be an object")
    return ImportedSession(
        owner=drafts.checked_owner(record.get("owner")),
        session_id=session_id,
        columns=None
        if environment is None
        else {
            "repo": drafts.checked_line("repo", environment.get("repo", ""), drafts.MAX_PATH_CHARS),
            "tags": compact_json(list(drafts.checked_tags(environment.get("tags", ())))),
            "created_at": _time("created_at", environment.get("created_at")),
            "updated_at": _time("updated_at", environment.get("updated_at")),
        },
        shown=tuple(_shown(entry, session_id=session_id) for entry in entries_of(record, "shown")),
    )
