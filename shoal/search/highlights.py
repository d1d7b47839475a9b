"""Highlights: spans of a chunk with the words of a query, in any inflection, and its phrases, each as one
span."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lagoon.tokens import STOP_WORDS
from shoal.models.search import SearchMode
from shoal.search.inflections import find_inflections
from shoal.search.query_language import ParsedQuery
from shoal.search.text_words import Occurrence, TextWords
from shoal.words.typed import folded, stems_of, tokens_of

Spans = tuple[tuple[int, int], ...]
"""Starts and ends in code points, end exclusive, in order, not overlapping."""


@dataclass(frozen=True, slots=True)
class Highlighter:
    """What to highlight: folded words, and phrases of folded words side by side, in any inflection."""

    words: frozenset[str]
    phrases: tuple[tuple[str, ...], ...]


def make_highlighter(parsed: ParsedQuery, mode: SearchMode) -> Highlighter:
    """Return what to highlight for a query. The words of a phrase count by themselves only in mode `reef`,
    where no result must have the phrase."""
    terms = [term for term in parsed.terms if term not in parsed.parts]
    forms = [*terms, *parsed.also, *itertools.chain.from_iterable(parsed.synonyms.values())]
    words = [token for term in forms if len(term.tokens) == 1 for token in term.tokens]
    if mode is SearchMode.reef:
        about = (token for token in tokens_of(parsed.about) if len(token) > 1)
        words += [token for token in about if folded(token) not in STOP_WORDS]
    return Highlighter(
        words=frozenset(map(folded, words)),
        phrases=tuple(tuple(map(folded, term.tokens)) for term in forms if len(term.tokens) > 1),
    )


def find_highlights(
    texts: Sequence[str], highlighter: Highlighter, words_of_texts: TextWords | None = None
) -> list[Spans]:
    """Return the highlighted spans of each text; `words_of_texts` are its words, if already read."""
    read = words_of_texts or TextWords(texts)
    wanted = list(highlighter.words.union(*highlighter.phrases))
    term_of = dict(zip(wanted, stems_of(wanted), strict=True))
    terms = set(term_of.values())
    inflections = find_inflections(wanted, read.forms(terms))
    highlights = []
    for found in read.find(terms):
        spans = [
            (occurrence.start, occurrence.end)
            for occurrences in found.values()
            for occurrence in occurrences
            if not highlighter.words.isdisjoint(inflections.get(occurrence.form, ()))
        ]
        for phrase in highlighter.phrases:
            stems = [term_of[word] for word in phrase]
            spans += _find_phrase(phrase, stems, found, inflections)
        highlights.append(_merge_spans(spans))
    return highlights


def _find_phrase(
    phrase: Sequence[str],
    stems: Sequence[str],
    found: Mapping[str, Sequence[Occurrence]],
    inflections: Mapping[str, frozenset[str]],
) -> Iterable[tuple[int, int]]:
    """The places of a phrase in a text."""
    if not all(stem in found for stem in stems):
        return
    ends: dict[int, int] = {}
    for place in range(len(phrase) - 1, -1, -1):
        starts = {
            occurrence.position: occurrence
            for occurrence in found[stems[place]]
            if phrase[place] in inflections.get(occurrence.form, ())
        }
        if place == len(phrase) - 1:
            ends = {position: occurrence.end for position, occurrence in starts.items()}
        else:
            ends = {position: ends[position + 1] for position in starts if position + 1 in ends}
        if place == 0:
            yield from ((starts[position].start, end) for position, end in ends.items())


def _merge_spans(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
