"""Schemas of verification."""

from __future__ import annotations

from typing import Any

from marshmallow import fields, validate

from shoal.declared.arguments import MAX_ID
from shoal.grounding.references import MAX_LABEL, MAX_REFERENCES
from shoal.grounding.statements import MAX_CITATIONS, MAX_STATEMENTS
from shoal.grounding.verification import MAX_STATEMENT_CHARS, MAX_TEXT_CHARS, MIN_COVERAGE
from shoal.models.documents import DocFormat
from shoal.models.verdicts import (
    Evidence,
    Problem,
    Verification,
)
from shoal_api.schemas.common import BoundedList, Schema, StrictFloat, between
from shoal_api.schemas.records import record_schema

COVERAGE = "share of the statement's words that the passages have there, weighted by rarity, 0 to 1"


def _whole(low: int, high: int, description: str) -> fields.Integer:
    return fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        validate=between(low, high),
        metadata={"description": description},
    )


class ReferenceSchema(Schema):
    """A passage that may be cited: a chunk, a document, or characters of a document."""

    label = _whole(0, MAX_LABEL, "the number by which it is cited; default: its position, from 1")
    chunk_id = _whole(1, MAX_ID, "a chunk, unless `document_id` is given")
    document_id = _whole(1, MAX_ID, "a document, unless `chunk_id` is given")
    start_char = _whole(0, MAX_ID, "with `document_id`: where the passage begins, in code points")
    end_char = _whole(0, MAX_ID, "with `start_char`: where it ends, exclusive")


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


class VerifySchema(Schema):
    """A text, or the statements of a text, and the passages that it may cite."""

    text = fields.String(
        allow_none=True,
        load_default=None,
        metadata={
            "description": f"a text of up to {MAX_TEXT_CHARS:,} characters, which cites as `[1]`, `[1, 3]`, "
            "`[chunk 12]`, `[document 3]` or `[document 3:120-480]`; instead of `statements`"
        },
    )
    statements = BoundedList(
        fields.Nested(GivenStatementSchema),
        max_items=MAX_STATEMENTS,
        allow_none=True,
        load_default=None,
        metadata={"description": "claims with what they cite, instead of `text`"},
    )
    references = BoundedList(
        fields.Nested(ReferenceSchema),
        max_items=MAX_REFERENCES,
        allow_none=True,
        load_default=None,
        metadata={
            "description": "the passages that may be cited; null: every chunk and document of the library, "
            "by its id"
        },
    )
    format = fields.String(
        load_default=DocFormat.markdown.value,
        validate=validate.OneOf([doc_format.value for doc_format in DocFormat]),
        metadata={"description": "format of `text`"},
    )
    min_coverage = StrictFloat(
        load_default=MIN_COVERAGE,
        validate=between(0, 1),
        metadata={"description": "lowest `coverage` of a supported statement, 0 to 1"},
    )


record_schema(Problem, "ProblemOfStatement")
record_schema(Evidence, "SupportingSentence")
VerificationSchema = record_schema(Verification)
