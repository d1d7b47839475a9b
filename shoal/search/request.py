"""Search requests: checks every argument; errors name the argument."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from shoal.conversion.file_kinds import FILE_KINDS, KIND_OF_SUFFIX
from shoal.errors import QueryError
from shoal.models import DocFormat, SearchFilters, SearchMode, TagsMatch
from shoal.settings import Settings
from shoal.storage.database import MAX_ID
from shoal.storage.file_types import MEDIA
from shoal.support.clock import timestamp
from shoal.support.presets import DEFAULT as DEFAULT_PRESET
from shoal.support.presets import MAX_WEIGHT, MIN_WEIGHT, all_presets

MAX_OFFSET = 10_000
"""Deeper pages of a ranking are of no use to people and cost as much as all pages before them."""
MAX_PAGE = 2**31 - 1
"""Largest limit and offset of a listing."""
MAX_CONTEXT = 10
"""Most neighbours on each side; for more, read the document."""
MAX_PER_DOCUMENT = 10_000
MAX_IDS = 10_000
"""Most ids in one filter; every database accepts this many parameters in one statement."""
MAX_METADATA = 16
"""Most keys in a metadata filter; each is searched in the metadata of all documents."""
N_ARCHIPELAGOS = 4


class Fusion(enum.StrEnum):
    """How a hybrid search combines its signals into one ranking."""

    blend = "blend"
    rrf = "rrf"


class Expand(enum.StrEnum):
    """What a result brings besides itself: `time`, of a recording, the passages around it."""

    none = "none"
    time = "time"


FILE_TYPES = (*MEDIA, *(kind.id for kind in FILE_KINDS.values() if kind.refusal is None))
"""Types that the filter `file_type` knows, besides suffixes of files."""
SIGNALS = ("lexical", "reef", "field_boost")


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of `Engine.search`, validated and in their final types.

    `preset`, `weights` and `fusion` apply to hybrid searches only. `weights` replace those of the preset; a
    signal missing from them has weight 0. `min_relevance` removes results from a page of the
    ranking, so the ranks on a page do not depend on it.
    """

    query: str
    top_k: int
    mode: SearchMode
    filters: SearchFilters
    max_per_document: int | None
    include_scores: bool
    offset: int
    context: int
    preset: str
    weights: Mapping[str, float] | None
    fusion: Fusion
    min_relevance: float
    expand: Expand


def make_request(
    query: object,
    *,
    settings: Settings,
    top_k: object = 10,
    mode: object = SearchMode.hybrid,
    tags: object = None,
    min_confidence: object = None,
    filters: object = None,
    max_per_document: object = 3,
    include_scores: object = False,
    offset: object = 0,
    context: object = 0,
    preset: object = DEFAULT_PRESET,
    weights: object = None,
    fusion: object = Fusion.blend,
    min_relevance: object = 0.0,
    expand: object = Expand.none,
) -> SearchRequest:
    """Validate the arguments of a search. Raises QueryError for the first invalid one."""
    return SearchRequest(
        query=_query(query, settings),
        top_k=_whole("top_k", top_k, 1, settings.max_top_k),
        mode=check_choice("mode", mode, SearchMode),
        filters=_with_shorthands(make_filters(filters, settings), tags, min_confidence, settings),
        max_per_document=(
            None
            if max_per_document is None
            else _whole("max_per_document", max_per_document, 1, MAX_PER_DOCUMENT)
        ),
        include_scores=_flag("include_scores", include_scores),
        offset=_whole("offset", offset, 0, MAX_OFFSET),
        context=check_context(context),
        preset=_preset(preset, settings),
        weights=_weights(weights),
        fusion=check_choice("fusion", fusion, Fusion),
        min_relevance=check_fraction("min_relevance", min_relevance),
        expand=check_choice("expand", expand, Expand),
    )


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


def check_characters(field: str, text: str) -> str:
    """Return `text`. Raises QueryError for a lone surrogate (half a character), which has no UTF-8
    encoding."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise QueryError(field, "contains half a character (a lone surrogate)")
    return text


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
    close = difflib.get_close_matches(name, list(valid), n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(valid)}"
    return f"there is no {name[:40]!r}; {hint}"


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
            if not _is_finite(scalar) or (abs(scalar) > MAX_ID and isinstance(scalar, int)):
                raise QueryError(name, "is too large a number")
    return dict(value) or None


def _name(field: str, value: object, settings: Settings) -> str | None:
    if not isinstance(value, str):
        raise QueryError(field, "must be a string")
    if len(value) > settings.max_source_path_chars:
        raise QueryError(field, f"must have at most {settings.max_source_path_chars:,} characters")
    return check_characters(field, value) or None


def check_file_type(field: str, value: object, _settings: Settings | None = None) -> str | None:
    """Return a file type in the form of `shoal.storage.file_types`; None for an empty text. Raises
    QueryError."""
    if not isinstance(value, str):
        raise QueryError(field, "must be a string")
    name = value.strip().lower()
    if not name or name in FILE_TYPES:
        return name or None
    suffix = name if name.startswith(".") else f".{name}"
    if suffix in KIND_OF_SUFFIX:
        return suffix
    close = difflib.get_close_matches(name, FILE_TYPES, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise QueryError(field, f"{value[:40]!r} is neither a suffix nor one of {', '.join(FILE_TYPES)}{hint}")


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
