"""Sets of words that are written in one text."""

from __future__ import annotations


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())
