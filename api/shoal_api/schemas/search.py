"""Schemas of search requests and responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.models import SearchMode
from shoal.notes.unit_search import UNITS
from shoal.search.request import Expand, Fusion
from shoal.support.presets import BUILT_IN, MAX_WEIGHT
from shoal.support.presets import DEFAULT as DEFAULT_PRESET
from shoal_api.schemas.common import (
    AnyOf,
    BoundedList,
    CommaList,
    Prepared,
    Record,
    Records,
    Schema,
    StrictBoolean,
    StrictFloat,
    between,
)
from shoal_api.schemas.documents import ContextChunkSchema, FilePlaceSchema, LabelSchema
from shoal_api.schemas.filters import ABOUT_FILTERS, AddressFiltersSchema, FiltersSchema
from shoal_api.schemas.notes import NoteSchema

MODES = [mode.value for mode in SearchMode]
FUSIONS = [fusion.value for fusion in Fusion]
EXPANSIONS = [expansion.value for expansion in Expand]

DEFAULTS: dict[str, Any] = {
    "top_k": 10,
    "mode": SearchMode.hybrid.value,
    "max_per_document": 3,
    "include_scores": False,
    "context": 0,
    "offset": 0,
    "preset": DEFAULT_PRESET,
    "fusion": Fusion.blend.value,
    "min_relevance": 0.0,
    "expand": Expand.none.value,
}

ONLY_HYBRID = "only for mode `hybrid`"

ABOUT: dict[str, str] = {
    "top_k": "most results to return, 1 to 100",
    "mode": "which signals rank the results: `lexical` (words, by BM25), `reef` (shared topics), or both as "
    "`hybrid`",
    "preset": f"a set of signal weights: {', '.join(f'`{name}`' for name in BUILT_IN)}, or another that "
    f"`GET /api/v1/status` lists; {ONLY_HYBRID}",
    "weights": f"weights of the signals, in place of a preset; {ONLY_HYBRID}",
    "fusion": f"how the rankings of the signals are combined; {ONLY_HYBRID}",
    "max_per_document": "most results from one document, 1 to 10,000, so that a long document does not fill "
    "the page",
    "include_scores": "adds to each result `shared_reefs` (topics shared with the query, with both z-scores "
    "and their share of the score) and `matched_terms` (words it holds, and where)",
    "context": "number of chunks before and after each result to return as `before` and `after`, 0 to 10",
    "offset": "results to skip, 0 to 10,000",
    "min_relevance": "lowest `relevance` of a result, 0 to 1. Less relevant results are removed from the "
    "page; `offset` counts them",
    "expand": "`time` adds `evidence` to each result: of a recording, the passages within 15 seconds, or 10 "
    "of a frame",
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
    top_k = fields.Integer(
        strict=True, load_default=DEFAULTS["top_k"], metadata={"description": ABOUT["top_k"]}
    )
    mode = _choice("mode", MODES)
    preset = _preset()
    weights = fields.Nested(
        WeightsSchema, allow_none=True, load_default=None, metadata={"description": ABOUT["weights"]}
    )
    fusion = _choice("fusion", FUSIONS)
    max_per_document = fields.Integer(
        strict=True,
        allow_none=True,
        load_default=DEFAULTS["max_per_document"],
        metadata={"description": ABOUT["max_per_document"] + "; null: no limit"},
    )
    include_scores = StrictBoolean(
        load_default=DEFAULTS["include_scores"], metadata={"description": ABOUT["include_scores"]}
    )
    context = fields.Integer(
        strict=True, load_default=DEFAULTS["context"], metadata={"description": ABOUT["context"]}
    )
    offset = fields.Integer(
        strict=True, load_default=DEFAULTS["offset"], metadata={"description": ABOUT["offset"]}
    )
    min_relevance = StrictFloat(
        validate=between(0, 1),
        load_default=DEFAULTS["min_relevance"],
        metadata={"description": ABOUT["min_relevance"]},
    )
    expand = _choice("expand", EXPANSIONS)
    filters = fields.Nested(
        FiltersSchema,
        allow_none=True,
        load_default=None,
        metadata={"description": "filters that every result passes; absent or null means no filter"},
    )


class SearchSchema(SearchArgumentsSchema):
    units = BoundedList(
        fields.String(validate=validate.OneOf(UNITS)),
        load_default=(UNITS[0],),
        metadata={"description": ABOUT["units"]},
    )
    owner = fields.String(metadata={"description": ABOUT["owner"]})


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


class SearchQuerySchema(AddressFiltersSchema):
    """A search as query parameters, with the filters beside `q`."""

    q = fields.String(required=True, metadata={"description": "the query, up to 4,096 characters"})
    top_k = fields.Integer(load_default=DEFAULTS["top_k"], metadata={"description": ABOUT["top_k"]})
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
        load_default=DEFAULTS["max_per_document"], metadata={"description": ABOUT["max_per_document"]}
    )
    include_scores = fields.Boolean(
        load_default=DEFAULTS["include_scores"], metadata={"description": ABOUT["include_scores"]}
    )
    context = fields.Integer(load_default=DEFAULTS["context"], metadata={"description": ABOUT["context"]})
    offset = fields.Integer(load_default=DEFAULTS["offset"], metadata={"description": ABOUT["offset"]})
    min_relevance = fields.Float(
        load_default=DEFAULTS["min_relevance"], metadata={"description": ABOUT["min_relevance"]}
    )
    expand = _choice("expand", EXPANSIONS)
    units = CommaList(
        fields.String(validate=validate.OneOf(UNITS)),
        load_default=(UNITS[0],),
        metadata={"description": f"{ABOUT['units']}; comma-separated"},
    )
    owner = fields.String(metadata={"description": ABOUT["owner"]})


RELEVANCE = (
    "calibrated probability that it answers the query, 0 to 1, from its words and reefs. Comparable between "
    "queries, and the same in every mode"
)
TERM_COVERAGE = (
    "share of the query's words and phrases that it holds in text, headings or title, weighted by their "
    "rarity in the library, 0 to 1. Comparable between queries, unlike `match_score`. Null for a query of "
    "common words only"
)


class FieldBoostPartsSchema(Schema):
    """What each field adds to `field_boost`. A term counts once, for the first field that has it."""

    title = fields.Float(required=True, metadata={"description": "words in the title"})
    heading_path = fields.Float(required=True, metadata={"description": "words in the headings"})
    tag_overlap = fields.Float(required=True, metadata={"description": "words that are tags"})


class ScoresSchema(Schema):
    """Score of each signal; null for an unused signal."""

    lexical = fields.Float(
        required=True, allow_none=True, metadata={"description": "0 to 1; null in mode `reef`"}
    )
    reef = fields.Float(
        required=True, allow_none=True, metadata={"description": "0 to 1; null in mode `lexical`"}
    )
    field_boost = fields.Float(
        required=True,
        metadata={"description": "0 to 1: share of the query's terms in title, headings and tags"},
    )
    final = fields.Float(
        required=True, metadata={"description": "score by which results are ranked, as `match_score`"}
    )
    lexical_raw = fields.Float(
        required=True, allow_none=True, metadata={"description": "null in mode `reef`"}
    )
    reef_raw = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "overlap of the profiles; null in mode `lexical`"},
    )
    field_boost_parts = Record(
        FieldBoostPartsSchema,
        required=True,
        allow_none=True,
        metadata={"description": "the parts of `field_boost`; null without `include_scores`"},
    )


class SharedReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    chunk_z = fields.Float(
        required=True, metadata={"description": "how far the reef stands out in the chunk"}
    )
    query_z = fields.Float(required=True, metadata={"description": "how far it stands out in the query"})
    share = fields.Float(
        required=True, metadata={"description": "its share of `match_score`; 0 in mode `lexical`"}
    )
    probability = fields.Float(
        required=True,
        metadata={"description": "that a person would accept the reef as a reason, 0..1"},
    )
    is_reason = fields.Boolean(
        required=True,
        metadata={"description": "whether it is a reason; the others are background"},
    )
    query_words = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words of the query that show the reef, of a reason; else empty"},
    )
    passage_words = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words of the passage that show the reef, of a reason; else empty"},
    )


class MatchedTermSchema(Schema):
    """A word, phrase or `title:` term of the query that a chunk holds."""

    term = fields.String(required=True, metadata={"description": "as it was typed"})
    places = fields.List(
        fields.String(),
        required=True,
        metadata={
            "description": "`title`, `headings`, `text`, `tag`; all but `text` count for `field_boost`"
        },
    )
    same_stem = fields.String(
        required=True,
        allow_none=True,
        metadata={
            "description": "other words that match by their stem alone, such as `experience` for "
            "`experiments`; null if a form of the term itself matches"
        },
    )


class UsedWeightsSchema(Schema):
    """Weight of each signal. They sum to 1, or are all 0 if the query has nothing to search for."""

    lexical = fields.Float(required=True, metadata={"description": "words, by BM25"})
    reef = fields.Float(required=True, metadata={"description": "shared reefs"})
    field_boost = fields.Float(required=True, metadata={"description": "words in title, headings and tags"})


class EvidenceChunkSchema(ContextChunkSchema):
    """A passage of a recording near a result."""

    modality = fields.String(required=True)
    time_start = fields.String(required=True)
    time_end = fields.String(required=True)
    is_anchor = fields.Boolean(required=True, metadata={"description": "whether it is the result itself"})


class EvidenceBundleSchema(Schema):
    """What is said and seen around a result of a recording."""

    time_start = fields.String(
        required=True,
        metadata={"description": "start of the time that the passages overlap, HH:MM:SS"},
    )
    time_end = fields.String(
        required=True, metadata={"description": "its end, HH:MM:SS, not after that of the recording"}
    )
    chunks = Records(
        EvidenceChunkSchema,
        required=True,
        metadata={"description": "in time order, always with the result itself; at most 50"},
    )


class ResultSchema(Schema):
    text = fields.String(required=True)
    match_score = fields.Float(
        required=True,
        metadata={
            "description": "score by which results are ranked, relative to the best match in the library; it "
            "can be high for a query that nothing answers, which `relevance` shows"
        },
    )
    relevance = fields.Float(required=True, metadata={"description": RELEVANCE})
    n_shared_reefs = fields.Integer(required=True)
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    source_path = fields.String(required=True, allow_none=True)
    metadata = fields.Dict(
        keys=fields.String(), required=True, metadata={"description": "of the document, as it was uploaded"}
    )
    chunk_id = fields.Integer(required=True)
    chunk_index = fields.Integer(required=True)
    start_char = fields.Integer(
        required=True, metadata={"description": "offset in the document's content, in code points"}
    )
    end_char = fields.Integer(required=True)
    start_line = fields.Integer(required=True, metadata={"description": "from 1"})
    end_line = fields.Integer(required=True, metadata={"description": "inclusive"})
    place = Record(FilePlaceSchema, required=True, allow_none=True)
    modality = fields.String(required=True)
    time_start = fields.String(required=True, allow_none=True)
    time_end = fields.String(required=True, allow_none=True)
    section_path = fields.List(fields.String(), required=True)
    confidence = fields.Float(
        required=True, metadata={"description": "z-score of the strongest reef minus that of the second"}
    )
    coverage = fields.Float(
        required=True, metadata={"description": "share of the words that the topic model knows, 0 to 1"}
    )
    top_reef_name = fields.String(required=True, allow_none=True)
    labels = Records(LabelSchema, required=True)
    awaits_rescore = fields.Boolean(required=True)
    tags = fields.List(fields.String(), required=True)
    highlights = fields.List(
        fields.List(fields.Integer()),
        required=True,
        metadata={"description": "[start, end) of the query's words in `text`, code points"},
    )
    scores = Record(ScoresSchema, required=True)
    provenance = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "signals that matched it: `lexical`, `reef`, or both"},
    )
    shared_reefs = Records(SharedReefSchema, metadata={"description": "with `include_scores`"})
    matched_terms = Records(MatchedTermSchema, metadata={"description": "with `include_scores`"})
    term_coverage = fields.Float(required=True, allow_none=True, metadata={"description": TERM_COVERAGE})
    before = Records(ContextChunkSchema, metadata={"description": "with `context`"})
    after = Records(ContextChunkSchema, metadata={"description": "with `context`"})
    evidence = Record(
        EvidenceBundleSchema,
        allow_none=True,
        metadata={"description": "with `expand=time`; null for a passage without times"},
    )


class QueryReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    z_score = fields.Float(required=True, metadata={"description": "z-score in the profile used for ranking"})
    own_z = fields.Float(
        required=True,
        metadata={
            "description": "the part from the query's own words; the rest comes from pseudo-relevance "
            "feedback"
        },
    )


class FeedbackChunkSchema(Schema):
    """A chunk that matches the query's words best, so that its profile is added to the query's
    (pseudo-relevance feedback)."""

    chunk_id = fields.Integer(required=True)
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    share = fields.Float(
        required=True, metadata={"description": "its share of the feedback; the shares sum to 1"}
    )


class QueryInfoSchema(Schema):
    """The analyzed query: the profile used for ranking."""

    top_reef = fields.String(
        required=True,
        allow_none=True,
        metadata={
            "description": "name of the strongest reef; null without any word that the topic model knows"
        },
    )
    confidence = fields.Float(
        required=True,
        metadata={"description": "z-score of the first of `top_reefs` minus that of the second"},
    )
    coverage = fields.Float(required=True)
    top_reefs = Records(
        QueryReefSchema,
        required=True,
        metadata={"description": "the ten strongest reefs; their `z_score` is `query_z` in `shared_reefs`"},
    )
    unknown_words = fields.List(
        fields.String(), required=True, metadata={"description": "words that the topic model does not know"}
    )
    missing_terms = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words and phrases of the query that no chunk of the library holds"},
    )
    feedback = Records(
        FeedbackChunkSchema,
        required=True,
        metadata={
            "description": "chunks used for pseudo-relevance feedback: the best matches of the query's "
            "words, whose profiles are added to the query's, best first"
        },
    )


class NoteHitSchema(Schema):
    """A note among passages. Its scores can be compared with theirs."""

    note = Record(NoteSchema, required=True, metadata={"description": "the note"})
    match_score = fields.Float(
        required=True,
        metadata={"description": "score by which results are ranked, relative to the best of both kinds"},
    )
    relevance = fields.Float(required=True, metadata={"description": RELEVANCE})
    scores = Record(ScoresSchema, required=True)
    n_shared_reefs = fields.Integer(required=True)
    provenance = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "signals that matched it: `lexical`, `reef`, or both"},
    )
    term_coverage = fields.Float(required=True, allow_none=True, metadata={"description": TERM_COVERAGE})
    matched_words = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words of the query that the note holds, in any inflection"},
    )
    highlights = fields.List(
        fields.List(fields.Integer()),
        required=True,
        metadata={"description": "[start, end) of the query's words in the note's text, code points"},
    )
    shared_reefs = Records(SharedReefSchema, metadata={"description": "with `include_scores`"})


RESULT = Record(ResultSchema)
NOTE_HIT = Record(NoteHitSchema)


class SearchResponseSchema(Schema):
    results = Prepared(
        AnyOf(RESULT, NOTE_HIT),
        required=True,
        metadata={
            "description": "best first: passages, and with the unit `note` also notes, which have `note`"
        },
    )
    query_info = Record(QueryInfoSchema, required=True)
    weights = fields.Nested(UsedWeightsSchema, required=True)
    trace_id = fields.String(required=True)
    took_ms = fields.Float(required=True)
    warnings = fields.List(fields.String(), required=True)
