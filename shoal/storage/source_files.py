"""The files that documents were converted from: rows of `document_files`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from shoal.errors import NotFoundError
from shoal.models.files import FileAccount, FilePlace, Locator, LocatorKind, Removed, SourceFile
from shoal.models.stored import DocumentFile
from shoal.storage.column_values import compact_json
from shoal.storage.database import Snapshot, Transaction, listed

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
