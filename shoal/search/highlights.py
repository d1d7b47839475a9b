"""Highlights: spans of a chunk with the words of a query, in any inflection, and its phrases, each as one
span."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lagoon.tokens import STOP_WORDS
from shoal.index.terms import word_pattern
from shoal.models.search import SearchMode
from shoal.search.inflections import find_inflections
from shoal.search.query_language import ParsedQuery, folded, stems_of, tokens_of

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
    forms = [*parsed.terms, *itertools.chain.from_iterable(parsed.synonyms.values())]
    words = [token for term in forms if len(term.tokens) == 1 for token in term.tokens]
    if mode is SearchMode.reef:
        about = (token for token in tokens_of(parsed.about) if len(token) > 1)
        words += [token for token in about if folded(token) not in STOP_WORDS]
    return Highlighter(
        words=frozenset(map(folded, words)),
        phrases=tuple(tuple(map(folded, term.tokens)) for term in forms if len(term.tokens) > 1),
    )


@dataclass(frozen=True, slots=True)
class Words:
    """The words of texts.

    pieces  each text in pieces that make it up: what is before its first word, this word, what is between it
            and the next, and so on
    stems   the stem in the index of each word, as written
    """

    pieces: list[list[str]]
    stems: dict[str, str]

    def in_order(self, text: int) -> list[str]:
        """Return the words of one of the texts."""
        return self.pieces[text][1::2]

    def with_stems(self, stems: Collection[str]) -> dict[str, str]:
        """Return the words with one of these stems, each with its stem."""
        wanted = frozenset(stems)
        return {word: stem for word, stem in self.stems.items() if stem in wanted}


def read_words(texts: Sequence[str]) -> Words:
    """Return the words of the texts."""
    pieces = [word_pattern(text).split(text) for text in texts]
    distinct = list(set().union(*(in_text[1::2] for in_text in pieces)))
    return Words(pieces, dict(zip(distinct, stems_of(distinct), strict=True)))


def find_highlights(
    texts: Sequence[str], highlighter: Highlighter, words_of_texts: Words | None = None
) -> list[Spans]:
    """Return the highlighted spans of each text; `words_of_texts` are its words, if already read."""
    read = words_of_texts or read_words(texts)
    words_of_query = highlighter.words.union(*highlighter.phrases)
    forms = {word: folded(word) for word in read.with_stems(stems_of(words_of_query))}
    inflections = find_inflections(words_of_query, set(forms.values()))
    same = {word: inflections[form] for word, form in forms.items() if form in inflections}
    highlighted = {word for word, words in same.items() if words & highlighter.words}
    highlights = []
    for text, pieces in enumerate(read.pieces):
        words = read.in_order(text)
        in_order = [same.get(word, frozenset()) for word in words] if highlighter.phrases else []
        spans = [(i, i) for i, word in enumerate(words) if word in highlighted]
        spans += _find_phrases(in_order, highlighter.phrases)
        # Words are every second piece.
        bounds = list(itertools.accumulate(map(len, pieces))) if spans else []
        highlights.append(_merge_spans((bounds[2 * first], bounds[2 * last + 1]) for first, last in spans))
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
