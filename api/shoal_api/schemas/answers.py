"""Schemas of answers for programs: fields, texts, token budgets and prompts."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.search.answering.text_mode import TextMode
from shoal.search.request import MAX_TOKENS
from shoal.search.selected_fields import MAX_NAMES
from shoal.support.token_estimate import TOKENIZER
from shoal_api.schemas.common import BoundedList, CommaList, Records, Schema, StrictBoolean, between

TEXTS = [mode.value for mode in TextMode]

ABOUT_ANSWERS: dict[str, str] = {
    "cursor": "`next_cursor` of the page before, in place of `offset`: the page begins after its last "
    "result, also if the library has changed; only for the same search. Not with `group_by` document or "
    "`fold_similar`, whose pages begin at an `offset`",
    "text": "what a result has of the text of its passage: all (`full`), the window with the most words of "
    "the query (`snippet`), or nothing (`none`); then `text_span` says which part",
    "max_tokens": f"token budget for the texts of all results, 1 to {MAX_TOKENS:,}: the first results that "
    f"fit; the last of them may be cut after a sentence. Counted by the estimate `{TOKENIZER}`",
    "prompt": "adds `prompt`: the results as numbered passages for a language model, with references; "
    "`max_tokens` is then for the prompt",
    "include": "names of the fields that a result has; by default all",
    "exclude": "names of fields that a result lacks",
}


def _names(name: str) -> BoundedList:
    return BoundedList(
        fields.String(),
        max_items=MAX_NAMES,
        allow_none=True,
        load_default=None,
        metadata={"description": ABOUT_ANSWERS[name]},
    )


class AnswerArgumentsSchema(Schema):
    """What an answer holds, in a body."""

    text = fields.String(
        load_default=TextMode.full.value,
        validate=validate.OneOf(TEXTS),
        metadata={"description": ABOUT_ANSWERS["text"]},
    )
    max_tokens = fields.Integer(
        strict=True,
        allow_none=True,
        load_default=None,
        validate=between(1, MAX_TOKENS),
        metadata={"description": ABOUT_ANSWERS["max_tokens"]},
    )
    prompt = StrictBoolean(load_default=False, metadata={"description": ABOUT_ANSWERS["prompt"]})
    include = _names("include")
    exclude = _names("exclude")  # type: ignore[assignment]  # not the attribute of marshmallow


class PageArgumentsSchema(AnswerArgumentsSchema):
    """What an answer holds and where its page begins, in a body."""

    cursor = fields.String(
        allow_none=True, load_default=None, metadata={"description": ABOUT_ANSWERS["cursor"]}
    )


class AnswerQuerySchema(Schema):
    """What an answer holds and where its page begins, as query parameters."""

    cursor = fields.String(load_default=None, metadata={"description": ABOUT_ANSWERS["cursor"]})
    text = fields.String(
        load_default=TextMode.full.value,
        validate=validate.OneOf(TEXTS),
        metadata={"description": ABOUT_ANSWERS["text"]},
    )
    max_tokens = fields.Integer(
        load_default=None,
        validate=between(1, MAX_TOKENS),
        metadata={"description": ABOUT_ANSWERS["max_tokens"]},
    )
    prompt = fields.Boolean(load_default=False, metadata={"description": ABOUT_ANSWERS["prompt"]})
    include = CommaList(
        fields.String(),
        load_default=None,
        metadata={"description": f"{ABOUT_ANSWERS['include']}; comma-separated"},
    )
    exclude = CommaList(  # type: ignore[assignment]  # not the attribute of marshmallow
        fields.String(),
        load_default=None,
        metadata={"description": f"{ABOUT_ANSWERS['exclude']}; comma-separated"},
    )


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
