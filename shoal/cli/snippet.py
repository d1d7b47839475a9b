"""Snippets: the window of a chunk with the most query words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.search.answer_texts import best_window
from shoal.support.plain_text import plain

ELLIPSIS = "…"


class Piece(NamedTuple):
    """A part of a snippet, in one line and safe for a terminal. Highlights are words of the query."""

    text: str
    is_highlight: bool


def snippet(text: str, highlights: Sequence[Sequence[int]], length: int) -> list[Piece]:
    """Return about `length` characters of `text` as one line, in pieces.

    `highlights` are (start, end) pairs in characters of `text`, in order, not overlapping. The window is the
    first with the most different words. Text that fits is returned whole.
    """
    spans = [(start, end) for start, end in highlights if 0 <= start < end <= len(text)]
    start, end = best_window(text, spans, length)
    pieces = [Piece(ELLIPSIS, False)] if start > 0 else []
    position = start
    for first, last in spans:
        if first < position or last > end:
            continue
        pieces += [Piece(text[position:first], False), Piece(text[first:last], True)]
        position = last
    pieces.append(Piece(text[position:end], False))
    if end < len(text):
        pieces.append(Piece(ELLIPSIS, False))
    return _in_one_line(pieces)


def _in_one_line(pieces: Sequence[Piece]) -> list[Piece]:
    """Replace every run of white space, also across pieces, with one space."""
    line: list[Piece] = []
    after_space = True
    for text, is_highlight in pieces:
        cleaned = plain(text)
        folded = " ".join(cleaned.split())
        lead = "" if after_space or not cleaned[:1].isspace() else " "
        tail = " " if folded and cleaned[-1:].isspace() else ""
        joined = lead + folded + tail
        if joined:
            line.append(Piece(joined, is_highlight))
            after_space = joined.endswith(" ")
    return line
