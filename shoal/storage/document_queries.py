"""Queries for documents: listings, a document with its sections and report, its text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError
from shoal.models.documents import DocFormat, DocumentDraft, LeftOut, Passage
from shoal.models.files import Removed
from shoal.models.rights import Rights
from shoal.models.stored import (
    DocumentDetail,
    DocumentPage,
    DocumentReport,
    NamedDocument,
    StoredDocument,
    StoredSection,
)
from shoal.storage.attachments import attachments_of, parents_of
from shoal.storage.column_values import passages_from_json, rights_from_json
from shoal.storage.database import IDS_PER_STATEMENT, Query, Snapshot, listed, listed_in_parts
from shoal.storage.source_files import describe_file, get_file
from shoal.storage.totals import N_DOCUMENTS, N_WITH_TAG

VERSION_CHARS = 16
"""Of the hash of the content, in a version."""
HEADING = "heading"
"""The reason why the text of a heading is in no chunk."""

DOCUMENT_COLUMNS = """id, title, format, source_path, n_bytes, n_chunks, n_sentences, coverage, content_hash,
    metadata, created_at, updated_at, chunk_tokens, rights"""

# The ids of listed documents. They come from indexes alone, because the rows of documents hold the texts.
ALL_IDS = "SELECT id FROM documents d WHERE TRUE"
IDS_WITH_TAG = "SELECT document_id AS id FROM document_tags WHERE tag = :tag"
_IS_NAMED = " AND (d.title LIKE :pattern ESCAPE '!' OR d.source_path LIKE :pattern ESCAPE '!')"
_IS_AT_PATH = " AND d.source_path = :source_path"
_HAS_TAG = " AND EXISTS (SELECT 1 FROM document_tags t WHERE t.document_id = d.id AND t.tag = :tag)"
LIST_DOCUMENTS = f"""
    SELECT {DOCUMENT_COLUMNS} FROM documents
    WHERE id IN ({{ids}} ORDER BY id {{order}} LIMIT :limit OFFSET :offset) ORDER BY id {{order}}
"""
COUNT_DOCUMENTS = "SELECT COUNT(*) FROM ({ids}) listed"
GET_DOCUMENT = f"SELECT {DOCUMENT_COLUMNS} FROM documents WHERE id = :document_id"
VERSION_OF = """
    SELECT d.content_hash, COALESCE((SELECT c.revision FROM changed_fields c WHERE c.document_id = d.id), 0)
    FROM documents d WHERE d.id = :document_id
"""
WRITTEN_IN_MARKDOWN = """
    SELECT id FROM documents d WHERE id IN ({ids}) AND format = 'markdown' AND NOT EXISTS (
        SELECT 1 FROM document_files f WHERE f.document_id = d.id AND f.kind = 'source')
"""
GET_PASSAGES = "SELECT passages FROM documents WHERE id = :document_id"
GET_REPORT = "SELECT report FROM documents WHERE id = :document_id"
# Joined in order, they are the text of the document.
TEXTS_OF = """
    SELECT text_before, text FROM chunks WHERE document_id = :document_id ORDER BY chunk_index
"""
TEXT_AFTER = "SELECT text_after FROM documents WHERE id = :document_id"
TAGS_OF = "SELECT document_id, tag FROM document_tags WHERE document_id IN ({ids}) ORDER BY document_id, tag"
SECTIONS_OF = """
    SELECT s.section_index, s.level, s.path, s.heading_start, s.heading_end, s.start_char, s.end_char,
           (SELECT COUNT(*) FROM chunks c WHERE c.section_id = s.id) AS n_chunks
    FROM sections s
    WHERE s.document_id = :document_id
    ORDER BY s.section_index
"""
HEADINGS_OF = """
    SELECT heading_start, heading_end FROM sections
    WHERE document_id = :document_id AND heading_end > heading_start
"""


def list_documents(
    snapshot: Snapshot,
    *,
    tag: str | None = None,
    q: str | None = None,
    source_path: str | None = None,
    conditions: Sequence[tuple[str, Mapping[str, Any]]] = (),
    newest_first: bool = False,
    limit: int = 50,
    offset: int = 0,
) -> DocumentPage:
    """List documents by id, the order in which they were stored: with the tag, with exactly this source
    path, and with `q` in the title or source path.

    The case of ASCII letters in `q` does not matter. `conditions`: further ones on a row `d`, each with its
    parameters.
    """
    is_met = " AND ".join(condition for condition, _ in conditions) or None
    values = {name: value for _, given in conditions for name, value in given.items()}
    ids, count = _listing(tag=tag, q=q, source_path=source_path, condition=is_met)
    parameters = {"tag": tag, "pattern": f"%{literal(q or '')}%", "source_path": source_path, **values}
    page = {**parameters, "limit": limit, "offset": offset}
    statement = LIST_DOCUMENTS.format(ids=ids, order="DESC" if newest_first else "ASC")
    rows = snapshot.rows(statement, page) if limit else []
    tags = tags_of(snapshot, [row["id"] for row in rows])
    documents = tuple(_document(row, tags.get(row["id"], ())) for row in rows)
    return DocumentPage(documents, snapshot.value(count, parameters))


def is_any_of(ids: Iterable[int]) -> tuple[str, dict[str, str]]:
    """Return the condition that a document `d` is one of many, and its parameter."""
    return "d.id IN (SELECT CAST(value AS BIGINT) FROM json_each(:any_ids))", {
        "any_ids": json.dumps(list(ids))
    }


def _listing(
    *, tag: str | None, q: str | None, source_path: str | None, condition: str | None
) -> tuple[str, str]:
    """Return the statement for the ids of the listed documents, and the one for their number."""
    if q is None and source_path is None and condition is None:
        return (ALL_IDS, N_DOCUMENTS) if tag is None else (IDS_WITH_TAG, N_WITH_TAG)
    conditions = ((source_path, _IS_AT_PATH), (q, _IS_NAMED), (tag, _HAS_TAG))
    ids = ALL_IDS + "".join(is_met for value, is_met in conditions if value is not None)
    ids += f" AND {condition}" if condition else ""
    return ids, COUNT_DOCUMENTS.format(ids=ids)


def get_document(snapshot: Snapshot, document_id: int) -> StoredDocument:
    """Read a document without its text. Raises NotFoundError."""
    row = snapshot.first(GET_DOCUMENT, {"document_id": document_id})
    if row is None:
        raise NotFoundError(f"there is no document {document_id}")
    return _document(row, tags_of(snapshot, [document_id]).get(document_id, ()))


def version_of(snapshot: Snapshot, document_id: int) -> str:
    """Return the version of a document: another one after each change of its text or fields. Raises
    NotFoundError."""
    row = snapshot.first(VERSION_OF, {"document_id": document_id})
    if row is None:
        raise NotFoundError(f"there is no document {document_id}")
    content_hash, revision = row
    return f"{content_hash[:VERSION_CHARS]}-{revision}"


def get_detail(snapshot: Snapshot, document_id: int) -> DocumentDetail:
    """Read a document with its sections, report, file and links. Raises NotFoundError."""
    return DocumentDetail(
        document=get_document(snapshot, document_id),
        sections=get_sections(snapshot, document_id),
        report=get_report(snapshot, document_id),
        file=describe_file(snapshot, document_id),
        parents=parents_of(snapshot, document_id),
        attachments=attachments_of(snapshot, document_id),
    )


def get_sections(snapshot: Snapshot, document_id: int) -> tuple[StoredSection, ...]:
    """Read the sections of a document in order; empty if the document does not exist."""
    return tuple(
        StoredSection(
            section_index=row["section_index"],
            level=row["level"],
            path=tuple(json.loads(row["path"])),
            heading_start=row["heading_start"],
            heading_end=row["heading_end"],
            start_char=row["start_char"],
            end_char=row["end_char"],
            n_chunks=row["n_chunks"],
        )
        for row in snapshot.rows(SECTIONS_OF, {"document_id": document_id})
    )


def get_report(snapshot: Snapshot, document_id: int) -> DocumentReport:
    """Read which spans are in no chunk and why, and the warnings. Raises NotFoundError."""
    stored = snapshot.value(GET_REPORT, {"document_id": document_id})
    if stored is None:
        raise NotFoundError(f"there is no document {document_id}")
    report = json.loads(stored)
    headings = snapshot.rows(HEADINGS_OF, {"document_id": document_id})
    listed_spans = [LeftOut(**span) for span in report["left_out"]]
    # Reports of earlier versions list all spans and do not count them.
    counts = Counter(report.get("n_left_out") or (span.reason for span in listed_spans))
    if headings:
        counts[HEADING] = len(headings)
    spans = [*(LeftOut(start, end, HEADING) for start, end in headings), *listed_spans]
    return DocumentReport(
        left_out=tuple(sorted(spans, key=lambda span: (span.start_char, span.end_char))),
        n_left_out=dict(counts),
        warnings=tuple(report["warnings"]),
        removed=tuple(Removed(*each) for each in report.get("removed", ())),
    )


def written_in_markdown(snapshot: Snapshot, document_ids: Iterable[int]) -> frozenset[int]:
    """Return those of a page of documents whose text is Markdown, besides source code."""
    ids, values = listed("id", document_ids)
    return frozenset(row["id"] for row in snapshot.rows(WRITTEN_IN_MARKDOWN.format(ids=ids), values))


def get_content(snapshot: Snapshot, document_id: int) -> str:
    """Read the stored text of a document. Raises NotFoundError."""
    key = {"document_id": document_id}
    text_after: str | None = snapshot.value(TEXT_AFTER, key)
    if text_after is None:
        raise NotFoundError(f"there is no document {document_id}")
    return "".join([*chain.from_iterable(snapshot.tuples(TEXTS_OF, key)), text_after])


def get_draft(snapshot: Snapshot, document_id: int) -> DocumentDraft:
    """Read a document as the draft it came from, with the warnings of its report, without tags. Raises
    NotFoundError."""
    row = snapshot.first(GET_DOCUMENT, {"document_id": document_id})
    if row is None:
        raise NotFoundError(f"there is no document {document_id}")
    return DocumentDraft(
        title=row["title"],
        content=get_content(snapshot, document_id),
        format=DocFormat(row["format"]),
        content_hash=row["content_hash"],
        n_bytes=row["n_bytes"],
        source_path=row["source_path"],
        metadata=json.loads(row["metadata"]),
        warnings=get_report(snapshot, document_id).warnings,
        file=get_file(snapshot, document_id),
        chunk_tokens=row["chunk_tokens"],
        passages=get_passages(snapshot, document_id),
        rights=rights_from_json(row["rights"]),
    )


def get_passages(snapshot: Snapshot, document_id: int) -> tuple[Passage, ...]:
    """Read the passages that the caller has cut; empty for a document that Shoal has cut."""
    return passages_from_json(snapshot.value(GET_PASSAGES, {"document_id": document_id}))


def tags_of(snapshot: Snapshot, document_ids: list[int]) -> dict[int, tuple[str, ...]]:
    """Map document ids to their tags in alphabetical order; documents without tags are missing."""
    by_document: dict[int, list[str]] = {}
    for query in tags_queries(document_ids):
        for document_id, tag in snapshot.rows(*query):
            by_document.setdefault(document_id, []).append(tag)
    return {document_id: tuple(tags) for document_id, tags in by_document.items()}


def tags_queries(document_ids: Sequence[int]) -> Iterator[Query]:
    """Yield what `tags_of` reads."""
    for start in range(0, len(document_ids), IDS_PER_STATEMENT):
        ids, parameters = listed("id", document_ids[start : start + IDS_PER_STATEMENT])
        yield Query(TAGS_OF.format(ids=ids), parameters)


def _document(row: Any, tags: tuple[str, ...]) -> StoredDocument:
    rights = rights_from_json(row["rights"]) or Rights()
    return StoredDocument(
        id=row["id"],
        title=row["title"],
        format=DocFormat(row["format"]),
        source_path=row["source_path"],
        tags=tags,
        n_bytes=row["n_bytes"],
        n_chunks=row["n_chunks"],
        n_sentences=row["n_sentences"],
        coverage=row["coverage"],
        content_hash=row["content_hash"],
        metadata=json.loads(row["metadata"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        chunk_tokens=row["chunk_tokens"],
        allow=rights.allow,
        deny=rights.deny,
    )


def literal(text: str) -> str:
    """Escape `text` for LIKE with ESCAPE '!', so that `%` and `_` match literally."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


EXISTS = "SELECT 1 FROM documents WHERE id = :document_id"
NAMED = """
    SELECT id, title, source_path FROM documents
    WHERE source_path IN (:reference, :path) OR title = :reference ORDER BY id
"""
CHUNK_AT = "SELECT id FROM chunks WHERE document_id = :document_id AND chunk_index = :chunk_index"
PLACES_OF = "SELECT id, chunk_index FROM chunks WHERE id IN ({ids})"


def checked_id(kind: str, value: int) -> int:
    """The id, if a document or chunk (`kind`) can have it. Raises NotFoundError otherwise."""
    if not 0 < value <= MAX_ID:
        raise NotFoundError(f"there is no {kind} {value}")
    return value


def exists(snapshot: Snapshot, document_id: int) -> bool:
    """Whether a document with this id exists."""
    return document_id <= MAX_ID and snapshot.value(EXISTS, {"document_id": document_id}) is not None


def named(snapshot: Snapshot, reference: str, path: str) -> list[NamedDocument]:
    """Find documents whose source path or title is `reference`, or whose source path is `path`.

    If a source path matches, matching titles are ignored.
    """
    matches = [NamedDocument(*row) for row in snapshot.tuples(NAMED, {"reference": reference, "path": path})]
    by_path = [document for document in matches if document.source_path in (reference, path)]
    return by_path or matches


def find_chunk_id(snapshot: Snapshot, document_id: int, chunk_index: int) -> int | None:
    """Find the id of the chunk of a document at a position, counted from 0; None if there is none."""
    parameters = {"document_id": document_id, "chunk_index": min(chunk_index, MAX_ID)}
    chunk_id: int | None = snapshot.value(CHUNK_AT, parameters)
    return chunk_id


def chunk_positions(snapshot: Snapshot, chunk_ids: Iterable[int]) -> dict[int, int]:
    """Map chunk ids to the positions of the chunks in their documents, counted from 0."""
    unique_ids = sorted(set(chunk_ids))
    positions: dict[int, int] = {}
    for ids, parameters in listed_in_parts("id", unique_ids):
        positions.update((row[0], row[1]) for row in snapshot.tuples(PLACES_OF.format(ids=ids), parameters))
    return positions
