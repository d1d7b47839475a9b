"""Export of a library as lines of JSON, each an object with a `type`.

The first line is the `export` record. It names the encoder of the vectors, and a chunk has its `vector` in
base64, quantised as it is stored. Then come the documents, each `document` followed by its `chunk`s
(which refer to it by content hash), then the `custom_word`s, the `synonym`s and decided `acronym`s, the
`pin`s, then the notes of each owner with their evidence, merges and sessions (`shoal.notes.exported_rows`).
A canonical export contains nothing that depends on when, where or in which order the documents and notes were
stored: equal documents and notes with equal learned words give equal bytes. So it has no merges, proposals,
sessions and vectors.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from shoal.library.acronyms import DECIDED
from shoal.models.files import ANY_TOKENS
from shoal.models.rights import Visibility
from shoal.models.stored import StoredChunk, StoredDocument
from shoal.models.vocabulary import IslandScore, ReefScore
from shoal.notes.exported_rows import note_records
from shoal.search.pins import pin_records
from shoal.storage import access_settings, vectors
from shoal.storage.attachments import links_of
from shoal.storage.chunk_queries import get_chunks
from shoal.storage.database import Database, Snapshot
from shoal.storage.document_queries import (
    get_content,
    get_document,
    get_file,
    get_passages,
    get_report,
    get_sections,
)

FORMAT = 1
"""Version of the export format."""
DIGITS = 6
"""Decimal places in a canonical export; stored scores have no more."""

DOCUMENTS = "SELECT id FROM documents ORDER BY content_hash"
VOCABULARY_VERSION = "SELECT COALESCE(MAX(version), 0) FROM vocabulary_versions"
CUSTOM_WORDS = """
    SELECT id, word, from_version, word_id, is_compound, specificity, idf_q, weight_q, n_occurrences,
           n_documents, created_at
    FROM custom_words w
    WHERE w.retired = 0
      AND w.from_version = (
        SELECT MAX(v.from_version) FROM custom_words v WHERE v.word = w.word AND v.from_version <= :version)
    ORDER BY w.word
"""
CUSTOM_WORD_REEFS = """
    SELECT reef_id, bm25_q, association_strength, probability FROM word_reefs
    WHERE custom_word_id = :id ORDER BY reef_id
"""

UNSTABLE_FIELDS = frozenset(
    {
        "id",
        "created_at",
        "updated_at",
        "vocabulary_version",
        "data_checksum",
        "from_version",
        "word_id",
        "valid_to",
        "superseded_by",
        "last_matched",
        "deprecated_at",
        "merged_into",
        "history",
        "is_compared",
        "encoder",
        "vector",
    }
)
"""Fields that a canonical export leaves out: they depend on the time, order or build with which rows were
stored."""


def export(
    database: Database,
    *,
    canonical: bool = False,
    select: Callable[[Snapshot], Collection[int]] | None = None,
) -> Iterator[str]:
    """Generate the lines of an export, without line ends, from one snapshot of the database.

    `select` returns the ids of the documents to export. Then words, synonyms, pins and notes, which belong to
    the whole library, are left out.
    """
    with database.snapshot() as snapshot:
        selected = None if select is None else frozenset(select(snapshot))
        for record in _records(snapshot, canonical, selected):
            yield _line(record, canonical)


def _records(
    snapshot: Snapshot, canonical: bool, selected: frozenset[int] | None
) -> Iterator[dict[str, Any]]:
    version = snapshot.value(VOCABULARY_VERSION)
    encoder = vectors.encoder(snapshot)
    head = {"type": "export", "format": FORMAT, "vocabulary_version": version}
    if encoder is not None:
        name, revision, dimension = encoder.identity
        head["encoder"] = {"name": name, "revision": revision, "dimension": dimension}
    if (visibility := access_settings.visibility(snapshot)) is not Visibility.everyone:
        head["without_rights"] = visibility.value
    yield head
    for (document_id,) in snapshot.rows(DOCUMENTS):
        if selected is not None and document_id not in selected:
            continue
        yield from _document(snapshot, document_id, is_embedded=encoder is not None)
    if selected is not None:
        return
    for row in snapshot.rows(CUSTOM_WORDS, {"version": version}):
        reefs = [dict(reef) for reef in snapshot.rows(CUSTOM_WORD_REEFS, {"id": row["id"]})]
        yield {"type": "custom_word", **dict(row), "reefs": reefs}
    yield from synonym_records(snapshot)
    yield from pin_records(snapshot)
    yield from note_records(snapshot, canonical=canonical)


def _document(snapshot: Snapshot, document_id: int, *, is_embedded: bool) -> Iterator[dict[str, Any]]:
    document = get_document(snapshot, document_id)
    report = get_report(snapshot, document_id)
    yield {
        "type": "document",
        "id": document.id,
        "content_hash": document.content_hash,
        "title": document.title,
        "format": document.format.value,
        "source_path": document.source_path,
        **_chunking(snapshot, document),
        "tags": document.tags,
        "metadata": document.metadata,
        **_rights(document),
        **({"language": document.language} if document.is_language_given else {}),
        "n_sentences": document.n_sentences,
        "coverage": document.coverage,
        "sections": [
            {
                "level": section.level,
                "path": section.path,
                "heading_start": section.heading_start,
                "heading_end": section.heading_end,
                "start_char": section.start_char,
                "end_char": section.end_char,
            }
            for section in get_sections(snapshot, document_id)
        ],
        "left_out": [[span.start_char, span.end_char, span.reason] for span in report.left_out],
        "n_left_out": report.n_left_out,
        "warnings": report.warnings,
        "created_at": document.created_at,
        "updated_at": document.updated_at,
        "content": get_content(snapshot, document_id),
        **_file(snapshot, document_id),
        **_links(snapshot, document_id),
    }
    chunks = get_chunks(snapshot, document_id).chunks
    found = dict(vectors.of_chunks(snapshot, [chunk.id for chunk in chunks])) if is_embedded else {}
    for chunk in chunks:
        record = {"type": "chunk", "document": document.content_hash, **_chunk(chunk)}
        if chunk.id in found:
            record["vector"] = base64.b64encode(found[chunk.id]).decode()
        yield record


def _chunking(snapshot: Snapshot, document: StoredDocument) -> dict[str, Any]:
    """What the document is cut with; nothing for the default."""
    if document.chunk_tokens == ANY_TOKENS:
        return {}
    passages = get_passages(snapshot, document.id)
    return {"chunk_tokens": document.chunk_tokens, **({"passages": passages} if passages else {})}


def _rights(document: StoredDocument) -> dict[str, Any]:
    """Who may see the document; nothing for one without rights."""
    return {} if document.rights is None else document.rights._asdict()


def _file(snapshot: Snapshot, document_id: int) -> dict[str, Any]:
    """The file that a document was converted from, without its bytes; nothing for a document sent as text."""
    file = get_file(snapshot, document_id)
    if file is None:
        return {}
    return {
        "file": {
            "kind": file.kind,
            "name": file.name,
            "file_hash": file.file_hash,
            "n_bytes": file.n_bytes,
            "converter": file.converter,
            "locators": file.locators,
            "removed": get_report(snapshot, document_id).removed,
            "account": file.account and file.account.fields,
        }
    }


def _links(snapshot: Snapshot, document_id: int) -> dict[str, Any]:
    """What the document is attached to; nothing for one that was uploaded alone."""
    links = links_of(snapshot, document_id)
    return {} if links is None else {"attached_to": links.parents, "is_held": links.is_held}


def _chunk(chunk: StoredChunk) -> dict[str, Any]:
    return {
        "id": chunk.id,
        "chunk_index": chunk.chunk_index,
        "section_index": chunk.section_index,
        "start_char": chunk.start_char,
        "end_char": chunk.end_char,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "sentence_count": chunk.sentence_count,
        "confidence": chunk.confidence,
        "coverage": chunk.coverage,
        "matched_words": chunk.matched_words,
        "arch_scores": chunk.arch_scores,
        "vocabulary_version": chunk.vocabulary_version,
        "data_checksum": chunk.data_checksum,
        "reefs": [_reef(reef) for reef in chunk.reefs],
        "islands": [_island(island) for island in chunk.islands],
        "text": chunk.text,
        **({} if chunk.place is None else {"place": dataclasses.asdict(chunk.place)}),
        **(
            {}
            if chunk.time_start is None
            else {"modality": chunk.modality, "time_start": chunk.time_start, "time_end": chunk.time_end}
        ),
    }


def _reef(reef: ReefScore) -> dict[str, Any]:
    return {
        "reef_id": reef.reef_id,
        "reef_name": reef.reef_name,
        "z_score": reef.z_score,
        "raw_bm25": reef.raw_bm25,
        "n_contributing_words": reef.n_contributing_words,
    }


def _island(island: IslandScore) -> dict[str, Any]:
    return {
        "island_id": island.island_id,
        "island_name": island.island_name,
        "aggregate_z": island.aggregate_z,
        "n_contributing_reefs": island.n_contributing_reefs,
    }


def _line(record: dict[str, Any], canonical: bool) -> str:
    if canonical:
        if record["type"] == "note":
            record = {**record, "is_deprecated": record["deprecated_at"] is not None}
            record["feedback"] = [{**each, "created_at": None} for each in record["feedback"]]
            if record["merged_into"] is not None:
                record["deprecated_reason"] = "merged into another note"
        record = {
            # The user's metadata is exported unchanged.
            key: value if key == "metadata" else _rounded(value)
            for key, value in record.items()
            if key not in UNSTABLE_FIELDS
        }
    return json.dumps(record, ensure_ascii=False, sort_keys=canonical, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    """Round all numbers within `value`."""
    if isinstance(value, float):
        return round(value, DIGITS) + 0.0  # not -0.0
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


ALL = "SELECT root, words FROM synonyms ORDER BY root IS NOT NULL, root, words"


def synonym_records(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield the records of an export: each `synonym`, then each `acronym` that a person decided on."""
    for row in snapshot.rows(ALL):
        yield {"type": "synonym", "root": row["root"], "synonyms": json.loads(row["words"])}
    for row in snapshot.rows(DECIDED):
        yield {
            "type": "acronym",
            "acronym": row["acronym"],
            "expansion": row["expansion"],
            "status": row["status"],
        }
