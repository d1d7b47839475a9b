"""Search requests: checks every argument; errors name the argument."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from shoal.errors import QueryError
from shoal.models.documents import DocFormat
from shoal.models.search import SearchFilters, SearchMode, TagsMatch
from shoal.search.answering.text_mode import TextMode
from shoal.search.cursors import Cursor, check_cursor, make_cursor
from shoal.search.facets.requests import FacetRequest, make_facets
from shoal.search.filtering.objects import make_filter
from shoal.search.filtering.tree import Node
from shoal.search.near_words import Typos
from shoal.search.order_arguments import Boost, Decay, SortKey, make_boosts, make_decay, make_sort
from shoal.search.ordering import BestFirst, DocumentLimit
from shoal.search.query_language import Syntax
from shoal.search.value_checks import check_characters, check_file_type, check_number
from shoal.settings import Settings
from shoal.storage.database import MAX_ID
from shoal.support.clock import timestamp
from shoal.support.other_names import COMPARED_CHARS, meant_name
from shoal.support.presets import DEFAULT as DEFAULT_PRESET
from shoal.support.presets import MAX_WEIGHT, MIN_WEIGHT, Weights, all_presets

MAX_OFFSET = 10_000
"""Deeper pages of a ranking are of no use to people and cost as much as all pages before them."""
MAX_PAGE = 2**31 - 1
"""Largest limit and offset of a listing."""
MAX_CONTEXT = 10
"""Most neighbours on each side; for more, read the document."""
MAX_PER_DOCUMENT = 10_000
BEST_FIRST = BestFirst(3)
"""Without a limit per document, so many passages of each come first: a long document does not push out the
others, and a page is full all the same if enough passages match."""
MAX_IDS = 10_000
"""Most ids in one filter; every database accepts this many parameters in one statement."""
MAX_METADATA = 16
"""Most keys in a metadata filter; each is searched in the metadata of all documents."""
MAX_RERANK = 100
"""Most results that one search reads again."""
MAX_SHORTLIST = 1_000
"""Most documents on a shortlist."""
MAX_TOKENS = 1_000_000
"""Largest token budget; the context windows of current models are not larger."""
N_ARCHIPELAGOS = 4


class Fusion(enum.StrEnum):
    """How a hybrid search combines its signals into one ranking."""

    blend = "blend"
    rrf = "rrf"


class Expand(enum.StrEnum):
    """What a result brings besides itself: `time`, of a recording, the passages around it."""

    none = "none"
    time = "time"


class Synonyms(enum.StrEnum):
    """Whether a search uses the synonyms of the library."""

    on = "on"
    off = "off"


class Pins(enum.StrEnum):
    """Whether a search applies the pins of the library."""

    on = "on"
    off = "off"


class GroupBy(enum.StrEnum):
    """What a result is."""

    chunk = "chunk"
    document = "document"


MAX_GROUPED = 1_000
"""Passages of all documents on a page together."""
SIGNALS = Weights._fields


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of `Engine.search`, validated and in their final types.

    `preset`, `weights` and `fusion` apply to hybrid searches only. `weights` replace those of the preset; a
    signal missing from them has weight 0. `max_per_document`: None stands for `BEST_FIRST`, 0 for no limit.
    `min_relevance` removes results from a page of the ranking, so the ranks on a page do not depend on it.
    `filter` and `filters` are both to be met. `rerank`: the first results, counted from rank 1, that are
    reranked; 0: none. `cursor`: where the page begins, in place of `offset`. `shortlist`: documents that may
    have results; 0: all. `text`, `max_tokens` and `with_prompt` say what the results have of their texts.
    """

    query: str
    top_k: int
    mode: SearchMode
    filters: SearchFilters
    filter: Node | None
    max_per_document: int | None
    include_scores: bool
    offset: int
    context: int
    preset: str
    weights: Mapping[str, float] | None
    fusion: Fusion
    min_relevance: float
    expand: Expand
    rerank: int = 0
    facets: tuple[FacetRequest, ...] = ()
    typos: Typos = Typos.auto
    prefix: bool = False
    sort: tuple[SortKey, ...] = ()
    decay: Decay | None = None
    boosts: tuple[Boost, ...] = ()
    cursor: Cursor | None = None
    text: TextMode = TextMode.full
    max_tokens: int | None = None
    with_prompt: bool = False
    group_by: GroupBy = GroupBy.chunk
    fold_similar: bool = False
    synonyms: Synonyms = Synonyms.on
    syntax: Syntax = Syntax.simple
    pins: Pins = Pins.on
    shortlist: int = 0

    @property
    def start(self) -> int:
        """Results before the page."""
        return self.offset if self.cursor is None else self.cursor.position

    @property
    def limit_per_document(self) -> DocumentLimit:
        """What the ranking does with many chunks of one document: only the best is a result if documents are
        ranked."""
        if self.group_by is GroupBy.document:
            return 1
        if self.max_per_document is None:
            return BEST_FIRST
        return self.max_per_document or None

    @property
    def passages_per_document(self) -> int:
        """Most passages of a document, if documents are ranked."""
        return BEST_FIRST.n if self.max_per_document is None else self.max_per_document

    @property
    def has_plain_pages(self) -> bool:
        """Whether results are passages one by one, so that a cursor can name them."""
        return self.group_by is GroupBy.chunk and not self.fold_similar


def make_request(
    query: object,
    *,
    settings: Settings,
    top_k: object = 10,
    mode: object = SearchMode.hybrid,
    tags: object = None,
    min_confidence: object = None,
    filters: object = None,
    filter: object = None,  # noqa: A002 - the name of the argument
    max_per_document: object = None,
    include_scores: object = False,
    offset: object = 0,
    context: object = 0,
    preset: object = DEFAULT_PRESET,
    weights: object = None,
    fusion: object = Fusion.blend,
    min_relevance: object = 0.0,
    expand: object = Expand.none,
    rerank: object = None,
    facets: object = None,
    facet_limit: object = None,
    typos: object = Typos.auto,
    prefix: object = False,
    sort: object = None,
    decay: object = None,
    boosts: object = None,
    cursor: object = None,
    text: object = TextMode.full,
    max_tokens: object = None,
    prompt: object = False,
    group_by: object = GroupBy.chunk,
    fold_similar: object = False,
    synonyms: object = Synonyms.on,
    syntax: object = Syntax.simple,
    pins: object = Pins.on,
    shortlist: object = 0,
    **unknown: object,
) -> SearchRequest:
    """Validate the arguments of a search. Raises QueryError for the first invalid one.

    Without `rerank`, that of the settings applies, unless results are sorted. Raises TypeError for a keyword
    that is no argument of a search.
    """
    if unknown:
        raise TypeError(f"search: {_unknown(next(iter(unknown)), SEARCH_ARGUMENTS)}")
    request = SearchRequest(
        query=_query(query, settings),
        top_k=_whole("top_k", top_k, 1, settings.max_top_k),
        mode=check_choice("mode", mode, SearchMode),
        filters=_with_shorthands(make_filters(filters, settings), tags, min_confidence, settings),
        filter=make_filter(filter),
        max_per_document=check_max_per_document(max_per_document),
        include_scores=_flag("include_scores", include_scores),
        offset=_whole("offset", offset, 0, MAX_OFFSET),
        context=check_context(context),
        preset=_preset(preset, settings),
        weights=_weights(weights),
        fusion=check_choice("fusion", fusion, Fusion),
        min_relevance=check_fraction("min_relevance", min_relevance),
        expand=check_choice("expand", expand, Expand),
        rerank=settings.rerank if rerank is None else _whole("rerank", rerank, 0, MAX_RERANK),
        facets=make_facets(facets, limit=facet_limit),
        typos=check_choice("typos", typos, Typos),
        prefix=_flag("prefix", prefix),
        sort=make_sort(sort),
        decay=make_decay(decay),
        boosts=make_boosts(boosts),
        cursor=make_cursor(cursor),
        text=check_choice("text", text, TextMode),
        max_tokens=check_max_tokens(max_tokens),
        with_prompt=check_prompt(prompt),
        group_by=check_choice("group_by", group_by, GroupBy),
        fold_similar=_flag("fold_similar", fold_similar),
        synonyms=check_choice("synonyms", synonyms, Synonyms),
        syntax=check_choice("syntax", syntax, Syntax),
        pins=check_choice("pins", pins, Pins),
        shortlist=_whole("shortlist", shortlist, 0, MAX_SHORTLIST),
    )
    for name in ("decay", "boosts"):
        if getattr(request, name) and request.mode is not SearchMode.hybrid:
            raise QueryError(name, "is only for mode hybrid, whose scores are 0 to 1")
    check_has_relevance(request.min_relevance, request.mode)
    if request.sort and request.rerank:
        if rerank:
            raise QueryError("rerank", "orders by relevance, and sort by fields: give one of them")
        request = dataclasses.replace(request, rerank=0)
    if request.group_by is GroupBy.document:
        _check_grouped(request)
    check_cursor(request)
    check_texts(request.text, request.max_tokens, with_prompt=request.with_prompt)
    return request


def check_has_relevance(min_relevance: float, mode: SearchMode) -> None:
    """Raise QueryError for a threshold in mode `dense`, which would drop what only vectors find."""
    if min_relevance and mode is SearchMode.dense:
        raise QueryError(
            "min_relevance",
            "is judged by words and reefs, and mode dense ranks by vectors alone: leave it out, or search in "
            "mode hybrid",
        )


def _check_grouped(request: SearchRequest) -> None:
    limit = MAX_GROUPED // request.top_k
    if not 1 <= request.passages_per_document <= limit:
        message = f"must be 1 to {limit} with group_by document and top_k {request.top_k}"
        raise QueryError("max_per_document", message)
    for name, is_used in (
        ("max_tokens", request.max_tokens is not None),
        ("prompt", request.with_prompt),
        ("text", request.text is not TextMode.full),
    ):
        if is_used:
            raise QueryError(name, "is only for group_by chunk")


def unknown_argument(names: Iterable[object]) -> QueryError | None:
    """Return the error for the first name that is no argument of a search; None if all are."""
    for name in names:
        if name not in SEARCH_ARGUMENTS:
            return QueryError(str(name)[:COMPARED_CHARS], _unknown(str(name), SEARCH_ARGUMENTS))
    return None


SEARCH_ARGUMENTS = tuple(
    name for name in inspect.signature(make_request).parameters if name not in ("settings", "unknown")
)
"""Names of the arguments of a search."""


def check_top_k(value: object, settings: Settings) -> int:
    """Validate a number of results. Raises QueryError."""
    return _whole("top_k", value, 1, settings.max_top_k)


def check_max_per_document(value: object) -> int | None:
    """Validate a limit per document; 0: no limit; None: the default. Raises QueryError."""
    return None if value is None else _whole("max_per_document", value, 0, MAX_PER_DOCUMENT)


def check_fused(value: object) -> bool:
    """Validate whether a batch is fused. Raises QueryError."""
    return _flag("fused", value)


def check_prompt(value: object) -> bool:
    """Validate whether an answer has a prompt. Raises QueryError."""
    return _flag("prompt", value)


def check_max_tokens(value: object) -> int | None:
    """Validate a token budget, or None. Raises QueryError."""
    return None if value is None else _whole("max_tokens", value, 1, MAX_TOKENS)


def check_texts(text: TextMode, max_tokens: int | None, *, with_prompt: bool) -> None:
    """Raise QueryError for a budget or a prompt without texts."""
    if text is TextMode.none and (with_prompt or max_tokens is not None):
        raise QueryError("text", "none leaves nothing for a prompt or a token budget")


def make_filters(given: object, settings: Settings) -> SearchFilters:
    """Validate filters from a mapping or an unchecked SearchFilters. Raises QueryError for `filters.NAME`."""
    if given is None:
        return SearchFilters()
    if isinstance(given, SearchFilters):
        given = {field.name: getattr(given, field.name) for field in dataclasses.fields(SearchFilters)}
    if not isinstance(given, Mapping):
        raise QueryError("filters", "must be an object")
    for name in given:
        if name not in _FILTERS:
            raise QueryError(f"filters.{name}", _unknown(str(name), _FILTERS))
    checked = {
        name: _FILTERS[name](f"filters.{name}", value, settings)
        for name, value in given.items()
        if value is not None
    }
    return SearchFilters(**checked)


def check_id(field: str, value: object) -> int | None:
    """Validate an id, or None. Raises QueryError."""
    return None if value is None else _whole(field, value, 1, MAX_ID)


def check_context(value: object) -> int:
    """Validate a number of neighbours on each side. Raises QueryError."""
    return _whole("context", value, 0, MAX_CONTEXT)


def check_page(limit: object, offset: object) -> None:
    """Validate the limit and the offset of a listing. Raises QueryError."""
    for field, value in (("limit", limit), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PAGE:
            raise QueryError(field, f"must be a whole number from 0 to {MAX_PAGE:,}")


def _with_shorthands(
    filters: SearchFilters, tags: object, min_confidence: object, settings: Settings
) -> SearchFilters:
    """Add the arguments that are shorthands for filters."""
    if tags is not None:
        if filters.tags:
            raise QueryError("tags", "are given twice: as an argument and in the filters")
        filters = dataclasses.replace(filters, tags=_tags("tags", tags, settings))
    if min_confidence is not None:
        if filters.min_confidence is not None:
            raise QueryError("min_confidence", "is given twice: as an argument and in the filters")
        filters = dataclasses.replace(filters, min_confidence=_from_zero("min_confidence", min_confidence))
    return filters


def _query(query: object, settings: Settings) -> str:
    if not isinstance(query, str):
        raise QueryError("query", "must be a string")
    if not query.strip():
        raise QueryError("query", "is empty")
    if len(query) > settings.max_query_chars:
        raise QueryError("query", f"is {len(query):,} characters; the limit is {settings.max_query_chars:,}")
    return check_characters("query", query)


Choice = TypeVar("Choice", bound=enum.StrEnum)


def check_choice(field: str, value: object, kind: type[Choice]) -> Choice:
    """Validate a member of an enumeration. Raises QueryError."""
    names = ", ".join(member.value for member in kind)
    if not isinstance(value, str):
        raise QueryError(field, f"must be one of {names}")
    try:
        return kind(value)
    except ValueError:
        raise QueryError(field, f"{value[:40]!r} is not one of {names}") from None


def _preset(value: object, settings: Settings) -> str:
    presets = all_presets(settings.presets)
    if not isinstance(value, str) or value not in presets:
        what = f"{value[:40]!r} is not" if isinstance(value, str) else "must be"
        raise QueryError("preset", f"{what} one of {', '.join(presets)}")
    return str(value)


def _whole(field: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise QueryError(field, "must be a whole number")
    if not low <= value <= high:
        raise QueryError(field, f"must be between {low:,} and {high:,}")
    return value


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise QueryError(field, "must be true or false")
    return value


def _number(field: str, value: object, _settings: Settings | None = None) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise QueryError(field, "must be a number")
    return float(value)


def _from_zero(field: str, value: object, _settings: Settings | None = None) -> float:
    number = _number(field, value)
    if number < 0:
        raise QueryError(field, "must be 0 or more")
    return number


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of float
        return False


def check_fraction(field: str, value: object, _settings: Settings | None = None) -> float:
    """Validate a number from 0 to 1. Raises QueryError."""
    number = _number(field, value)
    if not 0 <= number <= 1:
        raise QueryError(field, "must be between 0 and 1")
    return number


def _weights(weights: object) -> dict[str, float] | None:
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise QueryError("weights", "must be an object")
    checked: dict[str, float] = {}
    for name, value in weights.items():
        if name not in SIGNALS:
            raise QueryError(f"weights.{name}", _unknown(str(name), SIGNALS))
        checked[name] = _number(f"weights.{name}", value)
        if checked[name] < 0:
            raise QueryError(f"weights.{name}", "must not be negative")
        if checked[name] > MAX_WEIGHT:
            raise QueryError(f"weights.{name}", f"must be at most {MAX_WEIGHT:,}")
    if not any(weight >= MIN_WEIGHT for weight in checked.values()):
        raise QueryError("weights", "give at least one signal a weight above 0")
    return checked


def _unknown(name: str, valid: Iterable[str]) -> str:
    meant = meant_name(name, valid)
    hint = f"did you mean {meant}?" if meant else f"known are {', '.join(valid)}"
    return f"there is no {name[:COMPARED_CHARS]!r}; {hint}"


def _items(field: str, value: object) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise QueryError(field, "must be a list")
    return list(value)


def _tags(field: str, value: object, settings: Settings) -> tuple[str, ...]:
    tags: dict[str, None] = {}
    for tag in _items(field, value):
        if not isinstance(tag, str):
            raise QueryError(field, "must be strings")
        # Normalized like the tags of documents: one line, no surrounding space.
        name = " ".join(check_characters(field, tag).split())
        if not name or len(name) > settings.max_tag_chars:
            raise QueryError(field, f"must have 1 to {settings.max_tag_chars} characters each")
        tags[name] = None
    if len(tags) > settings.max_tags:
        raise QueryError(field, f"must have at most {settings.max_tags} items")
    return tuple(tags)


def _ids(low: int) -> Callable[[str, object, Settings], tuple[int, ...]]:
    def check(field: str, value: object, _settings: Settings) -> tuple[int, ...]:
        ids = dict.fromkeys(_whole(field, item, low, MAX_ID) for item in _items(field, value))
        if len(ids) > MAX_IDS:
            raise QueryError(field, f"must have at most {MAX_IDS:,} items")
        return tuple(ids)

    return check


def _timestamp(field: str, value: object, _settings: Settings) -> str:
    if isinstance(value, str):
        try:
            return timestamp(datetime.fromisoformat(value))
        except (ValueError, OverflowError):
            pass
    elif isinstance(value, datetime):
        return timestamp(value)
    raise QueryError(field, "must be a date or a time in ISO 8601, such as 2026-01-31T12:00:00Z")


def _paths(field: str, value: object, settings: Settings) -> tuple[str, ...]:
    """Validate one path or several."""
    paths = dict.fromkeys([value] if isinstance(value, str) else _items(field, value))
    for path in paths:
        if not isinstance(path, str):
            raise QueryError(field, "must be a string or a list of strings")
        if not 0 < len(path) <= settings.max_source_path_chars:
            raise QueryError(field, f"must have 1 to {settings.max_source_path_chars:,} characters each")
        check_characters(field, path)
    if len(paths) > MAX_IDS:
        raise QueryError(field, f"must have at most {MAX_IDS:,} items")
    return tuple(paths)


def _metadata(field: str, value: object, settings: Settings) -> dict[str, Any] | None:
    """Validate a metadata filter: scalar values by key. Returns None if it is empty."""
    if not isinstance(value, Mapping):
        raise QueryError(field, "must be an object")
    if len(value) > MAX_METADATA:
        raise QueryError(field, f"must have at most {MAX_METADATA} keys")
    for key, scalar in value.items():
        if not isinstance(key, str):
            raise QueryError(field, "must have strings as keys")
        name = f"{field}.{check_characters(field, key)}"
        if len(key) > settings.max_metadata_bytes:
            raise QueryError(field, f"has a key of over {settings.max_metadata_bytes:,} characters")
        if isinstance(scalar, str):
            check_characters(name, scalar)
            if len(scalar) > settings.max_metadata_bytes:
                raise QueryError(name, f"is longer than {settings.max_metadata_bytes:,} characters")
        elif scalar is not None and not isinstance(scalar, bool):
            if not isinstance(scalar, int | float):
                raise QueryError(name, "must be a string, a number, true, false or null")
            check_number(name, scalar)
    return dict(value) or None


def _name(field: str, value: object, settings: Settings) -> str | None:
    if not isinstance(value, str):
        raise QueryError(field, "must be a string")
    if len(value) > settings.max_source_path_chars:
        raise QueryError(field, f"must have at most {settings.max_source_path_chars:,} characters")
    return check_characters(field, value) or None


_FILTERS: dict[str, Callable[[str, object, Settings], Any]] = {
    "tags": _tags,
    "tags_match": lambda field, value, _: check_choice(field, value, TagsMatch),
    "min_confidence": _from_zero,
    "min_coverage": check_fraction,
    "reef_ids": _ids(0),
    "island_ids": _ids(0),
    "archipelago": lambda field, value, _: _whole(field, value, 0, N_ARCHIPELAGOS - 1),
    "document_ids": _ids(1),
    "format": lambda field, value, _: check_choice(field, value, DocFormat),
    "created_after": _timestamp,
    "created_before": _timestamp,
    "source_path": _paths,
    "metadata": _metadata,
    "name_contains": _name,
    "file_type": check_file_type,
}
