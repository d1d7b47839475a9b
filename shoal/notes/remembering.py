"""What an agent learned in a conversation, filtered and without duplicates (004)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.errors import NoteError
from shoal.models.notes import AddedNote
from shoal.notes import adding, drafts
from shoal.notes.adding import Record
from shoal.notes.context import NoteContext
from shoal.words.typed import content_words

MIN_TERMS = 2
"""Least different words besides stop words. 004 counts 30 characters, but what counts is whether a text says
something: *Ann likes tea.* does, *That is what they said about it.* does not."""
MIN_CONFIDENCE = 0.8
"""Confidence must be higher."""
MEANINGLESS_TOPICS = frozenset({"", "general", "misc", "miscellaneous", "other", "none", "unknown"})
FIELDS = frozenset(
    {"content", "text", "topic", "confidence", "metadata", "session_id", "tags", "categories", "source"}
)


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
        draft = drafts.make_draft(context.settings, note_fields(item))
        adding.check_not_forgotten(context, owner, draft)
    except NoteError as error:
        if record is not None:
            with context.database.write() as transaction:
                record(transaction, [error])
        return error
    return adding.add(context, owner, draft, merge_similar=True, record=record)


def note_fields(item: object) -> dict[str, Any]:
    """The fields of the note for an item. Raises NoteError for one that a filter refuses."""
    if not isinstance(item, Mapping):
        raise NoteError("item", "must be an object")
    for name in item:
        if name not in FIELDS:
            raise NoteError(
                str(name)[:40], f"is not a field of an item; these are: {', '.join(sorted(FIELDS))}"
            )
    content = drafts.checked_text(item.get("content", item.get("text")))
    if len({word.form for word in content_words(content)}) < MIN_TERMS:
        raise NoteError("content", "says too little: it must have two words that carry a meaning")
    confidence = item.get("confidence")
    is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not is_number or not math.isfinite(confidence) or not MIN_CONFIDENCE < confidence <= 1:  # type: ignore[arg-type, operator]
        raise NoteError("confidence", f"must be a number above {MIN_CONFIDENCE} and at most 1")
    topic = drafts.checked_line("topic", item.get("topic", ""), drafts.MAX_DOMAIN_CHARS)
    if topic.casefold() in MEANINGLESS_TOPICS:
        raise NoteError("topic", f"{topic!r} says nothing; give the subject of the item")
    metadata = item.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise NoteError("metadata", "must be an object")
    others = {name: item[name] for name in ("session_id", "tags", "categories") if name in item}
    return {
        "text": content,
        "kind": "knowledge",
        "source": item.get("source", "agent"),
        "metadata": {**metadata, "topic": topic, "confidence": confidence},
        **others,
    }
