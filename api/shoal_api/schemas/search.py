"""Searches: what is asked, what is answered, and the explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.models import SearchMode
from shoal.search.request import MAX_WEIGHT, Fusion, Preset
from shoal_api.schemas.common import Records, Schema, StrictBoolean, StrictFloat, between
from shoal_api.schemas.documents import ContextChunkSchema
from shoal_api.schemas.filters import ABOUT_FILTERS, AddressFiltersSchema, FiltersSchema

MODES = [mode.value for mode in SearchMode]
PRESETS = [preset.value for preset in Preset]
FUSIONS = [fusion.value for fusion in Fusion]

DEFAULTS: dict[str, Any] = {
    "top_k": 10,
    "mode": SearchMode.hybrid.value,
    "max_per_document": 3,
    "include_scores": False,
    "context": 0,
    "offset": 0,
    "preset": Preset.balanced.value,
    "fusion": Fusion.blend.value,
}

ONLY_HYBRID = "without effect on other modes than `hybrid`"

ABOUT: dict[str, str] = {
    "top_k": "most results to answer, 1 to 100",
    "mode": "which signals rank the results: `lexical` (words, by BM25), `reef` (shared topics), or both as `hybrid`",
    "preset": f"which signal a blend leans on; {ONLY_HYBRID}",
    "weights": f"the weights of the blend, in place of a preset; {ONLY_HYBRID}",
    "fusion": f"how several rankings become one; {ONLY_HYBRID}",
    "max_per_document": "most results out of one document: with 3 the best three of its chunks at most, so that one "
    "long document does not fill the page; 1 to 10,000",
    "include_scores": "adds `shared_reefs` to every result, the topics that query and chunk share, with both z-scores and "
    "each one's share of the score; and `matched_terms`, the words it holds and where",
    "context": "chunks before and after each result to add as `before` and `after`, 0 to 10",
    "offset": "results to pass over, 0 to 10,000",
    **ABOUT_FILTERS,
}
"""Descriptions that the body and the address share."""


class WeightsSchema(Schema):
    """The weights of the blend, where a preset does not do. They count in proportion; a signal without one has none."""

    lexical = StrictFloat(validate=between(0, MAX_WEIGHT), metadata={"description": "of the words, by BM25"})
    reef = StrictFloat(validate=between(0, MAX_WEIGHT), metadata={"description": "of the shared reefs"})
    field_boost = StrictFloat(
        validate=between(0, MAX_WEIGHT), metadata={"description": "of words in titles, headings and tags"}
    )


def _choice(name: str, choices: Sequence[str]) -> fields.String:
    """An argument of a search that takes one of a few words."""
    return fields.String(
        load_default=DEFAULTS[name],
        validate=validate.OneOf(choices),
        metadata={"description": ABOUT[name]},
    )


class SearchSchema(Schema):
    query = fields.String(required=True, metadata={"description": "up to 4,096 characters"})
    top_k = fields.Integer(
        strict=True, load_default=DEFAULTS["top_k"], metadata={"description": ABOUT["top_k"]}
    )
    mode = _choice("mode", MODES)
    preset = _choice("preset", PRESETS)
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
    filters = fields.Nested(
        FiltersSchema,
        allow_none=True,
        load_default=None,
        metadata={
            "description": "conditions that every result meets; what is absent or null is no condition"
        },
    )


class WeightsText(fields.String):
    """Weights in an address: `lexical:0.7,reef:0.3`."""

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
    """The same as parameters of an address; the filters stand beside `q`."""

    q = fields.String(required=True, metadata={"description": "the query, up to 4,096 characters"})
    top_k = fields.Integer(load_default=DEFAULTS["top_k"], metadata={"description": ABOUT["top_k"]})
    mode = _choice("mode", MODES)
    preset = _choice("preset", PRESETS)
    weights = WeightsText(
        load_default=None,
        metadata={
            "description": f"{ABOUT['weights']}; as `lexical:0.7,reef:0.3`, a signal that is not named has none"
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


TERM_COVERAGE = (
    "the share of the query's words and phrases that it holds in text, headings or title, each weighed by how rare it is "
    "in the library, 0 to 1; unlike `match_score` it may be compared between queries. Null for a query of common words only"
)


class ScoresSchema(Schema):
    """The parts of the score; null for a signal that took no part."""

    lexical = fields.Float(
        required=True, allow_none=True, metadata={"description": "0 to 1; null in mode `reef`"}
    )
    reef = fields.Float(
        required=True, allow_none=True, metadata={"description": "0 to 1; null in mode `lexical`"}
    )
    field_boost = fields.Float(
        required=True,
        metadata={"description": "0 to 1: the share of the query's terms in title, headings and tags"},
    )
    final = fields.Float(
        required=True, metadata={"description": "what results are ordered by: `match_score`"}
    )
    lexical_raw = fields.Float(
        required=True, allow_none=True, metadata={"description": "null in mode `reef`"}
    )
    reef_raw = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "the overlap of the profiles; null in mode `lexical`"},
    )


class SharedReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    chunk_z = fields.Float(
        required=True, metadata={"description": "how far the reef stands out in the chunk"}
    )
    query_z = fields.Float(required=True, metadata={"description": "how far it stands out in the query"})
    share = fields.Float(
        required=True, metadata={"description": "what the reef adds to `match_score`; 0 in mode `lexical`"}
    )


class MatchedTermSchema(Schema):
    """A word, phrase or `title:` term of the query that a chunk holds."""

    term = fields.String(required=True, metadata={"description": "as it was typed"})
    places = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "`title`, `headings`, `text`, `tag`; all but `text` count for the bonus"},
    )


class UsedWeightsSchema(Schema):
    """What each signal counted, adding up to 1; all 0 where there was nothing to search by."""

    lexical = fields.Float(required=True, metadata={"description": "of the words, by BM25"})
    reef = fields.Float(required=True, metadata={"description": "of the shared reefs"})
    field_boost = fields.Float(
        required=True, metadata={"description": "of words in titles, headings and tags"}
    )


class ResultSchema(Schema):
    text = fields.String(required=True)
    match_score = fields.Float(
        required=True,
        metadata={
            "description": "what results are ordered by; relative to the best in the library for this query, so also a "
            "query that nothing answers has high ones: `term_coverage` tells"
        },
    )
    n_shared_reefs = fields.Integer(required=True)
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    source_path = fields.String(required=True, allow_none=True)
    metadata = fields.Dict(
        keys=fields.String(), required=True, metadata={"description": "of the document, as it was handed in"}
    )
    chunk_id = fields.Integer(required=True)
    chunk_index = fields.Integer(required=True)
    start_char = fields.Integer(
        required=True, metadata={"description": "code points into the document's content"}
    )
    end_char = fields.Integer(required=True)
    start_line = fields.Integer(required=True, metadata={"description": "from 1"})
    end_line = fields.Integer(required=True, metadata={"description": "inclusive"})
    section_path = fields.List(fields.String(), required=True)
    confidence = fields.Float(
        required=True, metadata={"description": "z-score of the strongest reef less that of the second"}
    )
    coverage = fields.Float(
        required=True, metadata={"description": "share of the words that the topic model knows, 0 to 1"}
    )
    top_reef_name = fields.String(required=True, allow_none=True)
    tags = fields.List(fields.String(), required=True)
    highlights = fields.List(
        fields.List(fields.Integer()),
        required=True,
        metadata={"description": "[start, end) of the query's words in `text`, code points"},
    )
    scores = fields.Nested(ScoresSchema, required=True)
    provenance = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "the signals that found it: `lexical`, `reef`, or both"},
    )
    shared_reefs = Records(SharedReefSchema, metadata={"description": "with `include_scores`"})
    matched_terms = fields.List(
        fields.Nested(MatchedTermSchema), metadata={"description": "with `include_scores`"}
    )
    term_coverage = fields.Float(required=True, allow_none=True, metadata={"description": TERM_COVERAGE})
    before = Records(ContextChunkSchema, metadata={"description": "with `context`"})
    after = Records(ContextChunkSchema, metadata={"description": "with `context`"})


class QueryReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    z_score = fields.Float(required=True, metadata={"description": "what passages are compared with"})
    own_z = fields.Float(
        required=True,
        metadata={
            "description": "what of that the query's own words say; the rest is what its company is about"
        },
    )


class CompanionSchema(Schema):
    """A passage that matches the query's words so well that its profile counts beside the query's own."""

    chunk_id = fields.Integer(required=True)
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    share = fields.Float(required=True, metadata={"description": "among these, adding up to 1"})


class QueryInfoSchema(Schema):
    """What the query was taken to be about: the profile that takes part in the search."""

    top_reef = fields.String(
        required=True,
        allow_none=True,
        metadata={
            "description": "name of the strongest; null where it has no word that the topic model knows"
        },
    )
    confidence = fields.Float(
        required=True, metadata={"description": "by how much the first of `top_reefs` leads the second"}
    )
    coverage = fields.Float(required=True)
    top_reefs = Records(
        QueryReefSchema,
        required=True,
        metadata={"description": "the ten strongest; `query_z` of `shared_reefs` is their `z_score`"},
    )
    unknown_words = fields.List(
        fields.String(), required=True, metadata={"description": "words that the topic model does not know"}
    )
    missing_terms = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "words and phrases of the query that no passage of the library holds"},
    )
    feedback = Records(
        CompanionSchema,
        required=True,
        metadata={
            "description": "passages that match the query's words best and so are part of its profile, closest first"
        },
    )


class SearchAnswerSchema(Schema):
    results = fields.List(fields.Nested(ResultSchema), required=True, metadata={"description": "best first"})
    query_info = fields.Nested(QueryInfoSchema, required=True)
    weights = fields.Nested(UsedWeightsSchema, required=True)
    trace_id = fields.String(required=True)
    took_ms = fields.Float(required=True)
    warnings = fields.List(fields.String(), required=True)
