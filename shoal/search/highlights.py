"""Where chunks have the words of a query, in any inflection, and its phrases, each as one span."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lagoon.stems import stem_many
from lagoon.tokens import STOP_WORDS
from shoal.models import SearchMode
from shoal.search.query_language import ParsedQuery, folded, stems_of, tokens_of

Spans = tuple[tuple[int, int], ...]
"""Starts and ends, code points, end exclusive, in order, none touching another."""

# As the full-text index cuts words: runs of letters and digits with the accents on them.
_WORD = re.compile("[^\\W_](?:[^\\W_]|[\u0300-\u036f])*")


@dataclass(frozen=True, slots=True)
class Highlighter:
    """What to highlight. `words`: stems by which the full-text index knows words; `lemmas`: stems by which lagoon
    does, which differ for a few; `phrases`: stems of words side by side."""

    words: frozenset[str]
    lemmas: frozenset[str]
    phrases: tuple[tuple[str, ...], ...]


def make_highlighter(parsed: ParsedQuery, mode: SearchMode) -> Highlighter:
    """What a query looks for. The words of a phrase count by themselves only where reefs alone rank."""
    single = [token for term in parsed.terms if len(term.tokens) == 1 for token in term.tokens]
    if mode is SearchMode.reef:
        about = (token for token in tokens_of(parsed.about) if len(token) > 1)
        single += [token for token in about if folded(token) not in STOP_WORDS]
    return Highlighter(
        words=frozenset(stems_of(single)),
        lemmas=frozenset(stem_many([folded(token) for token in single])),
        phrases=tuple(stems_of(term.tokens) for term in parsed.terms if len(term.tokens) > 1),
    )


def find_highlights(texts: Sequence[str], marked: Highlighter) -> list[Spans]:
    """For each text the spans of what is marked in it."""
    in_texts = [_WORD.findall(text) for text in texts]
    forms = {form: folded(form) for form in set().union(*in_texts)}
    known = list(set(forms.values()))
    stems = dict(zip(known, stems_of(known), strict=True))
    lemmas = dict(zip(known, stem_many(known), strict=True))
    meant = {one for one in known if stems[one] in marked.words or lemmas[one] in marked.lemmas}
    wanted = {form for form, one in forms.items() if one in meant}
    found = []
    for text, words in zip(texts, in_texts, strict=True):
        in_order = [stems[forms[form]] for form in words] if marked.phrases else []
        phrases = _in_phrases(in_order, marked.phrases)
        spans = []
        if phrases or not wanted.isdisjoint(words):
            places = [match.span() for match in _WORD.finditer(text)]
            spans = [place for place, form in zip(places, words, strict=True) if form in wanted]
            spans += [(places[first][0], places[last][1]) for first, last in phrases]
        found.append(_merged(spans))
    return found


def _in_phrases(in_order: Sequence[str], phrases: Iterable[tuple[str, ...]]) -> list[tuple[int, int]]:
    """The first and last word of each phrase in a text, given by the stems of its words."""
    return [
        (i, i + len(phrase) - 1)
        for phrase in phrases
        for i, stem in enumerate(in_order)
        if stem == phrase[0] and tuple(in_order[i : i + len(phrase)]) == phrase
    ]


def _merged(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
