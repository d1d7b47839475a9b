"""Counterfactuals: which change of one word would move a passage, or give a search another first result.

The parts of the score choose the words; then the search runs again for each, so nothing here is an estimate.
The number of searches is bounded, whatever the query and the library.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lagoon.tokens import STOP_WORDS
from shoal.chunking.analysis import passage_profile
from shoal.index import scoring
from shoal.index.matching import count_roughly
from shoal.index.scoring import BM25, WeightedTerm, idf
from shoal.index.upkeep import ChangedChunk
from shoal.learning.scorers import scorer_for
from shoal.models.explanations import Counterfactual, Counterfactuals, WordChange
from shoal.models.search import SearchMode
from shoal.search.library_index import LibraryIndex, LibraryView
from shoal.search.matched_terms import Occurrence, TextWords
from shoal.search.ranking import Ranked
from shoal.search.results import find_shared_reefs, reef_part
from shoal.search.searcher import RankedSearch, Searcher
from shoal.search.signals import term_weight
from shoal.storage.chunk_queries import profiles_of
from shoal.words.analysis import folded, stems_of, tokens_of

MOST_OF_QUERY = 6
"""Words of the query that are left out, one at a time."""
MOST_OF_PASSAGE = 6
"""Words of the passage that are left out, one at a time."""
MOST_ADDED = 16
"""Most characteristic words of a missing passage that are tried. Halving finds the weakest one that brings it
onto the page."""
MOST_IN_VAIN = 3
"""Words that are tried before no word is expected to bring it there."""
SHORTEST_ADDED = 3
"""Letters of a word that is added to the query."""
OPENING, CLOSING = "([{\"“„‟«»‹›＂'‘", ")]}\"”“»«›‹＂'’.,;:!?…"
IN_TITLE = "title:"

PASSAGE = """
    SELECT d.title, s.path AS section_path, c.text
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id
    WHERE c.id = :chunk_id
"""
TITLE_OF = "SELECT title FROM documents WHERE id = :document_id"


def with_text(view: LibraryView, chunk_id: int, text: str) -> LibraryIndex:
    """Return the index as it would be if a live chunk had another text below the same title and headings."""
    row = view.snapshot.first(PASSAGE, {"chunk_id": chunk_id})
    path = json.loads(row["section_path"])
    scorer = scorer_for("\n\n".join([row["title"], *path, text]), view.snapshot, view.scorer)
    profile = passage_profile(text, row["title"], path, scorer, view.settings)
    return view.library.with_chunk(view.snapshot, chunk_id, ChangedChunk(text, profile))


class Outcome(NamedTuple):
    """The rank of a chunk, None if it is no result, and the first result, None if there is none."""

    rank: int | None
    first: Ranked | None


class Reruns:
    """Runs a search again with another query or index. `n`: how often it ran."""

    def __init__(self, searcher: Searcher, search: RankedSearch, chunk_id: int) -> None:
        self._searcher = searcher
        self._search = search
        self._chunk_id = chunk_id
        # What meets the filters is the same in all searches of one index.
        self._shared = dataclasses.replace(search.prepared.filters, shared={})
        self.now = self._outcome(search)
        self.n = 0

    def with_query(self, query: str) -> Outcome:
        """Run the search with another query. Its vector stays."""
        prepared = self._search.prepared
        request = dataclasses.replace(prepared.request, query=query)
        prepared = dataclasses.replace(prepared, request=request, filters=self._shared)
        self.n += 1
        return self._outcome(self._searcher.rank(self._search.view, prepared))

    def with_index(self, library: LibraryIndex) -> Outcome:
        """Run the search on another index."""
        self.n += 1
        view = self._search.view._replace(library=library)
        return self._outcome(self._searcher.rank(view, self._search.prepared))

    def _outcome(self, search: RankedSearch) -> Outcome:
        limit = search.request.limit_per_document
        place = search.ranking.library.index.place_of(self._chunk_id)
        is_result = place is not None and bool(search.ranking.order.is_result[place])
        first = search.ranking.first(1, limit)
        rank = search.ranking.rank_of(self._chunk_id, limit) if is_result else None
        return Outcome(rank, first[0] if first else None)


def find_counterfactuals(
    searcher: Searcher, search: RankedSearch, chunk: Ranked | None
) -> Counterfactuals | None:
    """Return what moves a chunk, or the first result if there is none; None without results, and where
    vectors alone rank."""
    request, view = search.request, search.view
    if request.mode is SearchMode.dense:
        return None
    first = search.ranking.first(1, request.limit_per_document)
    chunk = next(iter(first), None) if chunk is None else chunk
    if chunk is None:
        return None
    reruns = Reruns(searcher, search, chunk.chunk_id)
    explained = search.explained(chunk)
    text = explained.text
    words = words_of_passage(text)
    outcomes = [
        (WordChange.query_without, word, reruns.with_query(query))
        for word, query in queries_without(search, chunk)
    ]
    # A shortlist ranks whole documents, and the changed index has a part of this one.
    if reruns.now.rank is not None and not request.shortlist:
        for stem in strongest_words(search, chunk, text, words)[:MOST_OF_PASSAGE]:
            library = with_text(view, chunk.chunk_id, without_words(text, words, [stem]))
            shown = shown_word(text, words[stem])
            outcomes.append((WordChange.passage_without, shown, reruns.with_index(library)))
    last = request.start + request.top_k
    if _is_behind(reruns.now.rank, last) and _may_be_found(search, chunk):
        added = [shown_word(text, words[stem]) for stem in characteristic_words(search, words)]
        found = _weakest(added, lambda word: reruns.with_query(f"{request.query} {word}"), last)
        outcomes += [(WordChange.query_with, word, outcome) for word, outcome in found]
    changes = [
        _counterfactual(view, reruns.now, change, word, outcome)
        for change, word, outcome in outcomes
        if outcome.rank != reruns.now.rank or _id_of(outcome.first) != _id_of(reruns.now.first)
    ]
    return Counterfactuals(
        chunk.chunk_id,
        explained.document_title,
        explained.why,
        explained.reasons,
        reruns.now.rank,
        tuple(sorted(changes, key=lambda each: _order(each, reruns.now.rank, last))),
        reruns.n,
    )


def _is_behind(rank: int | None, last: int) -> bool:
    return rank is None or rank > last


def _may_be_found(search: RankedSearch, chunk: Ranked) -> bool:
    """Whether no filter or pin keeps a chunk out that another query would still meet."""
    place = search.ranking.library.index.place_of(chunk.chunk_id)
    if place is None:
        return False
    return bool(search.ranking.order.is_result[place]) or not search.ranking.matches(chunk.chunk_id)


def _order(change: Counterfactual, rank: int | None, last: int) -> tuple[bool, float]:
    """Bringing a missing chunk onto the page comes first, then the largest change of rank."""
    helps = _is_behind(rank, last) and not _is_behind(change.rank, last)
    far = float("inf")
    now, then = (far if each is None else each for each in (rank, change.rank))
    return not helps, -abs(then - now) if then != now else 0.0


def _id_of(ranked: Ranked | None) -> int | None:
    return None if ranked is None else ranked.chunk_id


def _counterfactual(
    view: LibraryView, now: Outcome, change: WordChange, word: str, outcome: Outcome
) -> Counterfactual:
    first = outcome.first
    title = None if first is None else view.snapshot.value(TITLE_OF, {"document_id": first.document_id})
    what = {
        WordChange.query_without: f"without “{word}” in the query",
        WordChange.passage_without: f"without “{word}” in its text",
        WordChange.query_with: f"with “{word}” in the query",
    }[change]
    effects = []
    if outcome.rank != now.rank:
        effects.append(f"it would be number {outcome.rank:,}" if outcome.rank else "it would be no result")
    if first is None:
        effects.append("nothing would be found")
    elif outcome.rank != 1 and _id_of(first) != _id_of(now.first):
        is_same = now.first is not None and now.first.document_id == first.document_id
        effects.append(f"{'another passage of ' if is_same else ''}“{title}” would be first")
    return Counterfactual(
        change, word, outcome.rank, _id_of(first), title, f"{what}, {' and '.join(effects)}"
    )


def queries_without(search: RankedSearch, chunk: Ranked) -> Iterator[tuple[str, str]]:
    """Yield words of the query and the query without each, at most `MOST_OF_QUERY`: those that the chunk
    holds before others, rare ones first. Nothing for a query of one word."""
    query, parsed = search.request.query, search.analyzed_query.parsed
    spans: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for start, end in _word_spans(parsed.about):
        tokens = tokens_of(query[start:end])
        if any(folded(token) not in STOP_WORDS for token in tokens):
            spans[stems_of(tokens)].append((start, end))
    if len(spans) < 2:
        return
    weights: defaultdict[tuple[str, ...], float] = defaultdict(float)
    places = search.ranking.library.index.places_of([chunk.chunk_id])
    statistics, matches = search.analyzed_query.term_statistics, search.analyzed_query.matches
    for term, weight in statistics.weights.items():
        is_held = term in matches and bool(matches[term].are_in(places)[0])
        for stems in spans:
            if not set(stems_of(term.tokens)).isdisjoint(stems):
                weights[stems] += weight + is_held
    for stems in sorted(spans, key=lambda each: -weights[each])[:MOST_OF_QUERY]:
        start, end = spans[stems][0]
        yield query[start:end], _without(query, spans[stems])


def _word_spans(about: str) -> Iterator[tuple[int, int]]:
    """The words of a query as typed: what stands between blanks, without the signs around it."""
    at = 0
    for piece in about.split():
        at = about.index(piece, at)
        word = piece.lstrip(OPENING)
        start = at + len(piece) - len(word)
        at += len(piece)
        word = word.rstrip(CLOSING)
        if word:
            yield start, start + len(word)


def _without(query: str, spans: Iterable[tuple[int, int]]) -> str:
    """The query without some words. An operator of a word alone goes with it."""
    for start, end in sorted(spans, reverse=True):
        before, after = query[:start], query[end:]
        opened = before.rstrip(OPENING)
        if opened.lower().endswith(IN_TITLE):
            if len(opened) == len(before):
                before = before[: -len(IN_TITLE)]
            elif after[:1] and after[0] in CLOSING:
                before, after = opened[: -len(IN_TITLE)], after[1:]
        query = before + after
    return query


Words = Mapping[str, Sequence[Occurrence]]
"""The occurrences of the words of a text by their stems."""


def words_of_passage(text: str) -> Words:
    """Return the words of a text by their stems, as the index has them."""
    words = TextWords([text])
    return words.find(frozenset(stems_of(words.all_forms)))[0]


def without_words(text: str, words: Words, stems: Iterable[str]) -> str:
    """Return a text without some words, in any inflection."""
    spans = sorted(((each.start, each.end) for stem in stems for each in words[stem]), reverse=True)
    left = len(text)
    for start, end in spans:
        # A compound covers its parts.
        text = text[:start] + text[min(end, left) :]
        left = start
    return text


def shown_word(text: str, occurrences: Sequence[Occurrence]) -> str:
    """Return a word as a text has it, in lower case if it does so anywhere."""
    written = [text[each.start : each.end] for each in occurrences]
    return next((word for word in written if word == word.lower()), written[0])


def strongest_words(search: RankedSearch, chunk: Ranked, text: str, words: Words) -> list[str]:
    """Return the words of a chunk by their stems, those first that add most to its score: by their BM25, and
    by what they add to the reefs that it shares with the query."""
    view, query, ranking = search.view, search.analyzed_query, search.ranking
    place = ranking.library.index.place_of(chunk.chunk_id)
    parts: defaultdict[str, float] = defaultdict(float)
    unit = query.weights.lexical / ranking.signals.lexical.best
    for term, found in query.matches.items():
        weighted = WeightedTerm(found, term_weight(query.parsed, term), has_context=True)
        part = unit * float(scoring.score_terms(ranking.library.index, [weighted])[place])
        forms = [term, *query.parsed.synonyms.get(term, ())]
        for stem in {stem for form in forms for stem in stems_of(form.tokens)}:
            parts[stem] += part
    stored = profiles_of(view.snapshot, [chunk.chunk_id]).scored_with(view.scorer.data_checksum)
    of_reefs = {chunk.chunk_id: reef_part(chunk, search.request.mode, query)}
    shared = find_shared_reefs(stored, of_reefs, query, view.settings.label_threshold).get(chunk.chunk_id, ())
    share_of = {reef.reef_id: reef.share for reef in shared}
    added: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for match in scorer_for(text, view.snapshot, view.scorer).explain_words(text):
        stems = stems_of(tokens_of(match.token))
        for reef_id, contribution in match.reefs:
            for stem in stems:
                added[reef_id][stem] += contribution
    for reef_id, by_stem in added.items():
        total = sum(by_stem.values())
        for stem, contribution in by_stem.items():
            parts[stem] += share_of.get(reef_id, 0.0) * contribution / total if total else 0.0
    return sorted((stem for stem in words if parts[stem] > 0), key=lambda stem: (-parts[stem], stem))


def characteristic_words(search: RankedSearch, words: Words) -> list[str]:
    """Return the stems of the `MOST_ADDED` words of a passage that would tell it best from others, beside
    those of the query."""
    index = search.ranking.library.index
    known = {stem for term in search.analyzed_query.parsed.terms for stem in stems_of(term.tokens)}
    impacts = {}
    for stem, occurrences in words.items():
        form = occurrences[0].form
        if stem in known or form in STOP_WORDS or len(form) < SHORTEST_ADDED or not form.isalpha():
            continue
        frequency = len(occurrences)
        rarity = idf(index.totals.n_chunks, min(count_roughly(index, stem), index.totals.n_chunks))
        impacts[stem] = rarity * frequency / (frequency + BM25.k1)
    return sorted(impacts, key=lambda stem: (-impacts[stem], stem))[:MOST_ADDED]


def _weakest(words: Sequence[str], run: Callable[[str], Outcome], last: int) -> list[tuple[str, Outcome]]:
    """The weakest of some words, strongest first, with which the chunk is among the first `last`; none if
    the strongest do not bring it there."""
    low, high = 0, len(words)
    for word in words[:MOST_IN_VAIN]:
        low += 1
        found = word, run(word)
        if not _is_behind(found[1].rank, last):
            break
    else:
        return []
    while low < high:
        middle = (low + high) // 2
        outcome = run(words[middle])
        if _is_behind(outcome.rank, last):
            high = middle
        else:
            found, low = (words[middle], outcome), middle + 1
    return [found]
