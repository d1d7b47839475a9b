"""Which terms of a query a chunk holds, and where: the reason of its BM25 and of its bonus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.models import MatchedTerm
from shoal.search.query_language import Term, stems_of, tokens_of

TITLE, HEADINGS, TEXT, TAG = "title", "headings", "text", "tag"
BONUS_PLACES = frozenset({TITLE, HEADINGS, TAG})
"""Where a term counts for the bonus."""


class Citable(NamedTuple):
    """The texts of a chunk that the full-text index knows, and the tags of its document."""

    title: str
    headings: Sequence[str]
    text: str
    tags: Sequence[str]


def find_matched_terms(
    terms: Sequence[Term], matching_tags: Mapping[Term, Sequence[str]], chunks: Sequence[Citable]
) -> list[tuple[MatchedTerm, ...]]:
    """For each chunk the terms it holds, in the order of the query, by the stems of the full-text index."""
    if not terms:
        return [() for _ in chunks]
    tokens = [
        (tokens_of(one.title), [tokens_of(heading) for heading in one.headings], tokens_of(one.text))
        for one in chunks
    ]
    distinct = {
        token for title, headings, text in tokens for some in (title, *headings, text) for token in some
    }
    forms = list(distinct)
    stems = dict(zip(forms, stems_of(forms), strict=True))
    wanted = [(term, stems_of(term.tokens)) for term in terms]
    found = []
    for one, (title, headings, text) in zip(chunks, tokens, strict=True):
        places = {
            TITLE: _Stems([title], stems),
            # As the index has them, one after the other.
            HEADINGS: _Stems([[token for heading in headings for token in heading]], stems),
            TEXT: _Stems([text], stems),
        }
        found.append(tuple(_matched(wanted, places, matching_tags, set(one.tags))))
    return found


def spelt(term: Term) -> str:
    """A term as people would type it."""
    words = f'"{term.text}"' if len(term.tokens) > 1 else term.text
    return f"title:{words}" if term.in_title else words


class _Stems:
    """The stems of a place, for looking up one or several side by side."""

    def __init__(self, texts: Iterable[Sequence[str]], stems: Mapping[str, str]) -> None:
        self._in_order = [stems[token] for text in texts for token in text]
        self._distinct = set(self._in_order)

    def hold(self, wanted: tuple[str, ...]) -> bool:
        if not self._distinct.issuperset(wanted):
            return False
        n = len(wanted)
        return n == 1 or any(
            tuple(self._in_order[i : i + n]) == wanted for i in range(len(self._in_order) - n + 1)
        )


def _matched(
    wanted: Sequence[tuple[Term, tuple[str, ...]]],
    places: Mapping[str, _Stems],
    matching_tags: Mapping[Term, Sequence[str]],
    tags: set[str],
) -> Iterable[MatchedTerm]:
    for term, stems in wanted:
        looked_at = [TITLE] if term.in_title else list(places)
        where = [name for name in looked_at if places[name].hold(stems)]
        if tags.intersection(matching_tags.get(term, ())):
            where.append(TAG)
        if where:
            yield MatchedTerm(spelt(term), tuple(where))
