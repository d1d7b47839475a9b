"""Schemas of searches and what is like them: requests, results, explanations, facets, batches, statements."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import marshmallow as ma
from marshmallow import fields

from shoal.declared.filters import FILTERS
from shoal.declared.operations.searches import OtherSearchOperations
from shoal.declared.search import LIKELY, SEARCH, SHORT_FORMS
from shoal.models.explanations import Explanation
from shoal.models.notes import NoteHit
from shoal.models.prompts import Reference
from shoal.models.search import (
    MAX_SEARCHES,
    BatchResponse,
    DocumentResult,
    FoldedResult,
    FoundBy,
    FusedResult,
    LibraryFacets,
    SearchResponse,
    SearchResult,
    Weights,
)
from shoal.models.verdicts import (
    Evidence,
    Problem,
)
from shoal.saved_searches.arguments import DEFAULTS as SAVED
from shoal_api.schemas.arguments import IN_ADDRESS, body_fields, schema_of
from shoal_api.schemas.common import (
    AnyOf,
    BoundedList,
    Prepared,
    ProblemSchema,
    Record,
    Records,
    Schema,
)
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


FiltersSchema = schema_of(
    "Filters", body_fields(FILTERS), "Filters that every result passes; null means no filter."
)


def address_filters(data: dict[str, Any]) -> dict[str, Any]:
    """Remove the filters from loaded query parameters and return them."""
    given = {name: data.pop(name) for name in IN_ADDRESS if name in data}
    single = given.pop("tag", [])
    if single:
        given["tags"] = [*given.get("tags", []), *single]
    return given


DEFAULTS: dict[str, Any] = {name: argument.default for name, argument in SEARCH.items()}
FILTERS_FIELD = functools.partial(fields.Nested, FiltersSchema, allow_none=True, load_default=None)

OF_MATCH = dataclasses.replace(
    SEARCH["min_relevance"], default=LIKELY, about="lowest `relevance` of a match, 0 to 1"
)
_SAVED = {name: each for name, each in SEARCH.items() if name in SAVED and name not in SHORT_FORMS}
_OF_QUERY = {"query": OtherSearchOperations.search.arguments["query"]}
SavedArgumentsSchema = schema_of(
    "SavedArguments",
    {
        **body_fields({**_OF_QUERY, **_SAVED, "min_relevance": OF_MATCH}, "query"),
        "filters": FILTERS_FIELD(metadata={"description": SEARCH["filters"].about}),
    },
    "The arguments of a search, without those that only shape its answer.",
)
record_schema(Explanation, weights=functools.partial(Record, UsedWeightsSchema))


record_schema(LibraryFacets, trace_id=fields.String)


class BatchSearch(fields.Field):  # type: ignore[type-arg]
    """A search of a batch, which the library checks, so that a bad one does not refuse the others."""

    def _deserialize(self, value: object, *_: object, **__: object) -> object:
        return value


SEARCHES = functools.partial(BoundedList, BatchSearch(allow_none=True), max_items=MAX_SEARCHES)


class BatchAnswerSchema(Schema):
    """The answer to one search: `answer` or `problem`, and null for the other."""

    index = fields.Integer(required=True, metadata={"description": "of the search, from 0"})
    query = fields.String(required=True, metadata={"description": "as it was sent; empty if it is no text"})
    answer = fields.Nested(
        SearchResponseSchema,
        required=True,
        allow_none=True,
        metadata={"description": "as of `POST /search`; null if the search failed"},
    )
    problem = fields.Nested(
        ProblemSchema,
        required=True,
        allow_none=True,
        metadata={"description": "why the search failed; null if it did not"},
    )


FINDERS = Records(record_schema(FoundBy))
FUSED = Record(record_schema(FusedResult, result=functools.partial(fields.Nested, SelectedResultSchema)))
BatchResponseSchema = record_schema(
    BatchResponse,
    answers=functools.partial(Prepared, fields.Nested(BatchAnswerSchema)),
    fused=functools.partial(Prepared, FUSED),
)


record_schema(Problem, "ProblemOfStatement")
record_schema(Evidence, "SupportingSentence")
