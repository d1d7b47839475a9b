"""Checks of what a note is given: every error names the field."""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import PurePath
from typing import Any, TypeVar

from shoal.declared.arguments import MAX_ID, Moment
from shoal.declared.notes import MAX_CATEGORY_DEPTH, MAX_TAGS, MAX_TEXT_CHARS
from shoal.errors import InvalidFieldError, NoteError, QueryError
from shoal.formats.decoding import clean
from shoal.formats.drafts import checked_metadata
from shoal.models.notes import KINDS, SOURCES, NoteDraft
from shoal.notes.dates import find_dates
from shoal.notes.environment import normalized_tag
from shoal.notes.prerequisites import Prerequisites, split_tags
from shoal.settings import Settings

MAX_OWNER_CHARS = 200
MAX_SESSION_CHARS = 200
MAX_PATH_CHARS = 4_096
MAX_REASON_CHARS = 1_000
MAX_DOMAIN_CHARS = 100
MAX_TAG_CHARS = 100
MAX_CATEGORIES = 20
MAX_CATEGORY_CHARS = 200

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")

MAX_DATED_CHARS = 2_000
"""Characters of a text that are searched for the time that it names."""

FIELDS = frozenset(NoteDraft.__dataclass_fields__) - {"event_from", "event_to", "event_words"}

Result = TypeVar("Result")


def _as_note_error(function: Callable[..., Result]) -> Callable[..., Result]:
    """Turn an InvalidFieldError into a NoteError of the same field."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Result:
        try:
            return function(*args, **kwargs)
        except InvalidFieldError as error:
            raise NoteError(error.field, error.message) from error

    return wrapped


def checked_owner(owner: object) -> str:
    """Return an owner, unchanged: owners are compared exactly. Raises NoteError."""
    if not isinstance(owner, str):
        raise NoteError("owner", "must be a text")
    if not 1 <= len(owner) <= MAX_OWNER_CHARS:
        raise NoteError("owner", f"must have 1 to {MAX_OWNER_CHARS} characters, not {len(owner):,}")
    if _CONTROL.search(owner) or owner.isspace():
        raise NoteError("owner", "must not be blank or contain control characters or line ends")
    return owner


def make_draft(settings: Settings, given: Mapping[str, Any]) -> NoteDraft:
    """Check the fields of a new note. Raises NoteError."""
    for name in given:
        if name not in FIELDS:
            raise NoteError(
                str(name)[:40], f"is not a field of a note; these are: {', '.join(sorted(FIELDS))}"
            )
    if "text" not in given:
        raise NoteError("text", "is missing")
    text = checked_text(given["text"])
    said_at = checked_moment("said_at", given.get("said_at"))
    gates, gate_tags = _prerequisites(given.get("prerequisites"))
    verified = given.get("verified", False)
    if not isinstance(verified, bool):
        raise NoteError("verified", "must be true or false")
    return NoteDraft(
        text=text,
        kind=checked_choice("kind", given.get("kind", "lesson"), KINDS),
        title=checked_line("title", given.get("title", ""), settings.max_title_chars),
        domain=checked_line("domain", given.get("domain", ""), MAX_DOMAIN_CHARS),
        tags=checked_tags([*_texts("tags", given.get("tags", ())), *gate_tags]),
        categories=checked_categories(given.get("categories", ())),
        prerequisites=gates.as_json(),
        source=checked_choice("source", given.get("source", "manual"), SOURCES),
        metadata=checked_metadata_of(given.get("metadata"), settings),
        session_id=checked_line("session_id", given.get("session_id") or "", MAX_SESSION_CHARS),
        verified=verified,
        said_at=said_at,
        supersedes=_supersedes(given.get("supersedes")),
        **times_of(text, said_at, given.get("valid_from")),
    )


def times_of(text: str, said_at: str, valid_from: object = None) -> dict[str, Any]:
    """Return the fields of a note for the first time that its text names, and the first day on which it
    holds: `valid_from`, else a day that the text names as past or as a start, else that when it was said."""
    said = date.fromisoformat(said_at[:10]) if said_at else datetime.now(UTC).date()
    found = find_dates(text[:MAX_DATED_CHARS], said)
    day = checked_day("valid_from", valid_from)
    start = next((each.first for each in found if each.is_start or each.first <= said), said)
    event = found[0] if found else None
    return {
        "event_from": event and event.first.isoformat(),
        "event_to": event and event.last.isoformat(),
        "event_words": text[event.start : event.end] if event else "",
        "valid_from": day or start.isoformat(),
    }


def _supersedes(note_id: object) -> int | None:
    if note_id is None:
        return None
    if isinstance(note_id, bool) or not isinstance(note_id, int) or not 1 <= note_id <= MAX_ID:
        raise NoteError("supersedes", "must be the id of a note")
    return note_id


def checked_moment(field: str, moment: object) -> str:
    """Return a time in UTC; an empty text if none is given."""
    if moment is None or moment == "":
        return ""
    try:
        return Moment().check(field, moment)
    except QueryError as error:
        raise NoteError(field, str(error)) from error


def checked_day(field: str, day: object) -> str:
    """Return a day as `2026-01-31`; an empty text if none is given."""
    if isinstance(day, date) and not isinstance(day, datetime):
        return day.isoformat()
    return checked_moment(field, day)[:10]


def checked_text(text: object) -> str:
    """Return the text of a note: control characters become spaces, and white space around it goes."""
    if not isinstance(text, str):
        raise NoteError("text", "must be a text")
    if len(text) > MAX_TEXT_CHARS:
        raise NoteError("text", f"is {len(text):,} characters; the limit is {MAX_TEXT_CHARS:,}")
    cleaned = clean(text).strip()
    if not cleaned:
        raise NoteError("text", "is empty")
    return cleaned


def cleaned(field: str, text: object) -> str:
    """Return a text with spaces in place of control characters."""
    if not isinstance(text, str):
        raise NoteError(field, "must be a text")
    return clean(text)


def checked_line(field: str, text: object, limit: int) -> str:
    """Return a text on one line, which may be empty."""
    if not isinstance(text, str):
        raise NoteError(field, "must be a text")
    if len(text) > limit:
        raise NoteError(field, f"is {len(text):,} characters; the limit is {limit:,}")
    return " ".join(clean(text).split())


def checked_path(path: object, field: str = "transcript_path") -> str:
    """Return an absolute path, or an empty text, unchanged."""
    if not isinstance(path, str) or len(path) > MAX_PATH_CHARS or _CONTROL.search(path):
        raise NoteError(field, f"must be a path of at most {MAX_PATH_CHARS:,} characters")
    if path and not PurePath(path).is_absolute():
        raise NoteError(field, "must be absolute")
    return path


def checked_tags(tags: object, field: str = "tags") -> tuple[str, ...]:
    """Return tags in lower case, unique and in alphabetical order."""
    unique = set[str]()
    for tag in _texts(field, tags):
        unique.add(checked_tag(tag, field))
        if len(unique) > MAX_TAGS:
            raise NoteError(field, f"there are over {MAX_TAGS}, which is the limit")
    return tuple(sorted(unique))


def checked_tag(tag: object, field: str = "tag") -> str:
    """Return a tag in lower case with single spaces."""
    name = normalized_tag(checked_line(field, tag, MAX_TAG_CHARS))
    if not name:
        raise NoteError(field, "must not be an empty text")
    return name


def checked_categories(paths: object, field: str = "categories") -> tuple[str, ...]:
    """Return category paths, unique and in alphabetical order."""
    unique = set[str]()
    for path in _texts(field, paths):
        unique.add(checked_category(path, field))
        if len(unique) > MAX_CATEGORIES:
            raise NoteError(field, f"there are over {MAX_CATEGORIES}, which is the limit")
    return tuple(sorted(unique))


def checked_category(path: object, field: str = "category") -> str:
    """Return a category path such as `build/docker`. A part that is repeated would make the path a cycle."""
    line = checked_line(field, path, MAX_CATEGORY_CHARS)
    parts = [part.strip() for part in line.split("/")]
    if not all(parts):
        raise NoteError(
            field, f"{line[:40]!r} must be parts separated by single slashes, such as build/docker"
        )
    if len(parts) > MAX_CATEGORY_DEPTH:
        raise NoteError(field, f"{line[:40]!r} has {len(parts)} parts; the limit is {MAX_CATEGORY_DEPTH}")
    if len(set(parts)) < len(parts):
        raise NoteError(field, f"{line[:40]!r} has a part twice, so a category would contain itself")
    return "/".join(parts)


@_as_note_error
def _prerequisites(given: object) -> tuple[Prerequisites, tuple[str, ...]]:
    """Return structural prerequisites, and the tags that came with them: these are tags of the note."""
    return (given, ()) if isinstance(given, Prerequisites) else split_tags(given)


@_as_note_error
def checked_metadata_of(metadata: object, settings: Settings) -> dict[str, Any]:
    """Return a copy of the metadata: JSON of limited size and depth."""
    return checked_metadata(metadata, settings)


def checked_choice(field: str, value: object, choices: Iterable[str]) -> str:
    """Return `value`, which must be one of `choices`."""
    names = tuple(choices)
    if not isinstance(value, str) or value not in names:
        raise NoteError(field, f"must be one of {', '.join(names)}")
    return value


def hash_of(text: str) -> str:
    """Return the SHA-256 (hex) by which equal texts are found: white space and Unicode forms do not
    matter."""
    normalized = " ".join(unicodedata.normalize("NFC", text).split())
    return hashlib.sha256(normalized.encode()).hexdigest()


def _texts(field: str, given: object) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise NoteError(field, "must be a list of texts")
    return list(given)
