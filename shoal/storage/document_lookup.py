"""What a person calls a document or a passage, and which one that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shoal.storage.database import IDS_PER_STATEMENT, MAX_ID, Snapshot, listed

EXISTS = "SELECT 1 FROM documents WHERE id = :document_id"
NAMED = """
    SELECT id, title, source_path FROM documents WHERE source_path IN (:reference, :path) OR title = :reference ORDER BY id
"""
CHUNK_AT = "SELECT id FROM chunks WHERE document_id = :document_id AND chunk_index = :chunk_index"
PLACES_OF = "SELECT id, chunk_index FROM chunks WHERE id IN ({ids})"


class Named(NamedTuple):
    """A document with what it may be called."""

    id: int
    title: str
    source_path: str | None


def exists(snapshot: Snapshot, document_id: int) -> bool:
    """Whether there is such a document."""
    return document_id <= MAX_ID and snapshot.value(EXISTS, {"document_id": document_id}) is not None


def named(snapshot: Snapshot, reference: str, path: str) -> list[Named]:
    """Documents whose source path or title is `reference`, or whose source path is `path`. Where a path is theirs,
    titles don't count."""
    found = [Named(*row) for row in snapshot.tuples(NAMED, {"reference": reference, "path": path})]
    by_path = [one for one in found if one.source_path in (reference, path)]
    return by_path or found


def chunk_at(snapshot: Snapshot, document_id: int, chunk_index: int) -> int | None:
    """The id of a document's passage at a place, counted from 0; None where there is none."""
    asked = {"document_id": document_id, "chunk_index": min(chunk_index, MAX_ID)}
    found: int | None = snapshot.value(CHUNK_AT, asked)
    return found


def places_of(snapshot: Snapshot, chunk_ids: Iterable[int]) -> dict[int, int]:
    """The places of passages in their documents, counted from 0, by their ids."""
    wanted = sorted(set(chunk_ids))
    found: dict[int, int] = {}
    for start in range(0, len(wanted), IDS_PER_STATEMENT):
        ids, parameters = listed("id", wanted[start : start + IDS_PER_STATEMENT])
        found.update((row[0], row[1]) for row in snapshot.tuples(PLACES_OF.format(ids=ids), parameters))
    return found
