"""Schemas of the results of a search: passages, notes, documents, and the whole response."""

from __future__ import annotations

import marshmallow as ma
from marshmallow import fields

from shoal_api.schemas.answers import PromptSchema, TokenUseSchema
from shoal_api.schemas.common import AnyOf, Prepared, Record, Records, Schema
from shoal_api.schemas.documents import ContextChunkSchema, FilePlaceSchema, LabelSchema
from shoal_api.schemas.facets import FacetSchema
from shoal_api.schemas.notes import NoteSchema
from shoal_api.schemas.order import DocumentReefSchema, FoldedSchema
from shoal_api.schemas.pins import IS_PINNED
from shoal_api.schemas.query_info import QueryInfoSchema
from shoal_api.schemas.scores import (
    RELEVANCE,
    TERM_COVERAGE,
    MatchedTermSchema,
    NearestSentenceSchema,
    RerankInfoSchema,
    RerankPartsSchema,
    ScoresSchema,
    SharedReefSchema,
    UsedWeightsSchema,
)


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
        metadata={"description": "signals that matched it: `lexical`, `reef`, `dense`"},
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
    rerank = Record(RerankPartsSchema, metadata={"description": "of a reranked result"})
    nearest_sentence = Record(
        NearestSentenceSchema,
        allow_none=True,
        metadata={"description": "with `include_scores`, of a result that the dense signal matched"},
    )
    sort_values = fields.List(
        fields.Raw(), metadata={"description": "with `sort`: what it compares; null where there is no value"}
    )
    folded = Records(FoldedSchema, metadata={"description": "with `fold_similar`, best first"})
    text_span = fields.List(
        fields.Integer(),
        metadata={"description": "[start, end) of `text` in the document, if it is a part of the passage"},
    )
    pinned = fields.Boolean(required=True, metadata={"description": IS_PINNED})
    further = fields.Boolean(
        required=True,
        metadata={
            "description": "whether better passages of its document come before those of all others, so that "
            "this one comes after them, also with a higher score: see `max_per_document`"
        },
    )
    lacking = fields.List(
        fields.String(),
        required=True,
        metadata={
            "description": "what the query names and the passage does not contain: identifiers, numbers, "
            "names, a negation; `relevance` is low then"
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
        metadata={"description": "signals that matched it: `lexical`, `reef`, `dense`"},
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


class DocumentResultSchema(Schema):
    """A document found by a search with `group_by=document`."""

    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    source_path = fields.String(required=True, allow_none=True)
    tags = fields.List(fields.String(), required=True)
    metadata = fields.Dict(
        keys=fields.String(), required=True, metadata={"description": "of the document, as it was uploaded"}
    )
    match_score = fields.Float(
        required=True,
        metadata={"description": "that of its best passage, whose `scores` explain it"},
    )
    relevance = fields.Float(required=True, metadata={"description": "of its best passage"})
    best_chunk_id = fields.Integer(required=True, metadata={"description": "its best passage"})
    n_matches = fields.Integer(required=True, metadata={"description": "its passages that are results"})
    reefs = Records(DocumentReefSchema, required=True, metadata={"description": "what it is about"})
    passages = Prepared(
        RESULT,
        required=True,
        metadata={"description": "the best first, then the others in order of their scores"},
    )
    folded = Records(
        FoldedSchema,
        metadata={"description": "with `fold_similar`: documents whose best passage says nearly the same"},
    )
    sort_values = fields.List(fields.Raw(), metadata={"description": "with `sort`"})
    pinned = fields.Boolean(required=True, metadata={"description": IS_PINNED})


DOCUMENT = Record(DocumentResultSchema)


class SelectedResultSchema(Schema):
    """With `include` or `exclude`: a result with some of its fields."""

    class Meta:
        unknown = ma.INCLUDE


RESULTS = AnyOf(RESULT, NOTE_HIT, fields.Nested(SelectedResultSchema))
RESULT_FIELDS = frozenset(ResultSchema().fields)
NOTE_HIT_FIELDS = frozenset(NoteHitSchema().fields)


class SearchResponseSchema(Schema):
    results = Prepared(
        RESULTS,
        required=True,
        metadata={
            "description": "best first: passages, and with the unit `note` also notes, which have `note`"
        },
    )
    total = fields.Integer(
        required=True,
        metadata={
            "description": "passages, and with the unit `note` also notes, that match and meet the filters, "
            "on all pages together. It is exact, and does not depend on the page, `max_per_document`, "
            "`fold_similar` and `min_relevance`"
        },
    )
    total_documents = fields.Integer(metadata={"description": "with `group_by=document`: their documents"})
    query_info = Record(QueryInfoSchema, required=True)
    weights = fields.Nested(UsedWeightsSchema, required=True)
    facets = Records(
        FacetSchema,
        metadata={"description": "with `facets`, in their order: counts over the results of all pages"},
    )
    trace_id = fields.String(required=True)
    took_ms = fields.Float(required=True)
    warnings = fields.List(fields.String(), required=True)
    rerank = Record(RerankInfoSchema, metadata={"description": "of a page with results to rerank"})
    documents = Prepared(
        DOCUMENT, metadata={"description": "with `group_by=document`, best first; `results` are then empty"}
    )
    now = fields.String(
        metadata={"description": "with `decay`: the moment from which ages count; give it for the next page"}
    )
    next_cursor = fields.String(
        allow_none=True,
        metadata={
            "description": "cursor of the next page; null on the last, and always with `group_by` document "
            "or `fold_similar`, whose pages begin at an `offset`. Not in searches with notes"
        },
    )
    has_more = fields.Boolean(
        metadata={"description": "whether results follow those of this page. Not in searches with notes"}
    )
    tokens = Record(TokenUseSchema, metadata={"description": "with `max_tokens`"})
    prompt = Record(
        PromptSchema, allow_none=True, metadata={"description": "with `prompt`; null without results"}
    )
