"""Notes of one owner. No statement reads or writes a note without its owner, so a caller cannot forget it.

Every change that a search can see gets the next change number, the largest of all notes so far. Deprecated
notes keep their rows until they are purged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError
from shoal.models.notes import (
    TURN,
    CategoryCount,
    Feedback,
    HistoryEntry,
    Note,
    NoteDraft,
    NoteEvent,
    NotePage,
    ScoredText,
    TagRelevance,
    TagSetMatches,
)
from shoal.models.vocabulary import Label
from shoal.storage.chunk_queries import as_profiles
from shoal.storage.column_values import compact_json
from shoal.storage.database import IDS_PER_STATEMENT, Snapshot, Transaction, listed

# `+owner` keeps SQLite from reading all notes of the owner where it knows the ids.
# A MAX alone is one lookup in the index; beside another column, SQLite would read all notes of the owner.
STATE = """
    SELECT COALESCE((SELECT MAX(change_number) FROM notes WHERE owner = :owner), 0),
           COALESCE((SELECT n_active FROM note_owners WHERE owner = :owner), 0)
"""
COUNTS = "SELECT n_active, n_deprecated FROM note_owners WHERE owner = :owner"
COUNT_PINNED = """
    SELECT COUNT(*) FROM notes INDEXED BY idx_notes_pinned
    WHERE owner = :owner AND pinned_by IS NOT NULL AND deprecated_at IS NULL
"""
COUNT_BY_KIND = """
    SELECT kind, COUNT(*) FROM notes
    WHERE owner = :owner AND deprecated_at IS NULL GROUP BY kind ORDER BY kind
"""
COUNT_WITH_TAGS = """
    SELECT t.tag, COUNT(*)
    FROM note_tags t JOIN notes n ON n.id = t.note_id AND n.owner = :owner AND n.deprecated_at IS NULL
    WHERE t.tag IN ({tags}) GROUP BY t.tag
"""
CHANGED_AFTER = """
    SELECT n.id, n.deprecated_at IS NULL, n.kind, n.words, n.profile, n.data_checksum, n.prerequisites,
           (SELECT json_group_array(tag) FROM note_tags WHERE note_id = n.id),
           (SELECT json_group_array(path) FROM note_categories WHERE note_id = n.id),
           (SELECT json_group_array(json_array(tag, score, n_positive, n_negative))
            FROM note_tag_relevance WHERE note_id = n.id),
           n.domain, CASE WHEN n.pinned_by IS NOT NULL AND n.pin_tags = '[]' THEN 'yes' ELSE 'no' END,
           COALESCE((SELECT MIN(session_id) FROM note_sources WHERE note_id = n.id), ''),
           CASE WHEN n.kind = 'turn' AND substr(n.text, length(n.text)) = '?' THEN 'yes' ELSE 'no' END,
           COALESCE(t.said_at, n.created_at), t.event_from, t.event_to, t.valid_from, t.valid_to,
           t.fact_id
    FROM notes n LEFT JOIN note_times t ON t.note_id = n.id
    WHERE n.owner = :owner AND n.change_number > :after AND (:after > 0 OR n.deprecated_at IS NULL)
    ORDER BY n.change_number
"""
GET_NOTES = """
    SELECT n.*, COALESCE(t.said_at, n.created_at) AS said_at, t.event_from, t.event_to, t.event_words,
           t.valid_from, t.valid_to, t.superseded_by, t.fact_id
    FROM notes n LEFT JOIN note_times t ON t.note_id = n.id WHERE +n.owner = :owner AND n.id IN ({ids})
"""
PACKED = """
    SELECT id, text, words, profile, data_checksum FROM notes
    WHERE +owner = :owner AND id IN ({ids}) ORDER BY id
"""
FORGOTTEN = "forgotten"
"""The reason of deprecated notes that must not be learned again."""
MAX_FORGOTTEN = 500
"""Forgotten notes, newest first, that a text is compared with."""
PACKED_FORGOTTEN = f"""
    SELECT id, text, words, profile, data_checksum FROM notes
    WHERE owner = :owner AND deprecated_at IS NOT NULL AND deprecated_reason = '{FORGOTTEN}'
    ORDER BY id DESC LIMIT {MAX_FORGOTTEN}
"""
EXISTS = "SELECT 1 FROM notes WHERE owner = :owner AND id = :id"
# A turn is the same only at its place in a conversation; what was replaced may be said anew.
_HOLDS = "NOT EXISTS (SELECT 1 FROM note_times t WHERE t.note_id = n.id AND t.valid_to IS NOT NULL)"
FIND_BY_HASH = f"""
    SELECT n.id FROM notes n WHERE n.owner = :owner AND n.text_hash = :text_hash
        AND n.deprecated_at IS NULL AND n.kind <> 'turn' AND {_HOLDS} ORDER BY n.id LIMIT 1"""
FIND_TURN = """
    SELECT n.id FROM notes n JOIN note_times t ON t.note_id = n.id JOIN note_sources s ON s.note_id = n.id
    WHERE n.owner = :owner AND n.text_hash = :text_hash AND n.deprecated_at IS NULL AND n.kind = 'turn'
        AND n.title = :title AND t.said_at = :said_at AND s.session_id = :session_id ORDER BY n.id LIMIT 1"""
WITH_TEXT = f"""
    SELECT n.id, n.created_at FROM notes n WHERE n.owner = :owner AND n.text_hash = :text_hash
        AND CASE WHEN n.deprecated_at IS NULL AND n.kind <> 'turn' AND {_HOLDS} THEN 1 ELSE 0 END = :is_single
    ORDER BY n.id LIMIT 1 OFFSET :n_before
"""
IDS = "SELECT id FROM notes WHERE owner = :owner ORDER BY id"
IDS_BY_TEXT = """
    SELECT id FROM notes WHERE owner = :owner ORDER BY text_hash, deprecated_at IS NOT NULL, kind, title, id
"""
FIND_ACTIVE = "SELECT id FROM notes WHERE owner = :owner AND id = :id AND deprecated_at IS NULL"
LIST_IDS = (
    "SELECT n.id FROM notes n WHERE n.owner = :owner{conditions} ORDER BY n.id LIMIT :limit OFFSET :offset"
)
COUNT_LISTED = "SELECT COUNT(*) FROM notes n WHERE n.owner = :owner{conditions}"
IS_ACTIVE = " AND n.deprecated_at IS NULL"
IS_KIND = " AND n.kind = :kind"
IS_PINNED = " AND n.pinned_by IS NOT NULL"
IS_NOT_PINNED = " AND n.pinned_by IS NULL"
HAS_TAG = " AND EXISTS (SELECT 1 FROM note_tags t WHERE t.note_id = n.id AND t.tag = :tag)"
HAS_CATEGORY = """ AND EXISTS (
    SELECT 1 FROM note_categories c
    WHERE c.note_id = n.id
        AND (c.path = :category OR (c.path > :category || '/' AND c.path < :category || '0')))"""
PINNED_IDS = """
    SELECT id FROM notes
    WHERE owner = :owner AND pinned_by IS NOT NULL AND deprecated_at IS NULL ORDER BY id
"""
_OF_OWNER = "JOIN notes n ON n.id = x.note_id AND +n.owner = :owner WHERE x.note_id IN ({ids})"
TAGS_OF = f"SELECT x.note_id, x.tag FROM note_tags x {_OF_OWNER} ORDER BY x.note_id, x.tag"
CATEGORIES_OF = f"SELECT x.note_id, x.path FROM note_categories x {_OF_OWNER} ORDER BY x.note_id, x.path"
SESSIONS_OF = (
    f"SELECT x.note_id, x.session_id FROM note_sources x {_OF_OWNER} ORDER BY x.note_id, x.session_id"
)
REPOS_OF = f"""
    SELECT x.note_id, x.repo, x.n_matches FROM note_repo_matches x {_OF_OWNER} ORDER BY x.note_id, x.repo
"""
TAG_SETS_OF = f"""
    SELECT x.note_id, x.tag_set, x.n_matches FROM note_tag_set_matches x {_OF_OWNER}
    ORDER BY x.note_id, x.tag_set
"""
RELEVANCE_OF = f"""
    SELECT x.note_id, x.tag, x.score, x.n_positive, x.n_negative FROM note_tag_relevance x {_OF_OWNER}
    ORDER BY x.note_id, x.tag
"""
HISTORY_OF = """
    SELECT h.action, h.before, h.created_at
    FROM note_history h JOIN notes n ON n.id = h.note_id AND n.owner = :owner
    WHERE h.note_id = :id ORDER BY h.id
"""
FEEDBACK_OF = """
    SELECT f.session_id, f.is_applicable, f.reason, f.tag_scores, f.created_at
    FROM note_feedback f JOIN notes n ON n.id = f.note_id AND n.owner = :owner
    WHERE f.note_id = :id ORDER BY f.id
"""
CATEGORIES = """
    SELECT path, n_notes, n_with_subcategories FROM note_category_totals WHERE owner = :owner ORDER BY path
    LIMIT :limit
"""
COUNT_IN_CATEGORY = """
    SELECT n_with_subcategories FROM note_category_totals WHERE owner = :owner AND path = :category
"""
COUNT_CATEGORIES = "SELECT COUNT(*) FROM note_category_totals WHERE owner = :owner"

# Not of one owner: the number of the last change among all notes.
NEXT_CHANGES = "UPDATE note_changes SET last = last + :n WHERE id = 1 RETURNING last"

INSERT = """
    INSERT INTO notes (
        owner, kind, title, text, text_hash, domain, source, metadata, prerequisites, verified, pinned_by,
        pin_tags, occurrence_count, times_matched, last_matched, deprecated_at, deprecated_reason,
        merged_into,
        dedup_verified, dedup_attempts, dedup_last_error, profile, words, data_checksum, vocabulary_version,
        change_number, created_at, updated_at)
    VALUES (
        :owner, :kind, :title, :text, :text_hash, :domain, :source, :metadata, :prerequisites, :verified,
        NULL, '[]', 1, 0, NULL, NULL, NULL, NULL,
        :dedup_verified, 0, NULL, :profile, :words, :data_checksum, :vocabulary_version,
        :change_number, :now, :now)
    RETURNING id
"""
UPDATE = "UPDATE notes SET {columns} WHERE owner = :owner AND id = :id"
OWN_NOTE = "(SELECT id FROM notes WHERE owner = :owner AND id = :id)"
INSERT_TIMES = f"""
    INSERT INTO note_times (note_id, said_at, event_from, event_to, event_words, valid_from, valid_to,
        superseded_by, fact_id)
    VALUES ({OWN_NOTE}, :said_at, :event_from, :event_to, :event_words, :valid_from, NULL, NULL, NULL)
"""
INSERT_TAG = f"INSERT INTO note_tags (note_id, tag) VALUES ({OWN_NOTE}, :tag) ON CONFLICT DO NOTHING"
INSERT_CATEGORY = f"""
    INSERT INTO note_categories (note_id, path) VALUES ({OWN_NOTE}, :path) ON CONFLICT DO NOTHING
"""
INSERT_SESSION = f"""
    INSERT INTO note_sources (note_id, session_id) VALUES ({OWN_NOTE}, :session_id) ON CONFLICT DO NOTHING
"""
DELETE_TAGS = f"DELETE FROM note_tags WHERE note_id = {OWN_NOTE}"
DELETE_CATEGORIES = f"DELETE FROM note_categories WHERE note_id = {OWN_NOTE}"
INSERT_HISTORY = f"""
    INSERT INTO note_history (note_id, action, before, created_at) VALUES ({OWN_NOTE}, :action, :before, :now)
"""
INSERT_FEEDBACK = f"""
    INSERT INTO note_feedback (note_id, session_id, is_applicable, reason, tag_scores, created_at)
    VALUES ({OWN_NOTE}, :session_id, :is_applicable, :reason, :tag_scores, :now)
"""
WRITE_RELEVANCE = f"""
    INSERT INTO note_tag_relevance (note_id, tag, score, n_positive, n_negative)
    VALUES ({OWN_NOTE}, :tag, :score, :n_positive, :n_negative)
    ON CONFLICT (note_id, tag) DO UPDATE SET score = excluded.score, n_positive = excluded.n_positive,
        n_negative = excluded.n_negative
"""
REPEAT = """
    UPDATE notes SET
        occurrence_count = occurrence_count + 1,
        verified = CASE WHEN verified = 1 OR :verified = 1 OR (
            :session_id <> ''
            AND EXISTS (SELECT 1 FROM note_sources WHERE note_id = :id AND session_id <> :session_id))
            THEN 1 ELSE 0 END,
        updated_at = :now
    WHERE owner = :owner AND id = :id
"""
COUNT_REPO = f"""
    INSERT INTO note_repo_matches (note_id, repo, n_matches) VALUES ({OWN_NOTE}, :repo, 1)
    ON CONFLICT (note_id, repo) DO UPDATE SET n_matches = note_repo_matches.n_matches + 1
"""
COUNT_TAG_SET = f"""
    INSERT INTO note_tag_set_matches (note_id, tag_set, n_matches) VALUES ({OWN_NOTE}, :tag_set, 1)
    ON CONFLICT (note_id, tag_set) DO UPDATE SET n_matches = note_tag_set_matches.n_matches + 1
"""
WRITE_REPO = (
    f"INSERT INTO note_repo_matches (note_id, repo, n_matches) VALUES ({OWN_NOTE}, :repo, :n_matches)"
)
WRITE_TAG_SET = f"""
    INSERT INTO note_tag_set_matches (note_id, tag_set, n_matches) VALUES ({OWN_NOTE}, :tag_set, :n_matches)
"""
COUNT_MATCH = """
    UPDATE notes SET times_matched = times_matched + 1, last_matched = :now WHERE owner = :owner AND id = :id
"""
PURGE = """
    DELETE FROM notes WHERE +owner = :owner AND id IN (
        SELECT id FROM notes WHERE owner = :owner AND deprecated_at < :before ORDER BY id LIMIT :limit)
"""

COLUMNS = frozenset(
    {
        "kind", "title", "text", "text_hash", "domain", "source", "metadata", "prerequisites", "verified",
        "pinned_by", "pin_tags", "occurrence_count", "times_matched", "last_matched", "deprecated_at",
        "deprecated_reason", "merged_into", "dedup_verified", "dedup_attempts", "dedup_last_error", "profile",
        "words", "data_checksum", "vocabulary_version", "created_at", "updated_at",
    }
)  # fmt: skip
"""Columns that `NoteRows.change` and `NoteRows.set` may write."""
PURGED_TOGETHER = 500
ALL = -1
"""SQLite's limit that is none."""
NO_PREREQUISITES: Mapping[str, tuple[str, ...]] = {"os": (), "repos": (), "paths": (), "mcp_servers": ()}


class NoteState(NamedTuple):
    """The number of the last change of an owner's notes, and how many notes are active."""

    change_number: int
    n_active: int


class IndexRow(NamedTuple):
    """What an index stores of a note. `prerequisites` to `relevance` are JSON texts; `is_pinned`: "yes" if a
    pin counts everywhere, else "no"; `session`: the first by name that submitted it, may be empty;
    `is_question`: "yes" for a turn that ends with a question mark. Times are those of `note_times`."""

    id: int
    is_active: int
    kind: str
    words: bytes
    profile: bytes
    data_checksum: str
    prerequisites: str
    tags: str
    categories: str
    relevance: str
    domain: str
    is_pinned: str
    session: str
    is_question: str
    said_at: str
    event_from: str | None
    event_to: str | None
    valid_from: str | None
    valid_to: str | None
    fact_id: int | None


class PackedNote(NamedTuple):
    """The text of a note with what follows from title and text (`shoal.models.notes.ScoredText`)."""

    id: int
    text: str
    words: bytes
    profile: bytes
    data_checksum: str


class NoteRows:
    """The notes of one owner, in one transaction. Methods that write need a `Transaction`."""

    def __init__(self, snapshot: Snapshot, owner: str) -> None:
        self.snapshot = snapshot
        self.owner = owner

    # Reading

    def state(self) -> NoteState:
        """Read what tells whether an index is up to date."""
        return NoteState(*self.snapshot.first(STATE, self.values()))

    def changed_after(self, change_number: int) -> Iterator[IndexRow]:
        """Read the notes that changed after a change, oldest first; of all changes (0), the active ones."""
        rows = self.snapshot.tuples(CHANGED_AFTER, self.values(after=change_number))
        return map(IndexRow._make, rows)

    def counts(self) -> tuple[int, int]:
        """Count the active and the deprecated notes."""
        row = self.snapshot.first(COUNTS, self.values())
        return (0, 0) if row is None else (row[0], row[1])

    def count_pinned(self) -> int:
        """Count the active notes that are pinned."""
        n_pinned: int = self.snapshot.value(COUNT_PINNED, self.values())
        return n_pinned

    def count_by_kind(self) -> dict[str, int]:
        """Count the active notes of each kind."""
        return dict(self.snapshot.tuples(COUNT_BY_KIND, self.values()))

    def count_with_tags(self, tags: Sequence[str]) -> dict[str, int]:
        """Count the active notes that have each of some tags."""
        names, parameters = listed("tag", tags)
        return dict(self.snapshot.tuples(COUNT_WITH_TAGS.format(tags=names), self.values(**parameters)))

    def get(self, note_id: int, *, label_threshold: float) -> Note:
        """Read a note. Raises NotFoundError for an id that is not the owner's."""
        notes = self.get_many([note_id], label_threshold=label_threshold)
        if not notes:
            raise _not_found(note_id)
        return notes[0]

    def check(self, note_id: int) -> None:
        """Raise NotFoundError unless the note exists and is the owner's."""
        if not _is_id(note_id) or self.snapshot.value(EXISTS, self.values(id=note_id)) is None:
            raise _not_found(note_id)

    def get_many(self, note_ids: Sequence[int], *, label_threshold: float) -> list[Note]:
        """Read notes in the given order; those that are not the owner's are missing."""
        found: dict[int, Note] = {}
        wanted = [note_id for note_id in note_ids if _is_id(note_id)]
        for start in range(0, len(wanted), IDS_PER_STATEMENT):
            for note in self._read(wanted[start : start + IDS_PER_STATEMENT], label_threshold):
                found[note.id] = note
        return [found[note_id] for note_id in wanted if note_id in found]

    def packed(self, note_ids: Sequence[int]) -> list[PackedNote]:
        """Read what notes are compared by, at most IDS_PER_STATEMENT, ascending by id."""
        ids, parameters = listed("id", note_ids)
        return list(
            map(PackedNote._make, self.snapshot.tuples(PACKED.format(ids=ids), self.values(**parameters)))
        )

    def forgotten(self) -> list[PackedNote]:
        """Read the newest `MAX_FORGOTTEN` notes that must not be learned again."""
        return list(map(PackedNote._make, self.snapshot.tuples(PACKED_FORGOTTEN, self.values())))

    def find_text(self, text_hash: str) -> int | None:
        """Find the active note with this text that holds. Turns do not count."""
        note_id: int | None = self.snapshot.value(FIND_BY_HASH, self.values(text_hash=text_hash))
        return note_id

    def find_same(self, draft: NoteDraft, text_hash: str) -> int | None:
        """Find the active note that a draft repeats: one with its text, or the same turn of its session."""
        if draft.kind != TURN:
            return self.find_text(text_hash)
        values = self.values(
            text_hash=text_hash, session_id=draft.session_id, title=draft.title, said_at=draft.said_at
        )
        note_id: int | None = self.snapshot.value(FIND_TURN, values)
        return note_id

    def with_text(self, text_hash: str, *, is_single: bool, n_before: int = 0) -> tuple[int, str] | None:
        """Find a note with this text: its id and when it was added. `is_single`: an active one that holds and
        is no turn, of which there is one; else any other. `n_before` counts earlier ones to skip."""
        values = self.values(text_hash=text_hash, is_single=int(is_single), n_before=n_before)
        row = self.snapshot.first(WITH_TEXT, values)
        return None if row is None else (row["id"], row["created_at"])

    def ids(self) -> Sequence[int]:
        """List the ids of all notes."""
        return [row[0] for row in self.snapshot.tuples(IDS, self.values())]

    def ids_by_text(self) -> Sequence[int]:
        """List the ids of all notes, in an order that does not depend on when they were stored."""
        return [row[0] for row in self.snapshot.tuples(IDS_BY_TEXT, self.values())]

    def find_active(self, note_id: int) -> int | None:
        """Return the id of a note if it is active."""
        found: int | None = self.snapshot.value(FIND_ACTIVE, self.values(id=note_id))
        return found

    def list(
        self,
        *,
        label_threshold: float,
        category: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        include_deprecated: bool = False,
        pinned: bool | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> NotePage:
        """List notes by id. `category` includes its subcategories."""
        conditions = "".join(
            condition
            for condition, applies in (
                (IS_ACTIVE, not include_deprecated),
                (IS_KIND, kind is not None),
                (IS_PINNED, pinned is True),
                (IS_NOT_PINNED, pinned is False),
                (HAS_TAG, tag is not None),
                (HAS_CATEGORY, category is not None),
            )
            if applies
        )
        values = self.values(category=category, kind=kind, tag=tag, limit=limit, offset=offset)
        ids = [row[0] for row in self.snapshot.tuples(LIST_IDS.format(conditions=conditions), values)]
        if (kind, tag, pinned) == (None, None, None) and (category is None or not include_deprecated):
            total = self._stored_count(category, include_deprecated=include_deprecated)
        else:
            total = self.snapshot.value(COUNT_LISTED.format(conditions=conditions), values)
        return NotePage(tuple(self.get_many(ids, label_threshold=label_threshold)), total)

    def pinned(self, *, label_threshold: float) -> Sequence[Note]:
        """Read the active notes that are pinned, by id."""
        ids = [row[0] for row in self.snapshot.tuples(PINNED_IDS, self.values())]
        return self.get_many(ids, label_threshold=label_threshold)

    def categories(self, limit: int | None = None) -> Sequence[CategoryCount]:
        """Read the categories in use and those above them, by path, with their numbers of active notes."""
        rows = self.snapshot.tuples(CATEGORIES, self.values(limit=ALL if limit is None else limit))
        return list(map(CategoryCount._make, rows))

    def count_categories(self) -> int:
        """Count the categories in use and those above them."""
        n_categories: int = self.snapshot.value(COUNT_CATEGORIES, self.values())
        return n_categories

    def history(self, note_id: int) -> Sequence[HistoryEntry]:
        """Read the changes of a note, oldest first."""
        rows = self.snapshot.tuples(HISTORY_OF, self.values(id=note_id))
        return [HistoryEntry(action, json.loads(before), at) for action, before, at in rows]

    def feedbacks(self, note_id: int) -> Sequence[Feedback]:
        """Read the judgements of a note, oldest first."""
        rows = self.snapshot.tuples(FEEDBACK_OF, self.values(id=note_id))
        return [
            Feedback(session_id, bool(is_applicable), reason, json.loads(tag_scores), at)
            for session_id, is_applicable, reason, tag_scores, at in rows
        ]

    # Writing

    def insert(
        self, draft: NoteDraft, text_hash: str, scored: ScoredText, change_number: int, now: str
    ) -> int:
        """Store a new note; return its id."""
        values = self.values(
            kind=draft.kind,
            title=draft.title,
            text=draft.text,
            text_hash=text_hash,
            domain=draft.domain,
            source=draft.source,
            metadata=compact_json(draft.metadata),
            prerequisites=compact_json(draft.prerequisites),
            verified=int(draft.verified),
            dedup_verified=int(draft.kind == TURN),
            change_number=change_number,
            now=now,
            **scored._asdict(),
        )
        note_id: int = self.transaction.value(INSERT, values)
        times = {name: getattr(draft, name) for name in ("event_from", "event_to", "event_words")}
        self.transaction.execute(
            INSERT_TIMES,
            self.values(
                id=note_id, said_at=draft.said_at or now, valid_from=draft.valid_from or now[:10], **times
            ),
        )
        self._write_tags(note_id, draft.tags)
        self._write_categories(note_id, draft.categories)
        if draft.session_id:
            self.add_session(note_id, draft.session_id)
        return note_id

    def repeat(self, note_id: int, draft: NoteDraft, now: str) -> None:
        """Count that a stored text was submitted again. A second session confirms it; its fields stay."""
        values = self.values(id=note_id, verified=int(draft.verified), session_id=draft.session_id, now=now)
        self.transaction.execute(REPEAT, values)
        if draft.session_id and self.add_session(note_id, draft.session_id):
            # Searches see which notes follow each other in a session.
            self.change(note_id, now)

    def next_change(self, n: int = 1) -> int:
        """Take the numbers of the next `n` changes; return the last of them."""
        number: int = self.transaction.value(NEXT_CHANGES, {"n": n})
        return number

    def change(self, note_id: int, now: str, **columns: Any) -> None:
        """Write columns of a note as a change that searches see; without columns, only note a change of its
        tags, categories or relevance."""
        self._update(note_id, {**columns, "change_number": self.next_change(), "updated_at": now})

    def set(self, note_id: int, **columns: Any) -> None:
        """Write columns of a note that searches do not depend on."""
        self._update(note_id, columns)

    def set_tags(self, note_id: int, tags: Iterable[str]) -> None:
        """Replace the tags of a note."""
        self.transaction.execute(DELETE_TAGS, self.values(id=note_id))
        self._write_tags(note_id, tags)

    def set_categories(self, note_id: int, paths: Iterable[str]) -> None:
        """Replace the categories of a note."""
        self.transaction.execute(DELETE_CATEGORIES, self.values(id=note_id))
        self._write_categories(note_id, paths)

    def add_session(self, note_id: int, session_id: str) -> bool:
        """Note that a session submitted the note; return whether that is new."""
        values = self.values(id=note_id, session_id=session_id)
        return bool(self.transaction.execute(INSERT_SESSION, values))

    def add_history(self, note_id: int, action: str, before: Mapping[str, Any], now: str) -> None:
        """Write the former values of a note's changed fields."""
        values = self.values(id=note_id, action=action, before=compact_json(before), now=now)
        self.transaction.execute(INSERT_HISTORY, values)

    def add_feedback(
        self,
        note_id: int,
        *,
        session_id: str,
        is_applicable: bool,
        reason: str,
        tag_scores: Mapping[str, float],
        now: str,
    ) -> None:
        """Write a judgement of a note."""
        values = self.values(
            id=note_id,
            session_id=session_id,
            is_applicable=int(is_applicable),
            reason=reason,
            tag_scores=compact_json(tag_scores),
            now=now,
        )
        self.transaction.execute(INSERT_FEEDBACK, values)

    def write_relevance(self, note_id: int, relevance: Mapping[str, TagRelevance]) -> None:
        """Write the relevance of a note by tag; other tags keep theirs."""
        self.transaction.write_many(
            WRITE_RELEVANCE,
            [self.values(id=note_id, tag=tag, **each._asdict()) for tag, each in relevance.items()],
        )

    def count_match(self, note_id: int, *, repo: str, tags: Sequence[str], now: str) -> None:
        """Count that a note was shown, in a repository (unless empty) and with these tags (unless none)."""
        values = self.values(id=note_id, repo=repo, tag_set=compact_json(sorted(set(tags))), now=now)
        self.transaction.execute(COUNT_MATCH, values)
        if repo:
            self.transaction.execute(COUNT_REPO, values)
        if tags:
            self.transaction.execute(COUNT_TAG_SET, values)

    def write_matches(
        self, note_id: int, *, repos: Mapping[str, int], tag_sets: Mapping[tuple[str, ...], int]
    ) -> None:
        """Write how often a new note was shown, by repository and by tag set."""
        self.transaction.write_many(
            WRITE_REPO, [self.values(id=note_id, repo=repo, n_matches=n) for repo, n in repos.items()]
        )
        self.transaction.write_many(
            WRITE_TAG_SET,
            [
                self.values(id=note_id, tag_set=compact_json(sorted(tags)), n_matches=n)
                for tags, n in tag_sets.items()
            ],
        )

    def purge(self, before: str) -> int:
        """Delete some notes that were deprecated before a time, for good; return their number, 0 at the
        end."""
        return self.transaction.execute(PURGE, self.values(before=before, limit=PURGED_TOGETHER))

    # Of `NoteTimes`, too

    @property
    def transaction(self) -> Transaction:
        """The write transaction. Rows of a snapshot have none."""
        assert isinstance(self.snapshot, Transaction), "only a write transaction can change notes"
        return self.snapshot

    def values(self, **values: Any) -> dict[str, Any]:
        """Return the parameters of a statement, the owner among them."""
        return {**values, "owner": self.owner}

    # Inside

    def _stored_count(self, category: str | None, *, include_deprecated: bool) -> int:
        """The number of notes, or of active notes of a category and its subcategories, without a count."""
        if category is not None:
            return self.snapshot.value(COUNT_IN_CATEGORY, self.values(category=category)) or 0
        n_active, n_deprecated = self.counts()
        return n_active + n_deprecated * include_deprecated

    def _update(self, note_id: int, columns: Mapping[str, Any]) -> None:
        assert columns.keys() <= COLUMNS | {"change_number"}, "a column of notes"
        names = ", ".join(f"{name} = :{name}" for name in columns)
        if self.transaction.execute(UPDATE.format(columns=names), self.values(id=note_id, **columns)) != 1:
            raise _not_found(note_id)

    def _write_tags(self, note_id: int, tags: Iterable[str]) -> None:
        self.transaction.write_many(INSERT_TAG, [self.values(id=note_id, tag=tag) for tag in tags])

    def _write_categories(self, note_id: int, paths: Iterable[str]) -> None:
        self.transaction.write_many(INSERT_CATEGORY, [self.values(id=note_id, path=path) for path in paths])

    def _read(self, note_ids: Sequence[int], label_threshold: float) -> Iterator[Note]:
        ids, parameters = listed("id", note_ids)
        values = self.values(**parameters)

        def children(statement: str) -> dict[int, list[tuple[Any, ...]]]:
            by_note: dict[int, list[tuple[Any, ...]]] = {}
            for note_id, *columns in self.snapshot.tuples(statement.format(ids=ids), values):
                by_note.setdefault(note_id, []).append(tuple(columns))
            return by_note

        rows = self.snapshot.rows(GET_NOTES.format(ids=ids), values)
        labels = as_profiles(rows).labels(self.snapshot, label_threshold) if rows else {}
        tags, categories, sessions = children(TAGS_OF), children(CATEGORIES_OF), children(SESSIONS_OF)
        repos, tag_sets, relevance = children(REPOS_OF), children(TAG_SETS_OF), children(RELEVANCE_OF)
        for row in rows:
            note_id = row["id"]
            yield _note(
                row,
                labels.get(note_id, ()),
                tags=tuple(tag for (tag,) in tags.get(note_id, ())),
                categories=tuple(path for (path,) in categories.get(note_id, ())),
                sessions=tuple(session for (session,) in sessions.get(note_id, ())),
                repo_matches=dict(repos.get(note_id, ())),
                tag_set_matches=tuple(
                    TagSetMatches(tuple(json.loads(tag_set)), n) for tag_set, n in tag_sets.get(note_id, ())
                ),
                tag_relevance={tag: TagRelevance(*each) for tag, *each in relevance.get(note_id, ())},
            )


def _note(row: Any, labels: tuple[Label, ...], **children: Any) -> Note:
    prerequisites = {**NO_PREREQUISITES, **json.loads(row["prerequisites"])}
    return Note(
        id=row["id"],
        owner=row["owner"],
        kind=row["kind"],
        title=row["title"],
        text=row["text"],
        domain=row["domain"],
        prerequisites={name: tuple(values) for name, values in prerequisites.items()},
        source=row["source"],
        metadata=json.loads(row["metadata"]),
        verified=bool(row["verified"]),
        pinned_by=row["pinned_by"],
        pin_tags=tuple(json.loads(row["pin_tags"])),
        occurrence_count=row["occurrence_count"],
        times_matched=row["times_matched"],
        last_matched=row["last_matched"],
        deprecated_at=row["deprecated_at"],
        deprecated_reason=row["deprecated_reason"],
        merged_into=row["merged_into"],
        labels=labels,
        said_at=row["said_at"],
        event=None
        if row["event_from"] is None
        else NoteEvent(row["event_from"], row["event_to"], row["event_words"]),
        valid_from=row["valid_from"] or row["created_at"][:10],
        valid_to=row["valid_to"],
        superseded_by=row["superseded_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        change_number=row["change_number"],
        **children,
    )


def _is_id(note_id: object) -> bool:
    return isinstance(note_id, int) and not isinstance(note_id, bool) and 0 < note_id <= MAX_ID


def _not_found(note_id: object) -> NotFoundError:
    return NotFoundError(f"there is no note {note_id!r}"[:80])
