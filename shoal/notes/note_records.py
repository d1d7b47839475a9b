"""Notes of an export, checked like new ones, with their evidence, state, times and history."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import NoteError
from shoal.note_models import PINNED_BY, NoteDraft, TagRelevance
from shoal.notes import drafts
from shoal.notes.texts import TitledText, score_texts
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.json_text import compact_json
from shoal.storage.notes import NoteRows
from shoal.storage.reef_names import write_names
from shoal.support.clock import timestamp

MAX_COUNT = 2**53
MAX_ENTRIES = 10_000
"""Most entries of one list: sessions, matches, judgements or changes."""

ACTIONS = ("added", "updated", "deprecated", "restored", "pinned", "unpinned", "merged", "unmerged")

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True, slots=True)
class ImportedNote:
    """A checked note of an export. `columns` are those of the table that `draft` lacks."""

    owner: str
    draft: NoteDraft
    columns: Mapping[str, Any]
    sessions: tuple[str, ...]
    repo_matches: Mapping[str, int]
    tag_set_matches: Mapping[tuple[str, ...], int]
    tag_relevance: Mapping[str, TagRelevance]
    feedback: tuple[Mapping[str, Any], ...]
    history: tuple[Mapping[str, Any], ...]


def checked_note(settings: Settings, record: Mapping[str, Any]) -> ImportedNote:
    """Check a record of an export, canonical or not. Raises NoteError, which names the field."""
    given = {name: record[name] for name in _DRAFT_FIELDS if name in record}
    draft = drafts.make_draft(settings, given)
    deprecated_at = _time("deprecated_at", record.get("deprecated_at"))
    if deprecated_at is None and record.get("is_deprecated") is True:
        deprecated_at = timestamp()
    pinned_by = record.get("pinned_by")
    reason = drafts.checked_line(
        "deprecated_reason", record.get("deprecated_reason") or "", drafts.MAX_REASON_CHARS
    )
    columns = {
        "pinned_by": None if pinned_by is None else drafts.checked_choice("pinned_by", pinned_by, PINNED_BY),
        "pin_tags": compact_json(list(drafts.checked_tags(record.get("pin_tags", ()), "pin_tags"))),
        "occurrence_count": _count("occurrence_count", record.get("occurrence_count", 1), least=1),
        "times_matched": _count("times_matched", record.get("times_matched", 0)),
        "last_matched": _time("last_matched", record.get("last_matched")),
        "deprecated_at": deprecated_at,
        "deprecated_reason": None if deprecated_at is None else reason,
    }
    times = {name: time for name in ("created_at", "updated_at") if (time := _time(name, record.get(name)))}
    return ImportedNote(
        owner=drafts.checked_owner(record.get("owner")),
        draft=draft,
        columns={**columns, **times},
        sessions=tuple(
            drafts.checked_line("sessions", session, drafts.MAX_SESSION_CHARS)
            for session in _entries(record, "sessions")
        ),
        repo_matches={
            drafts.checked_line("repo_matches", repo, drafts.MAX_SESSION_CHARS): _count("repo_matches", n)
            for repo, n in _members(record, "repo_matches").items()
        },
        tag_set_matches=dict(_tag_sets(record)),
        tag_relevance={
            drafts.checked_tag(tag, "tag_relevance"): _relevance(value)
            for tag, value in _members(record, "tag_relevance").items()
        },
        feedback=tuple(map(_feedback, _entries(record, "feedback"))),
        history=tuple(map(_history, _entries(record, "history"))),
    )


_DRAFT_FIELDS = (
    "text", "kind", "title", "domain", "tags", "categories", "prerequisites", "source", "metadata",
    "verified",
)  # fmt: skip


def store_notes(database: Database, scorer: Scorer, settings: Settings, notes: Sequence[ImportedNote]) -> int:
    """Store notes in one transaction, without those whose text the owner has in the same state; return how
    many are new."""
    if not notes:
        return 0
    texts = [TitledText(note.draft.title, note.draft.text) for note in notes]
    with database.snapshot(limited=False) as snapshot:
        scored = score_texts(snapshot, scorer, texts, reefs_per_note=settings.reefs_per_chunk)
    n_new, now = 0, timestamp()
    with database.write() as transaction:
        write_names(transaction, scorer.data_checksum, scorer.reefs, scorer.islands)
        for note, each in zip(notes, scored, strict=True):
            rows = NoteRows(transaction, note.owner)
            text_hash = drafts.hash_of(note.draft.text)
            if rows.has_text(text_hash, is_active=note.columns["deprecated_at"] is None):
                continue
            n_new += 1
            note_id = rows.insert(note.draft, text_hash, each, rows.next_change(), now)
            _store_evidence(rows, note_id, note, now)
    return n_new


def _store_evidence(rows: NoteRows, note_id: int, note: ImportedNote, now: str) -> None:
    rows.set(note_id, **note.columns)
    for session_id in note.sessions:
        rows.add_session(note_id, session_id)
    rows.write_matches(note_id, repos=note.repo_matches, tag_sets=note.tag_set_matches)
    rows.write_relevance(note_id, note.tag_relevance)
    for entry in note.feedback:
        rows.add_feedback(note_id, **{**entry, "now": entry["now"] or now})
    for change in note.history:
        rows.add_history(note_id, change["action"], change["before"], change["now"] or now)


# Checks of the parts of a record


def _entries(record: Mapping[str, Any], field: str) -> list[Any]:
    value = record.get(field, [])
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        raise NoteError(field, f"must be a list of at most {MAX_ENTRIES:,} entries")
    return value


def _members(record: Mapping[str, Any], field: str) -> dict[str, Any]:
    value = record.get(field, {})
    if not isinstance(value, dict) or len(value) > MAX_ENTRIES:
        raise NoteError(field, f"must be an object of at most {MAX_ENTRIES:,} members")
    return value


def _count(field: str, value: object, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_COUNT:
        raise NoteError(field, f"must be a whole number from {least}")
    return value


def _time(field: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise NoteError(field, "must be a time such as 2026-01-31T00:00:00.000Z")
    return value


def _tag_sets(record: Mapping[str, Any]) -> list[tuple[tuple[str, ...], int]]:
    found = []
    for entry in _entries(record, "tag_set_matches"):
        if not isinstance(entry, list) or len(entry) != 2:
            raise NoteError("tag_set_matches", "must be pairs of tags and a number")
        tags = drafts.checked_tags(entry[0], "tag_set_matches")
        found.append((tags, _count("tag_set_matches", entry[1])))
    return found


def _score(field: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not -1 <= value <= 1:  # type: ignore[operator]
        raise NoteError(field, "must be a number from -1 to 1")
    return float(value)  # type: ignore[arg-type]


def _relevance(value: object) -> TagRelevance:
    if not isinstance(value, list) or len(value) != 3:
        raise NoteError("tag_relevance", "must be lists of a score and two numbers of judgements")
    score, n_positive, n_negative = value
    return TagRelevance(
        _score("tag_relevance", score),
        _count("tag_relevance", n_positive),
        _count("tag_relevance", n_negative),
    )


def _feedback(entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get("is_applicable"), bool):
        raise NoteError("feedback", "must be objects with `is_applicable`")
    tag_scores = entry.get("tag_scores", {})
    if not isinstance(tag_scores, dict) or len(tag_scores) > drafts.MAX_TAGS:
        raise NoteError("feedback", "must have an object of scores by tag")
    return {
        "session_id": drafts.checked_line("feedback", entry.get("session_id", ""), drafts.MAX_SESSION_CHARS),
        "is_applicable": entry["is_applicable"],
        "reason": drafts.checked_line("feedback", entry.get("reason", ""), drafts.MAX_REASON_CHARS),
        "tag_scores": {
            drafts.checked_tag(tag, "feedback"): _score("feedback", score)
            for tag, score in tag_scores.items()
        },
        "now": _time("feedback", entry.get("created_at")),
    }


def _history(entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get("before"), dict):
        raise NoteError("history", "must be objects with `before`")
    return {
        "action": drafts.checked_choice("history", entry.get("action"), ACTIONS),
        "before": entry["before"],
        "now": _time("history", entry.get("created_at")),
    }
