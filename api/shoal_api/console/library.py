"""Pages of the library and its documents, with the topics of a document as a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flask
from markupsafe import Markup

from shoal.charts.ribbon import NO_SUBJECT, NOT_SCORED, Piece, row_svg, strip_svg
from shoal.conversion.file_kinds import READ_SUFFIXES
from shoal.models.documents import DocumentSort
from shoal.models.stored import StoredSection
from shoal.search.similar_chunks import SimilarChunk
from shoal_api import service
from shoal_api.console import query_params
from shoal_api.console.layout import blueprint, page
from shoal_api.paths import ID

DOCUMENTS = 50
MAIN_REEFS = 3
CHUNKS = 20
BEFORE = 2
"""Chunks shown before the requested one."""
ALIKE = 5
TAGS = 60
TAGS_SHOWN = 20
SECTIONS = 300
"""Sections listed around the current place; the Bible has 1,200."""


DEEPEST = 4
"""Sections below this depth are indented like it."""


class Entry(NamedTuple):
    """A line of the contents: heading, depth, and number of the first chunk in or after the section."""

    heading: str
    depth: int
    chunk: int
    is_here: bool


@blueprint.get("/library")
@page("page", "q", "tag", "sort")
def library() -> tuple[str, Mapping[str, Any]]:
    """List the documents, with a form for uploads."""
    engine = service.current().engine
    number = query_params.page_number()
    tag, q = flask.request.args.get("tag") or None, flask.request.args.get("q") or None
    sort = flask.request.args.get("sort") or DocumentSort.newest
    found = engine.documents.list(tag=tag, q=q, sort=sort, limit=DOCUMENTS, offset=(number - 1) * DOCUMENTS)
    ids = [document.id for document in found.documents]
    tags = engine.documents.frequent_tags(TAGS)
    return "library.html", {
        "found": found,
        "reefs": engine.documents.main_reefs(ids, MAIN_REEFS),
        "awaiting": engine.documents.awaiting_rescore(ids),
        "files": engine.documents.kept_files(ids),
        "tags": tags,
        "tags_shown": tags[:TAGS_SHOWN],
        "tag": tag,
        "q": q,
        "sort": sort,
        "page": number,
        "per_page": DOCUMENTS,
        "max_file": service.current().settings.max_file_bytes,
        "suffixes": " ".join(READ_SUFFIXES),
        "coverage": engine.count_embedded(),
        "fetches": bool(service.current().settings.fetch_urls),
    }


@blueprint.get(f"/documents/<{ID}:document_id>")
@page("chunk")
def document(document_id: int) -> tuple[str, Mapping[str, Any]]:
    """Show a document: its topic chart, its sections and its chunks."""
    engine = service.current().engine
    detail = engine.documents.get(document_id)
    is_chosen = "chunk" in flask.request.args
    last = max(0, detail.document.n_chunks - 1)
    wanted = min(query_params.whole("chunk", 0), last)
    first = max(0, wanted - BEFORE) if is_chosen else 0
    chunks = engine.documents.chunks(document_id, limit=CHUNKS, offset=first, n_reefs=0).chunks
    ribbon = engine.documents.ribbon(document_id)
    chosen = next((chunk for chunk in chunks if is_chosen and chunk.chunk_index == wanted), None)
    alike: Sequence[SimilarChunk] = () if chosen is None else engine.similar(chosen.id, top_k=ALIKE)
    islands = engine.scorer.islands
    places = {island.id: place for place, island in enumerate(islands)}
    entries = contents(detail.sections, wanted)
    return "document.html", {
        "document": detail.document,
        "report": detail.report,
        "file": detail.file,
        "entries": entries,
        "n_sections": len(detail.sections),
        "chunks": chunks,
        "first": first,
        "before": max(0, first - CHUNKS + BEFORE),
        "after": first + CHUNKS + BEFORE if first + len(chunks) <= last else None,
        "chosen": chosen,
        "alike": alike,
        "ribbon": ribbon,
        "strip": Markup(strip_svg(ribbon)),  # noqa: S704 - drawn from numbers and escaped names
        "rows": [(row, Markup(row_svg(row))) for row in ribbon.rows],  # noqa: S704
        "pieces": {
            "starts": [piece.start_char for piece in ribbon.pieces],
            "names": [*(island.name for island in islands), NO_SUBJECT, NOT_SCORED],
            "name": [_place(piece, places) for piece in ribbon.pieces],
        },
    }


def _place(piece: Piece, places: Mapping[int, int]) -> int:
    """The place of a piece's name: islands, then `NO_SUBJECT` and `NOT_SCORED`."""
    if piece.island_id is not None:
        return places[piece.island_id]
    return len(places) + piece.awaits_rescore


def contents(sections: Sequence[StoredSection], chunk: int) -> list[Entry]:
    """Return the sections around the one that holds a chunk, including sections without text of their own."""
    entries, at, here = [], 0, 0
    for place, section in enumerate(sections):
        if at <= chunk < at + section.n_chunks:
            here = place
        if section.path or section.n_chunks:
            heading = section.path[-1] if section.path else "Beginning"
            entries.append((place, heading, min(max(0, len(section.path) - 1), DEEPEST), at))
        at += section.n_chunks
    nearest = next((i for i, entry in enumerate(entries) if entry[0] == here), 0)
    start = max(0, min(nearest - SECTIONS // 2, len(entries) - SECTIONS))
    # Headings after the last text link to the last chunk.
    return [
        Entry(heading, depth, min(first, max(0, at - 1)), place == here)
        for place, heading, depth, first in entries[start : start + SECTIONS]
    ]
