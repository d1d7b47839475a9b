"""Changes of stored notes. Each writes the former values into the history of the note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.errors import NoteStateError
from shoal.models.notes import TURN, Note
from shoal.notes import drafts, tombstones
from shoal.notes.context import NoteContext
from shoal.notes.judging import write_pin
from shoal.notes.note_rows import NoteRows
from shoal.notes.note_times import NoteTimes
from shoal.notes.pinning import Pin
from shoal.notes.prerequisites import Prerequisites
from shoal.notes.texts import TitledText, score_texts
from shoal.storage.column_values import compact_json
from shoal.storage.profiles import write_names
from shoal.support.clock import timestamp


def update(context: NoteContext, owner: str, note_id: int, fields: Mapping[str, Any]) -> Note:
    """Change some fields of a note. Raises NoteError, NotFoundError."""
    checked = _checked(context, fields)
    scorer, now, threshold = context.get_scorer(), timestamp(), context.settings.label_threshold
    with context.database.snapshot() as snapshot:
        note = NoteRows(snapshot, owner).get(note_id, label_threshold=threshold)
        texts = TitledText(checked.get("title", note.title), checked.get("text", note.text))
        [scored] = score_texts(snapshot, scorer, [texts], reefs_per_note=context.settings.reefs_per_chunk)
    with context.database.write() as transaction:
        rows = NoteRows(transaction, owner)
        note = rows.get(note_id, label_threshold=threshold)
        if TitledText(checked.get("title", note.title), checked.get("text", note.text)) != texts:
            # Another process changed title or text in between.
            [scored] = score_texts(
                transaction,
                scorer,
                [TitledText(checked.get("title", note.title), checked.get("text", note.text))],
                reefs_per_note=context.settings.reefs_per_chunk,
            )
        changed = {name: value for name, value in checked.items() if _stored(note, name) != value}
        if not changed:
            return note
        write_names(transaction, scorer.data_checksum, scorer.reefs, scorer.islands)
        rows.add_history(note_id, "updated", {name: _stored(note, name) for name in changed}, now)
        if "tags" in changed:
            rows.set_tags(note_id, changed["tags"])
        if changed.keys() & {"text", "valid_from"}:
            text = changed.get("text", note.text)
            given = changed.get("valid_from") or (None if "text" in changed else note.valid_from)
            NoteTimes(rows).write(note_id, **drafts.times_of(text, note.said_at, given))
        others = ("tags", "valid_from")
        columns = {name: _column(name, value) for name, value in changed.items() if name not in others}
        if changed.keys() & {"title", "text"}:
            columns |= scored._asdict()
            columns |= {
                "dedup_verified": int(note.kind == TURN),
                "dedup_attempts": 0,
                "dedup_last_error": None,
            }
        if "text" in changed:
            columns["text_hash"] = drafts.hash_of(changed["text"])
            tombstones.check_text(transaction, owner, columns["text_hash"])
        rows.change(note_id, now, **columns)
        return rows.get(note_id, label_threshold=threshold)


def _checked(context: NoteContext, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields in the form of `Note`."""
    draft = drafts.make_draft(context.settings, {"text": "-", **fields})
    given = fields.keys() | ({"tags"} if _has_tags(fields.get("prerequisites")) else set())
    return {name: getattr(draft, name) for name in sorted(given)}


def _has_tags(prerequisites: object) -> bool:
    return isinstance(prerequisites, Mapping) and "tags" in prerequisites


def _stored(note: Note, name: str) -> Any:
    value = getattr(note, name)
    return Prerequisites.from_json(dict(value)).as_json() if name == "prerequisites" else value


def _column(name: str, value: Any) -> Any:
    if name in ("metadata", "prerequisites"):
        return compact_json(value)
    return int(value) if name == "verified" else value


def deprecate(context: NoteContext, owner: str, note_id: int, reason: str) -> Note:
    """Hide a note; a note that is hidden already keeps its time and reason."""
    now, threshold = timestamp(), context.settings.label_threshold
    with context.database.write() as transaction:
        rows = NoteRows(transaction, owner)
        if rows.get(note_id, label_threshold=threshold).is_active:
            rows.add_history(note_id, "deprecated", {"deprecated_at": None}, now)
            rows.change(note_id, now, deprecated_at=now, deprecated_reason=reason)
        return rows.get(note_id, label_threshold=threshold)


def restore(context: NoteContext, owner: str, note_id: int) -> Note:
    """Make a note active again. Raises NoteStateError if an active note has its text."""
    now, threshold = timestamp(), context.settings.label_threshold
    with context.database.write() as transaction:
        rows = NoteRows(transaction, owner)
        note = rows.get(note_id, label_threshold=threshold)
        if note.is_active:
            return note
        same = None if note.kind == TURN else rows.find_text(drafts.hash_of(note.text))
        if same is not None:
            raise NoteStateError(f"note {same} is active and has the same text; deprecate it first")
        before = {
            "deprecated_at": note.deprecated_at,
            "deprecated_reason": note.deprecated_reason,
            "merged_into": note.merged_into,
        }
        rows.add_history(note_id, "restored", before, now)
        rows.change(
            note_id,
            now,
            deprecated_at=None,
            deprecated_reason=None,
            merged_into=None,
            dedup_verified=int(note.kind == TURN),
            dedup_attempts=0,
        )
        return rows.get(note_id, label_threshold=threshold)


def purge(context: NoteContext, owner: str, before: str) -> int:
    """Delete the notes that were deprecated before a time, in short transactions."""
    total = 0
    while True:
        with context.database.write() as transaction:
            n_deleted = NoteRows(transaction, owner).purge(before)
        total += n_deleted
        if not n_deleted:
            return total


def categorize(
    context: NoteContext, owner: str, note_id: int, added: Sequence[str], removed: Sequence[str]
) -> Note:
    """Change the categories of a note."""
    now, threshold = timestamp(), context.settings.label_threshold
    with context.database.write() as transaction:
        rows = NoteRows(transaction, owner)
        note = rows.get(note_id, label_threshold=threshold)
        paths = drafts.checked_categories((set(note.categories) | set(added)) - set(removed))
        if paths == note.categories:
            return note
        rows.set_categories(note_id, paths)
        rows.add_history(note_id, "updated", {"categories": note.categories}, now)
        rows.change(note_id, now)
        return rows.get(note_id, label_threshold=threshold)


def pin(
    context: NoteContext, owner: str, note_id: int, tags: tuple[str, ...], gates: Prerequisites | None
) -> Note:
    """Pin a note by the will of a person."""
    now, threshold = timestamp(), context.settings.label_threshold
    with context.database.write() as transaction:
        rows = NoteRows(transaction, owner)
        note = rows.get(note_id, label_threshold=threshold)
        if not note.is_active:
            raise NoteStateError(f"note {note_id} is deprecated; restore it first")
        if gates is not None:
            rows.add_history(note_id, "updated", {"prerequisites": _stored(note, "prerequisites")}, now)
            rows.change(note_id, now, prerequisites=compact_json(gates.as_json()))
        write_pin(rows, note, Pin("person", tags), now)
        return rows.get(note_id, label_threshold=threshold)


def unpin(context: NoteContext, owner: str, note_id: int) -> Note:
    """Take the pin of a note back."""
    now, threshold = timestamp(), context.settings.label_threshold
    with context.database.write() as transaction:
        rows = NoteRows(transaction, owner)
        note = rows.get(note_id, label_threshold=threshold)
        if note.pinned:
            write_pin(rows, note, None, now)
        return rows.get(note_id, label_threshold=threshold)
