"""Similar chunks: chunks of other documents, ranked by a chunk's own profile in place of a query's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoal.errors import NotFoundError
from shoal.models.queries import QueryReef
from shoal.search.filters import CompiledFilters
from shoal.search.ordering import Order
from shoal.search.signals import OVERLAP_UNIT, overlaps
from shoal.storage.chunk_queries import profiles_of
from shoal.storage.database import Snapshot, listed
from shoal.storage.staleness import any_other_data

if TYPE_CHECKING:
    from shoal.search.searcher import Searcher

CHUNK = "SELECT document_id, data_checksum FROM chunks WHERE id = :chunk_id"
DESCRIPTIONS = """
    SELECT c.id, c.chunk_index, c.document_id, d.title, c.start_line, c.end_line,
           CASE WHEN c.top_reef_probability >= :label_threshold THEN c.top_reef_name END AS top_reef_name,
           SUBSTR(c.text, 1, :n_chars) AS beginning
    FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.id IN ({ids})
"""
BEGINNING_CHARS = 240


@dataclass(frozen=True, slots=True)
class SimilarChunk:
    """`similarity` is the cosine of the two stored profiles, 0..1. `beginning` holds the first characters of
    the text, and `top_reef_name` the first label."""

    chunk_id: int
    chunk_index: int
    document_id: int
    document_title: str
    start_line: int
    end_line: int
    top_reef_name: str | None
    beginning: str
    similarity: float


def similar(
    searcher: Searcher, chunk_id: int, *, top_k: int, filters: CompiledFilters | None = None
) -> Sequence[SimilarChunk]:
    """Return the chunks of other documents with the most similar profiles, one per document, most similar
    first, of those that meet the filters.

    Leaves out chunks scored with other lagoon data. Raises NotFoundError.
    """
    with searcher.index.searching(searcher.database) as (snapshot, library):
        is_visible = library.viewer is None or library.index.place_of(chunk_id) is not None
        chunk = snapshot.first(CHUNK, {"chunk_id": chunk_id}) if is_visible else None
        if chunk is None:
            raise NotFoundError(f"there is no chunk {chunk_id}")
        stored = profiles_of(snapshot, [chunk_id]).profiles
        z_scores = stored.z_scores.tolist()
        norm = sum(z**2 for z in z_scores) ** 0.5
        if not norm:
            return ()
        profile = [
            QueryReef(reef_id, "", z / norm)
            for reef_id, z in zip(stored.reef_ids.tolist(), z_scores, strict=True)
        ]
        found = overlaps(library, profile)
        is_result = found.n_shared > 0
        is_result[library.index.places_of_document(chunk["document_id"])] = False
        if any_other_data(snapshot, chunk["data_checksum"]):
            is_result &= ~library.has_other_data(snapshot, chunk["data_checksum"])
        if filters:
            is_result &= filters.met_by(snapshot, library)
        places = Order(library.index, found.overlaps, is_result).first(top_k, 1).places
        chunk_ids = library.index.chunk_ids(places)
        return _describe(snapshot, chunk_ids, found.overlaps[places], searcher.settings.label_threshold)


def _describe(
    snapshot: Snapshot, chunk_ids: NDArray[np.int64], overlaps: NDArray[np.int64], label_threshold: float
) -> tuple[SimilarChunk, ...]:
    ids, parameters = listed("id", chunk_ids.tolist())
    parameters |= {"n_chars": BEGINNING_CHARS, "label_threshold": label_threshold}
    rows = {row["id"]: row for row in snapshot.rows(DESCRIPTIONS.format(ids=ids), parameters)}
    return tuple(
        SimilarChunk(
            chunk_id=chunk_id,
            chunk_index=row["chunk_index"],
            document_id=row["document_id"],
            document_title=row["title"],
            start_line=row["start_line"],
            end_line=row["end_line"],
            top_reef_name=row["top_reef_name"],
            beginning=row["beginning"],
            similarity=round(min(1.0, overlap / OVERLAP_UNIT), 4),
        )
        for chunk_id, overlap in zip(chunk_ids.tolist(), overlaps.tolist(), strict=True)
        for row in (rows[chunk_id],)
    )
