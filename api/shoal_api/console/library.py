"""Pages of the library: documents, their topics as charts, the map of reefs, single reefs, learned words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import flask
from markupsafe import Markup
from werkzeug.wrappers import Response

from shoal.charts.reef_map import island_colours, lay_out, map_svg
from shoal.charts.ribbon import NO_SUBJECT, NOT_SCORED, Piece, row_svg, strip_svg
from shoal.conversion.file_kinds import READ_SUFFIXES
from shoal.errors import NotFoundError, PinConflictError, PinError
from shoal.models.documents import DocumentSort
from shoal.models.pins import MAX_CHARS, PinMatch
from shoal.models.search import SearchMode
from shoal.models.stored import StoredSection
from shoal.models.vocabulary import LearnedWord
from shoal.search.matched_terms import Highlighter, find_highlights
from shoal.search.similar_chunks import SimilarChunk
from shoal.words.analysis import folded
from shoal_api import service
from shoal_api.console import layout
from shoal_api.console.layout import blueprint, page, respond
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
    number = layout.page_number()
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
    wanted = min(layout.whole("chunk", 0), last)
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
        "parents": detail.parents,
        "attachments": detail.attachments,
        "entries": entries,
        "n_sections": len(detail.sections),
        "chunks": chunks,
        "is_markdown": document_id in engine.documents.written_in_markdown([document_id]),
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


CHUNKS_OF_REEF = 10
WORDS = 50
PASSAGES = 8
"""Passages shown as evidence of a learned word."""


@blueprint.get("/reefs")
@page()
def reefs() -> tuple[str, Mapping[str, Any]]:
    """Show the map of reefs."""
    engine = service.current().engine
    counts = {reef.id: reef.n_chunks for reef in engine.vocabulary.reefs().reefs}
    scorer = engine.scorer
    address = flask.url_for("console.reef", reef_id=0)[:-1] + "{}"
    by_island = {
        island.id: sorted(
            ((reef, counts[reef.id]) for reef in scorer.reefs if reef.island_id == island.id),
            key=lambda pair: (-pair[1], pair[0].name),
        )
        for island in scorer.islands
    }
    sizes = {island: sum(n for _, n in members) for island, members in by_island.items()}
    return "reefs.html", {
        "map": Markup(map_svg(lay_out(scorer, counts), address)),  # noqa: S704 - escaped there
        "archipelagos": scorer.archipelagos,
        "islands": sorted(scorer.islands, key=lambda island: (-sizes[island.id], island.name)),
        "by_island": by_island,
        "sizes": sizes,
        "colours": island_colours(scorer.islands),
        "largest": max(sizes.values(), default=0),
        "most": max(counts.values(), default=0),
        "n_chunks": sum(counts.values()),
    }


@blueprint.get("/reefs/<int:reef_id>")
@page()
def reef(reef_id: int) -> tuple[str, Mapping[str, Any]]:
    """Show a reef: its typical words and the chunks about it."""
    engine = service.current().engine
    scorer = engine.scorer
    shown = next((candidate for candidate in scorer.reefs if candidate.id == reef_id), None)
    if shown is None:
        raise NotFoundError(f"there is no reef {reef_id}")
    best = engine.vocabulary.reef_chunks(reef_id, CHUNKS_OF_REEF)
    island = next(candidate for candidate in scorer.islands if candidate.id == shown.island_id)
    return "reef.html", {
        "reef": shown,
        "island": island,
        "colour": island_colours(scorer.islands)[island.id],
        "archipelago": next(group for group in scorer.archipelagos if group.id == island.archipelago_id),
        "neighbours": [
            other for other in scorer.reefs if other.island_id == island.id and other.id != reef_id
        ],
        "best": best,
    }


@blueprint.get("/vocabulary")
@page("q", "page")
def vocabulary() -> tuple[str, Mapping[str, Any]]:
    """List the learned words."""
    number = layout.page_number()
    q = flask.request.args.get("q") or None
    found = service.current().engine.vocabulary.list(
        q=q, limit=WORDS, offset=(number - 1) * WORDS, documents=False
    )
    return "vocabulary.html", {"found": found, "q": q, "page": number, "per_page": WORDS}


@blueprint.get("/vocabulary/<word>")
@page()
def word(word: str) -> tuple[str, Mapping[str, Any]]:
    """Show a learned word: its reefs and its evidence."""
    engine = service.current().engine
    learned = engine.vocabulary.get(word)
    passages = engine.vocabulary.word_chunks(learned.word, PASSAGES)
    spans = find_highlights([passage.text for passage in passages], _highlighter(learned))
    return "word.html", {
        "word": learned,
        "passages": list(zip(passages, spans, strict=True)),
        "awaiting": engine.documents.awaiting_rescore([passage.document_id for passage in passages]),
        "lexical": SearchMode.lexical.value,
    }


def _highlighter(word: LearnedWord) -> Highlighter:
    words = tuple(map(folded, word.word.split()))
    return Highlighter(frozenset(), (words,)) if len(words) > 1 else Highlighter(frozenset(words), ())


ENTRIES = 50
MAX_LIST = 500
"""Most characters of a list of documents; ten passages fit."""
_TARGET = re.compile(r"(?P<document>[0-9]{1,18})(?:#(?P<index>[0-9]{1,9}))?")


FORM = ("query", "contains", "pinned", "hidden")
"""Fields of the form, which the address may fill in."""


@blueprint.get("/pins")
@page("q", "page", *FORM)
def pins() -> tuple[str, Mapping[str, Any]]:
    """List the pins."""
    return "pins.html", _values(flask.request.args)


@blueprint.post("/pins")
@page()
def add_pin_entry() -> Response:
    """Add the pin of the form."""
    form = flask.request.form

    def add() -> None:
        service.current().engine.pins.add(
            form.get("query", ""),
            _targets("pinned", form.get("pinned", "")),
            hidden=_targets("hidden", form.get("hidden", "")),
            match=PinMatch.contains if form.get("contains") else PinMatch.exact,
        )

    return _done(add)


@blueprint.post(f"/pins/<{ID}:pin_id>/delete")
@page()
def delete_pin_entry(pin_id: int) -> Response:
    """Delete a pin."""
    return _done(lambda: service.current().engine.pins.delete(pin_id))


def _values(given: Mapping[str, str]) -> dict[str, Any]:
    number, q = layout.page_number(), flask.request.args.get("q") or None
    listed = service.current().engine.pins.list(q=q, limit=ENTRIES, offset=(number - 1) * ENTRIES)
    return {
        "listed": listed,
        "q": q,
        "page": number,
        "per_page": ENTRIES,
        "max_query": MAX_CHARS,
        "max_list": MAX_LIST,
        "problem": None,
        "given": given,
    }


def _targets(field: str, text: str) -> list[Mapping[str, int | None]]:
    """The documents and passages of a list such as `3, 7#2`. Raises PinError."""
    targets: list[Mapping[str, int | None]] = []
    for piece in filter(None, map(str.strip, text.replace("\n", ",").split(","))):
        named = _TARGET.fullmatch(piece)
        if named is None:
            message = f"{piece[:40]!r} is not a document such as 3, or a passage such as 3#0"
            raise PinError(field, message)
        document_id = int(named["document"])
        if named["index"] is None:
            targets.append({"document_id": document_id})
            continue
        chunk_id = service.current().engine.documents.chunk_id(document_id, int(named["index"]))
        if chunk_id is None:
            raise PinError(field, f"there is no passage {piece}")
        targets.append({"chunk_id": chunk_id})
    return targets


def _done(change: Callable[[], object]) -> Response:
    """Make a change and lead to the list; if it is not possible, say why, with what was sent."""
    try:
        change()
    except (PinError, PinConflictError) as error:
        values = {**_values(flask.request.form), "problem": str(error)}
        return respond("pins.html", values, status=422 if isinstance(error, PinError) else 409)
    return flask.redirect(flask.url_for("console.pins"), 303)
