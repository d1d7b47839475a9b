"""Writing the rows that belong to a document: sections, and chunks with their profiles.

The rows of several documents are written together, because for short documents most of the time is the
overhead of the statements. No function here begins or ends a transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any

from shoal.models.documents import Chunk, ScoredDocument, Section
from shoal.storage.column_values import compact_json
from shoal.storage.database import Transaction, listed
from shoal.storage.index_tables import note_changes
from shoal.storage.profiles import reef_ids_of
from shoal.storage.reef_names import write_reefs
from shoal.storage.saved_search_changes import note_new_chunks
from shoal.storage.source_files import place_to_json
from shoal.storage.staleness import store_scored

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
                        data_checksum, locator, metadata"""
_VALUES = ", ".join("?" for _ in _COLUMNS.split(","))
INSERT_CHUNK = f"INSERT INTO chunks ({_COLUMNS}) VALUES ({_VALUES})"
INSERT_KEPT_CHUNK = f"INSERT INTO chunks (id, {_COLUMNS}) VALUES (?, {_VALUES})"
# Observations of a text count while its document is stored. The last condition matches a partial index.
COUNT_OBSERVED = """
    UPDATE observed_documents SET stored = 1
    WHERE content_hash IN (SELECT content_hash FROM documents WHERE id IN ({documents}))
      AND state IN ('pending', 'learned')
"""


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
