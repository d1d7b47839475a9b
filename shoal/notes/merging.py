"""Merging of notes that say the same, as values: which judgements of groups are valid, which note survives,
what it becomes, and what it is after an undo.

| part | of the merged note |
|---|---|
| text | the canonical text |
| occurrences, matches, matches by repository and by tag set | added |
| sessions, categories, prerequisites `os`, `repos`, `paths` | united |
| tags, prerequisite `mcp_servers` | those that all notes have |
| relevance by tag | scores averaged by evidence, counts added |
| pin | that of a person, else that of the first note with one |
| kind, title, domain, source, metadata | those of the survivor |

The rules are those of 002; the rows on pins and on the survivor's own fields are ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.declared.notes import MAX_MERGED
from shoal.errors import NoteError
from shoal.models.notes import DECIDED_BY, TagRelevance
from shoal.notes import drafts, prerequisites, relevance
from shoal.notes.pinning import Pin
from shoal.notes.prerequisites import GATES, MAX_VALUES, Prerequisites
from shoal.settings import Settings

PERSON, AGENT, ENDPOINT = DECIDED_BY
MAX_GROUPS = 1_000
GROUP_FIELDS = frozenset({"ids", "canonical_text", "confidence", "reason"})


@dataclass(frozen=True, slots=True)
class NoteState:
    """What merges read and write of a note.

    verified      a person or a second source confirmed it
    is_compared   it was compared with others (`dedup_verified`)
    tag_set_matches   by the JSON text of the tag set
    """

    id: int
    text: str
    verified: bool
    is_compared: bool
    occurrence_count: int
    times_matched: int
    last_matched: str | None
    prerequisites: Prerequisites
    pin: Pin | None
    tags: Set[str]
    categories: Set[str]
    sessions: Set[str]
    repo_matches: Mapping[str, int]
    tag_set_matches: Mapping[str, int]
    relevance: Mapping[str, TagRelevance]


class Group(NamedTuple):
    """Notes that say the same. `confidence`: 0 to 1."""

    note_ids: tuple[int, ...]
    canonical_text: str
    confidence: float
    reason: str


class Judgements(NamedTuple):
    """A valid answer to the question which notes say the same."""

    groups: tuple[Group, ...]
    no_match_ids: tuple[int, ...]


# Validation


def checked_judgements(answer: object, *, known: Collection[int], asked: Collection[int]) -> Judgements:
    """Check an answer strictly.

    `known`: ids of all notes in the question; `asked`: those that must be in a group or in `no_match_ids`.
    Raises NoteError, which says what is wrong.
    """
    if not isinstance(answer, Mapping) or answer.keys() != {"groups", "no_match_ids"}:
        raise NoteError("answer", "must be an object with `groups` and `no_match_ids` and nothing else")
    given = answer["groups"]
    if not isinstance(given, list) or len(given) > MAX_GROUPS:
        raise NoteError("groups", f"must be a list of at most {MAX_GROUPS:,} groups")
    seen = set[int]()
    groups = tuple(_checked_group(group, known, seen) for group in given)
    no_match_ids = _checked_ids("no_match_ids", answer["no_match_ids"], known, seen)
    if missing := sorted(set(asked) - seen):
        shown = ", ".join(map(str, missing[:10]))
        raise NoteError("no_match_ids", f"every note must be in a group or here; missing: {shown}")
    return Judgements(groups, no_match_ids)


def _checked_group(group: object, known: Collection[int], seen: set[int]) -> Group:
    if not isinstance(group, Mapping) or group.keys() != GROUP_FIELDS:
        raise NoteError("groups", f"must be objects with {', '.join(sorted(GROUP_FIELDS))} and nothing else")
    note_ids = _checked_ids("groups.ids", group["ids"], known, seen)
    if not 2 <= len(note_ids) <= MAX_MERGED:
        raise NoteError("groups.ids", f"must be 2 to {MAX_MERGED} ids, not {len(note_ids)}")
    return Group(
        tuple(sorted(note_ids)),
        drafts.checked_text(group["canonical_text"]),
        checked_confidence(group["confidence"]),
        drafts.checked_line("reason", group["reason"], drafts.MAX_REASON_CHARS),
    )


def _checked_ids(field: str, given: object, known: Collection[int], seen: set[int]) -> tuple[int, ...]:
    if not isinstance(given, list):
        raise NoteError(field, "must be a list of ids")
    for note_id in given:
        if isinstance(note_id, bool) or not isinstance(note_id, int) or note_id not in known:
            raise NoteError(field, f"{str(note_id)[:40]!r} is not the id of a note in the question")
        if note_id in seen:
            raise NoteError(field, f"note {note_id} is there twice")
        seen.add(note_id)
    return tuple(given)


def checked_confidence(confidence: object) -> float:
    """Return a confidence, 0 to 1. Raises NoteError."""
    is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not is_number or not math.isfinite(confidence) or not 0 <= confidence <= 1:  # type: ignore[arg-type, operator]
        raise NoteError("confidence", "must be a number from 0 to 1")
    return float(confidence)  # type: ignore[arg-type]


# Merging


def by_precedence(notes: Iterable[NoteState]) -> list[NoteState]:
    """Sort notes, the survivor of a merge first: confirmed, then compared ones, then those submitted most
    often, then the oldest.

    What 002 calls verified is our queue state `is_compared`. A note that a person or a second source
    confirmed is worth more.
    """
    return sorted(
        notes, key=lambda note: (not note.verified, not note.is_compared, -note.occurrence_count, note.id)
    )


def merged(notes: Collection[NoteState], canonical_text: str, decided_by: str) -> NoteState:
    """Return what the survivor becomes; the order of `notes` does not matter.

    The merged note counts as confirmed if a person decides, if its text is that of a confirmed note, or if it
    is that of one of the notes and two sessions submitted them. Words of an endpoint are confirmed by nobody.
    Raises NoteError if the merged note would exceed a limit.
    """
    ordered = by_precedence(notes)
    survivor = ordered[0]
    sessions = frozenset[str]().union(*(note.sessions for note in ordered))
    with_text = [note for note in ordered if drafts.hash_of(note.text) == drafts.hash_of(canonical_text)]
    result = NoteState(
        id=survivor.id,
        text=canonical_text,
        verified=decided_by == PERSON
        or any(note.verified for note in with_text)
        or (bool(with_text) and len(sessions) > 1),
        is_compared=False,
        occurrence_count=sum(note.occurrence_count for note in ordered),
        times_matched=sum(note.times_matched for note in ordered),
        last_matched=max(filter(None, (note.last_matched for note in ordered)), default=None),
        prerequisites=prerequisites.merge(note.prerequisites for note in ordered),
        pin=_merged_pin(ordered),
        tags=frozenset(prerequisites.merge_tags(note.tags for note in ordered)),
        categories=frozenset[str]().union(*(note.categories for note in ordered)),
        sessions=sessions,
        repo_matches=_summed(note.repo_matches for note in ordered),
        tag_set_matches=_summed(note.tag_set_matches for note in ordered),
        relevance=relevance.merge(note.relevance for note in ordered),
    )
    _check_limits(result)
    return result


def _merged_pin(ordered: Sequence[NoteState]) -> Pin | None:
    pins = [note.pin for note in ordered if note.pin is not None]
    return next((pin for pin in pins if pin.by == PERSON), pins[0] if pins else None)


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return dict(total)


def _check_limits(note: NoteState) -> None:
    if len(note.categories) > drafts.MAX_CATEGORIES:
        raise NoteError(
            "categories", f"of the merged note would be over {drafts.MAX_CATEGORIES}; remove some first"
        )
    for gate in GATES:
        if len(getattr(note.prerequisites, gate)) > MAX_VALUES:
            raise NoteError(
                f"prerequisites.{gate}", f"of the merged note would be over {MAX_VALUES}; remove some first"
            )


# Undoing


def unmerged(
    before: NoteState,
    after: NoteState,
    now: NoteState,
    judgements: Iterable[Mapping[str, float]],
    settings: Settings,
) -> NoteState:
    """Return what the survivor is after an undo: as `before`, with what came since the merge.

    `after`: what the merge made of it; `judgements`: scores by tag of the feedback since. Counts and sessions
    since the merge stay with the survivor, and so do fields that were changed since.
    """
    by_tag = dict(before.relevance)
    for scores in judgements:
        by_tag |= relevance.judged(by_tag, scores, settings)
    return dataclasses.replace(
        before,
        verified=_field(before, after, now, "verified"),
        occurrence_count=max(1, before.occurrence_count + now.occurrence_count - after.occurrence_count),
        times_matched=max(0, before.times_matched + now.times_matched - after.times_matched),
        last_matched=_field(before, after, now, "last_matched"),
        prerequisites=_field(before, after, now, "prerequisites"),
        pin=_field(before, after, now, "pin"),
        tags=_elements(before.tags, after.tags, now.tags),
        categories=_elements(before.categories, after.categories, now.categories),
        sessions=_elements(before.sessions, after.sessions, now.sessions),
        repo_matches=_counts(before.repo_matches, after.repo_matches, now.repo_matches),
        tag_set_matches=_counts(before.tag_set_matches, after.tag_set_matches, now.tag_set_matches),
        relevance=by_tag,
    )


def _field(before: NoteState, after: NoteState, now: NoteState, name: str) -> Any:
    changed = getattr(now, name) != getattr(after, name)
    return getattr(now if changed else before, name)


def _elements(before: Set[str], after: Set[str], now: Set[str]) -> Set[str]:
    return (before | (now - after)) - (after - now)


def _counts(before: Mapping[str, int], after: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    names = {**before, **now}
    counts = {name: before.get(name, 0) + now.get(name, 0) - after.get(name, 0) for name in names}
    return {name: n for name, n in counts.items() if n > 0}
