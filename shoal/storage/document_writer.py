"""Writing documents: insert, replace, rescore, tag and delete, inside the caller's transaction.

A document's rows (tags, sections, chunks with their profiles) appear together when the caller commits, or not
at all. The rows of several documents are written together, because for short documents most of the time is
the overhead of the statements. No function here begins or ends a transaction.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from shoal.errors import AmbiguousPathError, DuplicateContentError
from shoal.models.documents import Chunk, DocumentDraft, LeftOut, ScoredDocument, Section
from shoal.models.files import ANY_TOKENS
from shoal.models.rights import Rights
from shoal.storage import vectors
from shoal.storage.column_values import compact_json, passages_to_json, rights_from_json, rights_to_json
from shoal.storage.database import Snapshot, Transaction, listed
from shoal.storage.document_queries import place_to_json
from shoal.storage.index_tables import note_changes
from shoal.storage.profiles import reef_ids_of, write_reefs
from shoal.storage.saved_search_changes import note_new_chunks
from shoal.storage.staleness import store_scored
from shoal.support.sha256 import sha256_of

INSERT_SECTION = """
    INSERT INTO sections (document_id, section_index, level, path, heading_start, heading_end,
                          start_char, end_char)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
# Ids are read back, which does not depend on how the database assigns them.
SECTION_IDS = """
    SELECT document_id, id FROM sections WHERE document_id IN ({documents})
    ORDER BY document_id, section_index
"""

_COLUMNS = """document_id, section_id, chunk_index, text_before, text, start_char, end_char,
                        start_line, end_line, sentence_count, confidence, coverage, matched_words,
                        top_reef_id, top_reef_name, top_reef_probability, arch_score_0, arch_score_1,
                        arch_score_2, arch_score_3, norm, profile, reef_ids, vocabulary_version,
                        data_checksum, locator, metadata, language"""
_VALUES = ", ".join("?" for _ in _COLUMNS.split(","))
INSERT_CHUNK = f"INSERT INTO chunks ({_COLUMNS}) VALUES ({_VALUES})"
INSERT_KEPT_CHUNK = f"INSERT INTO chunks (id, {_COLUMNS}) VALUES (?, {_VALUES})"
# Observations of a text count while its document is stored. The last condition matches a partial index.
COUNT_OBSERVED = """
    UPDATE observed_documents SET stored = 1
    WHERE content_hash IN (SELECT content_hash FROM documents WHERE id IN ({documents}))
      AND state IN ('pending', 'learned')
"""
CHUNKS_TOGETHER = 500
"""Chunks of short documents whose rows are written together, so that each statement has enough rows."""
# Returns no row if the content is already stored.
INSERT_DOCUMENT = """
    INSERT INTO documents (title, source_path, content_hash, format, n_bytes, n_chunks, n_sentences, coverage,
                           report, created_at, updated_at, metadata, text_after, chunk_tokens, passages,
                           text_hash, rights, language, is_language_given)
    VALUES (:title, :source_path, :content_hash, :format, :n_bytes, :n_chunks, :n_sentences, :coverage,
            :report, :now, :now, :metadata, :text_after, :chunk_tokens, :passages,
            :text_hash, :rights, :language, :is_language_given)
    ON CONFLICT (content_hash) DO NOTHING
    RETURNING id
"""
FIND_BY_HASH = "SELECT id FROM documents WHERE content_hash = :content_hash"
AT_PATH = "SELECT id FROM documents WHERE source_path = :source_path ORDER BY id LIMIT 2"
HASH_OF = "SELECT content_hash FROM documents WHERE id = :document_id"
DISCOUNT_OBSERVED = COUNT_OBSERVED.replace("stored = 1", "stored = 0").format(documents=":document_id")
# The columns that the chunks of a document depend on.
IDENTITY = """
    SELECT content_hash, title, format, CASE WHEN is_language_given = 1 THEN language END
    FROM documents WHERE id = :document_id
"""
CHUNK_TEXTS = "SELECT id, text FROM chunks WHERE document_id = :document_id ORDER BY chunk_index"
HEAD = "SELECT source_path, metadata, rights FROM documents WHERE id = :document_id"
UPDATE_HEAD = """
    UPDATE documents SET source_path = :source_path, metadata = :metadata, rights = :rights, updated_at = :now
    WHERE id = :document_id
"""
SUMMARY = "SELECT title, n_chunks FROM documents WHERE id = :document_id"
TAGS = "SELECT tag FROM document_tags WHERE document_id = :document_id ORDER BY tag"
INSERT_TAG = "INSERT INTO document_tags (document_id, tag) VALUES (?, ?) ON CONFLICT DO NOTHING"
DELETE_TAGS = "DELETE FROM document_tags WHERE document_id = :document_id"
COUNT_TAGS = "SELECT COUNT(*) FROM document_tags WHERE document_id = :document_id"
TOUCH_DOCUMENT = "UPDATE documents SET updated_at = :now WHERE id = :document_id"
CHUNK_IDS = "SELECT id FROM chunks WHERE document_id = :document_id ORDER BY chunk_index"
# Chunks that were not scored with the given version or a later one.
OLDER_AMONG = """
    SELECT id, data_checksum FROM chunks
    WHERE id IN ({ids}) AND (data_checksum <> :data_checksum OR vocabulary_version < :vocabulary_version)
"""
UPDATE_SCORES = """
    UPDATE chunks SET confidence = ?, coverage = ?, matched_words = ?, top_reef_id = ?, top_reef_name = ?,
        top_reef_probability = ?, arch_score_0 = ?, arch_score_1 = ?, arch_score_2 = ?, arch_score_3 = ?,
        norm = ?, profile = ?, reef_ids = ?, language = ?, vocabulary_version = ?, data_checksum = ?
    WHERE id = ?
"""
UPDATE_VERSION = "UPDATE chunks SET vocabulary_version = ?, data_checksum = ? WHERE id = ?"
UPDATE_COVERAGE = """
    UPDATE documents SET coverage = :coverage, report = :report, language = :language WHERE id = :document_id
"""
REPORT = "SELECT coverage, report, language FROM documents WHERE id = :document_id"
# Foreign keys cascade to chunks.
DELETE_SECTIONS = "DELETE FROM sections WHERE document_id = :document_id"
REPLACE_DOCUMENT = """
    UPDATE documents SET title = :title, source_path = :source_path, content_hash = :content_hash,
        format = :format, n_bytes = :n_bytes, n_chunks = :n_chunks, n_sentences = :n_sentences,
        coverage = :coverage, report = :report, updated_at = :now, metadata = :metadata,
        text_after = :text_after, chunk_tokens = :chunk_tokens, passages = :passages, text_hash = :text_hash,
        rights = :rights, language = :language, is_language_given = :is_language_given
    WHERE id = :document_id
"""
# Foreign keys cascade to sections, chunks and tags.
DELETE_DOCUMENT = "DELETE FROM documents WHERE id = :document_id"


def write_parts(
    transaction: Transaction,
    documents: Sequence[tuple[int, ScoredDocument]],
    kept: Sequence[Sequence[int | None]] | None = None,
) -> None:
    """Write all rows that belong to new documents, each given with its id.

    `kept` holds, for each document, the id of each kept chunk, or None for a new chunk.
    """
    ids, parameters = listed("id", (document_id for document_id, _ in documents))

    def run(statement: str) -> list[Any]:
        return transaction.rows(statement.format(documents=ids), parameters)

    transaction.write_many(
        INSERT_SECTION,
        [row for document_id, scored in documents for row in _section_rows(document_id, scored.sections)],
    )
    section_ids = _by_document(run(SECTION_IDS))
    chunk_rows = (
        row
        for document_id, scored in documents
        for row in _chunk_rows(document_id, section_ids[document_id], scored)
    )
    kept_ids = chain.from_iterable(kept) if kept is not None else repeat(None)
    new_rows, kept_rows = [], []
    for chunk_id, row in zip(kept_ids, chunk_rows, strict=False):
        if chunk_id is None:
            new_rows.append(row)
        else:
            kept_rows.append((chunk_id, *row))
    # First those that have ids, so that none of these is given to a new one.
    transaction.write_many(INSERT_KEPT_CHUNK, kept_rows)
    transaction.write_many(INSERT_CHUNK, new_rows)
    write_reefs(transaction, (scored for _, scored in documents))
    store_scored(transaction, documents)
    document_ids = [document_id for document_id, _ in documents]
    note_changes(transaction, document_ids)
    note_new_chunks(transaction, document_ids, kept)
    run(COUNT_OBSERVED)


def _by_document(rows: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Group the second of each pair by the first."""
    grouped: dict[int, list[int]] = defaultdict(list)
    for document_id, part_id in rows:
        grouped[document_id].append(part_id)
    return grouped


def _section_rows(document_id: int, sections: Sequence[Section]) -> list[tuple[Any, ...]]:
    return [
        (
            document_id,
            i,
            s.level,
            compact_json(s.path),
            s.heading_start,
            s.heading_end,
            s.start_char,
            s.end_char,
        )
        for i, s in enumerate(sections)
    ]


def _chunk_rows(
    document_id: int, section_ids: Sequence[int], scored: ScoredDocument
) -> list[tuple[Any, ...]]:
    content = scored.draft.content
    ends_before = chain([0], (chunk.end_char for chunk in scored.chunks))
    return [
        (
            document_id,
            section_ids[chunk.section],
            chunk.chunk_index,
            content[end_before : chunk.start_char],
            chunk.text,
            chunk.start_char,
            chunk.end_char,
            chunk.start_line,
            chunk.end_line,
            chunk.sentence_count,
            *score_columns(chunk),
            reef_ids_of(chunk.profile),
            scored.vocabulary_version,
            scored.data_checksum,
            place_to_json(chunk.place),
            metadata_of(compact_json(scored.sections[chunk.section].path)),
            chunk.language,
        )
        for end_before, chunk in zip(ends_before, scored.chunks, strict=False)
    ]


def metadata_of(headings: str) -> str:
    """Return the metadata of a chunk as JSON: the headings of its section, a JSON array, if it has any."""
    return "{}" if headings == "[]" else f'{{"headings":{headings}}}'


def score_columns(chunk: Chunk) -> tuple[Any, ...]:
    """Return the scores of a chunk in the order of its columns."""
    return (
        chunk.confidence,
        chunk.coverage,
        chunk.matched_words,
        chunk.top_reef_id,
        chunk.top_reef_name,
        chunk.top_reef_probability,
        *chunk.arch_scores,
        chunk.norm,
        chunk.profile,
    )


def insert_document(transaction: Transaction, scored: ScoredDocument, *, now: str) -> int:
    """Write a document with all its rows; return its id.

    `now` is a `shoal.support.clock.timestamp()`. Raises DuplicateContentError, having written nothing, if the
    same content is already stored.
    """
    return insert_documents(transaction, [scored], now=now)[0]


def insert_documents(transaction: Transaction, scored: Sequence[ScoredDocument], *, now: str) -> list[int]:
    """Write several documents faster than `insert_document` does one by one; return their ids.

    After an error some of the documents are half written, and the transaction must be rolled back.
    """
    inserted = [(_insert_row(transaction, document, now), document) for document in scored]
    for batch in _batches(inserted):
        write_parts(transaction, batch)
    return [document_id for document_id, _ in inserted]


def _batches(inserted: Sequence[tuple[int, ScoredDocument]]) -> Iterator[list[tuple[int, ScoredDocument]]]:
    """Group documents whose rows are written together, limited to CHUNKS_TOGETHER chunks to bound memory."""
    batch: list[tuple[int, ScoredDocument]] = []
    n_chunks = 0
    for document_id, scored in inserted:
        if batch and n_chunks + len(scored.chunks) > CHUNKS_TOGETHER:
            yield batch
            batch, n_chunks = [], 0
        batch.append((document_id, scored))
        n_chunks += len(scored.chunks)
    if batch:
        yield batch


def _insert_row(transaction: Transaction, scored: ScoredDocument, now: str) -> int:
    """Write the row of a document and its tags; return its id."""
    draft = scored.draft
    document_id: int | None = transaction.value(INSERT_DOCUMENT, _document_row(scored, now))
    if document_id is None:
        existing = find_by_hash(transaction, draft.content_hash)
        assert existing is not None, "a conflict of content_hash comes from a stored document"
        raise DuplicateContentError(existing)
    transaction.write_many(INSERT_TAG, [(document_id, tag) for tag in draft.tags])
    return document_id


def replace_document(
    transaction: Transaction,
    document_id: int,
    scored: ScoredDocument,
    kept: Sequence[int | None],
    *,
    now: str,
) -> None:
    """Replace the content of a document; its id and creation time stay.

    `kept` holds, for each chunk, the id of the existing chunk that it continues, or None for a new chunk.
    Raises DuplicateContentError, having written nothing, if another document has the content.
    """
    existing = find_by_hash(transaction, scored.draft.content_hash)
    if existing not in (None, document_id):
        raise DuplicateContentError(existing)
    key = {"document_id": document_id}
    former_vectors = vectors.of_document(transaction, document_id)
    for statement in (DISCOUNT_OBSERVED, DELETE_SECTIONS, DELETE_TAGS):
        transaction.execute(statement, key)
    transaction.execute(REPLACE_DOCUMENT, {**_document_row(scored, now), **key})
    transaction.write_many(INSERT_TAG, [(document_id, tag) for tag in scored.draft.tags])
    write_parts(transaction, [(document_id, scored)], [kept])
    vectors.keep(transaction, document_id, former_vectors)


def rescore_chunks(
    transaction: Transaction,
    document_id: int,
    scored: ScoredDocument,
    chunks: Sequence[tuple[int, Chunk, bool]],
) -> None:
    """Write new scores of at most IDS_PER_STATEMENT chunks of a document; chunks with newer scores keep
    theirs.

    `scored` is the document with its new scores. `chunks` holds id, chunk and whether the scores have
    changed; if not, only the version and the data are written. `finish_rescore` follows the last chunks.
    """
    vocabulary_version, data_checksum = scored.vocabulary_version, scored.data_checksum
    write_reefs(transaction, [scored])
    ids, parameters = listed("id", (chunk_id for chunk_id, _, _ in chunks))
    version = {"vocabulary_version": vocabulary_version, "data_checksum": data_checksum}
    older = dict(transaction.tuples(OLDER_AMONG.format(ids=ids), {**parameters, **version}))
    changed = [
        (chunk_id, chunk) for chunk_id, chunk, has_changed in chunks if has_changed and chunk_id in older
    ]
    unchanged = [chunk_id for chunk_id, _, has_changed in chunks if not has_changed and chunk_id in older]
    transaction.write_many(
        UPDATE_VERSION, [(vocabulary_version, data_checksum, chunk_id) for chunk_id in unchanged]
    )
    transaction.write_many(
        UPDATE_SCORES,
        [
            (
                *score_columns(chunk),
                reef_ids_of(chunk.profile),
                chunk.language,
                vocabulary_version,
                data_checksum,
                chunk_id,
            )
            for chunk_id, chunk in changed
        ],
    )
    # Searches by reefs find only chunks that were scored with the data of the query.
    if changed or any(before != data_checksum for before in older.values()):
        note_changes(transaction, [document_id])


def finish_rescore(transaction: Transaction, document_id: int, scored: ScoredDocument) -> None:
    """Write a document's new coverage and warnings if they differ; its chunks are not stale any more."""
    key = {"document_id": document_id}
    before, text, language = transaction.first(REPORT, key)
    report = compact_json({**json.loads(text), "warnings": list(scored.warnings)})
    if (before, text, language) != (scored.coverage, report, scored.language):
        new = {"coverage": scored.coverage, "report": report, "language": scored.language}
        transaction.execute(UPDATE_COVERAGE, {**key, **new})
    store_scored(transaction, [(document_id, scored)])


def find_by_hash(snapshot: Snapshot, content_hash: str) -> int | None:
    """Find the id of the document whose content has this SHA-256 (hex), or None."""
    document_id: int | None = snapshot.value(FIND_BY_HASH, {"content_hash": content_hash})
    return document_id


def find_by_path(snapshot: Snapshot, source_path: str) -> int | None:
    """Find the id of the document with this source path, or None. Raises AmbiguousPathError if several have
    it."""
    ids = [row[0] for row in snapshot.tuples(AT_PATH, {"source_path": source_path})]
    if len(ids) > 1:
        raise AmbiguousPathError(source_path)
    return ids[0] if ids else None


def content_hash_of(snapshot: Snapshot, document_id: int) -> str | None:
    """Read the SHA-256 (hex) of a document's content; None if the document does not exist."""
    content_hash: str | None = snapshot.value(HASH_OF, {"document_id": document_id})
    return content_hash


def identity(snapshot: Snapshot, document_id: int) -> tuple[str, str, str, str | None] | None:
    """Read the SHA-256 (hex) of the content, the title, the format and the given language of a document; None
    if it does not exist."""
    row = snapshot.first(IDENTITY, {"document_id": document_id})
    return None if row is None else tuple(row)


def chunk_texts(snapshot: Snapshot, document_id: int) -> list[tuple[int, str]]:
    """Read ids and texts of the chunks of a document in order."""
    return [(row[0], row[1]) for row in snapshot.tuples(CHUNK_TEXTS, {"document_id": document_id})]


def chunk_ids(snapshot: Snapshot, document_id: int) -> tuple[int, ...]:
    """Read the ids of the chunks of a document in order."""
    return tuple(row[0] for row in snapshot.tuples(CHUNK_IDS, {"document_id": document_id}))


def update_head(transaction: Transaction, document_id: int, draft: DocumentDraft, *, now: str) -> bool:
    """Copy tags, source path, metadata and rights of a draft to an existing document; True if they differ."""
    key = {"document_id": document_id}
    head = (draft.source_path, compact_json(draft.metadata), rights_to_json(draft.rights))
    before = tuple(transaction.first(HEAD, key))
    tags = {row[0] for row in transaction.tuples(TAGS, key)}
    if before == head and tags == set(draft.tags):
        return False
    row = {**key, "source_path": head[0], "metadata": head[1], "rights": head[2], "now": now}
    transaction.execute(UPDATE_HEAD, row)
    return set_tags(transaction, document_id, draft.tags, now=now)


def change_fields(
    transaction: Transaction,
    document_id: int,
    *,
    tags: Sequence[str],
    metadata: Mapping[str, Any],
    rights: Rights | None,
    now: str,
) -> None:
    """Write tags, metadata and rights of an existing document; nothing if they are as stored."""
    key = {"document_id": document_id}
    source_path, *before = transaction.first(HEAD, key)
    after = [compact_json(metadata), rights_to_json(rights)]
    if before == after and {row[0] for row in transaction.tuples(TAGS, key)} == set(tags):
        return
    row = {**key, "source_path": source_path, "metadata": after[0], "rights": after[1], "now": now}
    transaction.execute(UPDATE_HEAD, row)
    set_tags(transaction, document_id, tags, now=now)


def with_stored_fields(snapshot: Snapshot, document_id: int, draft: DocumentDraft) -> DocumentDraft:
    """The draft with the tags of an existing document too, and with its metadata and rights unless it has its
    own."""
    key = {"document_id": document_id}
    tags = [row[0] for row in snapshot.tuples(TAGS, key)]
    _, metadata, rights = snapshot.first(HEAD, key)
    return dataclasses.replace(
        draft,
        tags=tuple(dict.fromkeys((*tags, *draft.tags))),
        metadata=draft.metadata or json.loads(metadata),
        rights=draft.rights or rights_from_json(rights),
    )


def merge_tags(transaction: Transaction, document_id: int, tags: Iterable[str], *, now: str) -> bool:
    """Add tags to a document; True if the document exists and any tag was new.

    `tags` must be normalised, as in a DocumentDraft.
    """
    if not exists(transaction, document_id):
        return False
    key = {"document_id": document_id}
    before = transaction.value(COUNT_TAGS, key)
    transaction.write_many(INSERT_TAG, [(document_id, tag) for tag in tags])
    grew: bool = transaction.value(COUNT_TAGS, key) > before
    if grew:
        transaction.execute(TOUCH_DOCUMENT, {**key, "now": now})
    return grew


def set_tags(transaction: Transaction, document_id: int, tags: Sequence[str], *, now: str) -> bool:
    """Replace the tags of a document; False if it does not exist."""
    if not transaction.execute(TOUCH_DOCUMENT, {"document_id": document_id, "now": now}):
        return False
    transaction.execute(DELETE_TAGS, {"document_id": document_id})
    transaction.write_many(INSERT_TAG, [(document_id, tag) for tag in tags])
    return True


def delete_document(transaction: Transaction, document_id: int) -> bool:
    """Delete a document with all its rows; False if it does not exist. Its ids are never reused."""
    key = {"document_id": document_id}
    transaction.execute(DISCOUNT_OBSERVED, key)
    if not transaction.execute(DELETE_DOCUMENT, key):
        return False
    note_changes(transaction, [document_id], deleted=True)
    return True


def summary(snapshot: Snapshot, document_id: int) -> tuple[str, int, tuple[str, ...]]:
    """Read title, number of chunks and tags (in alphabetical order) of an existing document."""
    key = {"document_id": document_id}
    title, n_chunks = snapshot.first(SUMMARY, key)
    return title, n_chunks, tuple(row[0] for row in snapshot.tuples(TAGS, key))


def exists(snapshot: Snapshot, document_id: int) -> bool:
    """Whether a document with this id exists."""
    return snapshot.first(SUMMARY, {"document_id": document_id}) is not None


def _document_row(scored: ScoredDocument, now: str) -> dict[str, Any]:
    draft: DocumentDraft = scored.draft
    return {
        "title": draft.title,
        "source_path": draft.source_path,
        "text_after": draft.content[scored.chunks[-1].end_char if scored.chunks else 0 :],
        "content_hash": draft.content_hash,
        "format": draft.format.value,
        "n_bytes": draft.n_bytes,
        "n_chunks": len(scored.chunks),
        "n_sentences": scored.n_sentences,
        "coverage": scored.coverage,
        "report": compact_json(
            {
                "left_out": [_left_out(span) for span in scored.left_out],
                "n_left_out": scored.n_left_out,
                "warnings": scored.warnings,
                **({"removed": draft.file.removed} if draft.file and draft.file.removed else {}),
            }
        ),
        "metadata": compact_json(draft.metadata),
        "chunk_tokens": draft.chunk_tokens,
        "passages": passages_to_json(draft.passages),
        "rights": rights_to_json(draft.rights),
        "language": scored.language,
        "is_language_given": int(draft.language is not None),
        "text_hash": None if draft.chunk_tokens == ANY_TOKENS else sha256_of(draft.content),
        "now": now,
    }


def _left_out(span: LeftOut) -> dict[str, Any]:
    return {"start_char": span.start_char, "end_char": span.end_char, "reason": span.reason}
