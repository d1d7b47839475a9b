"""The tokens of a filter expression, and the error that points at a place in it."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from shoal.errors import FilterError

MAX_EXPRESSION_CHARS = 262_144
"""Longest expression: ten thousand ids of twenty digits, and room for more."""
SHOWN_CHARS = 30
"""Characters of a token that an error shows."""

# A text ends at its quotation mark, or is not closed. The alternatives exclude each other by their first
# character, so the time is linear.
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<mark><=|>=|!=|==|[=<>()\[\],])
      | (?P<text>"(?:[^"\\]|\\.)*(?P<end>")?|'(?:[^'\\]|\\.)*(?P<end2>')?)
      | (?P<word>[^\s()\[\],=<>!"']+)
      | (?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Type(enum.Enum):
    word = enum.auto()
    text = enum.auto()
    mark = enum.auto()
    end = enum.auto()


class Token(NamedTuple):
    """A token; `value` of a text is without quotation marks. Positions count code points, from 0."""

    type: Type
    value: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """The token in an error."""
        if self.type is Type.end:
            return "the end"
        value = self.value if len(self.value) <= SHOWN_CHARS else f"{self.value[:SHOWN_CHARS]}…"
        return f'"{value}"' if self.type is Type.text else value

    def is_word(self, *keywords: str) -> bool:
        """Whether the token is one of these keywords, in any case."""
        return self.type is Type.word and self.value.upper() in keywords


def tokens_of(expression: str) -> list[Token]:
    """Return the tokens, the last of type `end`. Raises FilterError."""
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise FilterError(f"is {len(expression):,} characters; the limit is {MAX_EXPRESSION_CHARS:,}")
    tokens: list[Token] = []
    for match in _TOKEN.finditer(expression):
        start, end = match.span()
        kind = match.lastgroup
        if match["space"] is not None:
            continue
        if match["bad"] is not None:
            raise FilterError(f"unexpected {match['bad']!r}", start, end)
        if match["text"] is not None:
            if match["end"] is None and match["end2"] is None:
                raise FilterError(
                    f"the text that begins here is not closed by {match['text'][0]}", start, end
                )
            inner = match["text"][1:-1]
            value = _ESCAPED.sub(r"\1", inner) if "\\" in inner else inner
            tokens.append(Token(Type.text, value, start, end))
        else:
            type_ = Type.mark if kind == "mark" else Type.word
            tokens.append(Token(type_, match[0], start, end))
    tokens.append(Token(Type.end, "", len(expression), len(expression)))
    return tokens
