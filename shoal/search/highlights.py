"""Highlights: spans of a chunk with the words of a query, in any inflection, and its phrases, each as one
span."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lagoon.stems import stem_many
from lagoon.tokens import STOP_WORDS
from shoal.models import SearchMode
from shoal.search.query_language import ParsedQuery, folded, stems_of, tokens_of

Spans = tuple[tuple[int, int], ...]
"""Starts and ends in code points, end exclusive, in order, not overlapping."""

# Words as in the full-text index: runs of letters and digits with the accents on them.
_WORD = re.compile("[^\\W_](?:[^\\W_]|[\u0300-\u036f])*")


@dataclass(frozen=True, slots=True)
class Highlighter:
    """What to highlight.

    `words`: stems of the full-text index; `lemmas`: stems of lagoon, which differ for a few words; `phrases`:
    stems of words side by side.
    """

    words: frozenset[str]
    lemmas: frozenset[str]
    phrases: tuple[tuple[str, ...], ...]


def make_highlighter(parsed: ParsedQuery, mode: SearchMode) -> Highlighter:
    """Return what to highlight for a query. The words of a phrase count by themselves only in mode `reef`."""
    words = [token for term in parsed.terms if len(term.tokens) == 1 for token in term.tokens]
    if mode is SearchMode.reef:
        about = (token for token in tokens_of(parsed.about) if len(token) > 1)
        words += [token for token in about if folded(token) not in STOP_WORDS]
    return Highlighter(
        words=frozenset(stems_of(words)),
        lemmas=frozenset(stem_many([folded(token) for token in words])),
        phrases=tuple(stems_of(term.tokens) for term in parsed.terms if len(term.tokens) > 1),
    )


def find_highlights(texts: Sequence[str], highlighter: Highlighter) -> list[Spans]:
    """Return the highlighted spans of each text."""
    in_texts = [_WORD.findall(text) for text in texts]
    forms = {form: folded(form) for form in set().union(*in_texts)}
    distinct = list(set(forms.values()))
    stems = dict(zip(distinct, stems_of(distinct), strict=True))
    lemmas = dict(zip(distinct, stem_many(distinct), strict=True))
    matches = {
        word for word in distinct if stems[word] in highlighter.words or lemmas[word] in highlighter.lemmas
    }
    highlighted = {form for form, word in forms.items() if word in matches}
    highlights = []
    for text, words in zip(texts, in_texts, strict=True):
        in_order = [stems[forms[form]] for form in words] if highlighter.phrases else []
        phrases = _find_phrases(in_order, highlighter.phrases)
        spans = []
        if phrases or not highlighted.isdisjoint(words):
            places = [match.span() for match in _WORD.finditer(text)]
            spans = [place for place, form in zip(places, words, strict=True) if form in highlighted]
            spans += [(places[first][0], places[last][1]) for first, last in phrases]
        highlights.append(_merge_spans(spans))
    return highlights


def _find_phrases(in_order: Sequence[str], phrases: Iterable[tuple[str, ...]]) -> list[tuple[int, int]]:
    """The first and last word of each phrase in a text, which is given by its stems."""
    return [
        (i, i + len(phrase) - 1)
        for phrase in phrases
        for i, stem in enumerate(in_order)
        if stem == phrase[0] and tuple(in_order[i : i + len(phrase)]) == phrase
    ]


def _merge_spans(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
