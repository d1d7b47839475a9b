"""Schemas of the query log."""

from __future__ import annotations

from marshmallow import fields

from shoal.declared.arguments import MAX_ID
from shoal.models.query_log import (
    ClickedQueries,
    FrequentQueries,
    FrequentQuery,
    LoggedQueryPage,
)
from shoal.query_log.query_log import MAX_FREQUENT, MAX_PREFIX_CHARS
from shoal_api.schemas.common import PageSchema, Schema, between
from shoal_api.schemas.records import record_schema


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


class JudgedQuerySchema(Schema):
    min_clicks = fields.Integer(
        load_default=1,
        validate=between(1, 1_000_000),
        metadata={"description": "fewest clicks on a document; default 1"},
    )


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


LoggedQueryListSchema = record_schema(LoggedQueryPage, "LoggedQueryList")
record_schema(FrequentQuery, "FrequentQueryResult")
FrequentQueryListSchema = record_schema(FrequentQueries, "FrequentQueryList")
ClickedQueryListSchema = record_schema(ClickedQueries, "ClickedQueryList")
