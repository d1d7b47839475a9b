"""Matched terms: the query terms that a chunk contains, and where. They explain its BM25 and its field
boost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.models import MatchedTerm
from shoal.search.query_language import Term, stems_of, tokens_of

TITLE, HEADINGS, TEXT, TAG = "title", "headings", "text", "tag"
BOOSTED_PLACES = frozenset({TITLE, HEADINGS, TAG})
"""Places that count for the field boost."""


class ChunkTexts(NamedTuple):
    """The indexed texts of a chunk, and the tags of its document."""

    title: str
    headings: Sequence[str]
    text: str
    tags: Sequence[str]


def find_matched_terms(
    terms: Sequence[Term], matching_tags: Mapping[Term, Sequence[str]], chunks: Sequence[ChunkTexts]
) -> list[tuple[MatchedTerm, ...]]:
    """Return the matched terms of each chunk, in the order of the query; compares stems like the index."""
    if not terms:
        return [() for _ in chunks]
    tokens = [
        (tokens_of(chunk.title), [tokens_of(heading) for heading in chunk.headings], tokens_of(chunk.text))
        for chunk in chunks
    ]
    forms = list(
        {token for title, headings, text in tokens for field in (title, *headings, text) for token in field}
    )
    stems = dict(zip(forms, stems_of(forms), strict=True))
    term_stems = [(term, stems_of(term.tokens)) for term in terms]
    matched = []
    for chunk, (title, headings, text) in zip(chunks, tokens, strict=True):
        places = {
            TITLE: _Stems([title], stems),
            # The index holds the headings as one text.
            HEADINGS: _Stems([[token for heading in headings for token in heading]], stems),
            TEXT: _Stems([text], stems),
        }
        matched.append(tuple(_matched(term_stems, places, matching_tags, set(chunk.tags))))
    return matched


def format_term(term: Term) -> str:
    """Return a term as typed in a query."""
    words = f'"{term.text}"' if len(term.tokens) > 1 else term.text
    return f"title:{words}" if term.in_title else words


class _Stems:
    """The stems of a text, for finding words and phrases."""

    def __init__(self, texts: Iterable[Sequence[str]], stems: Mapping[str, str]) -> None:
        self._in_order = [stems[token] for text in texts for token in text]
        self._distinct = set(self._in_order)

    def contain(self, phrase: tuple[str, ...]) -> bool:
        if not self._distinct.issuperset(phrase):
            return False
        n = len(phrase)
        return n == 1 or any(
            tuple(self._in_order[i : i + n]) == phrase for i in range(len(self._in_order) - n + 1)
        )


def _matched(
    term_stems: Sequence[tuple[Term, tuple[str, ...]]],
    places: Mapping[str, _Stems],
    matching_tags: Mapping[Term, Sequence[str]],
    tags: set[str],
) -> Iterable[MatchedTerm]:
    for term, stems in term_stems:
        searched = [TITLE] if term.in_title else list(places)
        matched_places = [name for name in searched if places[name].contain(stems)]
        if tags.intersection(matching_tags.get(term, ())):
            matched_places.append(TAG)
        if matched_places:
            yield MatchedTerm(format_term(term), tuple(matched_places))
