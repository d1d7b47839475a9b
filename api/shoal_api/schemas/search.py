"""Schemas of searches and what is like them: requests, results, explanations, facets, batches, statements."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.declared.arguments import MAX_ID
from shoal.declared.filters import FILTERS
from shoal.declared.search import LIKELY, OF_RANKING, SEARCH, SHORT_FORMS, named
from shoal.models.batches import BatchResponse, FoundBy, FusedResult
from shoal.models.explanations import Explanation
from shoal.models.facets import LibraryFacets
from shoal.models.notes import NoteHit
from shoal.models.prompts import Reference
from shoal.models.search import DocumentResult, FoldedResult, SearchResponse, SearchResult
from shoal.models.verdicts import (
    MAX_CITATIONS,
    MAX_STATEMENT_CHARS,
    MAX_STATEMENTS,
    Evidence,
    Problem,
)
from shoal.notes.unit_search import UNITS
from shoal.saved_searches.arguments import DEFAULTS as SAVED
from shoal.search.answer_texts import MAX_NAMES
from shoal.search.batch import MAX_RESULTS, MAX_SEARCHES
from shoal.support.presets import Weights
from shoal_api.schemas.arguments import Fields, address_fields, body_field, body_fields, schema_of
from shoal_api.schemas.common import (
    AnyOf,
    BoundedList,
    CommaList,
    Prepared,
    ProblemSchema,
    Record,
    Records,
    Schema,
    StrictBoolean,
    between,
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
IN_ADDRESS = {
    **address_fields(FILTERS),
    "tag": BoundedList(
        fields.String(),
        metadata={
            "description": "a single tag, for tags that contain commas; repeat the parameter for several"
        },
    ),
}
"""Filters as query parameters."""


def address_filters(data: dict[str, Any]) -> dict[str, Any]:
    """Remove the filters from loaded query parameters and return them."""
    given = {name: data.pop(name) for name in IN_ADDRESS if name in data}
    single = given.pop("tag", [])
    if single:
        given["tags"] = [*given.get("tags", []), *single]
    return given


ABOUT_INCLUDE = "names of the fields that a result has; by default all"
ABOUT_EXCLUDE = "names of fields that a result lacks"


def selection_in_body() -> Fields:
    """Return the fields of a body that select those of results."""

    def names(about: str) -> BoundedList:
        return BoundedList(
            fields.String(),
            max_items=MAX_NAMES,
            allow_none=True,
            load_default=None,
            metadata={"description": about},
        )

    return {"include": names(ABOUT_INCLUDE), "exclude": names(ABOUT_EXCLUDE)}


def selection_in_address() -> Fields:
    """Return the query parameters that select the fields of results."""

    def names(about: str) -> CommaList:
        return CommaList(
            fields.String(), load_default=None, metadata={"description": f"{about}; comma-separated"}
        )

    return {"include": names(ABOUT_INCLUDE), "exclude": names(ABOUT_EXCLUDE)}


ABOUT_UNITS = (
    "what to search: passages (`chunk`), notes (`note`), or both, in one order. Of the filters, notes meet "
    "`tags` alone"
)
ABOUT_OWNER = "whose notes to search, with the unit `note`; default `default`"
ABOUT_QUERY = "the query, up to 4,096 characters"

DEFAULTS: dict[str, Any] = {name: argument.default for name, argument in SEARCH.items()}

QUERY = {"query": fields.String(required=True, metadata={"description": ABOUT_QUERY})}
IN_BODY = {
    **QUERY,
    **body_fields({name: argument for name, argument in SEARCH.items() if name not in SHORT_FORMS}),
    "filters": fields.Nested(
        FiltersSchema,
        allow_none=True,
        load_default=None,
        metadata={"description": SEARCH["filters"].about},
    ),
}
"""The fields that searches and explanations share."""

SearchSchema = schema_of(
    "Search",
    {
        **IN_BODY,
        **selection_in_body(),
        "units": BoundedList(
            fields.String(validate=validate.OneOf(UNITS)),
            load_default=(UNITS[0],),
            metadata={"description": ABOUT_UNITS},
        ),
        "owner": fields.String(metadata={"description": ABOUT_OWNER}),
    },
)

SearchQuerySchema = schema_of(
    "SearchQuery",
    {
        **IN_ADDRESS,
        "q": fields.String(required=True, metadata={"description": ABOUT_QUERY}),
        **address_fields(
            {name: each for name, each in SEARCH.items() if name not in SHORT_FORMS and name != "filters"}
        ),
        **selection_in_address(),
        "units": CommaList(
            fields.String(validate=validate.OneOf(UNITS)),
            load_default=(UNITS[0],),
            metadata={"description": f"{ABOUT_UNITS}; comma-separated"},
        ),
        "owner": fields.String(metadata={"description": ABOUT_OWNER}),
    },
    "A search as query parameters, with the filters beside `q`.",
)

OF_MATCH = dataclasses.replace(
    SEARCH["min_relevance"], default=LIKELY, about="lowest `relevance` of a match, 0 to 1"
)
SavedArgumentsSchema = schema_of(
    "SavedArguments",
    {
        **{name: field for name, field in IN_BODY.items() if name not in SEARCH or name in SAVED},
        "min_relevance": body_field("min_relevance", OF_MATCH),
    },
    "The arguments of a search, without those that only shape its answer.",
)


def _id(about: str) -> fields.Integer:
    return fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        validate=between(1, MAX_ID),
        metadata={"description": about},
    )


ExplainSchema = schema_of(
    "Explain",
    {
        **IN_BODY,
        "document_id": _id("document whose best chunk is explained"),
        "chunk_id": _id("chunk to explain"),
    },
    "The body of a search, and optionally a document or chunk to explain.",
)
record_schema(Explanation, weights=functools.partial(Record, UsedWeightsSchema))


OF_FACETS = named("facets", "facet_limit")

FacetsSchema = schema_of(
    "Facets",
    {
        **body_fields({**OF_FACETS, **named("filters", "filter")}, "facets"),
        "filters": fields.Nested(
            FiltersSchema,
            allow_none=True,
            load_default=None,
            metadata={"description": "filters that every passage passes that is counted"},
        ),
    },
    "Facets of the library, or of what meets the filters.",
)
FacetsQuerySchema = schema_of(
    "FacetsQuery",
    {**IN_ADDRESS, **address_fields({**OF_FACETS, **named("filter")}, "facets")},
    "Facets as query parameters, with the filters beside them.",
)
record_schema(LibraryFacets, trace_id=fields.String)


class BatchSearch(fields.Field):  # type: ignore[type-arg]
    """A search of a batch, which the library checks, so that a bad one does not refuse the others."""

    def _deserialize(self, value: object, *_: object, **__: object) -> object:
        return value


BatchSchema = schema_of(
    "Batch",
    {
        "searches": BoundedList(
            BatchSearch(allow_none=True),
            max_items=MAX_SEARCHES,
            required=True,
            metadata={
                "description": f"1 to {MAX_SEARCHES} searches: each a query, or an object with `query` and "
                "other fields of the body of `POST /search` but `units` and `owner`. Together they ask for "
                f"at most {MAX_RESULTS:,} results. A bad one has a `problem`, and the others are answered. "
                "The time limit is that of one search; those for which it does not suffice have a `problem`"
            },
        ),
        "fused": StrictBoolean(
            load_default=False,
            metadata={
                "description": "makes one ranking of the results, by reciprocal ranks: `fused`; the searches "
                "then have no `results` of their own"
            },
        ),
        **body_fields(OF_RANKING),
        **selection_in_body(),
    },
    "Several searches in one snapshot of the library. `top_k`, `max_per_document`, `text`, `max_tokens` and "
    "`prompt` are of the fused ranking.",
)


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


class CitedItem(fields.String):
    """What a statement cites, as a number or as text."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return super()._deserialize(str(value) if is_number else value, attr, data, **kwargs)


class GivenStatementSchema(Schema):
    text = fields.String(
        required=True,
        validate=validate.Length(1, MAX_STATEMENT_CHARS),
        metadata={"description": f"a claim, up to {MAX_STATEMENT_CHARS:,} characters"},
    )
    references = BoundedList(
        CitedItem(),
        max_items=MAX_CITATIONS,
        load_default=list,
        metadata={
            "description": "what it cites: `1` for a label, `chunk 12`, `document 3` or `document 3:1-90`"
        },
    )


STATEMENTS = functools.partial(
    BoundedList,
    fields.Nested(GivenStatementSchema),
    max_items=MAX_STATEMENTS,
    allow_none=True,
    load_default=None,
)

record_schema(Problem, "ProblemOfStatement")
record_schema(Evidence, "SupportingSentence")
