"""What belongs to a document besides its own row: sections, chunks, reefs, islands, postings and full-text rows. That of
several documents is written together: of a note, most of the time would go into the statements themselves.

Nothing here begins or ends a transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count, repeat
from typing import Any

import sqlalchemy as sa

from shoal.models import Chunk, ScoredDocument, Section
from shoal.storage.driver_rows import execute, places, write_many, write_wide
from shoal.storage.json_text import compact_json

INSERT_SECTION = """
    INSERT INTO sections (document_id, section_index, level, path, heading_start, heading_end, start_char, end_char)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
# Ids are read back rather than guessed: this works the same wherever ids come from.
SECTION_IDS = """
    SELECT document_id, id FROM sections WHERE document_id IN ({documents}) ORDER BY document_id, section_index
"""

# An id only where the chunk had one before.
INSERT_CHUNK = """
    INSERT INTO chunks (id, document_id, section_id, chunk_index, text, start_char, end_char, start_line, end_line,
                        sentence_count, confidence, coverage, matched_words, top_reef_id, top_reef_name,
                        arch_score_0, arch_score_1, arch_score_2, arch_score_3, norm,
                        vocabulary_version, data_checksum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
NEW_CHUNK_IDS = """
    SELECT document_id, id FROM chunks WHERE document_id IN ({documents}) ORDER BY document_id, chunk_index
"""

# Rows of seven and of five values: so many that most are written many to a statement.
INSERT_CHUNK_REEFS = """
    INSERT INTO chunk_reefs (chunk_id, reef_id, reef_name, z_score, raw_bm25, n_contributing_words, rank)
    VALUES {rows}
"""
INSERT_CHUNK_ISLANDS = """
    INSERT INTO chunk_islands (chunk_id, island_id, island_name, aggregate_z, n_contributing_reefs)
    VALUES {rows}
"""
# In key order: the table then grows at one place a reef instead of jumping about.
DERIVE_POSTINGS = """
    INSERT INTO reef_postings (reef_id, chunk_id, weight)
    SELECT r.reef_id, r.chunk_id, CAST(ROUND(1000000 * r.z_score / c.norm) AS INTEGER)
    FROM chunks c
    JOIN chunk_reefs r ON r.chunk_id = c.id
    WHERE c.document_id IN ({documents})
    ORDER BY r.reef_id, r.chunk_id
"""
# The full-text index keeps no text of its own, so it must be told the very text that it is to add.
INDEX_TEXTS = """
    INSERT INTO chunk_fts (rowid, title, headings, text)
    SELECT chunk_id, title, headings, text FROM chunk_texts WHERE document_id IN ({documents}) ORDER BY chunk_id
"""
# What was seen in a text counts while its document is stored. The last condition is that of an index.
COUNT_OBSERVED = """
    UPDATE observed_documents SET stored = 1
    WHERE content_hash IN (SELECT content_hash FROM documents WHERE id IN ({documents}))
      AND state IN ('pending', 'learned')
"""


def write_parts(
    connection: sa.Connection,
    documents: Sequence[tuple[int, ScoredDocument]],
    kept: Sequence[Sequence[int | None]] | None = None,
) -> None:
    """Write all that belongs to documents, which have nothing yet, each given with its id. Chunks that are `kept` have
    ids already: of each document, one or None for each chunk."""
    ids = [document_id for document_id, _ in documents]

    def run(statement: str) -> list[Any]:
        return execute(connection, statement.format(documents=places(ids)), ids).fetchall()

    write_many(
        connection,
        INSERT_SECTION,
        [row for document_id, scored in documents for row in _section_rows(document_id, scored.sections)],
    )
    section_ids = _by_document(run(SECTION_IDS))
    chunk_rows = (
        row
        for document_id, scored in documents
        for row in _chunk_rows(document_id, section_ids[document_id], scored)
    )
    before = chain.from_iterable(kept) if kept is not None else repeat(None)
    write_many(connection, INSERT_CHUNK, [(i, *row) for i, row in zip(before, chunk_rows, strict=False)])
    chunk_ids = _by_document(run(NEW_CHUNK_IDS))
    numbered = [
        pair
        for document_id, scored in documents
        for pair in zip(chunk_ids[document_id], scored.chunks, strict=True)
    ]
    write_wide(connection, INSERT_CHUNK_REEFS, reef_rows(numbered))
    run(DERIVE_POSTINGS)
    write_wide(connection, INSERT_CHUNK_ISLANDS, island_rows(numbered))
    run(INDEX_TEXTS)
    run(COUNT_OBSERVED)


def _by_document(rows: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """The second of each pair, by the first."""
    found: dict[int, list[int]] = defaultdict(list)
    for document_id, part_id in rows:
        found[document_id].append(part_id)
    return found


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
    return [
        (
            document_id,
            section_ids[chunk.section],
            chunk.chunk_index,
            chunk.text,
            chunk.start_char,
            chunk.end_char,
            chunk.start_line,
            chunk.end_line,
            chunk.sentence_count,
            *score_columns(chunk),
            scored.vocabulary_version,
            scored.data_checksum,
        )
        for chunk in scored.chunks
    ]


def score_columns(chunk: Chunk) -> tuple[Any, ...]:
    """The scores of a chunk in the order of its columns."""
    top = chunk.top_reef
    return (
        chunk.confidence,
        chunk.coverage,
        chunk.matched_words,
        top.reef_id if top else None,
        top.reef_name if top else None,
        *chunk.arch_scores,
        chunk.norm,
    )


def reef_rows(numbered: Iterable[tuple[int, Chunk]]) -> list[tuple[Any, ...]]:
    """Rows for INSERT_CHUNK_REEFS of chunks with their ids."""
    return [
        row
        for chunk_id, chunk in numbered
        for row in zip(repeat(chunk_id), *chunk.reefs.fields, count(), strict=False)
    ]


def island_rows(numbered: Iterable[tuple[int, Chunk]]) -> list[tuple[Any, ...]]:
    """Rows for INSERT_CHUNK_ISLANDS of chunks with their ids."""
    return [
        row
        for chunk_id, chunk in numbered
        for row in zip(repeat(chunk_id), *chunk.islands.fields, strict=False)
    ]
