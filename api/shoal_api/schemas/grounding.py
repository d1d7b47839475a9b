"""Schemas of verification."""

from __future__ import annotations

from typing import Any

from marshmallow import fields, validate

from shoal.grounding.parts import Status
from shoal.grounding.references import MAX_LABEL, MAX_REFERENCES
from shoal.grounding.statements import MAX_CITATIONS, MAX_STATEMENTS, StatementKind
from shoal.grounding.verdicts import Verdict
from shoal.grounding.verification import MAX_PARTS, MAX_STATEMENT_CHARS, MAX_TEXT_CHARS, MIN_COVERAGE
from shoal.models.documents import DocFormat
from shoal_api.schemas.common import MAX_ID, BoundedList, Record, Records, Schema, StrictFloat, between

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


class ProblemOfStatementSchema(Schema):
    code = fields.String(
        required=True,
        metadata={
            "description": "`unreferenced`, `reference`, `citations`, `quotation`, `coverage`, or the kind "
            "of the parts that it concerns"
        },
    )
    message = fields.String(required=True, metadata={"description": "the problem in words"})


class SupportingSentenceSchema(Schema):
    """The sentence that supports a statement best."""

    reference = fields.String(required=True, metadata={"description": "the citation as in the statement"})
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    chunk_id = fields.Integer(
        required=True, allow_none=True, metadata={"description": "null if the reference is a document"}
    )
    text = fields.String(required=True)
    start_char = fields.Integer(
        required=True, metadata={"description": "offset in the document's content, in code points"}
    )
    end_char = fields.Integer(required=True)
    start_line = fields.Integer(required=True, metadata={"description": "from 1"})
    end_line = fields.Integer(required=True, metadata={"description": "inclusive"})
    coverage = fields.Float(required=True, metadata={"description": COVERAGE})


class QuotationCheckSchema(Schema):
    text = fields.String(required=True, metadata={"description": "the quotation"})
    reference = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "the reference that has it; null if none has"},
    )


class CheckedPartSchema(Schema):
    """A part of a statement that is compared by itself."""

    kind = fields.String(
        required=True,
        metadata={
            "description": "`number`, `date`, `time`, `version`, `address`, `code`, `letter` or `name`; "
            "`negation`, `comparative` or `order` where it differs in this"
        },
    )
    text = fields.String(required=True, metadata={"description": "the part as in the statement"})
    start_char = fields.Integer(
        required=True, metadata={"description": "offset in the text, in code points; in a given statement"}
    )
    end_char = fields.Integer(required=True)
    status = fields.String(
        required=True,
        validate=validate.OneOf([status.value for status in Status]),
        metadata={
            "description": "`differs`: the reference has something else in its place; `unclear`: the check "
            "cannot tell whether it means the same"
        },
    )
    found = fields.String(
        required=True, allow_none=True, metadata={"description": "what the reference has; null if nothing"}
    )
    reference = fields.String(
        required=True, allow_none=True, metadata={"description": "the citation as in the statement"}
    )
    document_id = fields.Integer(required=True, allow_none=True)
    found_start_char = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "offset of `found` in the document's content, in code points"},
    )
    found_end_char = fields.Integer(
        required=True, allow_none=True, metadata={"description": "offset of its end, exclusive"}
    )


class StatementVerdictSchema(Schema):
    text = fields.String(required=True, metadata={"description": "the statement as in the text"})
    start_char = fields.Integer(
        required=True, metadata={"description": "offset in the text, in code points; 0 for given statements"}
    )
    end_char = fields.Integer(required=True)
    kind = fields.String(
        required=True,
        validate=validate.OneOf([kind.value for kind in StatementKind]),
        metadata={"description": "only a claim needs a citation"},
    )
    verdict = fields.String(
        required=True,
        validate=validate.OneOf([verdict.value for verdict in Verdict]),
        metadata={
            "description": "`no_claim` if it needs no citation; `unclear` if the references have its words "
            "in a way that may mean something else"
        },
    )
    references = fields.List(fields.String(), required=True, metadata={"description": "what it cites"})
    supported_by = fields.List(
        fields.String(), required=True, metadata={"description": "those of them that support it"}
    )
    coverage = fields.Float(required=True, metadata={"description": COVERAGE})
    evidence = Record(
        SupportingSentenceSchema,
        required=True,
        allow_none=True,
        metadata={"description": "the sentence that supports it best; null without an existing reference"},
    )
    quotations = Records(QuotationCheckSchema, required=True, metadata={"description": "what it quotes"})
    missing_words = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "its words that the passages lack there, heaviest first, at most 20"},
    )
    missing_numbers = fields.List(
        fields.String(), required=True, metadata={"description": "its numbers that they lack there"}
    )
    missing_names = fields.List(
        fields.String(), required=True, metadata={"description": "its names that they lack"}
    )
    parts = Records(
        CheckedPartSchema,
        required=True,
        metadata={
            "description": f"what is compared by itself, at most {MAX_PARTS}, those not found kept first"
        },
    )
    problems = Records(
        ProblemOfStatementSchema,
        required=True,
        metadata={"description": "why it is rejected; empty if it is not"},
    )


class VerificationSchema(Schema):
    accepted = fields.Boolean(
        required=True, metadata={"description": "whether every claim is supported by what it cites"}
    )
    n_claims = fields.Integer(required=True, metadata={"description": "statements that need a citation"})
    n_supported = fields.Integer(required=True, metadata={"description": "claims that are supported"})
    n_unsupported = fields.Integer(
        required=True, metadata={"description": "claims that cite something, and are not supported by it"}
    )
    n_unclear = fields.Integer(
        required=True, metadata={"description": "claims of which the check cannot tell"}
    )
    n_unreferenced = fields.Integer(required=True, metadata={"description": "claims that cite nothing"})
    statements = Records(
        StatementVerdictSchema, required=True, metadata={"description": "in the order of the text"}
    )
    trace_id = fields.String(required=True)
    took_ms = fields.Float(required=True)
