"""What sessions tell about notes: that they were shown, and whether they were applicable. Both may pin or
unpin a note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.models.notes import Note
from shoal.notes.affinity import tag_weight
from shoal.notes.context import NoteContext
from shoal.notes.drafts import checked_tags
from shoal.notes.environment import Environment
from shoal.notes.note_rows import NoteRows
from shoal.notes.pinning import Pin, keeps_pin, pin_by_matches, pin_by_relevance
from shoal.notes.prerequisites import Prerequisites
from shoal.notes.relevance import feedback_scores, is_filtered, judged, relevance_in
from shoal.notes.session_rows import SessionRows
from shoal.settings import Settings
from shoal.storage.column_values import compact_json
from shoal.storage.database import Transaction
from shoal.support.clock import timestamp

MAX_CONTEXT_CHARS = 500
"""Characters of what was searched for that the event log keeps."""


def record_shown(
    context: NoteContext,
    owner: str,
    session_id: str,
    note_ids: Sequence[int],
    *,
    event: str,
    environment: Environment | None,
    searched_for: str,
    only_new: bool = False,
    seconds: float | None = None,
) -> list[int]:
    """Count that a session was shown notes, log the event, and pin notes that were matched often enough.

    Return the ids of these notes; with `only_new`, without those that the session was shown before.
    `seconds`: as of `Database.write`.
    """
    where = environment or Environment()
    now = timestamp()
    with context.database.write(seconds=seconds) as transaction:
        rows, sessions = NoteRows(transaction, owner), SessionRows(transaction, owner)
        before = set(sessions.shown(session_id)) if only_new else set()
        note_ids = [note_id for note_id in note_ids if note_id not in before]
        for note_id in note_ids:
            rows.check(note_id)
            rows.count_match(note_id, repo=where.repo, tags=where.tags, now=now)
        sessions.write_session(session_id, repo=where.repo, tags=where.tags, now=now)
        sessions.add_shown(session_id, note_ids, event=event, now=now)
        sessions.add_event(
            session_id, event=event, note_ids=note_ids, context=searched_for[:MAX_CONTEXT_CHARS], now=now
        )
        if where.tags:
            for note in rows.get_many(note_ids, label_threshold=context.settings.label_threshold):
                _pin_by_matches(rows, note, context.settings, now)
    return note_ids


def record_stop(
    context: NoteContext, owner: str, session_id: str, environment: Environment | None, transcript_path: str
) -> None:
    """Write where a session works, and queue its transcript, if it has one, for the extraction."""
    where, now = environment or Environment(), timestamp()
    with context.database.write() as transaction:
        sessions = SessionRows(transaction, owner)
        sessions.write_session(session_id, repo=where.repo, tags=where.tags, now=now)
        if transcript_path:
            sessions.queue(session_id, transcript_path, now)


def feedback(
    context: NoteContext,
    owner: str,
    note_id: int,
    *,
    is_applicable: bool,
    reason: str,
    tag_scores: Mapping[str, object] | None,
    add_prerequisites: Prerequisites,
    add_tags: Sequence[str],
    session_id: str,
    environment: Environment | None,
) -> Note:
    """Write a judgement of a note and what follows from it. Raises NotFoundError.

    The judged tags are those of `tag_scores`, else of the environment, else of the session's, else of the
    note itself.
    """
    now, threshold = timestamp(), context.settings.label_threshold
    with context.database.write() as transaction:
        rows = NoteRows(transaction, owner)
        note = rows.get(note_id, label_threshold=threshold)
        tags = _judged_tags(transaction, owner, note, session_id, environment)
        scores = feedback_scores(is_applicable, tag_scores, tags)
        relevance = {**note.tag_relevance, **judged(note.tag_relevance, scores, context.settings)}
        rows.write_relevance(note_id, {tag: relevance[tag] for tag in scores})
        rows.add_feedback(
            note_id,
            session_id=session_id,
            is_applicable=is_applicable,
            reason=reason,
            tag_scores=scores,
            now=now,
        )
        rows.change(note_id, now)
        before = Prerequisites.from_json(dict(note.prerequisites))
        after = before.united(add_prerequisites)
        all_tags = checked_tags([*note.tags, *add_tags], "add_prerequisites")
        former: dict[str, Any] = {}
        if after != before:
            former["prerequisites"] = before.as_json()
            rows.change(note_id, now, prerequisites=compact_json(after.as_json()))
        if all_tags != note.tags:
            former["tags"] = note.tags
            rows.set_tags(note_id, all_tags)
        if former:
            rows.add_history(note_id, "updated", former, now)
        if (current := pin_of(note)) is not None:
            if not keeps_pin(current, relevance, context.settings):
                write_pin(rows, note, None, now)
        elif (pin := pin_by_relevance(relevance, list(scores), context.settings)) is not None:
            write_pin(rows, note, pin, now)
        return rows.get(note_id, label_threshold=threshold)


def applies(note: Note, environment: Environment, settings: Settings) -> bool:
    """Whether a pinned note is shown in an environment."""
    pin = pin_of(note)
    return (
        pin is not None
        and pin.holds_in(environment.tags)
        and Prerequisites.from_json(dict(note.prerequisites)).hold_in(environment)
        and not is_filtered(relevance_in(note.tag_relevance, environment.tags), settings)
    )


def pin_of(note: Note) -> Pin | None:
    """Return the pin of a note."""
    return None if note.pinned_by is None else Pin(note.pinned_by, note.pin_tags)  # type: ignore[arg-type]


def write_pin(rows: NoteRows, note: Note, pin: Pin | None, now: str) -> None:
    """Pin a note, or take its pin back, and write the history."""
    before = {"pinned_by": note.pinned_by, "pin_tags": note.pin_tags}
    rows.add_history(note.id, "unpinned" if pin is None else "pinned", before, now)
    tags = () if pin is None else pin.tags
    rows.change(note.id, now, pinned_by=None if pin is None else pin.by, pin_tags=compact_json(list(tags)))


def _pin_by_matches(rows: NoteRows, note: Note, settings: Settings, now: str) -> None:
    if note.pinned or not note.is_active:
        return
    pin = pin_by_matches(note.tag_set_matches, note.tag_relevance, settings)
    if pin is None:
        return
    n_active, _ = rows.counts()
    tags = {tag for tag_set, _ in note.tag_set_matches for tag in tag_set}
    weights = {tag: tag_weight(n_active, n) for tag, n in rows.count_with_tags(sorted(tags)).items()}
    pin = pin_by_matches(note.tag_set_matches, note.tag_relevance, settings, weights=weights)
    write_pin(rows, note, pin, now)


def _judged_tags(
    transaction: Transaction, owner: str, note: Note, session_id: str, environment: Environment | None
) -> tuple[str, ...]:
    if environment is not None and environment.tags:
        return environment.tags
    of_session = SessionRows(transaction, owner).tags(session_id) if session_id else ()
    return of_session or note.tags
