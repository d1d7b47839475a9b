"""Schemas of several searches at once."""

from __future__ import annotations

from marshmallow import fields

from shoal.declared.search import OF_RANKING
from shoal.search.batch import MAX_RESULTS, MAX_SEARCHES
from shoal_api.schemas.answers import PromptSchema, TokenUseSchema, selection_in_body
from shoal_api.schemas.arguments import body_fields, schema_of
from shoal_api.schemas.common import (
    BoundedList,
    Prepared,
    ProblemSchema,
    Record,
    Records,
    Schema,
    StrictBoolean,
)
from shoal_api.schemas.results import SearchResponseSchema, SelectedResultSchema


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


class FoundBySchema(Schema):
    """A search that found a fused result."""

    search = fields.Integer(required=True, metadata={"description": "its index in `searches`, from 0"})
    query = fields.String(required=True, metadata={"description": "its query"})
    rank = fields.Integer(required=True, metadata={"description": "of the result in it, from 1"})
    match_score = fields.Float(required=True, metadata={"description": "of the result in it"})
    part = fields.Float(required=True, metadata={"description": "what it adds to `fused_score`"})


class FusedResultSchema(Schema):
    """A result of a fused ranking."""

    fused_score = fields.Float(required=True, metadata={"description": "0 to 1, the sum of the parts"})
    found_by = Records(FoundBySchema, required=True, metadata={"description": "the searches that found it"})
    result = fields.Nested(SelectedResultSchema, required=True, metadata={"description": "as of a search"})


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


class BatchResponseSchema(Schema):
    answers = Prepared(
        fields.Nested(BatchAnswerSchema),
        required=True,
        metadata={"description": "in the order of `searches`"},
    )
    fused = Prepared(fields.Nested(FusedResultSchema), metadata={"description": "best first, with `fused`"})
    trace_id = fields.String(required=True)
    took_ms = fields.Float(required=True)
    warnings = fields.List(fields.String(), required=True)
    tokens = Record(TokenUseSchema, metadata={"description": "of `fused`, with `max_tokens`"})
    prompt = Record(PromptSchema, allow_none=True, metadata={"description": "of `fused`, with `prompt`"})
