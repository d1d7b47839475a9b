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
class Marked:
    """What to highlight. `words`: stems by which the full-text index knows words; `lemmas`: stems by which lagoon
    does, which differ for a few; `phrases`: stems of words side by side."""

    words: frozenset[str]
    lemmas: frozenset[str]
    phrases: tuple[tuple[str, ...], ...]


def make_marked(parsed: ParsedQuery, mode: SearchMode) -> Marked:
    """What a query looks for. The words of a phrase count by themselves only where reefs alone rank."""
    single = [token for term in parsed.terms if len(term.tokens) == 1 for token in term.tokens]
    if mode is SearchMode.reef:
        about = (token for token in tokens_of(parsed.about) if len(token) > 1)
        single += [token for token in about if folded(token) not in STOP_WORDS]
    return Marked(
        words=frozenset(stems_of(single)),
        lemmas=frozenset(stem_many([folded(token) for token in single])),
        phrases=tuple(stems_of(term.tokens) for term in parsed.terms if len(term.tokens) > 1),
    )


def find_highlights(texts: Sequence[str], marked: Marked) -> list[Spans]:
    """For each text the spans of what is marked in it."""
    found = [
        [(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)] for text in texts
    ]
    forms = list({form for words in found for form, _, _ in words})
    stems = dict(zip(forms, stems_of(forms), strict=True))
    lemmas = dict(zip(forms, stem_many([folded(form) for form in forms]), strict=True))
    wanted = {form for form in forms if stems[form] in marked.words or lemmas[form] in marked.lemmas}
    return [_spans(words, stems, wanted, marked.phrases) for words in found]


def _spans(
    words: Sequence[tuple[str, int, int]],
    stems: dict[str, str],
    wanted: set[str],
    phrases: Iterable[tuple[str, ...]],
) -> Spans:
    spans = [(start, end) for form, start, end in words if form in wanted]
    in_order = [stems[form] for form, _, _ in words]
    for phrase in phrases:
        spans += [
            (words[i][1], words[i + len(phrase) - 1][2])
            for i, stem in enumerate(in_order)
            if stem == phrase[0] and tuple(in_order[i : i + len(phrase)]) == phrase
        ]
    return _merged(spans)


def _merged(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
