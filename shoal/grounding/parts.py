"""Parts of a statement, each with its counterpart in the passages that it cites."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.grounding.words import Token
from shoal.models.verdicts import Status

NAME, NEGATION, ORDER, COMPARATIVE = "name", "negation", "order", "comparative"
"""Kinds of parts beside the kinds of exact tokens (`words.Kind`)."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a statement, `statement[start_char:end_char]`, and its counterpart in a passage.

    kind             a kind of exact token, such as `number` or `code`, or `name`
    found            the counterpart as written; None if there is none
    passage          the number of the passage that has it
    passage_start    where the counterpart begins in it, and `passage_end` where it ends
    """

    kind: str
    text: str
    start_char: int
    end_char: int
    status: Status
    found: str | None = None
    passage: int | None = None
    passage_start: int | None = None
    passage_end: int | None = None


def make_part(
    token: Token, status: Status, counterpart: Token | None = None, passage: int | None = None, kind: str = ""
) -> Part:
    """Return the part that a token of a statement is."""
    place = (token.text, token.start, token.end, status)
    if counterpart is None or passage is None:
        return Part(kind or token.kind.value, *place)
    return Part(
        kind or token.kind.value, *place, counterpart.text, passage, counterpart.start, counterpart.end
    )
