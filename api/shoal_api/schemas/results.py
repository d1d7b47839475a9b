"""Schemas of the results of a search: passages, notes, documents, and the whole response."""

from __future__ import annotations

import functools

import marshmallow as ma
from marshmallow import fields

from shoal.models.notes import NoteHit
from shoal.models.prompts import Reference
from shoal.models.search import DocumentResult, FoldedResult, SearchResponse, SearchResult
from shoal.support.presets import Weights
from shoal_api.schemas.common import AnyOf, Prepared, Record, Schema
from shoal_api.schemas.records import record_schema

record_schema(FoldedResult, "Folded")
record_schema(Reference, "PromptReference")
UsedWeightsSchema = record_schema(Weights, "UsedWeights")

RESULT = Record(record_schema(SearchResult, "Result"))
NOTE_HIT = Record(record_schema(NoteHit))
DOCUMENT = Record(record_schema(DocumentResult, passages=functools.partial(Prepared, RESULT)))


class SelectedResultSchema(Schema):
    """With `include` or `exclude`: a result with some of its fields."""

    class Meta:
        unknown = ma.INCLUDE


RESULTS = AnyOf(RESULT, NOTE_HIT, fields.Nested(SelectedResultSchema))
RESULT_FIELDS = frozenset(RESULT.schema.fields)
NOTE_HIT_FIELDS = frozenset(NOTE_HIT.schema.fields)

SearchResponseSchema = record_schema(
    SearchResponse,
    results=functools.partial(Prepared, RESULTS),
    documents=functools.partial(Prepared, DOCUMENT),
    weights=functools.partial(Record, UsedWeightsSchema),
)
