"""How a document is cut: by topic, by topic within a range of tokens, or by the caller."""

from __future__ import annotations

import re
from typing import NamedTuple

ANY_TOKENS = "any"
"""Chunks end where the topic changes, and may have any number of tokens: the default."""
GIVEN_PASSAGES = "given"
"""The caller has cut the document."""

MIN_TOKENS = 20
MAX_TOKENS = 4000
LEAST_RATIO = 2
"""The upper end of a range is at least this many times the lower: any text can be cut into such pieces."""

_RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")


class TokenRange(NamedTuple):
    """The fewest and the most tokens of a chunk (`shoal.support.token_estimate`)."""

    low: int
    high: int

    @classmethod
    def of(cls, text: str) -> TokenRange | None:
        """Read a range such as `300-800`; None for `any`. Raises ValueError, which says what is wrong."""
        if text == ANY_TOKENS:
            return None
        match = _RANGE.fullmatch(text)
        if match is None:
            raise ValueError(f"must be {ANY_TOKENS}, or a range of tokens such as 300-800")
        low, high = map(int, match.groups())
        if low < MIN_TOKENS or high > MAX_TOKENS:
            raise ValueError(f"must be within {MIN_TOKENS}-{MAX_TOKENS}")
        if high < LEAST_RATIO * low:
            raise ValueError(
                f"must end at {LEAST_RATIO * low} or more: a text must be divisible into such pieces"
            )
        return cls(low, high)

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


def how_cut(chunk_tokens: str) -> str:
    """What a document is cut with, for people; empty for the default."""
    if chunk_tokens == ANY_TOKENS:
        return ""
    return "cut by its sender" if chunk_tokens == GIVEN_PASSAGES else f"passages of {chunk_tokens} tokens"
