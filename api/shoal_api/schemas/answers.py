"""Schemas of answers for programs: fields, texts, token budgets and prompts."""

from __future__ import annotations

from marshmallow import fields

from shoal.search.selected_fields import MAX_NAMES
from shoal_api.schemas.arguments import Fields
from shoal_api.schemas.common import BoundedList, CommaList, Records, Schema

ABOUT_INCLUDE = "names of the fields that a result has; by default all"
ABOUT_EXCLUDE = "names of fields that a result lacks"


def selection_in_body() -> Fields:
    """Return the fields of a body that select those of results."""

    def names(about: str) -> BoundedList:
        return BoundedList(
            fields.String(),
            max_items=MAX_NAMES,
            allow_none=True,
            load_default=None,
            metadata={"description": about},
        )

    return {"include": names(ABOUT_INCLUDE), "exclude": names(ABOUT_EXCLUDE)}


def selection_in_address() -> Fields:
    """Return the query parameters that select the fields of results."""

    def names(about: str) -> CommaList:
        return CommaList(
            fields.String(), load_default=None, metadata={"description": f"{about}; comma-separated"}
        )

    return {"include": names(ABOUT_INCLUDE), "exclude": names(ABOUT_EXCLUDE)}


class TokenUseSchema(Schema):
    """What the texts of a page cost of a token budget."""

    used = fields.Integer(required=True, metadata={"description": "tokens of the texts, or of the prompt"})
    limit = fields.Integer(required=True, metadata={"description": "`max_tokens`"})
    tokenizer = fields.String(required=True, metadata={"description": "name of what counted them"})
    n_left_out = fields.Integer(required=True, metadata={"description": "results that did not fit"})


class PromptReferenceSchema(Schema):
    """What a number in a prompt refers to."""

    number = fields.Integer(required=True, metadata={"description": "in the prompt, from 1"})
    place = fields.String(required=True, metadata={"description": "the citation in one line"})
    document_id = fields.Integer(required=True)
    document_title = fields.String(required=True)
    source_path = fields.String(required=True, allow_none=True)
    chunk_id = fields.Integer(required=True)
    start_char = fields.Integer(
        required=True, metadata={"description": "of the text in the prompt, in the document's content"}
    )
    end_char = fields.Integer(required=True)
    start_line = fields.Integer(required=True, metadata={"description": "of the passage, from 1"})
    end_line = fields.Integer(required=True)


class PromptSchema(Schema):
    """Numbered passages for a language model."""

    text = fields.String(
        required=True, metadata={"description": "passages under their places, each line indented"}
    )
    references = Records(
        PromptReferenceSchema, required=True, metadata={"description": "one for each number"}
    )
    n_tokens = fields.Integer(required=True, metadata={"description": "tokens of `text`"})
    tokenizer = fields.String(required=True, metadata={"description": "name of what counted them"})
