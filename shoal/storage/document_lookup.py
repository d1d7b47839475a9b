"""Lookup of documents and chunks by the references that users give."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError
from shoal.models.stored import NamedDocument
from shoal.storage.database import Snapshot, listed_in_parts

EXISTS = "SELECT 1 FROM documents WHERE id = :document_id"
NAMED = """
    SELECT id, title, source_path FROM documents
    WHERE source_path IN (:reference, :path) OR title = :reference ORDER BY id
"""
CHUNK_AT = "SELECT id FROM chunks WHERE document_id = :document_id AND chunk_index = :chunk_index"
PLACES_OF = "SELECT id, chunk_index FROM chunks WHERE id IN ({ids})"


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
