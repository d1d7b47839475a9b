"""Highlights: spans of a chunk with the words of a query, in any inflection, and its phrases, each as one
span."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lagoon.tokens import STOP_WORDS
from shoal.models import SearchMode
from shoal.search.inflections import find_inflections
from shoal.search.query_language import ParsedQuery, folded, stems_of, tokens_of

Spans = tuple[tuple[int, int], ...]
"""Starts and ends in code points, end exclusive, in order, not overlapping."""

# Words as in the index: runs of letters and digits with the accents on them.
_WORD = re.compile("[^\\W_](?:[^\\W_]|[\u0300-\u036f])*")


@dataclass(frozen=True, slots=True)
class Highlighter:
    """What to highlight: folded words, and phrases of folded words side by side, in any inflection."""

    words: frozenset[str]
    phrases: tuple[tuple[str, ...], ...]


def make_highlighter(parsed: ParsedQuery, mode: SearchMode) -> Highlighter:
    """Return what to highlight for a query. The words of a phrase count by themselves only in mode `reef`."""
    words = [token for term in parsed.terms if len(term.tokens) == 1 for token in term.tokens]
    if mode is SearchMode.reef:
        about = (token for token in tokens_of(parsed.about) if len(token) > 1)
        words += [token for token in about if folded(token) not in STOP_WORDS]
    return Highlighter(
        words=frozenset(map(folded, words)),
        phrases=tuple(tuple(map(folded, term.tokens)) for term in parsed.terms if len(term.tokens) > 1),
    )


@dataclass(frozen=True, slots=True)
class Words:
    """The words of texts.

    `in_texts`: the words of each text in order, as written; `forms`: each word without case and diacritics;
    `stems`: the stem of each form in the index.
    """

    in_texts: list[list[str]]
    forms: dict[str, str]
    stems: dict[str, str]


def read_words(texts: Sequence[str]) -> Words:
    """Return the words of the texts."""
    in_texts = [_WORD.findall(text) for text in texts]
    forms = {form: folded(form) for form in set().union(*in_texts)}
    distinct = list(set(forms.values()))
    return Words(in_texts, forms, dict(zip(distinct, stems_of(distinct), strict=True)))


def find_highlights(
    texts: Sequence[str], highlighter: Highlighter, words_of_texts: Words | None = None
) -> list[Spans]:
    """Return the highlighted spans of each text; `words_of_texts` are its words, if already read."""
    read = words_of_texts or read_words(texts)
    in_texts, forms = read.in_texts, read.forms
    words_of_query = highlighter.words.union(*highlighter.phrases)
    inflections = find_inflections(words_of_query, set(forms.values()))
    same = {form: inflections[word] for form, word in forms.items() if word in inflections}
    highlighted = {form for form, words in same.items() if words & highlighter.words}
    highlights = []
    for text, words in zip(texts, in_texts, strict=True):
        in_order = [same.get(form, frozenset()) for form in words] if highlighter.phrases else []
        phrases = _find_phrases(in_order, highlighter.phrases)
        spans = []
        if phrases or not highlighted.isdisjoint(words):
            places = [match.span() for match in _WORD.finditer(text)]
            spans = [place for place, form in zip(places, words, strict=True) if form in highlighted]
            spans += [(places[first][0], places[last][1]) for first, last in phrases]
        highlights.append(_merge_spans(spans))
    return highlights


def _find_phrases(
    in_order: Sequence[frozenset[str]], phrases: Iterable[tuple[str, ...]]
) -> list[tuple[int, int]]:
    """The first and last word of each phrase in a text, which is given by the query's words at each place."""
    return [
        (i, i + len(phrase) - 1)
        for phrase in phrases
        for i in range(len(in_order) - len(phrase) + 1)
        if all(word in in_order[i + k] for k, word in enumerate(phrase))
    ]


def _merge_spans(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
