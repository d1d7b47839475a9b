"""Chunks elsewhere that are about the same: a chunk's own profile takes the place of a query's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.errors import NotFoundError
from shoal.models import QueryReef
from shoal.search import postings, reef_ranking
from shoal.search.filters import CompiledFilters
from shoal.storage.chunk_queries import reefs_of
from shoal.storage.database import Database, Snapshot, listed

CHUNK = "SELECT document_id, data_checksum FROM chunks WHERE id = :chunk_id"
ELSEWHERE = "c.document_id <> :own_document"
ABOUT = """
    SELECT c.id, c.chunk_index, c.document_id, d.title, c.start_line, c.end_line, c.top_reef_name,
           SUBSTR(c.text, 1, :n_chars) AS beginning
    FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.id IN ({ids})
"""
BEGINNING_CHARS = 240


@dataclass(frozen=True, slots=True)
class SimilarChunk:
    """`likeness` is the cosine of the two stored profiles, 0..1. `beginning`: the first characters of its text."""

    chunk_id: int
    chunk_index: int
    document_id: int
    document_title: str
    start_line: int
    end_line: int
    top_reef_name: str | None
    beginning: str
    likeness: float


def similar(
    database: Database, kept: postings.PostingsCache, chunk_id: int, *, n_reefs: int, top_k: int
) -> Sequence[SimilarChunk]:
    """The chunks of other documents whose profiles are most like a chunk's, at most one of a document, best first.

    Chunks scored with other data than it are left out. Raises NotFoundError.
    """
    with database.snapshot() as snapshot:
        chunk = snapshot.first(CHUNK, {"chunk_id": chunk_id})
        if chunk is None:
            raise NotFoundError(f"there is no chunk {chunk_id}")
        stored = reefs_of(snapshot, [chunk_id]).get(chunk_id, ())
        norm = sum(one.z_score**2 for one in stored) ** 0.5
        if not norm:
            return ()
        profile = [QueryReef(one.reef_id, one.reef_name, one.z_score / norm) for one in stored]
        elsewhere = CompiledFilters({"elsewhere": ELSEWHERE}, {"own_document": chunk["document_id"]})
        compiled_filters = elsewhere.and_current_data(chunk["data_checksum"])
        current = kept.of(snapshot, n_reefs)
        if current is None:
            ranked = reef_ranking.rank(snapshot, profile, compiled_filters, n=top_k, max_per_document=1)
        else:
            ranked = postings.rank(snapshot, current, profile, compiled_filters, n=top_k, max_per_document=1)
        return _described(snapshot, ranked)


def _described(snapshot: Snapshot, ranked: Sequence[reef_ranking.Ranked]) -> tuple[SimilarChunk, ...]:
    ids, parameters = listed("id", (one.chunk_id for one in ranked))
    rows = {
        row["id"]: row
        for row in snapshot.rows(ABOUT.format(ids=ids), {**parameters, "n_chars": BEGINNING_CHARS})
    }
    return tuple(
        SimilarChunk(
            chunk_id=one.chunk_id,
            chunk_index=row["chunk_index"],
            document_id=one.document_id,
            document_title=row["title"],
            start_line=row["start_line"],
            end_line=row["end_line"],
            top_reef_name=row["top_reef_name"],
            beginning=row["beginning"],
            likeness=round(min(1.0, one.score), 4),
        )
        for one in ranked
        for row in (rows[one.chunk_id],)
    )
