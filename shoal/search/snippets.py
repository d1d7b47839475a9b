"""The window of a text with the most words of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

WORD_SNAP = 24
"""How far a cut may move to fall between two words, in characters."""


def best_window(text: str, spans: Sequence[tuple[int, int]], length: int) -> tuple[int, int]:
    """Return start and end of the first window of about `length` characters with the most different words.

    `spans` are (start, end) pairs of words in `text`, in order, not overlapping. The window of a text that
    fits is all of it.
    """
    if len(text) <= length:
        return 0, len(text)
    start = _best_start(text, spans, length)
    start = max(0, min(start, len(text) - length))
    end = start + length
    if start > 0:
        space = text.find(" ", start, start + WORD_SNAP)
        start = space + 1 if space >= 0 and not _loses_highlight(space + 1, start, spans) else start
    if end < len(text):
        space = text.rfind(" ", end - WORD_SNAP, end)
        end = space if space > start and not _loses_highlight(space, end, spans) else end
    return start, end


def _best_start(text: str, spans: Sequence[tuple[int, int]], length: int) -> int:
    """Start of the window with the most different query words, then the most words, with some lead."""
    best, best_value, best_used = 0, (0, 0), 0
    last = 0
    inside: Counter[str] = Counter()
    for first, (start, first_end) in enumerate(spans):
        while last < len(spans) and spans[last][1] - start <= length:
            inside[text[slice(*spans[last])].lower()] += 1
            last += 1
        value = (len(inside), last - first)
        if value > best_value:
            best, best_value, best_used = start, value, spans[last - 1][1] - start
        if last == first:  # the word is longer than the window
            last += 1
            continue
        word = text[start:first_end].lower()
        inside[word] -= 1
        if not inside[word]:
            del inside[word]
    return best - max(0, (length - best_used) // 3)


def _loses_highlight(new_cut: int, old_cut: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether moving a cut from `old_cut` to `new_cut` removes a highlighted word."""
    low, high = min(new_cut, old_cut), max(new_cut, old_cut)
    return any(start < high and end > low for start, end in spans)
