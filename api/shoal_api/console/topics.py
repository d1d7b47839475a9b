"""Pages of the library's topics: the map of reefs, single reefs, and learned words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flask
from markupsafe import Markup

from shoal.charts.palette import island_colours
from shoal.charts.reef_map import lay_out, map_svg
from shoal.errors import NotFoundError
from shoal.models.search import SearchMode
from shoal.models.vocabulary import LearnedWord
from shoal.search.matched_terms import Highlighter, find_highlights
from shoal.words.typed import folded
from shoal_api import service
from shoal_api.console import query_params
from shoal_api.console.layout import blueprint, page

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
    number = query_params.page_number()
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
