"""Schemas of the query log."""

from __future__ import annotations

from marshmallow import fields

from shoal.query_log.service import CLICKS_OF_GRADES, MAX_FREQUENT, MAX_PREFIX_CHARS
from shoal_api.schemas.common import MAX_ID, Moment, PageSchema, Records, Schema, between

GRADES = {grade: fewest for fewest, grade in CLICKS_OF_GRADES}


class LoggedQueriesQuerySchema(PageSchema):
    only_empty = fields.Boolean(
        load_default=False, metadata={"description": "only queries without results; default false"}
    )


class FrequentQuerySchema(Schema):
    """Which frequent queries to list."""

    prefix = fields.String(
        load_default="",
        metadata={"description": f"how they begin, up to {MAX_PREFIX_CHARS} characters"},
    )
    days = fields.Integer(validate=between(1, 3650), metadata={"description": "only of the last days"})
    min_searches = fields.Integer(
        load_default=2, validate=between(1, 1_000_000), metadata={"description": "fewest searches; default 2"}
    )
    only_empty = fields.Boolean(
        load_default=False, metadata={"description": "only queries that never had a result; default false"}
    )
    limit = fields.Integer(
        load_default=50, validate=between(1, MAX_FREQUENT), metadata={"description": "most queries to return"}
    )


class QueryClickSchema(Schema):
    document_id = fields.Integer(required=True, metadata={"description": "the document that was opened"})
    chunk_id = fields.Integer(
        required=True, allow_none=True, metadata={"description": "null: the document as a whole"}
    )
    rank = fields.Integer(
        required=True, allow_none=True, metadata={"description": "from 1; null beyond the logged results"}
    )
    created_at = Moment(required=True, metadata={"description": "when, UTC in ISO 8601"})


class LoggedQuerySchema(Schema):
    trace_id = fields.String(required=True, metadata={"description": "of the search"})
    query = fields.String(required=True, metadata={"description": "as it was sent"})
    arguments = fields.Dict(
        keys=fields.String(),
        required=True,
        metadata={"description": "those that differ from the defaults, long values cut"},
    )
    n_results = fields.Integer(required=True, metadata={"description": "results on the page"})
    best_relevance = fields.Float(
        required=True, allow_none=True, metadata={"description": "of the most relevant result; null without"}
    )
    took_ms = fields.Float(required=True, metadata={"description": "time of the search, milliseconds"})
    results = fields.List(
        fields.List(fields.Integer()),
        required=True,
        metadata={
            "description": "[chunk, document] of the first 100 results, of each passage if they are documents"
        },
    )
    clicks = Records(QueryClickSchema, required=True, metadata={"description": "results that were opened"})
    created_at = Moment(required=True, metadata={"description": "when, UTC in ISO 8601"})


class LoggedQueryListSchema(Schema):
    queries = Records(LoggedQuerySchema, required=True, metadata={"description": "a page, newest first"})
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class FrequentQueryResultSchema(Schema):
    query = fields.String(required=True, metadata={"description": "one of its spellings"})
    n_searches = fields.Integer(required=True, metadata={"description": "how often it was searched"})
    n_empty = fields.Integer(required=True, metadata={"description": "of them, without results"})
    n_clicks = fields.Integer(required=True, metadata={"description": "clicks on its results"})
    last_at = Moment(required=True, metadata={"description": "the last search, UTC in ISO 8601"})


class FrequentQueryListSchema(Schema):
    queries = Records(
        FrequentQueryResultSchema, required=True, metadata={"description": "most frequent first"}
    )


class JudgedQuerySchema(Schema):
    min_clicks = fields.Integer(
        load_default=1,
        validate=between(1, 1_000_000),
        metadata={"description": "fewest clicks on a document; default 1"},
    )


class ClickedQuerySchema(Schema):
    query = fields.String(required=True, metadata={"description": "one of its spellings"})
    relevant = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={
            "description": "grade by source path, or by title: 1, "
            f"2 from {GRADES[2]} clicks and 3 from {GRADES[3]}"
        },
    )


class ClickedQueryListSchema(Schema):
    queries = Records(ClickedQuerySchema, required=True, metadata={"description": "at most 10,000, by text"})


class ClickSchema(Schema):
    """The result that was opened: `chunk_id`, or `document_id` for the document as a whole, or both."""

    chunk_id = fields.Integer(
        strict=True, validate=between(1, MAX_ID), metadata={"description": "of the result"}
    )
    document_id = fields.Integer(
        strict=True, validate=between(1, MAX_ID), metadata={"description": "of the result"}
    )


class ClearedSchema(Schema):
    n_deleted = fields.Integer(required=True, metadata={"description": "queries that were deleted"})
