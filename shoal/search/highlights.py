"""Where chunks have the words of a query, in any inflection."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from lagoon.stems import stem_many
from lagoon.tokens import STOP_WORDS, tokenise, without_clitic

Spans = tuple[tuple[int, int], ...]
"""Starts and ends, code points, end exclusive, in order."""


def word_stems(text: str) -> frozenset[str]:
    """Stems of the words of `text` that say something: stop words are left out."""
    forms = (without_clitic(form) for form in tokenise(text).forms)
    return frozenset(stem_many([form for form in forms if form not in STOP_WORDS]))


def find_highlights(texts: Sequence[str], stems: frozenset[str]) -> list[Spans]:
    """For each text the spans of its words that have one of the stems."""
    # All texts at once: going through a hundred short ones costs ten times as much.
    stream = tokenise("\n".join(texts))
    wanted = [stem in stems for stem in stem_many([without_clitic(form) for form in stream.forms])]
    text_starts = [0, *accumulate(len(text) + 1 for text in texts)]
    spans: list[list[tuple[int, int]]] = [[] for _ in texts]
    for form, start, end in zip(
        stream.ids.tolist(), stream.starts.tolist(), stream.ends.tolist(), strict=True
    ):
        if wanted[form]:
            text = bisect_right(text_starts, start) - 1
            spans[text].append((start - text_starts[text], end - text_starts[text]))
    return [tuple(found) for found in spans]
