"""Schemas of suggestions."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.search.suggesting import MAX_QUERY_CHARS, MAX_SUGGESTIONS, SUGGESTIONS
from shoal_api.schemas.common import Records, Schema


class SuggestQuerySchema(Schema):
    q = fields.String(
        required=True,
        validate=validate.Length(max=MAX_QUERY_CHARS),
        metadata={"description": f"the beginning of a query, up to {MAX_QUERY_CHARS} characters"},
    )
    limit = fields.Integer(
        load_default=SUGGESTIONS,
        validate=validate.Range(1, MAX_SUGGESTIONS),
        metadata={"description": f"most suggestions to return, 1 to {MAX_SUGGESTIONS}"},
    )


class SuggestionSchema(Schema):
    """A query that may be meant."""

    text = fields.String(
        required=True,
        metadata={"description": "plain text, in one line; escape it before it becomes part of a page"},
    )
    kind = fields.String(
        required=True,
        metadata={
            "description": "`title` of a document, `heading`, `learned` word, `compound` of the dictionary "
            "or a learned one, frequent `query` of the log, or `word`: the query with its last word completed"
        },
    )
    n = fields.Integer(
        required=True,
        metadata={
            "description": "passages of the document, documents with the heading or learned word, passages "
            "with the compound, searches for the query, or passages with the word"
        },
    )


class SuggestionsSchema(Schema):
    suggestions = Records(SuggestionSchema, required=True, metadata={"description": "best first"})
