"""Schemas of what orders results besides the signals: `sort`, `decay`, `boosts`."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.search.order_arguments import (
    MAX_BOOSTS,
    MAX_HALF_LIFE_DAYS,
    MAX_PART,
    MAX_SORT_KEYS,
    MIN_HALF_LIFE_DAYS,
)
from shoal.search.request import GroupBy
from shoal_api.schemas.common import Schema

ABOUT_ORDER: dict[str, str] = {
    "sort": "fields of documents to order by instead of the score, such as `-date` (newest first), `title`, "
    f"`created` or a path into the metadata; at most {MAX_SORT_KEYS}. Missing values come last, equal "
    "documents are ordered by score. Sorted results are not reranked",
    "decay": "adds `weight` to the score of a passage from today, half of it at an age of `half_life_days`, "
    "a quarter at twice that age; only for mode `hybrid`",
    "group_by": "`document` ranks whole documents by their best passages: `documents` in place of `results`, "
    "each with up to `max_per_document` passages; `top_k` and `offset` count documents",
    "fold_similar": "folds results that say nearly the same as one before, among the first 200, under it as "
    "`folded`: four of five runs of five words are in both",
    "boosts": "adds `weight` to the score of passages that meet `filter`; only for mode `hybrid`; at most "
    f"{MAX_BOOSTS}",
}
"""Description of each argument."""


def sort_in_body() -> fields.Raw:
    """Return the field of sort keys; the library checks them."""
    return fields.Raw(
        allow_none=True,
        load_default=None,
        metadata={
            "type": ["array", "string"],
            "items": {"type": "string"},
            "description": ABOUT_ORDER["sort"] + "; a list, or one text with commas",
        },
    )


def decay_in_body() -> fields.Raw:
    """Return the field of a decay; the library checks it."""
    return fields.Raw(
        allow_none=True,
        load_default=None,
        metadata={
            "type": ["object", "string"],
            "properties": {
                "field": {"type": "string"},
                "half_life_days": {
                    "type": "number",
                    "minimum": MIN_HALF_LIFE_DAYS,
                    "maximum": MAX_HALF_LIFE_DAYS,
                },
                "weight": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_PART},
                "now": {"type": "string"},
            },
            "description": ABOUT_ORDER["decay"] + ". `now` is the moment from which the age counts, by "
            "default that of the search; the response has it, so that further pages can be of the same order",
        },
    )


def boosts_in_body() -> fields.Raw:
    """Return the field of boosts; the library checks them."""
    return fields.Raw(
        allow_none=True,
        load_default=None,
        metadata={
            "type": ["array"],
            "items": {
                "type": ["object", "string"],
                "properties": {"filter": {"type": ["string", "object"]}, "weight": {"type": "number"}},
            },
            "description": ABOUT_ORDER["boosts"],
        },
    )


def sort_in_address() -> fields.String:
    """Return the query parameter of sort keys."""
    return fields.String(load_default=None, metadata={"description": ABOUT_ORDER["sort"] + "; with commas"})


def decay_in_address() -> fields.String:
    """Return the query parameter of a decay."""
    return fields.String(
        load_default=None,
        metadata={
            "description": ABOUT_ORDER["decay"]
            + ". As `FIELD:HALF_LIFE_DAYS:WEIGHT`, such as `date:30:0.2`, "
            "and perhaps `@NOW`"
        },
    )


def boosts_in_address() -> fields.List[str]:
    """Return the query parameter of boosts, which may be repeated."""
    return fields.List(
        fields.String(),
        load_default=None,
        metadata={
            "description": ABOUT_ORDER["boosts"] + ". As `WEIGHT:EXPRESSION`, such as `0.2:tags = sea`; may "
            "be repeated"
        },
    )


def group_by_field() -> fields.String:
    """Return the field of what a result is."""
    return fields.String(
        load_default=GroupBy.chunk.value,
        validate=validate.OneOf([each.value for each in GroupBy]),
        metadata={"description": ABOUT_ORDER["group_by"]},
    )


class FoldedSchema(Schema):
    """A near-duplicate that is folded under a result."""

    chunk_id = fields.Integer(required=True)
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    similarity = fields.Float(
        required=True,
        metadata={"description": "share of all runs of five words of both texts that are in both, 0 to 1"},
    )


class DocumentReefSchema(Schema):
    """What a document is about."""

    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    n_chunks = fields.Integer(
        required=True, metadata={"description": "passages of the document whose first label it is"}
    )


class BoostPartSchema(Schema):
    """What a boost adds to the score of a result."""

    filter = fields.String(required=True, metadata={"description": "the filter as an expression"})
    weight = fields.Float(required=True, metadata={"description": "that of the request"})
    value = fields.Float(
        required=True, metadata={"description": "the weight if the result meets the filter, else 0"}
    )
