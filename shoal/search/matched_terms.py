"""Matched terms: the query terms that a chunk contains, and where. They explain its BM25 and its field
boost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.models.scores import MatchedTerm
from shoal.search.inflections import find_inflections
from shoal.search.query_language import Term, folded, stems_of, tokens_of

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
    terms: Sequence[Term],
    matching_tags: Mapping[Term, Sequence[str]],
    chunks: Sequence[ChunkTexts],
    synonyms: Mapping[Term, Sequence[Term]] | None = None,
) -> list[tuple[MatchedTerm, ...]]:
    """Return the matched terms of each chunk, in the order of the query; compares stems like the index, and
    says if only the stem is the same. `synonyms`: other forms of terms."""
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
    others = {
        term: [(other.text, stems_of(other.tokens)) for other in forms]
        for term, forms in (synonyms or {}).items()
    }
    wanted = {stem for _, term_stem in term_stems for stem in term_stem}
    inflections = find_inflections(
        {folded(token) for term in terms for token in term.tokens},
        {folded(form) for form in forms if stems[form] in wanted},
    )
    matched = []
    for chunk, (title, headings, text) in zip(chunks, tokens, strict=True):
        places = {
            TITLE: _Stems([title], stems),
            # The index holds the headings as one text.
            HEADINGS: _Stems([[token for heading in headings for token in heading]], stems),
            TEXT: _Stems([text], stems),
        }
        tags = set(chunk.tags)
        matched.append(tuple(_matched(term_stems, others, places, inflections, matching_tags, tags)))
    return matched


def format_term(term: Term) -> str:
    """Return a term as typed in a query."""
    words = f'"{term.text}"' if len(term.tokens) > 1 else term.text
    return f"title:{words}" if term.in_title else words


class _Stems:
    """The words of a text by their stems, for finding words and phrases."""

    def __init__(self, texts: Iterable[Sequence[str]], stems: Mapping[str, str]) -> None:
        self._tokens = [token for text in texts for token in text]
        self._stems = [stems[token] for token in self._tokens]
        self._distinct = set(self._stems)

    def find(self, phrase: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The words wherever these stems are side by side."""
        if not self._distinct.issuperset(phrase):
            return []
        words, place, n = [], -1, len(phrase)
        for _ in range(self._stems.count(phrase[0])):
            place = self._stems.index(phrase[0], place + 1)
            if n == 1 or tuple(self._stems[place : place + n]) == phrase:
                words.append(tuple(self._tokens[place : place + n]))
        return words


def _matched(
    term_stems: Sequence[tuple[Term, tuple[str, ...]]],
    others: Mapping[Term, Sequence[tuple[str, tuple[str, ...]]]],
    places: Mapping[str, _Stems],
    inflections: Mapping[str, frozenset[str]],
    matching_tags: Mapping[Term, Sequence[str]],
    tags: set[str],
) -> Iterable[MatchedTerm]:
    for term, stems in term_stems:
        searched = [TITLE] if term.in_title else list(places)
        words = {name: places[name].find(stems) for name in searched}
        found = {
            text: [name for name in searched if places[name].find(other)]
            for text, other in others.get(term, ())
        }
        matched_places = [
            name for name in searched if words[name] or any(name in by_form for by_form in found.values())
        ]
        distinct = dict.fromkeys(match for name in matched_places for match in words[name])
        same_stem = None
        if distinct and not any(_is_inflection(match, term, inflections) for match in distinct):
            same_stem = " ".join(next(iter(distinct)))
        if tags.intersection(matching_tags.get(term, ())):
            matched_places.append(TAG)
        if matched_places:
            present = tuple(text for text, names in found.items() if names)
            yield MatchedTerm(format_term(term), tuple(matched_places), same_stem, present)


def _is_inflection(words: Sequence[str], term: Term, inflections: Mapping[str, frozenset[str]]) -> bool:
    return all(
        folded(token) in inflections.get(folded(word), ())
        for word, token in zip(words, term.tokens, strict=True)
    )
