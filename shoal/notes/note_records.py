"""Notes of an export, checked like new ones, with their evidence, state, times and history."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.declared.notes import MAX_TAGS
from shoal.errors import NoteError
from shoal.models.notes import PINNED_BY, TURN, NoteDraft, TagRelevance
from shoal.notes import drafts, tombstones
from shoal.notes.note_rows import NoteRows
from shoal.notes.note_times import NoteTimes
from shoal.notes.texts import TitledText, score_texts
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.column_values import compact_json
from shoal.storage.database import Database
from shoal.storage.profiles import write_names
from shoal.support.clock import timestamp

MAX_COUNT = 2**53
MAX_ENTRIES = 10_000
"""Most entries of one list: sessions, matches, judgements or changes."""

ACTIONS = (
    "added",
    "updated",
    "deprecated",
    "restored",
    "pinned",
    "unpinned",
    "merged",
    "unmerged",
    "superseded",
)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True, slots=True)
class ImportedNote:
    """A checked note of an export. `columns` are those of the table that `draft` lacks; `id`, `merged_into`,
    `superseded_by` and the `merged_into` of its history are ids of the export, which are not stored."""

    id: int | None
    merged_into: int | None
    owner: str
    draft: NoteDraft
    columns: Mapping[str, Any]
    valid_to: str | None
    superseded_by: int | None
    sessions: tuple[str, ...]
    repo_matches: Mapping[str, int]
    tag_set_matches: Mapping[tuple[str, ...], int]
    tag_relevance: Mapping[str, TagRelevance]
    feedback: tuple[Mapping[str, Any], ...]
    history: tuple[Mapping[str, Any], ...]

    @property
    def is_single(self) -> bool:
        """Whether its owner can have only one such note with its text."""
        is_active = self.columns["deprecated_at"] is None
        return is_active and self.draft.kind != TURN and self.superseded_by is None and self.valid_to is None


class StoredNote(NamedTuple):
    """Where a note of an export is stored.

    is_new    this import has stored it
    is_same   it is this very note, from this import or an earlier one; else another note of the owner that
              has the same text
    """

    id: int
    is_new: bool
    is_same: bool


def checked_note(settings: Settings, record: Mapping[str, Any]) -> ImportedNote:
    """Check a record of an export, canonical or not. Raises NoteError, which names the field."""
    given = {name: record[name] for name in _DRAFT_FIELDS if name in record}
    given["said_at"] = record.get("said_at") or checked_time("created_at", record.get("created_at"))
    draft = drafts.make_draft(settings, given)
    deprecated_at = checked_time("deprecated_at", record.get("deprecated_at"))
    if deprecated_at is None and record.get("is_deprecated") is True:
        deprecated_at = timestamp()
    pinned_by = record.get("pinned_by")
    reason = drafts.checked_line(
        "deprecated_reason", record.get("deprecated_reason") or "", drafts.MAX_REASON_CHARS
    )
    columns = {
        "pinned_by": None if pinned_by is None else drafts.checked_choice("pinned_by", pinned_by, PINNED_BY),
        "pin_tags": compact_json(list(drafts.checked_tags(record.get("pin_tags", ()), "pin_tags"))),
        "occurrence_count": checked_count("occurrence_count", record.get("occurrence_count", 1), least=1),
        "times_matched": checked_count("times_matched", record.get("times_matched", 0)),
        "last_matched": checked_time("last_matched", record.get("last_matched")),
        "deprecated_at": deprecated_at,
        "deprecated_reason": None if deprecated_at is None else reason,
        "dedup_verified": int(checked_flag("is_compared", record.get("is_compared", False))),
    }
    times = {
        name: time for name in ("created_at", "updated_at") if (time := checked_time(name, record.get(name)))
    }
    return ImportedNote(
        id=None if record.get("id") is None else checked_id("id", record["id"]),
        merged_into=None
        if record.get("merged_into") is None
        else checked_id("merged_into", record["merged_into"]),
        owner=drafts.checked_owner(record.get("owner")),
        draft=draft,
        columns={**columns, **times},
        valid_to=drafts.checked_day("valid_to", record.get("valid_to")) or None,
        superseded_by=None
        if record.get("superseded_by") is None
        else checked_id("superseded_by", record["superseded_by"]),
        sessions=tuple(
            drafts.checked_line("sessions", session, drafts.MAX_SESSION_CHARS)
            for session in entries_of(record, "sessions")
        ),
        repo_matches={
            drafts.checked_line("repo_matches", repo, drafts.MAX_SESSION_CHARS): checked_count(
                "repo_matches", n
            )
            for repo, n in _members(record, "repo_matches").items()
        },
        tag_set_matches=dict(_tag_sets(record)),
        tag_relevance={
            drafts.checked_tag(tag, "tag_relevance"): _relevance(value)
            for tag, value in _members(record, "tag_relevance").items()
        },
        feedback=tuple(map(_feedback, entries_of(record, "feedback"))),
        history=tuple(map(_history, entries_of(record, "history"))),
    )


_DRAFT_FIELDS = (
    "text", "kind", "title", "domain", "tags", "categories", "prerequisites", "source", "metadata",
    "verified", "valid_from",
)  # fmt: skip


def store_notes(
    database: Database,
    scorer: Scorer,
    settings: Settings,
    notes: Sequence[ImportedNote],
    seen: Counter[tuple[str, str]] | None = None,
) -> list[StoredNote | None]:
    """Store notes in one transaction, without those whose text the owner has in the same state; return where
    each is, None for a text that the owner had forgotten.

    `seen` counts the deprecated notes of this import by owner and text, because an owner may have several
    with one text.
    """
    if not notes:
        return []
    texts = [TitledText(note.draft.title, note.draft.text) for note in notes]
    with database.snapshot(limited=False) as snapshot:
        scored = score_texts(snapshot, scorer, texts, reefs_per_note=settings.reefs_per_chunk)
    seen = Counter() if seen is None else seen
    now, stored = timestamp(), list[StoredNote | None]()
    with database.write() as transaction:
        write_names(transaction, scorer.data_checksum, scorer.reefs, scorer.islands)
        for note, each in zip(notes, scored, strict=True):
            rows = NoteRows(transaction, note.owner)
            text_hash = drafts.hash_of(note.draft.text)
            try:
                tombstones.check_text(transaction, note.owner, text_hash)
            except NoteError:
                stored.append(None)
                continue
            is_single = note.is_single
            key = (note.owner, text_hash)
            found = rows.with_text(text_hash, is_single=is_single, n_before=0 if is_single else seen[key])
            if not is_single:
                seen[key] += 1
            if found is not None:
                is_same = found[1] == note.columns.get("created_at")
                stored.append(StoredNote(found[0], is_new=False, is_same=is_same))
                continue
            note_id = rows.insert(note.draft, text_hash, each, rows.next_change(), now)
            if note.valid_to is not None:
                NoteTimes(rows).write(note_id, valid_to=note.valid_to)
            _store_evidence(rows, note_id, note, now)
            stored.append(StoredNote(note_id, is_new=True, is_same=True))
    return stored


def _store_evidence(rows: NoteRows, note_id: int, note: ImportedNote, now: str) -> None:
    rows.set(note_id, **note.columns)
    for session_id in note.sessions:
        rows.add_session(note_id, session_id)
    rows.write_matches(note_id, repos=note.repo_matches, tag_sets=note.tag_set_matches)
    rows.write_relevance(note_id, note.tag_relevance)
    for entry in note.feedback:
        rows.add_feedback(note_id, **{**entry, "now": entry["now"] or now})
    for change in note.history:
        before = {**change["before"], **dict.fromkeys(change["before"].keys() & {"merged_into"})}
        rows.add_history(note_id, change["action"], before, change["now"] or now)


# Checks of the parts of a record


def checked_id(field: str, value: object) -> int:
    """Return an id of an export."""
    return checked_count(field, value, least=1)


def checked_flag(field: str, value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise NoteError(field, "must be true or false")
    return value


def entries_of(record: Mapping[str, Any], field: str, limit: int = MAX_ENTRIES) -> list[Any]:
    """Return a list of a record."""
    value = record.get(field, [])
    if not isinstance(value, list) or len(value) > limit:
        raise NoteError(field, f"must be a list of at most {limit:,} entries")
    return value


def _members(record: Mapping[str, Any], field: str) -> dict[str, Any]:
    value = record.get(field, {})
    if not isinstance(value, dict) or len(value) > MAX_ENTRIES:
        raise NoteError(field, f"must be an object of at most {MAX_ENTRIES:,} members")
    return value


def checked_count(field: str, value: object, least: int = 0) -> int:
    """Return a whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_COUNT:
        raise NoteError(field, f"must be a whole number from {least}")
    return value


def checked_time(field: str, value: object) -> str | None:
    """Return a time; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise NoteError(field, "must be a time such as 2026-01-31T00:00:00.000Z")
    return value


def _tag_sets(record: Mapping[str, Any]) -> list[tuple[tuple[str, ...], int]]:
    found = []
    for entry in entries_of(record, "tag_set_matches"):
        if not isinstance(entry, list) or len(entry) != 2:
            raise NoteError("tag_set_matches", "must be pairs of tags and a number")
        tags = drafts.checked_tags(entry[0], "tag_set_matches")
        found.append((tags, checked_count("tag_set_matches", entry[1])))
    return found


def checked_score(field: str, value: object) -> float:
    """Return a number from -1 to 1."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not -1 <= value <= 1:  # type: ignore[operator]
        raise NoteError(field, "must be a number from -1 to 1")
    return float(value)  # type: ignore[arg-type]


def _relevance(value: object) -> TagRelevance:
    if not isinstance(value, list) or len(value) != 3:
        raise NoteError("tag_relevance", "must be lists of a score and two numbers of judgements")
    score, n_positive, n_negative = value
    return TagRelevance(
        checked_score("tag_relevance", score),
        checked_count("tag_relevance", n_positive),
        checked_count("tag_relevance", n_negative),
    )


def _feedback(entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get("is_applicable"), bool):
        raise NoteError("feedback", "must be objects with `is_applicable`")
    tag_scores = entry.get("tag_scores", {})
    if not isinstance(tag_scores, dict) or len(tag_scores) > MAX_TAGS:
        raise NoteError("feedback", "must have an object of scores by tag")
    return {
        "session_id": drafts.checked_line("feedback", entry.get("session_id", ""), drafts.MAX_SESSION_CHARS),
        "is_applicable": entry["is_applicable"],
        "reason": drafts.checked_line("feedback", entry.get("reason", ""), drafts.MAX_REASON_CHARS),
        "tag_scores": {
            drafts.checked_tag(tag, "feedback"): checked_score("feedback", score)
            for tag, score in tag_scores.items()
        },
        "now": checked_time("feedback", entry.get("created_at")),
    }


def _history(entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get("before"), dict):
        raise NoteError("history", "must be objects with `before`")
    return {
        "action": drafts.checked_choice("history", entry.get("action"), ACTIONS),
        "before": entry["before"],
        "now": checked_time("history", entry.get("created_at")),
    }
