"""Schemas of search requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.models.search import SearchMode
from shoal.notes.unit_search import UNITS
from shoal.search.near_words import Typos
from shoal.search.query_language import Syntax
from shoal.search.request import (
    BEST_FIRST,
    MAX_CONTEXT,
    MAX_OFFSET,
    MAX_PER_DOCUMENT,
    MAX_RERANK,
    MAX_SHORTLIST,
    Expand,
    Fusion,
    Pins,
    Synonyms,
)
from shoal.support.presets import BUILT_IN, MAX_WEIGHT
from shoal.support.presets import DEFAULT as DEFAULT_PRESET
from shoal_api.schemas.answers import AnswerQuerySchema, PageArgumentsSchema
from shoal_api.schemas.common import (
    BoundedList,
    CommaList,
    ResultCount,
    Schema,
    StrictBoolean,
    StrictFloat,
    between,
    stated,
)
from shoal_api.schemas.facets import facet_limit, facets_in_address, facets_in_body
from shoal_api.schemas.filters import (
    ABOUT_FILTER,
    ABOUT_FILTERS,
    AddressFiltersSchema,
    FiltersSchema,
    filter_in_body,
)
from shoal_api.schemas.order import (
    ABOUT_ORDER,
    boosts_in_address,
    boosts_in_body,
    decay_in_address,
    decay_in_body,
    group_by_field,
    sort_in_address,
    sort_in_body,
)

MODES = [mode.value for mode in SearchMode]
FUSIONS = [fusion.value for fusion in Fusion]
TYPOS = [typos.value for typos in Typos]
SYNTAXES = [syntax.value for syntax in Syntax]
EXPANSIONS = [expansion.value for expansion in Expand]
SYNONYMS = [use.value for use in Synonyms]
PINS = [use.value for use in Pins]

DEFAULTS: dict[str, Any] = {
    "top_k": 10,
    "mode": SearchMode.hybrid.value,
    "include_scores": False,
    "context": 0,
    "offset": 0,
    "preset": DEFAULT_PRESET,
    "fusion": Fusion.blend.value,
    "min_relevance": 0.0,
    "expand": Expand.none.value,
    "typos": Typos.auto.value,
    "syntax": Syntax.simple.value,
    "prefix": False,
    "synonyms": Synonyms.on.value,
    "pins": Pins.on.value,
}

ONLY_HYBRID = "only for mode `hybrid`"

ABOUT: dict[str, str] = {
    "top_k": "most results to return; the setting `SHOAL_MAX_TOP_K` says how many",
    "mode": "which signals rank the results: `lexical` (words, by BM25), `reef` (shared topics), `dense` "
    "(vectors, with an encoder), or all that there are as `hybrid`",
    "preset": f"a set of signal weights: {', '.join(f'`{name}`' for name in BUILT_IN)}, or another that "
    f"`GET /api/v1/status` lists; {ONLY_HYBRID}",
    "weights": f"weights of the signals, in place of a preset; {ONLY_HYBRID}",
    "fusion": f"how the rankings of the signals are combined; {ONLY_HYBRID}",
    "max_per_document": f"most results from one document; 0: no limit. Without "
    f"it, the best {BEST_FIRST.n} of each document come first, then the others (`further`), so that a page "
    "is full if enough passages match. With `group_by=document`, its passages, by default "
    f"{BEST_FIRST.n}",
    "include_scores": "adds to each result `shared_reefs` (topics shared with the query, with both z-scores "
    "and their share of the score) and `matched_terms` (words it holds, and where)",
    "context": "number of chunks before and after each result to return as `before` and `after`",
    "offset": "results to skip",
    "min_relevance": "lowest `relevance` of a result, 0 to 1. Less relevant results are removed from the "
    "page; `offset` counts them. Not in mode `dense`, which ranks by vectors alone",
    "expand": "`time` adds `evidence` to each result: of a recording, the passages within 15 seconds, or 10 "
    "of a frame",
    "shortlist": "documents are ranked first, as wholes, and then only passages of the best so many of them, "
    "1 to 1,000; 0: of all",
    "rerank": "first results, counted from rank 1, that the encoder reads again and reorders, 0 to 100; by "
    "default the setting `SHOAL_RERANK`. If it fails or takes too long, they keep their order, with a "
    "warning",
    "typos": "`auto` searches for the nearest words of the library in place of words that stand nowhere and "
    "are not known; `off` searches for the words as typed",
    "syntax": "`simple` reads quotation marks, a minus before a word and `title:` as the query language; "
    "`plain` reads the query as text",
    "prefix": "whether the last word may be the beginning of a word, for search as you type",
    "synonyms": "whether words also match the synonyms of the library (`GET /api/v1/synonyms`)",
    "pins": "whether the pins of the library (`GET /api/v1/pins`) put results first and hide others",
    "units": "what to search: passages (`chunk`), notes (`note`), or both, in one order. Of the filters, "
    "notes meet `tags` alone",
    "owner": "whose notes to search, with the unit `note`; default `default`",
    **ABOUT_FILTERS,
}
"""Descriptions shared by the body and the query parameters."""


class WeightsSchema(Schema):
    """Weights of the signals. Only their proportions count; an omitted signal has weight 0."""

    lexical = StrictFloat(validate=between(0, MAX_WEIGHT), metadata={"description": "words, by BM25"})
    reef = StrictFloat(validate=between(0, MAX_WEIGHT), metadata={"description": "shared reefs"})
    field_boost = StrictFloat(
        validate=between(0, MAX_WEIGHT), metadata={"description": "words in title, headings and tags"}
    )
    dense = StrictFloat(
        validate=between(0, MAX_WEIGHT),
        metadata={"description": "nearness in meaning, by vectors; without effect where there are none"},
    )


def _preset() -> fields.String:
    """Return the field of a preset; the library checks the name, because a setting may define more."""
    return fields.String(load_default=DEFAULTS["preset"], metadata={"description": ABOUT["preset"]})


def _choice(name: str, choices: Sequence[str]) -> fields.String:
    """Return a field with a fixed set of values."""
    return fields.String(
        load_default=DEFAULTS[name],
        validate=validate.OneOf(choices),
        metadata={"description": ABOUT[name]},
    )


class SearchArgumentsSchema(Schema):
    """What searches and explanations share."""

    query = fields.String(required=True, metadata={"description": "up to 4,096 characters"})
    top_k = ResultCount(strict=True, load_default=DEFAULTS["top_k"], metadata={"description": ABOUT["top_k"]})
    mode = _choice("mode", MODES)
    preset = _preset()
    weights = fields.Nested(
        WeightsSchema, allow_none=True, load_default=None, metadata={"description": ABOUT["weights"]}
    )
    fusion = _choice("fusion", FUSIONS)
    max_per_document = fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        metadata=stated(0, MAX_PER_DOCUMENT, ABOUT["max_per_document"]),
    )
    include_scores = StrictBoolean(
        load_default=DEFAULTS["include_scores"], metadata={"description": ABOUT["include_scores"]}
    )
    context = fields.Integer(
        strict=True,
        load_default=DEFAULTS["context"],
        metadata=stated(0, MAX_CONTEXT, ABOUT["context"]),
    )
    offset = fields.Integer(
        strict=True, load_default=DEFAULTS["offset"], metadata=stated(0, MAX_OFFSET, ABOUT["offset"])
    )
    min_relevance = StrictFloat(
        validate=between(0, 1),
        load_default=DEFAULTS["min_relevance"],
        metadata={"description": ABOUT["min_relevance"]},
    )
    expand = _choice("expand", EXPANSIONS)
    synonyms = _choice("synonyms", SYNONYMS)
    pins = _choice("pins", PINS)
    rerank = fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        validate=between(0, MAX_RERANK),
        metadata={"description": ABOUT["rerank"]},
    )
    shortlist = fields.Integer(
        strict=True,
        load_default=0,
        validate=between(0, MAX_SHORTLIST),
        metadata={"description": ABOUT["shortlist"]},
    )
    typos = _choice("typos", TYPOS)
    syntax = _choice("syntax", SYNTAXES)
    prefix = StrictBoolean(load_default=DEFAULTS["prefix"], metadata={"description": ABOUT["prefix"]})
    filters = fields.Nested(
        FiltersSchema,
        allow_none=True,
        load_default=None,
        metadata={"description": "filters that every result passes; absent or null means no filter"},
    )
    filter = filter_in_body()
    sort = sort_in_body()
    decay = decay_in_body()
    boosts = boosts_in_body()
    group_by = group_by_field()
    fold_similar = StrictBoolean(load_default=False, metadata={"description": ABOUT_ORDER["fold_similar"]})


class SearchSchema(SearchArgumentsSchema, PageArgumentsSchema):
    units = BoundedList(
        fields.String(validate=validate.OneOf(UNITS)),
        load_default=(UNITS[0],),
        metadata={"description": ABOUT["units"]},
    )
    owner = fields.String(metadata={"description": ABOUT["owner"]})
    facets = facets_in_body()
    facet_limit = facet_limit(strict=True)


class WeightsText(fields.String):
    """Weights as a query parameter: `lexical:0.7,reef:0.3`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        given: dict[str, float] = {}
        for part in super()._deserialize(value, attr, data, **kwargs).split(","):
            name, _, number = part.partition(":")
            try:
                weight = float(number)
            except ValueError:
                raise ma.ValidationError("must be written as lexical:0.7,reef:0.3") from None
            if name.strip() in given:
                raise ma.ValidationError(f"gives {name.strip()[:40]!r} twice")
            given[name.strip()] = weight
        return given


class SearchQuerySchema(AddressFiltersSchema, AnswerQuerySchema):
    """A search as query parameters, with the filters beside `q`."""

    q = fields.String(required=True, metadata={"description": "the query, up to 4,096 characters"})
    filter = fields.String(metadata={"description": ABOUT_FILTER})
    top_k = ResultCount(load_default=DEFAULTS["top_k"], metadata={"description": ABOUT["top_k"]})
    mode = _choice("mode", MODES)
    preset = _preset()
    weights = WeightsText(
        load_default=None,
        metadata={
            "description": f"{ABOUT['weights']}; as `lexical:0.7,reef:0.3`; an omitted signal has weight 0"
        },
    )
    fusion = _choice("fusion", FUSIONS)
    max_per_document = fields.Integer(
        load_default=None, metadata=stated(0, MAX_PER_DOCUMENT, ABOUT["max_per_document"])
    )
    include_scores = fields.Boolean(
        load_default=DEFAULTS["include_scores"], metadata={"description": ABOUT["include_scores"]}
    )
    context = fields.Integer(
        load_default=DEFAULTS["context"], metadata=stated(0, MAX_CONTEXT, ABOUT["context"])
    )
    offset = fields.Integer(load_default=DEFAULTS["offset"], metadata=stated(0, MAX_OFFSET, ABOUT["offset"]))
    min_relevance = fields.Float(
        load_default=DEFAULTS["min_relevance"], metadata=stated(0, 1, ABOUT["min_relevance"])
    )
    expand = _choice("expand", EXPANSIONS)
    synonyms = _choice("synonyms", SYNONYMS)
    pins = _choice("pins", PINS)
    rerank = fields.Integer(
        load_default=None, validate=between(0, MAX_RERANK), metadata={"description": ABOUT["rerank"]}
    )
    shortlist = fields.Integer(
        load_default=0, validate=between(0, MAX_SHORTLIST), metadata={"description": ABOUT["shortlist"]}
    )
    typos = _choice("typos", TYPOS)
    syntax = _choice("syntax", SYNTAXES)
    prefix = fields.Boolean(load_default=DEFAULTS["prefix"], metadata={"description": ABOUT["prefix"]})
    sort = sort_in_address()
    decay = decay_in_address()
    boosts = boosts_in_address()
    group_by = group_by_field()
    fold_similar = fields.Boolean(load_default=False, metadata={"description": ABOUT_ORDER["fold_similar"]})
    units = CommaList(
        fields.String(validate=validate.OneOf(UNITS)),
        load_default=(UNITS[0],),
        metadata={"description": f"{ABOUT['units']}; comma-separated"},
    )
    owner = fields.String(metadata={"description": ABOUT["owner"]})
    facets = facets_in_address()
    facet_limit = facet_limit(strict=False)
