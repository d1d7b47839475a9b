"""The search page: results with explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import flask

from shoal.engine import Engine
from shoal.errors import NotFoundError
from shoal.models import DocFormat, SearchMode
from shoal.search.explain.explanation import Explanation
from shoal.search.explain.query_words import Word
from shoal.search.request import MAX_OFFSET, Expand
from shoal.support.presets import DEFAULT as DEFAULT_PRESET
from shoal.support.presets import all_presets
from shoal_api import service
from shoal_api.console import query_params
from shoal_api.console.layout import blueprint, here, page
from shoal_api.trace import trace_id

RESULTS = 10
TAGS = 60
SUBJECTS = 12
"""Reefs listed before the first search."""
MODE_NAMES = {
    SearchMode.hybrid: "words and reefs",
    SearchMode.lexical: "words alone",
    SearchMode.reef: "reefs alone",
}
PRESET_NAMES = {
    "precise": "words first",
    "conceptual": "topics first",
    "job_matching": "job matching",
}
"""Presets with a clearer name for people."""
EVERY_FILTER = ("tags", "archipelago", "format", "min_confidence", "min_relevance", "document")


class Active(NamedTuple):
    """A filter or option in use, and the URL of the page without it."""

    text: str
    without: str


class Piece(NamedTuple):
    """A span of the query; `word` is None between words."""

    text: str
    word: Word | None


class FeedbackDocuments(NamedTuple):
    """Passages of a document that moved the query's profile. `share`: how much they count among all of
    them."""

    document_id: int
    title: str
    share: float
    n_passages: int


@blueprint.get("/")
@page
def search() -> tuple[str, Mapping[str, Any]]:
    """Search and show the results with their explanation."""
    engine = service.current().engine
    tags = engine.documents.frequent_tags(TAGS)
    shown: dict[str, Any] = {
        "query_params": flask.request.args,
        "active": list(_active(engine)),
        "tags": tags,
        "modes": [(mode.value, name) for mode, name in MODE_NAMES.items()],
        "presets": _presets(engine),
        "formats": [kind.value for kind in DocFormat],
        "archipelagos": engine.scorer.archipelagos,
        "response": None,
    }
    query = flask.request.args.get("q", "").strip()
    return "search.html", {**shown, **(_results(engine, query) if query else _overview(engine))}


def _results(engine: Engine, query: str) -> Mapping[str, Any]:
    number = query_params.page_number()
    offset = (number - 1) * RESULTS
    mode = query_params.choice("mode", SearchMode, "mode") or SearchMode.hybrid
    # One more than is shown, to know whether there is a next page.
    response, explanation = engine.search_and_explain(
        query,
        trace_id=trace_id(),
        top_k=min(RESULTS + 1, engine.settings.max_top_k),
        offset=offset,
        include_scores=True,
        expand=Expand.time.value,
        filters=_filters(),
        mode=mode,
        preset=flask.request.args.get("preset") or DEFAULT_PRESET,
    )
    service.current().metrics.observe_search(mode.value, response.took_ms / 1000)
    min_relevance = query_params.share("min_relevance") or 0.0
    # Removed here, not by the search, so that the number of ranked results tells whether a page follows.
    results = [result for result in response.results[:RESULTS] if result.relevance >= min_relevance]
    return {
        "response": response,
        "results": results,
        "kept_pdfs": engine.documents.kept_pdfs(result.document_id for result in results),
        "best": max((result.match_score for result in results), default=0.0),
        "explanation": explanation,
        "pieces": pieces(explanation),
        "feedback": _feedback(explanation),
        "meant": [(word.text, word.suggestions) for word in explanation.words if word.suggestions],
        "page": number,
        "first": offset + 1,
        "has_next": len(response.results) > RESULTS and offset + RESULTS <= MAX_OFFSET,
        "unfiltered": here(**dict.fromkeys(EVERY_FILTER)),
    }


def _overview(engine: Engine) -> Mapping[str, Any]:
    """Return the size and the main topics of the library."""
    reefs = sorted(engine.vocabulary.reefs()["reefs"], key=lambda reef: -reef["n_chunks"])
    return {
        "n_documents": engine.documents.list(limit=0).total,
        "subjects": [reef for reef in reefs[:SUBJECTS] if reef["n_chunks"]],
    }


def pieces(explanation: Explanation) -> list[Piece]:
    """Split the query as typed into its words and the text between them."""
    query, spans, at = explanation.query, list[Piece](), 0
    for word in explanation.words:
        if word.start_char > at:
            spans.append(Piece(query[at : word.start_char], None))
        spans.append(Piece(query[word.start_char : word.end_char], word))
        at = word.end_char
    if at < len(query):
        spans.append(Piece(query[at:], None))
    return spans


def _feedback(explanation: Explanation) -> list[FeedbackDocuments]:
    """Return the feedback chunks by document, largest share first."""
    shares: dict[tuple[int, str], list[float]] = {}
    for chunk in explanation.feedback:
        shares.setdefault((chunk.document_id, chunk.document_title), []).append(chunk.share)
    documents = [
        FeedbackDocuments(document, title, sum(parts), len(parts))
        for (document, title), parts in shares.items()
    ]
    return sorted(documents, key=lambda document: -document.share)


def _presets(engine: Engine) -> list[tuple[str, str]]:
    """Return the presets with their names for people."""
    return [(preset, PRESET_NAMES.get(preset, preset)) for preset in all_presets(engine.settings.presets)]


def _filters() -> dict[str, Any]:
    """Return the filters set in the form. Raises QueryError."""
    args = flask.request.args
    given = {
        "tags": query_params.texts("tags"),
        "format": args.get("format"),
        "archipelago": query_params.whole("archipelago", 0) if args.get("archipelago") else None,
        "document_ids": query_params.wholes("document"),
        "min_confidence": query_params.number("min_confidence"),
    }
    return {name: value for name, value in given.items() if value not in (None, "", [])}


def _active(engine: Engine) -> Iterator[Active]:
    """Yield the options and filters in use. Invalid ones are refused elsewhere."""
    args = flask.request.args
    for mode, name in MODE_NAMES.items():
        if args.get("mode") == mode.value and mode is not SearchMode.hybrid:
            yield Active(f"ranked by {name}", here(mode=None))
    for preset, name in _presets(engine):
        if preset == args.get("preset") and preset != DEFAULT_PRESET:
            yield Active(name, here(preset=None))
    tags = query_params.texts("tags")
    for tag in tags:
        yield Active(f"tag {tag}", _without("tags", tags, tag))
    if args.get("archipelago"):
        wanted = args["archipelago"]
        names = {str(archipelago.id): archipelago.name for archipelago in engine.scorer.archipelagos}
        yield Active(names.get(wanted, wanted), here(archipelago=None))
    if args.get("format"):
        yield Active(args["format"], here(format=None))
    if args.get("min_confidence"):
        yield Active(f"confidence from {args['min_confidence']}", here(min_confidence=None))
    if args.get("min_relevance"):
        yield Active(f"relevance from {args['min_relevance']}", here(min_relevance=None))
    documents = query_params.texts("document")
    for document in documents:
        yield Active(_title(engine, document), _without("document", documents, document))


def _without(name: str, values: list[str], removed: str) -> str:
    left = query_params.LIST_SEPARATOR.join(value for value in values if value != removed)
    return here(**{name: left or None})


def _title(engine: Engine, document: str) -> str:
    try:
        return f"only {engine.documents.get(int(document)).document.title}"
    except (ValueError, NotFoundError):
        return f"document {document}"
