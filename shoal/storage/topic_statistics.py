"""Topic statistics of a library: the main reefs of documents, the best chunks of a reef or word, frequent
tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.storage.database import IDS_PER_STATEMENT, Snapshot, listed

MAIN_REEFS = """
    SELECT document_id, top_reef_id, top_reef_name, COUNT(*) AS n FROM chunks
    WHERE document_id IN ({ids}) AND top_reef_id IS NOT NULL
    GROUP BY document_id, top_reef_id, top_reef_name
    ORDER BY document_id, n DESC, top_reef_id
"""
CHUNKS_OF_REEF = """
    SELECT c.id, c.chunk_index, c.document_id, d.title, c.start_line, c.end_line, r.z_score, p.weight,
           SUBSTR(c.text, 1, :n_chars) AS beginning
    FROM (SELECT chunk_id, weight FROM reef_postings WHERE reef_id = :reef_id
          ORDER BY weight DESC, chunk_id LIMIT :limit) p
    JOIN chunks c ON c.id = p.chunk_id
    JOIN documents d ON d.id = c.document_id
    JOIN chunk_reefs r ON r.chunk_id = c.id AND r.reef_id = :reef_id
    ORDER BY p.weight DESC, c.id
"""
# Matches the text only: a title or heading is indexed with every chunk below it.
CHUNKS_WITH = """
    SELECT c.id, c.chunk_index, c.document_id, d.title, c.start_line, c.end_line, c.top_reef_id,
           c.top_reef_name, c.text
    FROM (SELECT rowid AS chunk_id FROM chunk_fts WHERE chunk_fts MATCH :expression
          ORDER BY rank, rowid LIMIT :limit) f
    JOIN chunks c ON c.id = f.chunk_id
    JOIN documents d ON d.id = c.document_id
    ORDER BY c.document_id, c.chunk_index
"""
TAGS = "SELECT tag, COUNT(*) AS n FROM document_tags GROUP BY tag ORDER BY n DESC, tag LIMIT :limit"
BEGINNING_CHARS = 240


@dataclass(frozen=True, slots=True)
class MainReef:
    """A reef that is the strongest of `n_chunks` chunks of a document."""

    reef_id: int
    reef_name: str
    n_chunks: int


@dataclass(frozen=True, slots=True)
class ReefChunk:
    """A chunk about a reef. `share`: the reef's part of its profile, 0..1."""

    chunk_id: int
    chunk_index: int
    document_id: int
    document_title: str
    start_line: int
    end_line: int
    z_score: float
    share: float
    beginning: str


@dataclass(frozen=True, slots=True)
class WordChunk:
    """A chunk that contains a word, with its whole text. The reef is None if the chunk has no known word."""

    chunk_id: int
    chunk_index: int
    document_id: int
    document_title: str
    start_line: int
    end_line: int
    top_reef_id: int | None
    top_reef_name: str | None
    text: str


def main_reefs(snapshot: Snapshot, document_ids: Sequence[int], n: int) -> dict[int, tuple[MainReef, ...]]:
    """Map document ids to the `n` reefs that are the strongest of most chunks."""
    by_document: dict[int, list[MainReef]] = {}
    for start in range(0, len(document_ids), IDS_PER_STATEMENT):
        ids, parameters = listed("id", document_ids[start : start + IDS_PER_STATEMENT])
        for document_id, reef_id, name, count in snapshot.tuples(MAIN_REEFS.format(ids=ids), parameters):
            reefs = by_document.setdefault(document_id, [])
            if len(reefs) < n:
                reefs.append(MainReef(reef_id, name, count))
    return {document_id: tuple(reefs) for document_id, reefs in by_document.items()}


def find_reef_chunks(snapshot: Snapshot, reef_id: int, limit: int) -> tuple[ReefChunk, ...]:
    """List the chunks with the largest share of a reef in their profiles, largest first."""
    rows = snapshot.rows(CHUNKS_OF_REEF, {"reef_id": reef_id, "limit": limit, "n_chars": BEGINNING_CHARS})
    return tuple(
        ReefChunk(
            chunk_id=row["id"],
            chunk_index=row["chunk_index"],
            document_id=row["document_id"],
            document_title=row["title"],
            start_line=row["start_line"],
            end_line=row["end_line"],
            z_score=row["z_score"],
            share=row["weight"] / 1_000_000,
            beginning=row["beginning"],
        )
        for row in rows
    )


def find_word_chunks(snapshot: Snapshot, word: str, limit: int) -> tuple[WordChunk, ...]:
    """List the best chunks by BM25 for a word or compound in any inflection, in library order.

    `word` is in its normal form: letters and digits, separated by spaces.
    """
    parameters = {"expression": f'text : "{word}"', "limit": limit}
    return tuple(WordChunk(*row) for row in snapshot.tuples(CHUNKS_WITH, parameters))


def frequent_tags(snapshot: Snapshot, limit: int) -> tuple[tuple[str, int], ...]:
    """List tags with their numbers of documents, most frequent first."""
    return tuple((row["tag"], row["n"]) for row in snapshot.rows(TAGS, {"limit": limit}))
