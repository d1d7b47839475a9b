"""Schemas of pins."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.library.pins import MAX_CHARS
from shoal.search.pins import MAX_HIDDEN, MAX_PINNED, MAX_WORDS
from shoal.storage.pin_records import PinMatch
from shoal_api.schemas.common import BoundedList, Moment, PageSchema, Records, Schema

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


class ListedTargetSchema(Schema):
    """A document or passage of a pin."""

    document_id = fields.Integer(required=True, metadata={"description": "of the document"})
    chunk_id = fields.Integer(
        required=True, allow_none=True, metadata={"description": "of the passage; null: the document"}
    )
    document_title = fields.String(required=True, metadata={"description": "its title"})
    chunk_index = fields.Integer(
        required=True, allow_none=True, metadata={"description": "of the passage in its document"}
    )
    is_gone = fields.Boolean(
        required=True,
        metadata={
            "description": "whether the document has the passage no more; then the whole document is "
            "pinned, and nothing hidden"
        },
    )


class QueryPinSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the pin"})
    query = fields.String(required=True, metadata={"description": "as it was given"})
    match = fields.String(required=True, metadata={"description": MATCH})
    pinned = Records(ListedTargetSchema, required=True, metadata={"description": PINNED})
    hidden = Records(ListedTargetSchema, required=True, metadata={"description": HIDDEN})
    created_at = Moment(required=True, metadata={"description": "when the pin was stored first"})
    updated_at = Moment(required=True, metadata={"description": "when it was changed last"})


class PinListSchema(Schema):
    pins = Records(QueryPinSchema, required=True, metadata={"description": "a page of pins, by id"})
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class UsedPinSchema(Schema):
    """A pin for the words of the query."""

    pin_id = fields.Integer(required=True, metadata={"description": "id of the pin"})
    query = fields.String(required=True, metadata={"description": "the words that it is for"})
    match = fields.String(required=True, metadata={"description": "`exact` or `contains`"})
    n_pinned = fields.Integer(
        required=True,
        metadata={"description": "documents and passages that it puts first, unless filters keep them out"},
    )
    n_hidden = fields.Integer(required=True, metadata={"description": "documents and passages that it hides"})
