"""What an agent learned in a conversation, filtered and without duplicates (004)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.errors import NoteError
from shoal.models.notes import TURN, AddedNote
from shoal.notes import adding, drafts
from shoal.notes.adding import Record
from shoal.notes.context import NoteContext
from shoal.notes.facts import says_of_self
from shoal.words.analysis import content_words

MIN_TERMS = 2
"""Least different words besides stop words. 004 counts 30 characters, but what counts is whether a text says
something: *Ann likes tea.* does, *That is what they said about it.* does not. *I* and *my* count as one:
*I am single.* says something."""
MIN_CONFIDENCE = 0.8
"""Confidence must be higher."""
MEANINGLESS_TOPICS = frozenset({"", "general", "misc", "miscellaneous", "other", "none", "unknown"})
FIELDS = frozenset(
    {"content", "text", "topic", "confidence", "metadata", "session_id", "tags", "categories", "source"}
    | {"said_at", "valid_from", "supersedes"}
)
TURN_FIELDS = frozenset({"content", "text", "speaker", "said_at", "session_id", "metadata", "source"})
"""The fields of a turn of a conversation; the first that says so is `speaker`."""


def remember(
    context: NoteContext, owner: str, items: Iterable[Mapping[str, Any]]
) -> list[AddedNote | NoteError]:
    """Store the items that pass the filters; one result for each, in order."""
    return [remember_one(context, owner, item) for item in items]


def remember_one(
    context: NoteContext, owner: str, item: object, *, record: Record | None = None
) -> AddedNote | NoteError:
    """Store an item if it passes the filters, and says nothing that was forgotten."""
    try:
        fields = fields_of(item)
        draft = drafts.make_draft(context.settings, fields)
        adding.check_not_forgotten(context, owner, draft)
        return adding.add(context, owner, draft, merge_similar=draft.kind != TURN, record=record)
    except NoteError as error:
        if record is not None:
            with context.database.write() as transaction:
                record(transaction, [error])
        return error


def fields_of(item: object) -> dict[str, Any]:
    """The fields of the note for an item or a turn. Raises NoteError."""
    is_turn = isinstance(item, Mapping) and "speaker" in item
    return turn_fields(item) if is_turn else note_fields(item)  # type: ignore[arg-type]


def turn_fields(item: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the note for a turn, which is kept word for word. Raises NoteError."""
    _check_names(item, TURN_FIELDS, "a turn")
    speaker = drafts.checked_line("speaker", item["speaker"], drafts.MAX_DOMAIN_CHARS)
    for name, value in (("speaker", speaker), ("session_id", item.get("session_id"))):
        if not value:
            raise NoteError(name, "must not be empty: it says where the turn belongs")
    return {
        "text": drafts.checked_text(item.get("content", item.get("text"))),
        "kind": TURN,
        "title": speaker,
        "session_id": item["session_id"],
        "said_at": item.get("said_at"),
        "metadata": item.get("metadata"),
        "source": item.get("source", "agent"),
    }


def _check_names(item: Mapping[str, Any], names: frozenset[str], noun: str) -> None:
    for name in item:
        if name not in names:
            raise NoteError(
                str(name)[:40], f"is not a field of {noun}; these are: {', '.join(sorted(names))}"
            )


def note_fields(item: object) -> dict[str, Any]:
    """The fields of the note for an item. Raises NoteError for one that a filter refuses."""
    if not isinstance(item, Mapping):
        raise NoteError("item", "must be an object")
    _check_names(item, FIELDS, "an item")
    content = drafts.checked_text(item.get("content", item.get("text")))
    if len({word.form for word in content_words(content)}) + says_of_self(content) < MIN_TERMS:
        raise NoteError("content", "says too little: it must have two words that carry a meaning")
    confidence = item.get("confidence")
    is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not is_number or not math.isfinite(confidence) or not MIN_CONFIDENCE < confidence <= 1:  # type: ignore[arg-type, operator]
        raise NoteError("confidence", f"must be a number above {MIN_CONFIDENCE} and at most 1")
    topic = drafts.checked_line("topic", item.get("topic", ""), drafts.MAX_DOMAIN_CHARS)
    if topic.casefold() in MEANINGLESS_TOPICS:
        what = f"{topic!r} says nothing" if topic else "is missing"
        raise NoteError("topic", f"{what}; give the subject of the item, such as 'Python performance'")
    metadata = item.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise NoteError("metadata", "must be an object")
    names = ("session_id", "tags", "categories", "said_at", "valid_from", "supersedes")
    others = {name: item[name] for name in names if name in item}
    return {
        "text": content,
        "kind": "knowledge",
        "source": item.get("source", "agent"),
        "metadata": {**metadata, "topic": topic, "confidence": confidence},
        **others,
    }
