"""Search requests: checks every argument; errors name the argument.

`shoal.declared.search` declares the arguments. What its kinds cannot say is checked here.

A cursor says where the next page of a search begins. It names the last results before the page, so the page
continues after them wherever they stand now. In an unchanged library that is the page that an offset would
give. If all of them are gone, the page begins where the raw scores of the last one would stand, and not
behind its number less the results that are gone: results may come twice, but none is skipped. A cursor is
text for clients to send back; a checksum finds a damaged one, and a digest of the request one of another
search.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.declared.arguments import (
    MAX_ID,
    MAX_IDS,
    MAX_PAGE,
    Argument,
    Choice,
    Many,
    Members,
    Number,
    Numbers,
    Text,
    Value,
    check_finite,
    check_list,
    check_names,
    check_whole,
    unknown_name,
)
from shoal.declared.filters import FILTERS, MAX_METADATA, SearchFilters
from shoal.declared.search import ALL_LANGUAGES, FIRST_OF_DOCUMENT, MAX_CONTEXT, SEARCH, SHORT_FORMS
from shoal.errors import QueryError
from shoal.facets.requests import FacetRequest, make_facets
from shoal.filters.parsing import make_filter
from shoal.filters.tree import Node, check_characters, check_file_type, check_number
from shoal.models.search import (
    MIN_WEIGHT,
    Expand,
    Fusion,
    GroupBy,
    Pins,
    SearchMode,
    Synonyms,
    Syntax,
    TextMode,
    Typos,
    all_presets,
)
from shoal.search.order_arguments import Boost, Decay, SortKey, make_boosts, make_decay, make_sort
from shoal.search.ordering import BestFirst, DocumentLimit
from shoal.settings import Settings
from shoal.support.languages import LANGUAGES
from shoal.support.other_names import COMPARED_CHARS

if TYPE_CHECKING:
    from shoal.models.pins import PinRule
    from shoal.models.queries import UsedSynonym

BEST_FIRST = BestFirst(FIRST_OF_DOCUMENT)
MAX_GROUPED = 1_000
"""Passages of all documents on a page together."""
SEARCH_ARGUMENTS = ("query", *SEARCH)
"""Names of the arguments of a search."""
MAX_ANCHORS = 3
"""Results that a cursor names: the last may be deleted before the next page is read."""
MAX_CHARS = 200
"""Longer texts are no cursors."""
CHANGED = (
    "the library has changed since the page before: this page continues after its last result, where that "
    "stands now"
)
CHANGED_WITHOUT_ANCHOR = (
    "the library has changed since the page before, and its last results are gone: this page continues where "
    "they stood, so results may come twice"
)
_VERSION = 2
_HEAD = struct.Struct("<BIIQQqqqqd")
_ANCHOR = struct.Struct("<q")
_MAX_TOTAL = 2**32 - 1
_CHECK_BYTES = 6
_INVALID = "is not a cursor of this service: send `next_cursor` of the page before, unchanged"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of `Engine.search`, validated and in their final types.

    `filters` include those given by their short forms, and `facets` their limit. `max_per_document`: None
    stands for `BEST_FIRST`, 0 for no limit. `filter` and `filters` are both to be met. `rerank`: the first
    results, counted from rank 1, that are reranked; 0: none.
    """

    query: str
    top_k: int
    mode: SearchMode
    preset: str
    weights: Mapping[str, float] | None
    fusion: Fusion
    filters: SearchFilters
    filter: Node | None
    max_per_document: int | None
    include_scores: bool
    offset: int
    cursor: Cursor | None
    context: int
    min_relevance: float
    expand: Expand
    typos: Typos
    syntax: Syntax
    prefix: bool
    language: str | None
    languages: tuple[str, ...]
    synonyms: Synonyms
    pins: Pins
    rerank: int
    shortlist: int
    sort: tuple[SortKey, ...]
    decay: Decay | None
    boosts: tuple[Boost, ...]
    group_by: GroupBy
    fold_similar: bool
    facets: tuple[FacetRequest, ...]
    text: TextMode
    max_tokens: int | None
    prompt: bool

    @property
    def start(self) -> int:
        """Results before the page."""
        return self.offset if self.cursor is None else self.cursor.position

    @property
    def limit_per_document(self) -> DocumentLimit:
        """What the ranking does with many chunks of one document: only the best is a result if documents are
        ranked."""
        if self.is_grouped:
            return 1
        if self.max_per_document is None:
            return BEST_FIRST
        return self.max_per_document or None

    @property
    def passages_per_document(self) -> int:
        """Most passages of a document, if documents are ranked."""
        return BEST_FIRST.n if self.max_per_document is None else self.max_per_document

    @property
    def is_grouped(self) -> bool:
        """Whether documents are ranked."""
        return self.group_by is not GroupBy.chunk

    @property
    def has_plain_pages(self) -> bool:
        """Whether results are passages one by one, so that a cursor can name them."""
        return not (self.is_grouped or self.fold_similar)


def make_request(query: object, *, settings: Settings, **given: object) -> SearchRequest:
    """Validate the arguments of a search. Raises QueryError for the first invalid one.

    Without `rerank`, that of the settings applies, unless results are sorted. Raises TypeError for a keyword
    that is no argument of a search.
    """
    check_names("search", given, SEARCH_ARGUMENTS)
    checked: dict[str, Any] = {"query": _query(query, settings)}
    for name, argument in SEARCH.items():
        checked[name] = check_argument(name, given.get(name, argument.default), settings)
    checked["filters"] = _with_short_forms(
        checked["filters"], checked.pop("tags"), checked.pop("min_confidence")
    )
    checked["facets"] = make_facets(checked["facets"], limit=checked.pop("facet_limit"))
    if checked["rerank"] is None:
        checked["rerank"] = settings.rerank
    request = SearchRequest(**checked)
    for name in ("decay", "boosts"):
        if getattr(request, name) and request.mode is not SearchMode.hybrid:
            raise QueryError(name, "is only for mode hybrid, whose scores are 0 to 1")
    check_has_relevance(request.min_relevance, request.mode)
    if request.sort and request.rerank:
        if given.get("rerank"):
            raise QueryError("rerank", "orders by relevance, and sort by fields: give one of them")
        request = dataclasses.replace(request, rerank=0)
    if request.is_grouped:
        _check_grouped(request)
    check_cursor(request)
    check_texts(request.text, request.max_tokens, prompt=request.prompt)
    return request


def check_argument(name: str, value: object, settings: Settings) -> Any:
    """Validate an argument of a search and return it in its final type. Raises QueryError."""
    argument = SEARCH[name]
    if name in _CHECKS:
        return _CHECKS[name](value, settings)
    if value is None and argument.default is None:
        return None
    return _check_kind(name, argument, value, settings)


def _check_kind(name: str, argument: Argument, value: object, settings: Settings) -> Any:
    kind = argument.kind
    assert not isinstance(kind, Value | Numbers | Text | Many | Members), "they have a check of their own"
    return kind.check(name, value, settings)


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
        message = f"must be 1 to {limit} with group_by {request.group_by} and top_k {request.top_k}"
        raise QueryError("max_per_document", message)
    for name in ("max_tokens", "prompt", "text"):
        if getattr(request, name) != SEARCH[name].default:
            raise QueryError(name, "is only for group_by chunk")


def unknown_argument(names: Iterable[object]) -> QueryError | None:
    """Return the error for the first name that is no argument of a search; None if all are."""
    for name in names:
        if name not in SEARCH_ARGUMENTS:
            return QueryError(str(name)[:COMPARED_CHARS], unknown_name(str(name), SEARCH_ARGUMENTS))
    return None


def check_texts(text: TextMode, max_tokens: int | None, *, prompt: bool) -> None:
    """Raise QueryError for a budget or a prompt without texts."""
    if text is TextMode.none and (prompt or max_tokens is not None):
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
        if name not in FILTERS:
            raise QueryError(f"filters.{name}", unknown_name(str(name), FILTERS))
    checked = {name: _filter(name, value, settings) for name, value in given.items() if value is not None}
    return SearchFilters(**checked)


def _filter(name: str, value: object, settings: Settings) -> Any:
    place = f"filters.{name}"
    if name in _FILTER_CHECKS:
        return _FILTER_CHECKS[name](place, value, settings)
    return _check_kind(place, FILTERS[name], value, settings)


def check_id(field: str, value: object) -> int | None:
    """Validate an id, or None. Raises QueryError."""
    return None if value is None else check_whole(field, value, 1, MAX_ID)


def check_context(value: object) -> int:
    """Validate a number of neighbours on each side. Raises QueryError."""
    return check_whole("context", value, 0, MAX_CONTEXT)


def check_page(limit: object, offset: object) -> None:
    """Validate the limit and the offset of a listing. Raises QueryError."""
    for field, value in (("limit", limit), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PAGE:
            raise QueryError(field, f"must be a whole number from 0 to {MAX_PAGE:,}")


def _with_short_forms(
    filters: SearchFilters, tags: tuple[str, ...] | None, min_confidence: float | None
) -> SearchFilters:
    """Add the arguments that are short forms of filters."""
    if tags is not None:
        if filters.tags:
            raise QueryError("tags", "are given twice: as an argument and in the filters")
        filters = dataclasses.replace(filters, tags=tags)
    if min_confidence is not None:
        if filters.min_confidence is not None:
            raise QueryError("min_confidence", "is given twice: as an argument and in the filters")
        filters = dataclasses.replace(filters, min_confidence=min_confidence)
    return filters


def _query(query: object, settings: Settings) -> str:
    if not isinstance(query, str):
        raise QueryError("query", "must be a string")
    if not query.strip():
        raise QueryError("query", "is empty")
    if len(query) > settings.max_query_chars:
        raise QueryError("query", f"is {len(query):,} characters; the limit is {settings.max_query_chars:,}")
    return check_characters("query", query)


def _preset(value: object, settings: Settings) -> str:
    presets = all_presets(settings.presets)
    if not isinstance(value, str) or value not in presets:
        what = f"{value[:40]!r} is not" if isinstance(value, str) else "must be"
        raise QueryError("preset", f"{what} one of {', '.join(presets)}")
    return str(value)


def check_fraction(field: str, value: object) -> float:
    """Validate a number from 0 to 1. Raises QueryError."""
    return Number(0, 1).check(field, value)


def _weights(given: object) -> dict[str, float] | None:
    if given is None:
        return None
    kind = SEARCH["weights"].kind
    assert isinstance(kind, Numbers)
    weights = kind.of_text("weights", given) if isinstance(given, str) else given
    if not isinstance(weights, Mapping):
        raise QueryError("weights", "must be an object")
    checked: dict[str, float] = {}
    for name, value in weights.items():
        if name not in kind.names:
            raise QueryError(f"weights.{name}", unknown_name(str(name), kind.names))
        checked[name] = check_finite(f"weights.{name}", value)
        if checked[name] < 0:
            raise QueryError(f"weights.{name}", "must not be negative")
        if checked[name] > kind.high:
            raise QueryError(f"weights.{name}", f"must be at most {kind.high:,}")
    if not any(weight >= MIN_WEIGHT for weight in checked.values()):
        raise QueryError("weights", "give at least one signal a weight above 0")
    return checked


def _tags(field: str, value: object, settings: Settings) -> tuple[str, ...]:
    tags: dict[str, None] = {}
    for tag in check_list(field, value):
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


def _paths(field: str, value: object, settings: Settings) -> tuple[str, ...]:
    """Validate one path or several."""
    paths = dict.fromkeys([value] if isinstance(value, str) else check_list(field, value))
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


def _languages(value: object) -> tuple[str, ...]:
    codes = dict.fromkeys(check_list("languages", value) if value is not None else ())
    for code in codes:
        Choice((ALL_LANGUAGES, *LANGUAGES)).check("languages", code)
    return tuple(codes)


_CHECKS: Mapping[str, Callable[[Any, Settings], Any]] = {
    "languages": lambda value, _: _languages(value),
    "preset": _preset,
    "weights": lambda value, _: _weights(value),
    "tags": lambda value, settings: None if value is None else _tags("tags", value, settings),
    "filters": make_filters,
    "filter": lambda value, _: make_filter(value),
    "cursor": lambda value, _: make_cursor(value),
    "sort": lambda value, _: make_sort(value),
    "decay": lambda value, _: make_decay(value),
    "boosts": lambda value, _: make_boosts(value),
    "facets": lambda value, _: value,  # checked with `facet_limit`
}
"""Checks of the arguments that are a `Value` or `Numbers`."""
_FILTER_CHECKS: Mapping[str, Callable[[str, Any, Settings], Any]] = {
    "tags": _tags,
    "source_path": _paths,
    "metadata": _metadata,
    "name_contains": _name,
    "file_type": check_file_type,
}
"""Checks of the filters that are a `Value`."""


class RawScores(NamedTuple):
    """What the key of a result is made of: its raw scores, and what is added to their blend."""

    lexical: int = 0
    reef: int = 0
    fields: int = 0
    dense: int = 0
    added: float = 0.0


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place between two pages.

    position  results before the next page, those left out by `min_relevance` included
    total     results on all pages
    last      raw scores of the last result before the next page
    state     of the library that the page before was read from, by `state_of`
    digest    of the request, without the arguments that may differ between the pages of one search
    anchors   ids of the last chunks before the next page, the last one first
    """

    position: int
    total: int
    state: int
    digest: int
    last: RawScores
    anchors: tuple[int, ...] = ()

    def text(self) -> str:
        """Return the cursor as text for an address."""
        packed = _HEAD.pack(
            _VERSION, self.position, min(self.total, _MAX_TOTAL), self.state, self.digest, *self.last
        )
        packed += b"".join(map(_ANCHOR.pack, self.anchors[:MAX_ANCHORS]))
        return base64.urlsafe_b64encode(packed + _check(packed)).rstrip(b"=").decode("ascii")


def make_cursor(value: object) -> Cursor | None:
    """Parse a cursor; None for None. Raises QueryError."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.isascii() or not 0 < len(value) <= MAX_CHARS:
        raise QueryError("cursor", _INVALID)
    try:
        data = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise QueryError("cursor", _INVALID) from None
    packed, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    n_anchors, rest = divmod(len(packed) - _HEAD.size, _ANCHOR.size)
    if rest or not 0 <= n_anchors <= MAX_ANCHORS or check != _check(packed) or packed[0] != _VERSION:
        raise QueryError("cursor", _INVALID)
    _, position, total, state, digest, *last = _HEAD.unpack_from(packed)
    anchors = tuple(each for (each,) in _ANCHOR.iter_unpack(packed[_HEAD.size :]))
    return Cursor(position, total, state, digest, RawScores(*last), anchors)


def digest_of(request: SearchRequest) -> int:
    """Return a digest of what the order of the results depends on. It is the same in every process.

    The moment of a decay may differ: without one in the request, it is that of each page.
    """
    if request.decay is not None:
        request = dataclasses.replace(request, decay=dataclasses.replace(request.decay, now=0))
    parts = [("query", request.query)] + [
        (name, getattr(request, name))
        for name, argument in SEARCH.items()
        if argument.ranks and name not in SHORT_FORMS
    ]
    return _digest(parts)


def state_of(revision: int, synonyms: Sequence[UsedSynonym], pins: Sequence[PinRule]) -> int:
    """Return a digest of what the library gave a search: its revision, synonyms and pins.

    The revision counts changes of documents only.
    """
    return _digest((revision, tuple(synonyms), tuple(pins)))


def cursor_after(
    request: SearchRequest, state: int, position: int, total: int, last: RawScores, chunk_ids: Sequence[int]
) -> Cursor:
    """Return the cursor of the page after `position` of `total` results. `chunk_ids`: the last ones before
    it, in order; `last`: the raw scores of the last one."""
    anchors = tuple(reversed(chunk_ids[-MAX_ANCHORS:]))
    return Cursor(position, total, state, digest_of(request), last, anchors)


def check_cursor(request: SearchRequest) -> None:
    """Raise QueryError if the cursor of a request is of another search, or comes with an offset."""
    if request.cursor is None:
        return
    if not request.has_plain_pages:
        raise QueryError("cursor", "is for passages one by one: with group_by or fold_similar, use offset")
    if request.offset:
        raise QueryError("cursor", "and offset both say where the page begins: give one of them")
    if request.cursor.digest != digest_of(request):
        raise QueryError(
            "cursor",
            "is of another search: send the same query, filters and ranking arguments as for the page before",
        )


def _digest(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")


def _check(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_CHECK_BYTES, person=b"shoal-cursor").digest()
