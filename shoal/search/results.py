"""Ranked chunks made into citations: the text, where it stands, and what it shares with the query."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.models import MatchedTerm, QueryReef, Scores, SearchMode, SearchResult, SharedReef
from shoal.search.field_boost import matching_tags
from shoal.search.highlights import find_highlights, make_highlighter
from shoal.search.matched_terms import Citable, find_matched_terms
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.ranking import Ranked
from shoal.search.reef_ranking import MILLIONTHS
from shoal.search.request import SearchRequest
from shoal.storage.chunk_queries import get_neighbours
from shoal.storage.database import Snapshot, listed
from shoal.storage.document_queries import tags_of

CITE = """
    SELECT c.id, c.document_id, d.title, d.source_path, d.metadata, c.chunk_index, c.text, c.start_char, c.end_char,
           c.start_line, c.end_line, s.path AS section_path, c.confidence, c.coverage, c.top_reef_name
    FROM chunks c
    JOIN documents d ON d.id = c.document_id
    JOIN sections s ON s.id = c.section_id
    WHERE c.id IN ({ids})
"""
# Reefs of other data have nothing to do with those of a query. By chunk: no index on the other columns would help.
SHARED_REEFS = """
    SELECT r.chunk_id, r.reef_id, r.reef_name, r.z_score, p.weight
    FROM chunks c
    JOIN chunk_reefs r ON r.chunk_id = c.id
    JOIN reef_postings p ON p.reef_id = r.reef_id AND p.chunk_id = r.chunk_id
    WHERE c.id IN ({ids}) AND +r.reef_id IN ({reefs}) AND +c.data_checksum = :data_checksum
"""


def build_results(
    snapshot: Snapshot,
    ranked: Sequence[Ranked],
    analyzed_query: AnalyzedQuery,
    request: SearchRequest,
    data_checksum: str,
) -> list[SearchResult]:
    """The results of a search, in the order of the ranking."""
    if not ranked:
        return []
    ids, parameters = listed("id", (one.chunk_id for one in ranked))
    rows = {row["id"]: row for row in snapshot.rows(CITE.format(ids=ids), parameters)}
    tags = tags_of(snapshot, sorted({one.document_id for one in ranked}))
    shared: dict[int, tuple[SharedReef, ...]] = {}
    # A search by words has not looked at reefs so far.
    if request.include_scores or request.mode is SearchMode.lexical:
        parts = {one.chunk_id: reef_part(one, request.mode, analyzed_query) for one in ranked}
        shared = find_shared_reefs(snapshot, parts, analyzed_query.reefs, data_checksum)
    terms = (
        matched_terms(snapshot, analyzed_query, [rows[one.chunk_id] for one in ranked], tags)
        if request.include_scores
        else [None] * len(ranked)
    )
    held = analyzed_query.term_statistics.held(snapshot, [one.chunk_id for one in ranked])
    texts = [rows[one.chunk_id]["text"] for one in ranked]
    highlights = find_highlights(texts, make_highlighter(analyzed_query.parsed, request.mode))
    return [
        _result(
            snapshot,
            one,
            rows[one.chunk_id],
            tags,
            shared.get(one.chunk_id, ()),
            terms_of_one,
            held.get(one.chunk_id),
            spans,
            request,
        )
        for one, terms_of_one, spans in zip(ranked, terms, highlights, strict=True)
    ]


def matched_terms(
    snapshot: Snapshot,
    analyzed_query: AnalyzedQuery,
    rows: Sequence[Any],
    tags: Mapping[int, tuple[str, ...]],
) -> list[tuple[MatchedTerm, ...]]:
    """The terms that each chunk holds; `rows` have its document_id, title, section_path and text."""
    chunks = [
        Citable(row["title"], json.loads(row["section_path"]), row["text"], tags.get(row["document_id"], ()))
        for row in rows
    ]
    terms = analyzed_query.parsed.terms
    return find_matched_terms(terms, matching_tags(snapshot, terms), chunks)


def reef_part(ranked: Ranked, mode: SearchMode, analyzed_query: AnalyzedQuery) -> float:
    """What reefs add to a chunk's score."""
    if mode is SearchMode.reef:
        return ranked.score
    return analyzed_query.weights.reef * ranked.reef if mode is SearchMode.hybrid else 0.0


def scores_of(ranked: Ranked, mode: SearchMode) -> Scores:
    """The parts of a chunk's score; None for the signal that a mode does not use."""
    by_words, by_reefs = mode is not SearchMode.reef, mode is not SearchMode.lexical
    return Scores(
        final=ranked.score,
        reef=ranked.reef if by_reefs else None,
        lexical=ranked.lexical if by_words else None,
        field_boost=ranked.field_boost,
        reef_raw=ranked.reef_raw if by_reefs else None,
        lexical_raw=ranked.lexical_raw if by_words else None,
    )


def find_shared_reefs(
    snapshot: Snapshot, parts: Mapping[int, float], reefs: Sequence[QueryReef], data_checksum: str
) -> dict[int, tuple[SharedReef, ...]]:
    """The reefs that each chunk has in common with the query, those that add most to its score first.

    `parts`, by chunk id, is what reefs add to its score: the shares of its reefs add up to that.
    """
    if not reefs or not parts:
        return {}
    ids, parameters = listed("id", parts)
    reef_ids, reef_parameters = listed("reef", (reef.reef_id for reef in reefs))
    asked = {**parameters, **reef_parameters, "data_checksum": data_checksum}
    query = {reef.reef_id: reef for reef in reefs}
    found: dict[int, list[tuple[int, SharedReef]]] = {}
    for chunk_id, reef_id, name, z, weight in snapshot.rows(
        SHARED_REEFS.format(ids=ids, reefs=reef_ids), asked
    ):
        in_query = query[reef_id]
        overlap = weight * round(in_query.z_score * MILLIONTHS)
        shared = SharedReef(reef_id, name, z, in_query.z_score)
        found.setdefault(chunk_id, []).append((overlap, shared))
    return {chunk_id: _with_shares(shared, parts[chunk_id]) for chunk_id, shared in found.items()}


def _with_shares(shared: Sequence[tuple[int, SharedReef]], part: float) -> tuple[SharedReef, ...]:
    total = sum(overlap for overlap, _ in shared) or 1
    in_order = sorted(shared, key=lambda pair: (-pair[0], pair[1].reef_id))
    return tuple(dataclasses.replace(reef, share=part * overlap / total) for overlap, reef in in_order)


def provenance_of(ranked: Ranked) -> tuple[str, ...]:
    """The signals that found a chunk."""
    found = (("lexical", ranked.lexical_raw > 0), ("reef", ranked.n_shared > 0))
    return tuple(name for name, has_part in found if has_part)


def _result(
    snapshot: Snapshot,
    ranked: Ranked,
    row: Any,
    tags: Mapping[int, tuple[str, ...]],
    shared: tuple[SharedReef, ...],
    terms: tuple[MatchedTerm, ...] | None,
    term_coverage: float | None,
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
        n_shared_reefs=len(shared) if request.mode is SearchMode.lexical else ranked.n_shared,
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
        scores=scores_of(ranked, request.mode),
        provenance=provenance_of(ranked),
        shared_reefs=shared if request.include_scores else None,
        matched_terms=terms,
        term_coverage=term_coverage,
        before=before,
        after=after,
        metadata=json.loads(row["metadata"]),
    )
