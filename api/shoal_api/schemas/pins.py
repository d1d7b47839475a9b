"""Schemas of pins."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.library.pins import MAX_CHARS
from shoal.models.pins import Pin, PinMatch, PinPage
from shoal.search.pins import MAX_HIDDEN, MAX_PINNED, MAX_WORDS
from shoal_api.schemas.common import BoundedList, PageSchema, Schema
from shoal_api.schemas.records import record_schema

QUERY = f"up to {MAX_WORDS} words; case, accents and punctuation do not count"
MATCH = (
    "`exact`: for searches with exactly these words; `contains`: for all that have them side by side, among "
    "others"
)
PINNED = "what comes first, in this order"
HIDDEN = "what is hidden from the results"
IS_PINNED = "whether a pin of the library put it first, whatever its score (`query_info.pins`)"


class PinQuerySchema(PageSchema):
    q = fields.String(
        validate=validate.Length(max=MAX_CHARS),
        metadata={"description": "only pins whose query contains this"},
    )


class PinTargetSchema(Schema):
    """A document, or one of its passages."""

    error_messages: dict[str, str] = {  # noqa: RUF012 - as the base class declares it
        "type": 'must be an object such as {"document_id": 3} or {"chunk_id": 7}'
    }

    document_id = fields.Integer(strict=True, allow_none=True, metadata={"description": "of the document"})
    chunk_id = fields.Integer(
        strict=True, allow_none=True, metadata={"description": "of the passage; its document may be left out"}
    )


class NewPinSchema(Schema):
    """What comes first for a query, and what is hidden from its results."""

    query = fields.String(required=True, metadata={"description": QUERY})
    match = fields.String(
        load_default=PinMatch.exact.value,
        validate=validate.OneOf([each.value for each in PinMatch]),
        metadata={"description": f"{MATCH}; default `exact`"},
    )
    pinned = BoundedList(
        fields.Nested(PinTargetSchema),
        max_items=MAX_PINNED,
        load_default=(),
        metadata={"description": f"{PINNED}; up to {MAX_PINNED}"},
    )
    hidden = BoundedList(
        fields.Nested(PinTargetSchema),
        max_items=MAX_HIDDEN,
        load_default=(),
        metadata={"description": f"{HIDDEN}; up to {MAX_HIDDEN}"},
    )


QueryPinSchema = record_schema(Pin, "QueryPin")
PinListSchema = record_schema(PinPage, "PinList")
