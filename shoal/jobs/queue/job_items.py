"""Items of an upload: rows of `job_items` and their assignment to waves."""

from __future__ import annotations

import json
from typing import Any

from shoal.jobs.queue import statements
from shoal.jobs.queue.waits import wake
from shoal.models.documents import DocFormat, DocumentDraft, UrlDraft
from shoal.models.files import FileDraft, SourceFile
from shoal.models.jobs import ItemStatus
from shoal.models.token_range import ANY_TOKENS
from shoal.storage.database import Transaction
from shoal.storage.passages import passages_to_json
from shoal.storage.source_files import file_to_json
from shoal.support.clock import timestamp_at

UNNAMED_FILE = "(a file without a name)"

URL_KIND = "url"
"""Kind of the file of an item that is not fetched yet. Its URL is the source path."""

NewDraft = DocumentDraft | FileDraft | UrlDraft
"""What an upload may add: a document, a file to convert, or a page to fetch."""


class WaveAssigner:
    """Assigns documents to waves; a wave ends at `wave_bytes`. Depends only on order and sizes."""

    def __init__(self, wave_bytes: int) -> None:
        self._limit = wave_bytes
        self._filled = 0
        self.current = 0

    def place(self, n_bytes: int) -> int:
        """Return the wave of the next document, which has `n_bytes`."""
        if self._filled >= self._limit:
            self.current, self._filled = self.current + 1, 0
        self._filled += n_bytes
        return self.current


_IN_OTHER_ROWS = ("file", "passages")
"""Parts of an item that have rows of their own."""


def insert_items(transaction: Transaction, job_id: int, items: list[dict[str, Any]]) -> None:
    """Write items of an upload with their texts. Each item has the keys of `accepted_item` and `seq`."""
    now = timestamp_at(transaction.now())
    files = [item for item in items if item.get("file") is not None]
    rows = [
        {
            "by_path": 0,
            "alone": 0,
            "chunk_tokens": ANY_TOKENS,
            **{name: value for name, value in item.items() if name not in _IN_OTHER_ROWS},
            "job_id": job_id,
            "now": now,
        }
        for item in items
    ]
    transaction.write_many(statements.INSERT_ITEM, rows)
    wake(transaction, [job_id])
    with_text = [
        {
            "job_id": job_id,
            "seq": item["seq"],
            "content": item["content"],
            "passages": passages_to_json(item["passages"]),
        }
        for item in items
        if item["content"] is not None
    ]
    transaction.write_many(statements.INSERT_CONTENT, with_text)
    transaction.write_many(statements.INSERT_FILE, [_file_row(job_id, item) for item in files])


def _file_row(job_id: int, item: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a file to fetch or convert, or of the file that an exported document was converted
    from."""
    file: FileDraft | SourceFile | UrlDraft = item["file"]
    row = {"job_id": job_id, "seq": item["seq"]}
    if isinstance(file, UrlDraft):
        return {**row, "kind": URL_KIND, "name": "", "title": file.title, "source": None, "data": None}
    row |= {"kind": file.kind, "name": file.name}
    if isinstance(file, SourceFile):
        return {**row, "title": None, "source": file_to_json(file), "data": None}
    return {**row, "title": file.title, "source": None, "data": file.data}


def accepted_item(draft: DocumentDraft, wave: int) -> dict[str, Any]:
    """Return an item for a new document."""
    return {
        "title": draft.title,
        "source_path": draft.source_path,
        "format": draft.format.value,
        "tags": json.dumps(list(draft.tags), ensure_ascii=False),
        "metadata": json.dumps(dict(draft.metadata), ensure_ascii=False),
        "warnings": json.dumps(draft.warnings, ensure_ascii=False),
        "n_bytes": draft.n_bytes,
        "content_hash": draft.content_hash,
        "content": draft.content,
        "chunk_tokens": draft.chunk_tokens,
        "passages": draft.passages,
        "file": draft.file,
        "status": ItemStatus.enqueued.value,
        "document_id": None,
        "error": None,
        "error_code": None,
        "wave": wave,
    }


def new_item(draft: NewDraft, wave: int) -> dict[str, Any]:
    """Return an item for a new document, or a file to convert or fetch."""
    if isinstance(draft, UrlDraft):
        return accepted_url(draft, wave)
    return accepted_file(draft, wave) if isinstance(draft, FileDraft) else accepted_item(draft, wave)


def accepted_url(draft: UrlDraft, wave: int) -> dict[str, Any]:
    """Return an item for a page or file to fetch. It runs alone, because it may take long."""
    item = _waiting_item(draft, draft.title or draft.url, draft.url, None, wave)
    return {**item, "by_path": 1, "alone": 1}


def accepted_file(file: FileDraft, wave: int) -> dict[str, Any]:
    """Return an item for a file to convert. Until then it has the hash of the file."""
    title = file.title or file.name or UNNAMED_FILE
    return _waiting_item(file, title, file.source_path, file.file_hash, wave)


def _waiting_item(
    file: FileDraft | UrlDraft, title: str, source_path: str | None, content_hash: str | None, wave: int
) -> dict[str, Any]:
    return {
        "title": title,
        "source_path": source_path,
        "format": DocFormat.plaintext.value,
        "tags": json.dumps(list(file.tags), ensure_ascii=False),
        "metadata": json.dumps(dict(file.metadata), ensure_ascii=False),
        "warnings": "[]",
        "n_bytes": file.n_bytes,
        "content_hash": content_hash,
        "content": None,
        "chunk_tokens": file.chunk_tokens,
        "file": file,
        "status": ItemStatus.enqueued.value,
        "document_id": None,
        "error": None,
        "error_code": None,
        "wave": wave,
    }


def item_of_document(
    document_id: int, title: str, source_path: str | None, n_bytes: int, wave: int
) -> dict[str, Any]:
    """Return an item for a stored document, which may have been deleted since."""
    item = refused_item(title, source_path, n_bytes, None, None, wave)
    return {**item, "status": ItemStatus.enqueued.value, "document_id": document_id}


def refused_item(
    title: str, source_path: str | None, n_bytes: int, error: str | None, error_code: str | None, wave: int
) -> dict[str, Any]:
    """Return an item that the upload refuses; it is failed from the start."""
    return {
        "title": title,
        "source_path": source_path,
        "format": DocFormat.plaintext.value,
        "tags": "[]",
        "metadata": "{}",
        "warnings": "[]",
        "n_bytes": n_bytes,
        "content_hash": None,
        "content": None,
        "status": ItemStatus.failed.value,
        "document_id": None,
        "error": error,
        "error_code": error_code,
        "wave": wave,
    }
