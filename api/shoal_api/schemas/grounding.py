"""Statements of a text to verify, and their verdicts."""

from __future__ import annotations

import functools
from typing import Any

from marshmallow import fields, validate

from shoal.models.verdicts import (
    MAX_CITATIONS,
    MAX_STATEMENT_CHARS,
    MAX_STATEMENTS,
    Evidence,
    Problem,
)
from shoal_api.schemas.common import BoundedList, Schema
from shoal_api.schemas.records import record_schema


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
