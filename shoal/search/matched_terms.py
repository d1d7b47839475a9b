"""Matched terms: the query terms that a chunk contains, and where. They explain its BM25 and its field
boost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.models.scores import MatchedTerm
from shoal.search.inflections import find_inflections
from shoal.search.query_language import Term
from shoal.search.text_words import Occurrence, TextWords
from shoal.words.typed import folded, stems_of

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
    term_stems = [(term, stems_of(term.tokens)) for term in terms]
    others = {
        term: [(other.text, stems_of(other.tokens)) for other in forms]
        for term, forms in (synonyms or {}).items()
    }
    wanted = {stem for _, stems in term_stems for stem in stems}
    wanted.update(stem for forms in others.values() for _, stems in forms for stem in stems)
    read = {
        TITLE: TextWords([chunk.title for chunk in chunks]),
        # The index holds the headings as one text.
        HEADINGS: TextWords(["\n".join(chunk.headings) for chunk in chunks]),
        TEXT: TextWords([chunk.text for chunk in chunks]),
    }
    inflections = find_inflections(
        {folded(token) for term in terms for token in term.tokens},
        set().union(*(words.forms(wanted) for words in read.values())),
    )
    by_place = [words.find(wanted) for words in read.values()]
    matched = []
    for chunk, *found in zip(chunks, *by_place, strict=True):
        texts = chunk.title, "\n".join(chunk.headings), chunk.text
        places = dict(zip(read, map(_Found, texts, found), strict=True))
        tags = set(chunk.tags)
        matched.append(tuple(_matched(term_stems, others, places, inflections, matching_tags, tags)))
    return matched


def format_term(term: Term) -> str:
    """Return a term as typed in a query."""
    words = f'"{term.text}"' if len(term.tokens) > 1 else term.text
    return f"title:{words}" if term.in_title else words


class _Found:
    """The words of a text by their terms, for finding words and phrases."""

    def __init__(self, text: str, found: Mapping[str, Sequence[Occurrence]]) -> None:
        self._text = text
        self._found = found

    def find(self, phrase: tuple[str, ...]) -> list[tuple[Occurrence, ...]]:
        """The words wherever these terms are side by side."""
        if not all(term in self._found for term in phrase):
            return []
        at = [{each.position: each for each in self._found[term]} for term in phrase]
        return [
            tuple(words[position + place] for place, words in enumerate(at))
            for position in at[0]
            if all(position + place in words for place, words in enumerate(at))
        ]

    def written(self, words: Sequence[Occurrence]) -> str:
        """The words as the text has them."""
        return " ".join(self._text[word.start : word.end] for word in words)


def _matched(
    term_stems: Sequence[tuple[Term, tuple[str, ...]]],
    others: Mapping[Term, Sequence[tuple[str, tuple[str, ...]]]],
    places: Mapping[str, _Found],
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
        matches = [(name, match) for name in matched_places for match in words[name]]
        same_stem = None
        if matches and not any(_is_inflection(match, term, inflections) for _, match in matches):
            name, match = matches[0]
            same_stem = places[name].written(match)
        if tags.intersection(matching_tags.get(term, ())):
            matched_places.append(TAG)
        if matched_places:
            present = tuple(text for text, names in found.items() if names)
            yield MatchedTerm(format_term(term), tuple(matched_places), same_stem, present)


def _is_inflection(
    words: Sequence[Occurrence], term: Term, inflections: Mapping[str, frozenset[str]]
) -> bool:
    pairs = zip(words, term.tokens, strict=True)
    return all(folded(token) in inflections.get(word.form, ()) for word, token in pairs)
