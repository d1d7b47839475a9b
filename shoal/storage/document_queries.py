"""Queries for documents: listings, a document with its sections and report, its text, and its file.

The file that a document was converted from is a row of `document_files`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError
from shoal.models.documents import DocFormat, DocumentDraft, LeftOut, Passage
from shoal.models.files import FileAccount, FilePlace, Locator, LocatorKind, Removed, SourceFile
from shoal.models.rights import Rights
from shoal.models.stored import (
    DocumentDetail,
    DocumentFile,
    DocumentPage,
    DocumentReport,
    NamedDocument,
    StoredDocument,
    StoredSection,
)
from shoal.storage.attachments import IsListed, attachments_of, parents_of
from shoal.storage.column_values import compact_json, passages_from_json, rights_from_json
from shoal.storage.database import IDS_PER_STATEMENT, Query, Snapshot, Transaction, listed, listed_in_parts
from shoal.storage.totals import N_DOCUMENTS, N_WITH_TAG

VERSION_CHARS = 16
"""Of the hash of the content, in a version."""
HEADING = "heading"
"""The reason why the text of a heading is in no chunk."""

DOCUMENT_COLUMNS = """id, title, format, source_path, n_bytes, n_chunks, n_sentences, coverage, content_hash,
    metadata, created_at, updated_at, chunk_tokens, rights, language, is_language_given"""

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
EXISTS = "SELECT 1 FROM documents WHERE id = :document_id"
NAMED = """
    SELECT id, title, source_path FROM documents
    WHERE source_path IN (:reference, :path) OR title = :reference ORDER BY id
"""
CHUNK_AT = "SELECT id FROM chunks WHERE document_id = :document_id AND chunk_index = :chunk_index"
PLACES_OF = "SELECT id, chunk_index FROM chunks WHERE id IN ({ids})"
FIND = """
    SELECT document_id FROM document_files
    WHERE file_hash = :file_hash AND kind = :kind AND converter = :converter
      AND (:among IS NULL OR document_id = :among)
      AND :chunk_tokens = (SELECT d.chunk_tokens FROM documents d WHERE d.id = document_id)
    ORDER BY document_id LIMIT 1
"""
# The bytes are copied within the database, from the item that the document comes from.
INSERT = """
    INSERT INTO document_files (document_id, kind, name, file_hash, n_bytes, converter, locators, data)
    SELECT :document_id, :kind, :name, :file_hash, :n_bytes, :converter, :locators,
           (SELECT data FROM job_item_files WHERE item_id = :item_id)
"""
DELETE = "DELETE FROM document_files WHERE document_id = :document_id"
INSERT_ACCOUNT = """
    INSERT INTO file_accounts (document_id, n_words, n_stored, is_incomplete, missing)
    VALUES (:document_id, :n_words, :n_stored, :is_incomplete, :missing)
"""
DELETE_ACCOUNT = "DELETE FROM file_accounts WHERE document_id = :document_id"
GET_ACCOUNT = "SELECT n_words, n_stored, missing FROM file_accounts WHERE document_id = :document_id"
INCOMPLETE = "SELECT document_id FROM file_accounts WHERE is_incomplete = 1 ORDER BY document_id LIMIT :limit"
COUNT_INCOMPLETE = "SELECT COUNT(*) FROM file_accounts WHERE is_incomplete = 1"
DESCRIBE = """
    SELECT kind, name, n_bytes, file_hash, data IS NOT NULL FROM document_files
    WHERE document_id = :document_id
"""
GET = """
    SELECT kind, name, file_hash, n_bytes, converter, locators FROM document_files
    WHERE document_id = :document_id
"""
KEPT = """
    SELECT document_id, kind FROM document_files WHERE document_id IN ({ids}) AND data IS NOT NULL
"""
SET_CONVERTER = """
    UPDATE document_files SET converter = :converter
    WHERE document_id = :document_id AND converter < :converter
"""
OF_EARLIER = """
    SELECT document_id, data IS NOT NULL FROM document_files WHERE converter < :converter ORDER BY document_id
"""
OF_ATTACHMENTS = """
    SELECT f.file_hash, f.document_id, f.converter FROM document_files f
    JOIN document_parents p ON p.document_id = f.document_id WHERE p.parent_id = :document_id
"""
GET_DATA = "SELECT data FROM document_files WHERE document_id = :document_id"


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


def get_detail(snapshot: Snapshot, document_id: int, is_listed: IsListed = lambda _: True) -> DocumentDetail:
    """Read a document with its sections, report, file and links to documents. Raises NotFoundError."""
    return DocumentDetail(
        document=get_document(snapshot, document_id),
        sections=get_sections(snapshot, document_id),
        report=get_report(snapshot, document_id),
        file=describe_file(snapshot, document_id),
        parents=parents_of(snapshot, document_id, is_listed),
        attachments=attachments_of(snapshot, document_id, is_listed),
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
        language=row["language"] if row["is_language_given"] else None,
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
        language=row["language"],
        is_language_given=bool(row["is_language_given"]),
    )


def literal(text: str) -> str:
    """Escape `text` for LIKE with ESCAPE '!', so that `%` and `_` match literally."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


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


def find_document(
    snapshot: Snapshot,
    file_hash: str,
    kind: str,
    converter: int,
    chunk_tokens: str,
    *,
    among: int | None = None,
) -> int | None:
    """Return the document that a file became, converted as this version does it and cut with `chunk_tokens`;
    None if there is none.

    `among`: the only document to consider.
    """
    row = {
        "file_hash": file_hash,
        "kind": kind,
        "converter": converter,
        "chunk_tokens": chunk_tokens,
        "among": among,
    }
    found: int | None = snapshot.value(FIND, row)
    return found


def write_file(
    transaction: Transaction, document_id: int, file: SourceFile, *, data_of_item: int | None = None
) -> None:
    """Write the file of a document that has none; `data_of_item`: the item whose bytes to keep."""
    row = {
        "document_id": document_id,
        "kind": file.kind,
        "name": file.name,
        "file_hash": file.file_hash,
        "n_bytes": file.n_bytes,
        "converter": file.converter,
        "locators": compact_json(file.locators),
        "item_id": data_of_item,
    }
    transaction.execute(INSERT, row)
    if (account := file.account) is not None:
        counts = {
            "document_id": document_id,
            "n_words": account.n_words,
            "n_stored": account.n_stored,
            "is_incomplete": int(account.is_incomplete),
            "missing": compact_json(account.missing),
        }
        transaction.execute(INSERT_ACCOUNT, counts)


def set_converter(transaction: Transaction, document_id: int, converter: int) -> None:
    """Note that a version of the converters gives the text that a document has."""
    transaction.execute(SET_CONVERTER, {"document_id": document_id, "converter": converter})


def files_of_earlier(snapshot: Snapshot, converter: int) -> Iterator[tuple[int, bool]]:
    """Yield the documents whose files earlier converters read, and whether these files are kept."""
    for document_id, is_kept in snapshot.tuples(OF_EARLIER, {"converter": converter}):
        yield document_id, bool(is_kept)


def versions_of_attachments(snapshot: Snapshot, document_id: int) -> dict[str, tuple[int, int]]:
    """Return the hashes of the files attached to a document, each with its document and its converter."""
    rows = snapshot.tuples(OF_ATTACHMENTS, {"document_id": document_id})
    return {file_hash: (attached, converter) for file_hash, attached, converter in rows}


def delete_file(transaction: Transaction, document_id: int) -> None:
    """Forget the file of a document whose content is replaced."""
    transaction.execute(DELETE, {"document_id": document_id})
    transaction.execute(DELETE_ACCOUNT, {"document_id": document_id})


def describe_file(snapshot: Snapshot, document_id: int) -> DocumentFile | None:
    """Return what is known of the file of a document; None for a document sent as text."""
    row = snapshot.first(DESCRIBE, {"document_id": document_id})
    if row is None:
        return None
    kind, name, n_bytes, file_hash, is_kept = row
    return DocumentFile(kind, name, n_bytes, file_hash, bool(is_kept), _account_of(snapshot, document_id))


def _account_of(snapshot: Snapshot, document_id: int) -> FileAccount | None:
    row = snapshot.first(GET_ACCOUNT, {"document_id": document_id})
    fields = row and (row["n_words"], row["n_stored"], json.loads(row["missing"]))
    return FileAccount.of_fields(fields)


def count_incomplete(snapshot: Snapshot) -> int:
    """Count the documents that lack more words of their files than a few."""
    return int(snapshot.value(COUNT_INCOMPLETE))


def incomplete_documents(snapshot: Snapshot, limit: int) -> tuple[int, ...]:
    """Return the first documents that lack more words of their files than a few."""
    return tuple(row["document_id"] for row in snapshot.rows(INCOMPLETE, {"limit": limit}))


def get_file(snapshot: Snapshot, document_id: int) -> SourceFile | None:
    """Return the file of a document, without what was removed from it; None for a document sent as text."""
    row = snapshot.first(GET, {"document_id": document_id})
    if row is None:
        return None
    locators = _locators(json.loads(row["locators"]))
    return SourceFile(
        row["kind"],
        row["name"],
        row["file_hash"],
        row["n_bytes"],
        row["converter"],
        locators,
        account=_account_of(snapshot, document_id),
    )


def kept_files(snapshot: Snapshot, document_ids: Iterable[int]) -> dict[int, str]:
    """Return those of a page of documents whose file can be downloaded, with its kind."""
    ids, values = listed("id", document_ids)
    return {row["document_id"]: row["kind"] for row in snapshot.rows(KEPT.format(ids=ids), values)}


def get_data(snapshot: Snapshot, document_id: int) -> bytes:
    """Return the bytes of a document's file. Raises NotFoundError if they are not kept."""
    data: bytes | None = snapshot.value(GET_DATA, {"document_id": document_id})
    if data is None:
        raise NotFoundError(f"the file of document {document_id} is not kept")
    return data


def file_to_json(file: SourceFile) -> str:
    """Return a file as stored with an item that waits."""
    return compact_json(
        {
            "kind": file.kind,
            "name": file.name,
            "file_hash": file.file_hash,
            "n_bytes": file.n_bytes,
            "converter": file.converter,
            "locators": file.locators,
            "removed": file.removed,
            "account": file.account and file.account.fields,
        }
    )


def file_from_json(text: str) -> SourceFile:
    """Return the file of a waiting item."""
    fields: dict[str, Any] = json.loads(text)
    return SourceFile(
        **{
            **fields,
            "locators": _locators(fields["locators"]),
            "removed": tuple(Removed(*each) for each in fields["removed"]),
            "account": FileAccount.of_fields(fields.get("account")),
        }
    )


def place_to_json(place: FilePlace | None) -> str | None:
    """Return the place of a passage as stored with it."""
    return None if place is None else compact_json(dataclasses.asdict(place))


def place_from_json(text: str | None) -> FilePlace | None:
    """Return the stored place of a passage."""
    if text is None:
        return None
    fields: Mapping[str, Any] = json.loads(text)
    return FilePlace(**{**fields, "kind": LocatorKind(fields["kind"])})


def _locators(rows: Sequence[Sequence[Any]]) -> tuple[Locator, ...]:
    return tuple(
        Locator(start, end, LocatorKind(kind), name, first, last)
        for start, end, kind, name, first, last in rows
    )
