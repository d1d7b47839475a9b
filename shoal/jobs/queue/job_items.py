"""Items of jobs: of an upload, in waves, and of a rescore, which first finds what it has to do.

A rescore observes documents again whose observations do not follow from the present data and settings. It
decides all words again and scores the documents with stale chunks. Which chunks are stale is known only after
the words are decided, so their documents join the job then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from shoal.jobs.queue import statements
from shoal.jobs.queue.progress import wake
from shoal.models.documents import DocFormat, DocumentDraft, UrlDraft
from shoal.models.files import ANY_TOKENS, FileDraft, SourceFile
from shoal.models.jobs import ItemStatus
from shoal.settings import Settings
from shoal.storage.column_values import passages_to_json, rights_to_json
from shoal.storage.database import Snapshot, Transaction
from shoal.storage.document_queries import file_to_json
from shoal.storage.staleness import count_stale
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
            "rights": None,
            "language": None,
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
        "rights": rights_to_json(draft.rights),
        "language": draft.language,
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
        "rights": rights_to_json(file.rights),
        "language": file.language,
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


OBSERVED_WITH = (
    "sensitivity",
    "smooth_window",
    "min_chunk_sentences",
    "max_chunk_sentences",
    "max_chunk_chars",
    "heading_weight",
    "context_confidence",
    "context_sentence_weight",
    "short_document_words",
    "reefs_per_observation",
    "reefs_per_chunk",
)
"""Settings that observations and scores depend on, besides the document and lagoon's data."""
DECIDED_WITH = (
    "association_max_reefs",
    "association_min",
    "association_relative",
    "compound_min_cohesion",
    "compound_min_occurrences",
    "min_occurrences_long",
    "min_occurrences_short",
)
"""Settings that learned words depend on, besides the observations."""

# The documents that a rescore may change, as far as it is known before words are decided.
SELECTED = """
    SELECT d.id, d.title, d.source_path, d.n_bytes FROM documents d
    LEFT JOIN observed_documents o
        ON o.content_hash = d.content_hash AND o.state IN ('pending', 'learned')
    WHERE (:learning = 1 AND (o.id IS NULL OR o.basis <> :basis OR o.settings <> :settings
                              OR o.title <> d.title
                              OR o.format <> d.format))
       OR d.id IN (SELECT document_id FROM stale_documents)
       OR d.id IN (SELECT document_id FROM chunks WHERE data_checksum < :data_checksum)
       OR d.id IN (SELECT document_id FROM chunks WHERE data_checksum > :data_checksum)
    ORDER BY d.id
"""
N_CHANGES = "SELECT n_changes FROM rescore_state"
SET_CHANGES = "UPDATE jobs SET n_changes = :n_changes WHERE id = :job_id"
# Whether all words were decided from the present evidence, and documents have not changed since.
IS_DECIDED = """
    SELECT 1 FROM rescore_state s, learning l
    WHERE s.changes = s.n_changes AND s.revision = l.revision AND s.source = :source
"""
# Whether all words were decided from this evidence.
IS_REVISION_DECIDED = "SELECT 1 FROM rescore_state WHERE revision = :revision AND source = :source"
# A rescore with failed documents leaves the number of changes, so that the next one tries them again.
RECORD = f"""
    UPDATE rescore_state SET revision = :revision, source = :source, changes = CASE
        WHEN EXISTS (SELECT 1 FROM job_items WHERE job_id = :job_id AND status = '{ItemStatus.failed}')
        THEN changes ELSE (SELECT n_changes FROM jobs WHERE id = :job_id) END
"""
STALE_DOCUMENTS = """
    SELECT d.id, d.title, d.source_path, d.n_bytes
    FROM stale_documents s JOIN documents d ON d.id = s.document_id
    WHERE NOT EXISTS (SELECT 1 FROM job_items i WHERE i.job_id = :job_id AND i.document_id = d.id)
    ORDER BY d.id
"""
NEXT_SEQ = "SELECT COALESCE(MAX(seq), -1) + 1 FROM job_items WHERE job_id = :job_id"
GROW_WAVE = """
    UPDATE waves SET total = total + :items, bytes = bytes + :bytes WHERE job_id = :job_id AND n = :wave
"""
GROW_JOB = "UPDATE jobs SET total = total + :items, bytes_total = bytes_total + :bytes WHERE id = :job_id"


def basis_of(data_checksum: str) -> str:
    """What observations depend on, besides the text and the settings."""
    from shoal.learning.observations import DISCOVERY_VERSION

    return f"{data_checksum}/{DISCOVERY_VERSION}"


def observed_settings(settings: Settings) -> dict[str, Any]:
    """The settings that observations and scores depend on."""
    return {name: getattr(settings, name) for name in OBSERVED_WITH}


def source_of(settings: Settings, basis: str) -> str:
    """What learned words depend on, besides the texts, as JSON."""
    decided_with = {name: getattr(settings, name) for name in DECIDED_WITH}
    return json.dumps({**decided_with, **observed_settings(settings), "basis": basis}, sort_keys=True)


def has_nothing_to_do(snapshot: Snapshot, settings: Settings, data_checksum: str) -> bool:
    """Whether a rescore would change nothing. Takes the same time for a library of any size."""
    if count_stale(snapshot, data_checksum):
        return False
    source = source_of(settings, basis_of(data_checksum))
    return not settings.learning or snapshot.value(IS_DECIDED, {"source": source}) is not None


def selected(
    snapshot: Snapshot, settings: Settings, data_checksum: str | None
) -> Iterator[tuple[int, str, str | None, int]]:
    """The documents that a rescore looks at: id, title, path and bytes. All, if the data is not known."""
    if data_checksum is None:
        return snapshot.tuples(statements.DOCUMENT_HEADS)
    parameters = {
        "learning": int(settings.learning),
        "basis": basis_of(data_checksum),
        "settings": json.dumps(observed_settings(settings), sort_keys=True),
        "data_checksum": data_checksum,
    }
    return snapshot.tuples(SELECTED, parameters)


def is_revision_decided(snapshot: Snapshot, revision: int, source: str) -> bool:
    """Whether all words were decided from this revision of the evidence."""
    return snapshot.value(IS_REVISION_DECIDED, {"revision": revision, "source": source}) is not None


def record_decided(transaction: Transaction, job_id: int, revision: int, source: str) -> None:
    """Note that all words were decided from a revision of the evidence."""
    transaction.execute(RECORD, {"job_id": job_id, "revision": revision, "source": source})


def add_stale_documents(transaction: Transaction, job_id: int, wave: int) -> None:
    """Add the documents with stale chunks to a rescore that has decided the words."""
    job = {"job_id": job_id}
    heads = list(transaction.tuples(STALE_DOCUMENTS, job))
    if not heads:
        return
    seq = transaction.value(NEXT_SEQ, job)
    items = []
    for place, (document_id, title, source_path, n_bytes) in enumerate(heads):
        item = item_of_document(document_id, title, source_path, n_bytes, wave)
        items.append({**item, "seq": seq + place, "status": ItemStatus.discovered.value})
    insert_items(transaction, job_id, items)
    grown = {**job, "items": len(items), "bytes": sum(item["n_bytes"] for item in items)}
    transaction.execute(GROW_WAVE, {**grown, "wave": wave})
    transaction.execute(GROW_JOB, grown)
