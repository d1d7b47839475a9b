"""The texts of results: whole, a snippet, none, or cut."""

from __future__ import annotations

import dataclasses

from shoal.models.search import SearchResult, TextMode
from shoal.search.snippets import best_window

SNIPPET_CHARS = 320
"""Longest snippet: three or four lines."""


def with_text(result: SearchResult, mode: TextMode) -> SearchResult:
    """Return a result with the requested part of its text: of a snippet, the window with the most words of
    the query. Without a text, it has no neighbours and no evidence."""
    if mode is TextMode.full:
        return result
    if mode is TextMode.none:
        return dataclasses.replace(cut(result, 0, 0), before=(), after=(), evidence=None)
    return cut(result, *best_window(result.text, result.highlights, SNIPPET_CHARS))


def cut(result: SearchResult, start: int, end: int) -> SearchResult:
    """Return a result with `text[start:end]`; its highlights move with the text, those cut off are gone."""
    if (start, end) == (0, len(result.text)):
        return result
    nearest = result.nearest_sentence
    if nearest is not None:
        is_inside = start <= nearest.start and nearest.end <= end
        nearest = (
            nearest._replace(start=nearest.start - start, end=nearest.end - start) if is_inside else None
        )
    origin = result.start_char if result.text_span is None else result.text_span[0]
    return dataclasses.replace(
        result,
        text=result.text[start:end],
        text_span=(origin + start, origin + end),
        highlights=tuple(
            (first - start, last - start)
            for first, last in result.highlights
            if start <= first and last <= end
        ),
        nearest_sentence=nearest,
    )
