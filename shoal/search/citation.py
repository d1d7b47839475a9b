"""Ranked chunks made into citations: the text, where it stands, and what it shares with the query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.models import QueryReef, Scores, SearchResult, SharedReef
from shoal.search.highlights import find_highlights, word_stems
from shoal.search.reef import Ranked
from shoal.search.request import SearchRequest
from shoal.storage.catalogue import tags_of
from shoal.storage.chunks import get_neighbours
from shoal.storage.database import Snapshot, listed

CITE = """
    SELECT c.id, c.document_id, d.title, d.source_path, c.chunk_index, c.text, c.start_char, c.end_char,
           c.start_line, c.end_line, s.path AS section_path, c.confidence, c.coverage, c.top_reef_name
    FROM chunks c
    JOIN documents d ON d.id = c.document_id
    JOIN sections s ON s.id = c.section_id
    WHERE c.id IN ({ids})
"""
SHARED_REEFS = """
    SELECT chunk_id, reef_id, reef_name, z_score FROM chunk_reefs
    WHERE chunk_id IN ({ids}) AND reef_id IN ({reefs})
"""
PROVENANCE = ("reef",)


def cite(
    snapshot: Snapshot, ranked: Sequence[Ranked], reefs: Sequence[QueryReef], request: SearchRequest
) -> list[SearchResult]:
    """The results of a search, in the order of the ranking."""
    if not ranked:
        return []
    ids, parameters = listed("id", (one.chunk_id for one in ranked))
    rows = {row["id"]: row for row in snapshot.rows(CITE.format(ids=ids), parameters)}
    tags = tags_of(snapshot, sorted({one.document_id for one in ranked}))
    shared = (
        find_shared_reefs(snapshot, [one.chunk_id for one in ranked], reefs)
        if request.include_scores
        else None
    )
    highlights = find_highlights([rows[one.chunk_id]["text"] for one in ranked], word_stems(request.query))
    return [
        _result(snapshot, one, rows[one.chunk_id], tags, shared, spans, request)
        for one, spans in zip(ranked, highlights, strict=True)
    ]


def find_shared_reefs(
    snapshot: Snapshot, chunk_ids: Sequence[int], reefs: Sequence[QueryReef]
) -> dict[int, tuple[SharedReef, ...]]:
    """The reefs each chunk has in common with the query, those that add most to its score first."""
    if not reefs:
        return {}
    ids, parameters = listed("id", chunk_ids)
    reef_ids, reef_parameters = listed("reef", (reef.reef_id for reef in reefs))
    query_z = {reef.reef_id: reef.z_score for reef in reefs}
    found: dict[int, list[SharedReef]] = {}
    statement = SHARED_REEFS.format(ids=ids, reefs=reef_ids)
    for chunk_id, reef_id, name, z in snapshot.rows(statement, parameters | reef_parameters):
        found.setdefault(chunk_id, []).append(SharedReef(reef_id, name, z, query_z[reef_id]))
    return {
        chunk_id: tuple(sorted(shared, key=lambda reef: (-reef.chunk_z * reef.query_z, reef.reef_id)))
        for chunk_id, shared in found.items()
    }


def _result(
    snapshot: Snapshot,
    ranked: Ranked,
    row: Any,
    tags: Mapping[int, tuple[str, ...]],
    shared: Mapping[int, tuple[SharedReef, ...]] | None,
    highlights: tuple[tuple[int, int], ...],
    request: SearchRequest,
) -> SearchResult:
    before, after = (
        get_neighbours(snapshot, ranked.document_id, row["chunk_index"], request.context)
        if request.context
        else ((), ())
    )
    return SearchResult(
        text=row["text"],
        match_score=ranked.score,
        n_shared_reefs=ranked.n_shared,
        document_id=ranked.document_id,
        document_title=row["title"],
        source_path=row["source_path"],
        chunk_id=ranked.chunk_id,
        chunk_index=row["chunk_index"],
        start_char=row["start_char"],
        end_char=row["end_char"],
        start_line=row["start_line"],
        end_line=row["end_line"],
        section_path=tuple(json.loads(row["section_path"])),
        confidence=row["confidence"],
        coverage=row["coverage"],
        top_reef_name=row["top_reef_name"],
        tags=tags.get(ranked.document_id, ()),
        highlights=highlights,
        scores=Scores(final=ranked.score, reef=ranked.score, reef_raw=ranked.score),
        provenance=PROVENANCE,
        shared_reefs=None if shared is None else shared.get(ranked.chunk_id, ()),
        before=before,
        after=after,
    )
