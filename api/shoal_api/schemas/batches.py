"""Schemas of several searches at once."""

from __future__ import annotations

import functools

from marshmallow import fields

from shoal.declared.search import OF_RANKING
from shoal.models.batches import BatchResponse, FoundBy, FusedResult
from shoal.search.batch import MAX_RESULTS, MAX_SEARCHES
from shoal_api.schemas.answers import selection_in_body
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
from shoal_api.schemas.records import record_schema
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
