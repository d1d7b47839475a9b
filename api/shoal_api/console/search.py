"""The search page: results with explanations, and facets, which add conditions to the filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import flask
from werkzeug.wrappers import Response

from shoal.declared.search import LIKELY, MAX_OFFSET, is_weak
from shoal.engine import Engine
from shoal.errors import FilterError, NotFoundError, QueryError
from shoal.facets.counting import toggled
from shoal.facets.requests import make_facets
from shoal.filters.parsing import make_filter
from shoal.filters.tree import Node, text_of
from shoal.models.documents import DocFormat
from shoal.models.explanations import Explanation, Word
from shoal.models.search import DEFAULT as DEFAULT_PRESET
from shoal.models.search import (
    Expand,
    Facet,
    FacetValue,
    GroupBy,
    Pins,
    SearchMode,
    SearchResult,
    Synonyms,
    Syntax,
    Typos,
    all_presets,
)
from shoal.search.synonyms import TYPO
from shoal.support.clock import timestamp
from shoal_api import service
from shoal_api.console import layout
from shoal_api.console.layout import blueprint, here, page, respond
from shoal_api.trace import trace_id

RESULTS = 10
TAGS = 60
RERANKS = (5, 10, 20, 50)
"""Numbers of first results that the form offers to rerank."""
SHORTLISTS = (10, 20, 50, 100)
"""Sizes of the shortlist that the form offers."""
SORTS = {
    "-date": "newest first",
    "date": "oldest first",
    "title": "title",
    "-created": "stored last first",
}
"""Orders that the form offers besides relevance."""
DECAYS = {
    "date:7:0.2": "of the last weeks",
    "date:90:0.2": "of the last months",
    "date:730:0.2": "of the last years",
}
"""Preferences for newer documents that the form offers."""
GROUPINGS = {"document": "whole documents", "parent": "mails with their attachments"}
SUBJECTS = 12
"""Reefs listed before the first search."""
MODE_NAMES = {
    SearchMode.hybrid: "words and reefs",
    SearchMode.lexical: "words alone",
    SearchMode.reef: "reefs alone",
    SearchMode.dense: "meaning alone",
}
WITH_VECTORS = {SearchMode.hybrid: "words, reefs and meaning"}
PRESET_NAMES = {
    "precise": "words first",
    "conceptual": "topics first",
    "job_matching": "job matching",
}
"""Presets with a clearer name for people."""
SWITCHES = (
    ("typos", Typos.off, "words as typed"),
    ("synonyms", Synonyms.off, "without synonyms"),
    ("syntax", Syntax.plain, "as plain text"),
    ("pins", Pins.off, "without pins"),
)
"""Parameters that switch something off, with the value that does, and what is said then."""
FILTERS = ("tags", "archipelago", "format", "min_confidence", "min_relevance", "document", "filter")
PARAMETERS = (
    *(
        "q",
        "page",
        "mode",
        "preset",
        "rerank",
        "shortlist",
        "sort",
        "decay",
        "boost",
        "group_by",
        "fold_similar",
    ),
    *("typos", "syntax", "languages", "synonyms", "pins", "nearest", "facets", "more"),
    *FILTERS,
)
LABELS = {
    "mode": "Rank by",
    "preset": "Weights",
    "sort": "Order",
    "group_by": "Results",
    "decay": "Prefer documents",
    "boosts": "Prefer what meets a filter",
    "typos": "Typing errors",
    "syntax": "Signs in the query",
    "min_confidence": "Lowest confidence",
    "min_relevance": "Lowest relevance",
    "document": "Document numbers",
    "document_ids": "Document numbers",
    "facets": "Count also by",
}
"""What the form calls an argument, where that is not its name."""


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
@page(*PARAMETERS)
def search() -> tuple[str, Mapping[str, Any]] | Response:
    """Search and show the results with their explanation."""
    engine = service.current().engine
    tags = engine.documents.frequent_tags(TAGS)
    shown: dict[str, Any] = {
        "query_params": flask.request.args,
        "boosts": _boosts(),
        "active": list(_active(engine)),
        "tags": tags,
        "modes": _modes(engine),
        "presets": _presets(engine),
        "formats": [kind.value for kind in DocFormat],
        "archipelagos": engine.scorer.archipelagos,
        "shortlists": SHORTLISTS,
        "reranks": RERANKS if engine.can_rerank else (),
        "default_rerank": engine.settings.rerank,
        "sorts": SORTS,
        "decays": DECAYS,
        "response": None,
        "filter_error": None,
        "refused": None,
    }
    query = flask.request.args.get("q", "").strip()
    try:
        return "search.html", {**shown, **(_results(engine, query) if query else _overview(engine))}
    except QueryError as error:
        excerpt = error.excerpt if isinstance(error, FilterError) else None
        refused = {"label": _label(error.field), "message": str(error), "excerpt": excerpt}
        name = "filter_error" if error.field == "filter" else "refused"
        return respond("search.html", {**shown, name: refused}, status=422)


def _label(field: str) -> str:
    """Return what the form calls an argument of a search, such as `boosts[0].filter`."""
    name = field.removeprefix("filters.").partition("[")[0]
    return LABELS.get(name) or name.replace("_", " ").capitalize()


def _results(engine: Engine, query: str) -> Mapping[str, Any]:
    number = layout.page_number()
    size = _page_size(engine)
    offset = (number - 1) * size
    arguments = _arguments()
    mode = arguments["mode"]
    response, explanation = engine.search_and_explain(
        query,
        trace_id=trace_id(),
        top_k=size,
        offset=offset,
        include_scores=True,
        expand=Expand.time.value,
        facets=asked_facets(),
        # Reading sentences takes an encoder longer than the search, so the page asks for them afterwards.
        nearest_sentences="nearest" in flask.request.args,
        **arguments,
    )
    near_words = response.query_info.near_words
    service.current().metrics.observe_search(mode.value, response.took_ms / 1000, near_words)
    service.current().metrics.observe_features(response.query_info, flask.request.args)
    service.current().metrics.observe_rerank(response.rerank)
    documents = response.documents
    if documents is None:
        results = list(response.results)
    else:
        results = [passage for document in documents for passage in document.passages]
    folds = documents is None and mode is not SearchMode.dense and not flask.request.args.get("sort")
    parts: tuple[list[tuple[int, SearchResult]], list[tuple[int, SearchResult]]] = [], []
    for place, result in enumerate(results, start=1):
        parts[folds and is_weak(result.relevance, is_pinned=result.pinned)].append((place, result))
    likely, weak = parts if parts[0] else (parts[1], [])
    return {
        "likely": likely,
        "weak": weak,
        "likely_from": LIKELY,
        "documents": documents,
        "n_shown": len(results if documents is None else documents),
        "awaited": _awaited(engine, results),
        "response": response,
        "ranked_by_vectors": mode is SearchMode.dense,
        "results": results,
        "evidence_lines": _evidence_lines(results),
        "markdown": engine.documents.written_in_markdown(result.document_id for result in results),
        "kept_files": engine.documents.kept_files(result.document_id for result in results),
        # A score of passages is relative to the best one of the library, so 1 is a full bar on every page.
        "best": max((1.0 if mode is SearchMode.hybrid else 0.0, *(result.match_score for result in results))),
        "explanation": explanation,
        "pieces": pieces(explanation),
        "feedback": _feedback(explanation),
        "meant": [(word.text, word.suggestions) for word in explanation.words if word.suggestions],
        "has_typo": any(near.kind == TYPO for near in near_words),
        "page": number,
        "first": offset + 1,
        "has_next": response.has_more and offset + size <= MAX_OFFSET,
        "facets": shown_facets(response.facets or (), flask.request.args.get("filter")),
        "unfiltered": here(**dict.fromkeys(FILTERS)) if set(FILTERS) & flask.request.args.keys() else None,
    }


def _page_size(engine: Engine) -> int:
    return min(RESULTS, engine.settings.max_top_k)


def _arguments() -> dict[str, Any]:
    """Return what the address says of the results and their order. Raises QueryError."""
    args = flask.request.args
    return {
        "filters": _filters(),
        "filter": args.get("filter"),
        "mode": layout.choice("mode", SearchMode, "mode") or SearchMode.hybrid,
        "preset": args.get("preset") or DEFAULT_PRESET,
        "rerank": layout.whole("rerank", 0) if args.get("rerank") else None,
        "shortlist": layout.whole("shortlist", 0) if args.get("shortlist") else 0,
        "typos": args.get("typos") or Typos.auto.value,
        "syntax": args.get("syntax") or Syntax.simple.value,
        "languages": [args["languages"]] if args.get("languages") else None,
        "synonyms": args.get("synonyms") or Synonyms.on.value,
        **_order(),
        "group_by": layout.choice("group_by", GroupBy, "group_by") or GroupBy.chunk,
        "fold_similar": bool(args.get("fold_similar")),
        "pins": layout.choice("pins", Pins, "pins") or Pins.on,
        "min_relevance": layout.number("min_relevance") or 0.0,
    }


@blueprint.get("/explain")
@page(*PARAMETERS, "chunk")
def explain() -> tuple[str, Mapping[str, Any]]:
    """Show the rank of a passage, what kept it out, and which word would change it."""
    engine = service.current().engine
    explanation = engine.explain(
        flask.request.args.get("q", "").strip(),
        chunk_id=layout.whole("chunk", 0),
        top_k=_page_size(engine),
        **_arguments(),
    )
    target = explanation.target
    assert target is not None, "a chunk was given"
    index = engine.documents.chunk_indexes([target.chunk_id]).get(target.chunk_id, 0)
    return "explain.html", {"explanation": explanation, "target": target, "chunk_index": index}


@blueprint.app_template_global()
def explain_address(chunk_id: int) -> str:
    """Return the URL of the page that explains the rank of a passage in the search of this page."""
    return flask.url_for("console.explain") + here(chunk=chunk_id, more=None)[len(flask.request.path) :]


@blueprint.app_template_global()
def explained_search_address() -> str:
    """Return the URL of the search that this page explains."""
    return flask.url_for("console.search") + here(chunk=None)[len(flask.request.path) :]


def _evidence_lines(results: Sequence[SearchResult]) -> Mapping[int, Sequence[str]]:
    """Return the passages of recordings around each result, by its chunk: those that the page does not show
    elsewhere, as a result or around an earlier one."""
    shown = {result.chunk_id for result in results}
    lines: dict[int, list[str]] = {}
    for result in results:
        around = [] if result.evidence is None else result.evidence.chunks
        lines[result.chunk_id] = [chunk.line for chunk in around if chunk.chunk_id not in shown]
        shown.update(chunk.chunk_id for chunk in around)
    return lines


def _awaited(engine: Engine, results: Iterable[SearchResult]) -> frozenset[int]:
    """Return the ids of the results whose nearest sentence the script of the page asks for."""
    if not engine.uses_vectors or "nearest" in flask.request.args:
        return frozenset()
    return frozenset(result.chunk_id for result in results if "dense" in result.provenance)


@blueprint.get("/nearest")
@page("q", "chunks")
def nearest_sentences() -> tuple[str, Mapping[str, Any]]:
    """Show the sentences of passages that are nearest to a query, for the script of the search page."""
    chunk_ids = layout.wholes("chunks")
    query = flask.request.args.get("q", "").strip()
    return "nearest.html", {
        "nearest": service.current().engine.nearest_sentences(query, chunk_ids),
        "chunk_ids": chunk_ids,
    }


def _order() -> dict[str, Any]:
    """Return what orders the results besides the signals. Ages count from today, on all pages alike."""
    args = flask.request.args
    decay = args.get("decay", "").strip()
    return {
        "sort": args.get("sort", "").strip() or None,
        "decay": f"{decay}@{timestamp()[:10]}" if decay and "@" not in decay else decay or None,
        "boosts": _boosts() or None,
    }


def _boosts() -> list[str]:
    return [text for text in flask.request.args.getlist("boost") if text.strip()]


def _overview(engine: Engine) -> Mapping[str, Any]:
    """Return the size and the main topics of the library."""
    reefs = sorted(engine.vocabulary.reefs().reefs, key=lambda reef: -reef.n_chunks)
    return {
        "n_documents": engine.documents.list(limit=0).total,
        "subjects": [reef for reef in reefs[:SUBJECTS] if reef.n_chunks],
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


def _modes(engine: Engine) -> list[tuple[str, str]]:
    """Return the modes with their names for people; that by vectors only where there are vectors."""
    if engine.uses_vectors:
        return [(mode.value, name) for mode, name in {**MODE_NAMES, **WITH_VECTORS}.items()]
    return [(mode.value, name) for mode, name in MODE_NAMES.items() if mode is not SearchMode.dense]


def _presets(engine: Engine) -> list[tuple[str, str]]:
    """Return the presets with their names for people."""
    return [(preset, PRESET_NAMES.get(preset, preset)) for preset in all_presets(engine.settings.presets)]


def _filters() -> dict[str, Any]:
    """Return the filters set in the form. Raises QueryError."""
    args = flask.request.args
    given = {
        "tags": layout.texts("tags"),
        "format": args.get("format"),
        "archipelago": layout.whole("archipelago", 0) if args.get("archipelago") else None,
        "document_ids": layout.wholes("document"),
        "min_confidence": layout.number("min_confidence"),
    }
    return {name: value for name, value in given.items() if value not in (None, "", [])}


ACTIVE_VALUES = {
    "format": "",
    "min_confidence": "confidence from ",
    "min_relevance": "relevance from ",
    "filter": "",
}
"""Options that are shown with their values, and what is said before these."""


def _active(engine: Engine) -> Iterator[Active]:
    """Yield the options and filters in use. Invalid ones are refused elsewhere."""
    args = flask.request.args
    yield from _active_options(engine, args)
    yield from _active_order(args)
    tags = layout.texts("tags")
    for tag in tags:
        yield Active(f"tag {tag}", _without("tags", tags, tag))
    if args.get("archipelago"):
        wanted = args["archipelago"]
        names = {str(archipelago.id): archipelago.name for archipelago in engine.scorer.archipelagos}
        yield Active(names.get(wanted, wanted), here(archipelago=None))
    for name, prefix in ACTIVE_VALUES.items():
        if args.get(name, "").strip():
            yield Active(prefix + args[name], here(**{name: None}))
    documents = layout.texts("document")
    for document in documents:
        yield Active(_title(engine, document), _without("document", documents, document))


def _active_options(engine: Engine, args: Mapping[str, str]) -> Iterator[Active]:
    """Yield the options in use that decide how results are ranked."""
    if args.get("mode") in set(MODE_NAMES) - {SearchMode.hybrid}:
        yield Active(f"ranked by {MODE_NAMES[SearchMode(args['mode'])]}", here(mode=None))
    for name, off, text in SWITCHES:
        if args.get(name) == off:
            yield Active(text, here(**{name: None}))
    for preset, name in _presets(engine):
        if preset == args.get("preset") and preset != DEFAULT_PRESET:
            yield Active(name, here(preset=None))
    if args.get("rerank"):
        is_off = args["rerank"] == "0"
        yield Active("not reranked" if is_off else f"first {args['rerank']} reranked", here(rerank=None))

    if args.get("shortlist"):
        yield Active(f"the best {args['shortlist']} documents", here(shortlist=None))


def _active_order(args: Mapping[str, str]) -> Iterator[Active]:
    """Yield what orders, groups and folds the results."""
    for name, prefix, names in (("sort", "sorted: ", SORTS), ("decay", "preferred ", DECAYS)):
        if args.get(name):
            yield Active(prefix + names.get(args[name], args[name]), here(**{name: None}))
    boosts = _boosts()
    for boost in boosts:
        yield Active(f"preferred {boost}", here(boost=[each for each in boosts if each != boost]))
    if (group_by := args.get("group_by", "")) in GROUPINGS:
        yield Active(GROUPINGS[group_by], here(group_by=None))
    if args.get("fold_similar"):
        yield Active("similar ones folded", here(fold_similar=None))


def _without(name: str, values: list[str], removed: str) -> str:
    left = layout.LIST_SEPARATOR.join(value for value in values if value != removed)
    return here(**{name: left or None})


def _title(engine: Engine, document: str) -> str:
    try:
        return f"only {engine.documents.get(int(document)).document.title}"
    except (ValueError, NotFoundError):
        return f"document {document}"


NAMES: Mapping[str, str] = {
    "tags": "Tags",
    "reef": "Topics",
    "file_type": "Types",
    "folder": "Folders",
    "date": "Years",
}
DEFAULTS = ("tags", "reef", "file_type", "folder", "date:year")
"""Facets of every search; `facets` in the address adds others."""
FEW, MORE = 8, 100
"""Values of a facet at first, and of the one that `more` in the address names."""


class ShownValue(NamedTuple):
    """A value, and the address of the page after a click on it."""

    text: str
    n_documents: int
    address: str
    is_selected: bool


class ShownFacet(NamedTuple):
    """A facet that can narrow the results. `more`: the address of the page with more values, if there are."""

    name: str
    values: Sequence[ShownValue]
    n_more: int
    more: str | None


def asked_facets() -> list[dict[str, Any]]:
    """Return the facets of this page, as the engine takes them. Raises QueryError."""
    more = flask.request.args.get("more")
    names = list(dict.fromkeys((*DEFAULTS, *layout.texts("facets"))))
    return [
        {
            "field": facet.field.text,
            "interval": None if facet.interval is None else facet.interval.shown,
            "limit": MORE if name == more else FEW if facet.interval is None else MORE,
        }
        for name, facet in zip(names, make_facets(names), strict=True)
    ]


def shown_facets(facets: Iterable[Facet], expression: str | None) -> list[ShownFacet]:
    """Return the facets that can narrow the results, or do."""
    tree = make_filter(expression)
    shown = []
    for facet in facets:
        values = [value for value in facet.values if value.filter is not None]
        can_narrow = any(value.count < facet.n_documents or value.is_selected for value in values)
        if can_narrow:
            n_more = facet.n_values - len(facet.values)
            name = facet.field if facet.interval is None else f"{facet.field}:{facet.interval}"
            more = here(more=name) if n_more and len(facet.values) < MORE else None
            links = [_shown_value(facet, value, tree) for value in values]
            shown.append(ShownFacet(NAMES.get(facet.field, facet.field), links, n_more, more))
    return shown


def _shown_value(facet: Facet, value: FacetValue, tree: Node | None) -> ShownValue:
    chosen = make_filter(value.filter)
    assert chosen is not None, "the value has a filter"
    after = toggled(tree, chosen, () if value.name is None else (value.value,))
    text = value.name or (value.value if isinstance(value.value, str) else _json(value.value))
    if isinstance(facet.interval, int | float) and isinstance(value.value, int | float):
        text = f"{text} to {_json(round(value.value + facet.interval, 6))}"
    address = here(filter=None if after is None else text_of(after), more=None)
    return ShownValue(text, value.count, address, value.is_selected)


def _json(value: Any) -> str:
    return flask.json.dumps(value)
