"""Documents on their way in and out: one document is written, tagged or removed inside the caller's transaction.

A document's rows (tags, sections, chunks, reefs, postings, islands, full-text rows) appear together when the
caller commits, or not at all. Nothing here begins or ends a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from shoal.errors import DuplicateContentError
from shoal.models import Chunk, DocumentDraft, LeftOut, ScoredDocument
from shoal.storage.chunk_rows import (
    COUNT_OBSERVED,
    DERIVE_POSTINGS,
    INSERT_CHUNK_ISLANDS,
    INSERT_CHUNK_REEFS,
    island_rows,
    reef_rows,
    score_columns,
    write_parts,
)
from shoal.storage.database import Snapshot, listed, snapshot_of
from shoal.storage.driver_rows import execute, write_many, write_wide
from shoal.storage.json_text import compact_json

CHUNKS_TOGETHER = 500
"""Chunks of short documents whose parts are written together: a statement then has rows enough."""

# Nothing is returned where the content is stored already: then the caller learns which document has it.
INSERT_DOCUMENT = """
    INSERT INTO documents (title, source_path, content, content_hash, format, n_bytes, n_chunks, n_sentences,
                           coverage, report, created_at, updated_at, metadata)
    VALUES (:title, :source_path, :content, :content_hash, :format, :n_bytes, :n_chunks, :n_sentences,
            :coverage, :report, :now, :now, :metadata)
    ON CONFLICT (content_hash) DO NOTHING
    RETURNING id
"""
FIND_BY_HASH = "SELECT id FROM documents WHERE content_hash = :content_hash"
HASH_OF = "SELECT content_hash FROM documents WHERE id = :document_id"

DISCOUNT_OBSERVED = COUNT_OBSERVED.replace("stored = 1", "stored = 0").format(documents=":document_id")

# What the chunks of a document depend on.
IDENTITY = "SELECT content_hash, title, format FROM documents WHERE id = :document_id"
CHUNK_TEXTS = "SELECT id, text FROM chunks WHERE document_id = :document_id ORDER BY chunk_index"
HEAD = "SELECT source_path, metadata FROM documents WHERE id = :document_id"
UPDATE_HEAD = """
    UPDATE documents SET source_path = :source_path, metadata = :metadata, updated_at = :now WHERE id = :document_id
"""
SUMMARY = "SELECT title, n_chunks FROM documents WHERE id = :document_id"
TAGS = "SELECT tag FROM document_tags WHERE document_id = :document_id ORDER BY tag"
INSERT_TAG = "INSERT INTO document_tags (document_id, tag) VALUES (?, ?) ON CONFLICT DO NOTHING"
DELETE_TAGS = "DELETE FROM document_tags WHERE document_id = :document_id"
COUNT_TAGS = "SELECT COUNT(*) FROM document_tags WHERE document_id = :document_id"
TOUCH_DOCUMENT = "UPDATE documents SET updated_at = :now WHERE id = :document_id"

CHUNK_IDS = "SELECT id FROM chunks WHERE document_id = :document_id ORDER BY chunk_index"

# Scores of chunks that stay where they are, unless they are newer than these.
STALE_AMONG = """
    SELECT id FROM chunks
    WHERE id IN ({ids}) AND (data_checksum <> :data_checksum OR vocabulary_version < :vocabulary_version)
"""
UPDATE_SCORES = """
    UPDATE chunks SET confidence = ?, coverage = ?, matched_words = ?, top_reef_id = ?, top_reef_name = ?,
        arch_score_0 = ?, arch_score_1 = ?, arch_score_2 = ?, arch_score_3 = ?, norm = ?,
        vocabulary_version = ?, data_checksum = ?
    WHERE id = ?
"""
UPDATE_VERSION = "UPDATE chunks SET vocabulary_version = ?, data_checksum = ? WHERE id = ?"
FORGET_POSTINGS_OF = """
    DELETE FROM reef_postings WHERE (reef_id, chunk_id) IN (
        SELECT reef_id, chunk_id FROM chunk_reefs WHERE chunk_id IN ({ids}))
"""
DELETE_REEFS_OF = "DELETE FROM chunk_reefs WHERE chunk_id IN ({ids})"
DELETE_ISLANDS_OF = "DELETE FROM chunk_islands WHERE chunk_id IN ({ids})"
DERIVE_POSTINGS_OF = DERIVE_POSTINGS.replace("c.document_id IN ({documents})", "c.id IN ({ids})")
FORGET_RESCORED = "DELETE FROM rescored_documents WHERE document_id = :document_id"
NOTE_RESCORED = "INSERT INTO rescored_documents (document_id) VALUES (:document_id)"
UPDATE_COVERAGE = """
    UPDATE documents SET coverage = :coverage, report = :report WHERE id = :document_id
"""
REPORT = "SELECT report FROM documents WHERE id = :document_id"

# The full-text index keeps no text of its own, so it must be told the very text that it is to forget.
FORGET_TEXTS = """
    INSERT INTO chunk_fts (chunk_fts, rowid, title, headings, text)
    SELECT 'delete', chunk_id, title, headings, text FROM chunk_texts WHERE document_id = :document_id
"""
# The postings have no foreign key: their own key is led by the reef, so only chunk_reefs knows where they are.
FORGET_POSTINGS = """
    DELETE FROM reef_postings WHERE (reef_id, chunk_id) IN (
        SELECT r.reef_id, r.chunk_id
        FROM chunks c
        JOIN chunk_reefs r ON r.chunk_id = c.id
        WHERE c.document_id = :document_id
    )
"""
# Chunks, reefs and islands follow by their foreign keys.
DELETE_SECTIONS = "DELETE FROM sections WHERE document_id = :document_id"
REPLACE_DOCUMENT = """
    UPDATE documents SET title = :title, source_path = :source_path, content = :content, content_hash = :content_hash,
        format = :format, n_bytes = :n_bytes, n_chunks = :n_chunks, n_sentences = :n_sentences, coverage = :coverage,
        report = :report, updated_at = :now, metadata = :metadata
    WHERE id = :document_id
"""
# Sections, chunks, reefs, islands and tags follow by their foreign keys.
DELETE_DOCUMENT = "DELETE FROM documents WHERE id = :document_id"


def insert_document(connection: sa.Connection, scored: ScoredDocument, *, now: str) -> int:
    """Write a document with everything that belongs to it; return its id.

    `now` is a `shoal.support.clock.timestamp()`. Raises DuplicateContentError, having written nothing, where the same
    content is stored already.
    """
    return insert_documents(connection, [scored], now=now)[0]


def insert_documents(connection: sa.Connection, scored: Sequence[ScoredDocument], *, now: str) -> list[int]:
    """As `insert_document` of each, in less time; their ids. Where it raises, some of those before are half written, and
    the transaction has to be rolled back."""
    written = [(_insert_row(connection, one, now), one) for one in scored]
    for run in _runs(written):
        write_parts(connection, run)
    return [document_id for document_id, _ in written]


def _runs(written: Sequence[tuple[int, ScoredDocument]]) -> Iterator[list[tuple[int, ScoredDocument]]]:
    """Documents whose parts are written together, so that no more rows are held than a long one has anyway."""
    run: list[tuple[int, ScoredDocument]] = []
    n_chunks = 0
    for one in written:
        if run and n_chunks + len(one[1].chunks) > CHUNKS_TOGETHER:
            yield run
            run, n_chunks = [], 0
        run.append(one)
        n_chunks += len(one[1].chunks)
    if run:
        yield run


def _insert_row(connection: sa.Connection, scored: ScoredDocument, now: str) -> int:
    """The id of the row of a document, written with its tags."""
    draft = scored.draft
    inserted = execute(connection, INSERT_DOCUMENT, _document_row(scored, now)).fetchall()
    if not inserted:
        existing = find_by_hash(connection, draft.content_hash)
        assert existing is not None, "a conflict of content_hash comes from a stored document"
        raise DuplicateContentError(existing)
    document_id = int(inserted[0][0])
    write_many(connection, INSERT_TAG, [(document_id, tag) for tag in draft.tags])
    return document_id


def replace_document(
    connection: sa.Connection,
    document_id: int,
    scored: ScoredDocument,
    kept: Sequence[int | None],
    *,
    now: str,
) -> None:
    """Give a document that exists another content; its id and the time it was made stay.

    `kept` says of each chunk which one of the document's chunks it goes on under, None for a new one. Raises
    DuplicateContentError, having written nothing, where another document has the content.
    """
    existing = find_by_hash(connection, scored.draft.content_hash)
    if existing not in (None, document_id):
        raise DuplicateContentError(existing)
    one = {"document_id": document_id}
    for statement in (DISCOUNT_OBSERVED, FORGET_TEXTS, FORGET_POSTINGS, DELETE_SECTIONS, DELETE_TAGS):
        connection.execute(sa.text(statement), one)
    connection.execute(sa.text(REPLACE_DOCUMENT), {**_document_row(scored, now), **one})
    write_many(connection, INSERT_TAG, [(document_id, tag) for tag in scored.draft.tags])
    write_parts(connection, [(document_id, scored)], [kept])
    # Chunks that stay have other scores.
    for statement in (FORGET_RESCORED, NOTE_RESCORED):
        connection.execute(sa.text(statement), one)


def rescore_chunks(
    connection: sa.Connection,
    document_id: int,
    chunks: Sequence[tuple[int, Chunk, bool]],
    *,
    vocabulary_version: int,
    data_checksum: str,
) -> None:
    """Write new scores of chunks of a document under their ids; those that have newer ones by now keep them.

    Of each, whether the scores are others than before; if not, only the version is written. At most IDS_PER_STATEMENT.
    """
    ids, parameters = listed("id", (chunk_id for chunk_id, _, _ in chunks))
    version = {"vocabulary_version": vocabulary_version, "data_checksum": data_checksum}
    stale = set(connection.execute(sa.text(STALE_AMONG.format(ids=ids)), {**parameters, **version}).scalars())
    due = [(chunk_id, chunk) for chunk_id, chunk, is_other in chunks if is_other and chunk_id in stale]
    same = [chunk_id for chunk_id, _, is_other in chunks if not is_other and chunk_id in stale]
    write_many(
        connection, UPDATE_VERSION, [(vocabulary_version, data_checksum, chunk_id) for chunk_id in same]
    )
    if not due:
        return
    ids, parameters = listed("id", (chunk_id for chunk_id, _ in due))
    for statement in (FORGET_POSTINGS_OF, DELETE_REEFS_OF, DELETE_ISLANDS_OF):
        connection.execute(sa.text(statement.format(ids=ids)), parameters)
    write_many(
        connection,
        UPDATE_SCORES,
        [(*score_columns(chunk), vocabulary_version, data_checksum, chunk_id) for chunk_id, chunk in due],
    )
    write_wide(connection, INSERT_CHUNK_REEFS, reef_rows(due))
    connection.execute(sa.text(DERIVE_POSTINGS_OF.format(ids=ids)), parameters)
    write_wide(connection, INSERT_CHUNK_ISLANDS, island_rows(due))
    for statement in (FORGET_RESCORED, NOTE_RESCORED):
        connection.execute(sa.text(statement), {"document_id": document_id})


def update_coverage(
    connection: sa.Connection, document_id: int, coverage: float, warnings: Sequence[str]
) -> None:
    """Write what a new scoring tells of a document as a whole."""
    one = {"document_id": document_id}
    report = json.loads(connection.execute(sa.text(REPORT), one).scalar_one())
    row = {**one, "coverage": coverage, "report": compact_json({**report, "warnings": list(warnings)})}
    connection.execute(sa.text(UPDATE_COVERAGE), row)


def find_by_hash(connection: sa.Connection, content_hash: str) -> int | None:
    """The id of the document whose content has this SHA-256 (hex), if there is one."""
    return document_with(snapshot_of(connection), content_hash)


def document_with(snapshot: Snapshot, content_hash: str) -> int | None:
    """As `find_by_hash`, for who only reads."""
    found: int | None = snapshot.value(FIND_BY_HASH, {"content_hash": content_hash})
    return found


def hash_of(connection: sa.Connection, document_id: int) -> str | None:
    """The SHA-256 (hex) of a document's content; None if there is none."""
    found: str | None = snapshot_of(connection).value(HASH_OF, {"document_id": document_id})
    return found


def identity(snapshot: Snapshot, document_id: int) -> tuple[str, str, str] | None:
    """SHA-256 (hex) of the content, title and format of a document; None if there is none."""
    row = snapshot.first(IDENTITY, {"document_id": document_id})
    return None if row is None else tuple(row)


def chunk_texts(snapshot: Snapshot, document_id: int) -> list[tuple[int, str]]:
    """Ids and texts of the chunks of a document in their order."""
    return [(row[0], row[1]) for row in snapshot.tuples(CHUNK_TEXTS, {"document_id": document_id})]


def chunk_ids(snapshot: Snapshot, document_id: int) -> tuple[int, ...]:
    """Ids of the chunks of a document in their order."""
    return tuple(row[0] for row in snapshot.tuples(CHUNK_IDS, {"document_id": document_id}))


def update_head(connection: sa.Connection, document_id: int, draft: DocumentDraft, *, now: str) -> bool:
    """Take over tags, source path and metadata of a draft, for a document that exists; True if they are others."""
    one = {"document_id": document_id}
    head = (draft.source_path, compact_json(draft.metadata))
    before = tuple(connection.execute(sa.text(HEAD), one).one())
    tags = set(connection.execute(sa.text(TAGS), one).scalars())
    if before == head and tags == set(draft.tags):
        return False
    row = {**one, "source_path": head[0], "metadata": head[1], "now": now}
    connection.execute(sa.text(UPDATE_HEAD), row)
    return set_tags(connection, document_id, draft.tags, now=now)


def merge_tags(connection: sa.Connection, document_id: int, tags: Iterable[str], *, now: str) -> bool:
    """Add tags to a document that may have some of them; True if it has more than before.

    `tags` are normalised already (as in a DocumentDraft). A document that does not exist gets none.
    """
    if not exists(connection, document_id):
        return False
    one = {"document_id": document_id}
    before = connection.execute(sa.text(COUNT_TAGS), one).scalar_one()
    write_many(connection, INSERT_TAG, [(document_id, tag) for tag in tags])
    grew: bool = connection.execute(sa.text(COUNT_TAGS), one).scalar_one() > before
    if grew:
        connection.execute(sa.text(TOUCH_DOCUMENT), {**one, "now": now})
    return grew


def set_tags(connection: sa.Connection, document_id: int, tags: Sequence[str], *, now: str) -> bool:
    """Replace the tags of a document; False if there is no such document."""
    touched = connection.execute(sa.text(TOUCH_DOCUMENT), {"document_id": document_id, "now": now})
    if not touched.rowcount:
        return False
    connection.execute(sa.text(DELETE_TAGS), {"document_id": document_id})
    write_many(connection, INSERT_TAG, [(document_id, tag) for tag in tags])
    return True


def delete_document(connection: sa.Connection, document_id: int) -> bool:
    """Remove a document and everything that belongs to it; False if there is none. Its ids are never used again."""
    one = {"document_id": document_id}
    connection.execute(sa.text(DISCOUNT_OBSERVED), one)
    connection.execute(sa.text(FORGET_TEXTS), one)
    connection.execute(sa.text(FORGET_POSTINGS), one)
    return bool(connection.execute(sa.text(DELETE_DOCUMENT), one).rowcount)


def summary(connection: sa.Connection, document_id: int) -> tuple[str, int, tuple[str, ...]]:
    """Title, number of chunks and tags (in the order of the alphabet) of a document that exists."""
    one = {"document_id": document_id}
    title, n_chunks = connection.execute(sa.text(SUMMARY), one).one()
    return title, n_chunks, tuple(connection.execute(sa.text(TAGS), one).scalars())


def exists(connection: sa.Connection, document_id: int) -> bool:
    """Whether there is a document with this id."""
    return connection.execute(sa.text(SUMMARY), {"document_id": document_id}).first() is not None


def _document_row(scored: ScoredDocument, now: str) -> dict[str, Any]:
    draft: DocumentDraft = scored.draft
    return {
        "title": draft.title,
        "source_path": draft.source_path,
        "content": draft.content,
        "content_hash": draft.content_hash,
        "format": draft.format.value,
        "n_bytes": draft.n_bytes,
        "n_chunks": len(scored.chunks),
        "n_sentences": scored.n_sentences,
        "coverage": scored.coverage,
        "report": compact_json(
            {"left_out": [_left_out(span) for span in scored.left_out], "warnings": scored.warnings}
        ),
        "metadata": compact_json(draft.metadata),
        "now": now,
    }


def _left_out(span: LeftOut) -> dict[str, Any]:
    return {"start_char": span.start_char, "end_char": span.end_char, "reason": span.reason}
