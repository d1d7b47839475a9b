"""The ranking of one owner's notes for a query, step by step; every step can be explained.

    fused = 1 / (k + rank by words) + 1 / (k + rank by reefs)        shoal.notes.fusion
    final = fused * affinity + relevance_part                        affinity, relevance

Words are ranked by BM25 with the statistics of the owner's active notes alone, reefs by their overlap with
the profile. Gates and filters come last: they decide which notes are results and change no score.

The relevance part is 0.01 times the relevance, as 002 has it, for up to `RELEVANCE_NOTES` notes. The scores
of more notes are closer together, and the part shrinks with them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index.lexical import BM25, UNIT, Bm25, idf
from shoal.index.overlaps import OVERLAP_UNIT
from shoal.learning.scorers import scorer_for
from shoal.models.notes import NoteScores
from shoal.models.queries import QueryReef
from shoal.notes.affinity import factor, similarity_of_share, tag_weights
from shoal.notes.environment import Environment
from shoal.notes.fusion import NO_RANK, among_largest, fusion_constant, rank_parts, ranks
from shoal.notes.note_index import NoteIndex, Occurrences, parse_list, parse_relevance
from shoal.notes.prerequisites import Prerequisites
from shoal.notes.relevance import boost, is_filtered, relevance_in
from shoal.scorer import Scorer
from shoal.search.query_profile import MAX_REEFS_WITH_WORDS, make_profile
from shoal.settings import Settings
from shoal.storage.database import Snapshot
from shoal.words.terms import TERMS
from shoal.words.typed import content_words

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

RELEVANCE_NOTES = 100
"""Up to this many notes, a relevance of 1 adds `note_relevance_weight`: with 0.01, a tenth of the best score
of 100 notes. With more notes it stays this share of the best score."""


class QueryTerm(NamedTuple):
    """A term of a query: how often it is in it, and the first word that has it, in lower case."""

    term: str
    word: str
    frequency: int


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """A query for notes. It has no operators: `text` may be a prompt or a command.

    terms      distinct, without stop words, in order; at most `max_query_terms`
    reefs      strongest first
    """

    text: str
    terms: tuple[QueryTerm, ...]
    reefs: tuple[QueryReef, ...]

    @property
    def query_z(self) -> dict[int, float]:
        return {reef.reef_id: reef.z_score for reef in self.reefs}


@dataclass(frozen=True, slots=True)
class NoteFilters:
    """What a result must meet.

    environment  gates and tags; None if nothing is known, and then all gates hold
    category     or one of its subcategories
    tags         all of them
    shown        ids of notes that the session was shown already
    """

    environment: Environment | None = None
    category: str | None = None
    kind: str | None = None
    tags: tuple[str, ...] = ()
    shown: tuple[int, ...] = ()


class Step(NamedTuple):
    """A gate or filter: which of the ranked notes pass it."""

    name: str
    passes: Bools


@dataclass(frozen=True)
class NoteRanking:
    """The notes that a signal matches, in any order; every array has an element for each.

    places                   in the index
    words, reefs             raw scores, in units of 1 / UNIT and 1 / OVERLAP_UNIT
    words_rank, reefs_rank   from 0; `NO_RANK` without a match
    relevance                mean relevance; NaN without judgements
    steps                    gates and filters, in order
    """

    index: NoteIndex
    k: int
    places: Ints
    words: Ints
    reefs: Ints
    words_rank: Ints
    reefs_rank: Ints
    affinity: Doubles
    similarity: Doubles
    relevance: Doubles
    relevance_part: Doubles
    steps: tuple[Step, ...]

    @functools.cached_property
    def words_part(self) -> Doubles:
        return rank_parts(self.words_rank, self.k)

    @functools.cached_property
    def reefs_part(self) -> Doubles:
        return rank_parts(self.reefs_rank, self.k)

    @functools.cached_property
    def final(self) -> Doubles:
        return (self.words_part + self.reefs_part) * self.affinity + self.relevance_part

    @functools.cached_property
    def is_result(self) -> Bools:
        passes = np.ones(len(self.places), dtype=np.bool_)
        for step in self.steps:
            passes &= step.passes
        return passes

    @functools.cached_property
    def note_ids(self) -> Ints:
        return self.index.note_ids[self.places]

    def first(self, n: int) -> list[int]:
        """Return the ordinals of the best results, best first; equal scores by id."""
        results = np.flatnonzero(self.is_result)
        results = results[among_largest(self.final[results], n)]
        order = np.lexsort((self.note_ids[results], -self.final[results]))
        best: list[int] = results[order[:n]].tolist()
        return best

    def ordinal_of(self, note_id: int) -> int | None:
        """Return the ordinal of a note; None if no signal matches it."""
        found = np.flatnonzero(self.note_ids == note_id)
        return int(found[0]) if len(found) else None

    def rank_of(self, ordinal: int) -> int | None:
        """Return the rank of a note among the results, from 1; None if it is none."""
        if not self.is_result[ordinal]:
            return None
        final, results = self.final[ordinal], self.is_result
        is_better = self.final[results] > final
        is_before = (self.final[results] == final) & (self.note_ids[results] < self.note_ids[ordinal])
        return 1 + int(np.count_nonzero(is_better | is_before))

    def scores(self, ordinal: int) -> NoteScores:
        """Return how the score of a note came about."""

        def rank(ranks: Ints) -> int | None:
            return None if ranks[ordinal] == NO_RANK else int(ranks[ordinal])

        def known(values: Doubles) -> float | None:
            return None if math.isnan(values[ordinal]) else float(values[ordinal])

        return NoteScores(
            bm25=int(self.words[ordinal]) / UNIT,
            overlap=int(self.reefs[ordinal]) / OVERLAP_UNIT,
            words_rank=rank(self.words_rank),
            reefs_rank=rank(self.reefs_rank),
            k=self.k,
            words_part=float(self.words_part[ordinal]),
            reefs_part=float(self.reefs_part[ordinal]),
            fused=float(self.words_part[ordinal] + self.reefs_part[ordinal]),
            affinity=float(self.affinity[ordinal]),
            tag_similarity=known(self.similarity),
            relevance=known(self.relevance),
            relevance_part=float(self.relevance_part[ordinal]),
            final=float(self.final[ordinal]),
        )


def analyze(snapshot: Snapshot, scorer: Scorer, settings: Settings, text: str) -> NoteQuery:
    """Analyze a query with the words that the library knows in this snapshot. `scorer` has none of them."""
    profile = make_profile(text, scorer_for(text, snapshot, scorer), reefs_per_query=settings.reefs_per_query)
    return NoteQuery(text, query_terms(text, settings.max_query_terms), profile.reefs[:MAX_REEFS_WITH_WORDS])


def query_terms(text: str, limit: int) -> tuple[QueryTerm, ...]:
    """Return the first `limit` distinct terms of a text without stop words, in order."""
    forms = [word.form for word in content_words(text)]
    found: dict[str, QueryTerm] = {}
    for form, term in zip(forms, TERMS.of_forms(forms), strict=True):
        known = found.get(term)
        if known is not None:
            found[term] = known._replace(frequency=known.frequency + 1)
        elif len(found) < limit:
            found[term] = QueryTerm(term, form, 1)
    return tuple(found.values())


class Statistics(NamedTuple):
    """What BM25 needs of a collection: the number of texts, and the mean lengths of text and title."""

    n: int
    mean_text: float
    mean_title: float


def statistics_of(index: NoteIndex) -> Statistics:
    """Return the statistics of an owner's active notes."""
    n_notes, n_text, n_title = index.totals
    return Statistics(n_notes, n_text / max(n_notes, 1), n_title / max(n_notes, 1))


def bm25(
    index: NoteIndex, terms: Iterable[QueryTerm], statistics: Statistics | None = None, bm25: Bm25 = BM25
) -> Ints:
    """Return the BM25 of the note at each place, in units of 1 / UNIT.

    It is the formula of passages (`shoal.index.lexical`) for text and title, by default with the statistics
    of the owner's active notes.
    """
    statistics = statistics or statistics_of(index)
    totals = np.zeros(len(index), dtype=np.int64)
    for term in terms:
        found = index.occurrences(term.term)
        if len(found.places):
            scale = UNIT * (bm25.k1 + 1) * math.sqrt(term.frequency) * idf(statistics.n, len(found.places))
            frequency = _frequency(found, statistics, bm25)
            impacts = np.maximum(np.rint(scale * frequency / (frequency + bm25.k1)), 1.0)
            totals[found.places] += impacts.astype(np.int64)
    return totals


def _frequency(found: Occurrences, statistics: Statistics, bm25: Bm25) -> Doubles:
    """The weighted frequency of a term in some notes."""

    def norm(lengths: Ints, mean: float) -> Doubles:
        return 1 - bm25.b + bm25.b * (lengths / (mean or 1.0))

    frequency: Doubles = bm25.weights.text * found.in_text / norm(found.text, statistics.mean_text)
    frequency += bm25.weights.title * found.in_title / norm(found.title, statistics.mean_title)
    return frequency


def rank_notes(index: NoteIndex, query: NoteQuery, filters: NoteFilters, settings: Settings) -> NoteRanking:
    """Rank the notes of an index."""
    words, reefs = bm25(index, query.terms), index.overlaps(query.query_z)
    places = np.flatnonzero((words > 0) | (reefs > 0))
    words, reefs = words[places], reefs[places]
    k = fusion_constant(index.n_active)
    values = _FacetValues(index, places)
    tags = () if filters.environment is None else tuple(filters.environment.tags)
    similarity, factors = _affinities(values, tags)
    relevance, parts, is_relevant = _relevances(values, tags, k, settings)
    return NoteRanking(
        index=index,
        k=k,
        places=places,
        words=words,
        reefs=reefs,
        words_rank=ranks(words),
        reefs_rank=ranks(reefs),
        affinity=factors,
        similarity=similarity,
        relevance=relevance,
        relevance_part=parts,
        steps=(Step("relevance", is_relevant), *_filter_steps(values, filters)),
    )


@dataclass(frozen=True)
class _FacetValues:
    """The values of facets of some places of an index."""

    index: NoteIndex
    places: Ints
    _numbers: dict[str, NDArray[np.int32]] = field(default_factory=dict)

    def numbers(self, facet: str) -> NDArray[np.int32]:
        if facet not in self._numbers:
            self._numbers[facet] = self.index.facet(facet)[self.places]
        return self._numbers[facet]

    def distinct(self, facet: str) -> list[tuple[int, str]]:
        """Each value that occurs, with its number."""
        values = self.index.facets.values(facet)
        counts = np.bincount(self.numbers(facet), minlength=len(values))
        return [(number, values[number]) for number in np.flatnonzero(counts).tolist()]

    def table(self, facet: str, value: float) -> Doubles:
        """A value for each number of a facet."""
        return np.full(len(self.index.facets.values(facet)), value)

    def meet(self, facet: str, condition: Callable[[str], bool]) -> Bools:
        """Whether the value of each place meets a condition."""
        met = np.zeros(len(self.index.facets.values(facet)), dtype=np.bool_)
        for number, value in self.distinct(facet):
            met[number] = condition(value)
        return met[self.numbers(facet)]


def _affinities(values: _FacetValues, environment_tags: Sequence[str]) -> tuple[Doubles, Doubles]:
    """(similarity or NaN, factor) of each note."""
    similarities, factors = values.table("tags", math.nan), values.table("tags", 1.0)
    if environment_tags:
        sets = values.index.tag_sets
        weigh = tag_weights(values.index.n_active, values.index.notes_by_tag)
        weights = np.array([weigh(tag) for tag in sets.tags])
        is_shared = np.isin(np.array(sets.tags, dtype=np.str_), np.array(environment_tags, dtype=np.str_))
        n = len(similarities)
        totals = np.bincount(sets.set_of, weights=weights[sets.tag_of], minlength=n)
        shared = np.bincount(sets.set_of, weights=(weights * is_shared)[sets.tag_of], minlength=n)
        tagged = np.flatnonzero(totals)
        similarities[tagged] = similarity_of_share(shared[tagged] / totals[tagged])
        factors[tagged] = factor(similarities[tagged])
    numbers = values.numbers("tags")
    return similarities[numbers], factors[numbers]


def relevance_scale(k: int) -> float:
    """Return the share of the relevance part that counts with this constant of rank fusion."""
    return min(1.0, fusion_constant(RELEVANCE_NOTES) / k)


def _relevances(
    values: _FacetValues, environment_tags: Sequence[str], k: int, settings: Settings
) -> tuple[Doubles, Doubles, Bools]:
    """(average or NaN, part of the score, whether the note is not filtered) of each note."""
    n = len(values.places)
    if not environment_tags or not values.index.is_judged:
        return np.full(n, math.nan), np.zeros(n), np.ones(n, dtype=np.bool_)
    averages, parts = values.table("relevance", math.nan), values.table("relevance", 0.0)
    passes = np.ones(len(averages), dtype=np.bool_)
    for number, value in values.distinct("relevance"):
        found = relevance_in(parse_relevance(value), environment_tags)
        if found.n_evals:
            averages[number] = found.average
            parts[number] = boost(found, settings) * relevance_scale(k)
            passes[number] = not is_filtered(found, settings)
    numbers = values.numbers("relevance")
    return averages[numbers], parts[numbers], passes[numbers]


def _filter_steps(values: _FacetValues, filters: NoteFilters) -> Iterable[Step]:
    environment = filters.environment
    if environment is not None:
        yield Step(
            "prerequisites",
            values.meet("prerequisites", lambda value: prerequisites_of(value).hold_in(environment)),
        )
    if filters.category is not None:
        category = filters.category
        yield Step(
            "category", values.meet("categories", lambda value: is_in_category(parse_list(value), category))
        )
    if filters.kind is not None:
        yield Step("kind", values.meet("kind", lambda value: value == filters.kind))
    if filters.tags:
        wanted = set(filters.tags)
        yield Step("tags", values.meet("tags", lambda value: wanted <= set(parse_list(value))))
    if filters.shown:
        yield Step("shown", ~values.index.is_one_of(filters.shown)[values.places])


@functools.lru_cache(maxsize=4_096)
def prerequisites_of(value: str) -> Prerequisites:
    """Parse stored prerequisites."""
    import json

    return Prerequisites.from_json(json.loads(value))


def is_in_category(paths: Iterable[str], category: str) -> bool:
    """Whether any of the paths is the category or one of its subcategories."""
    return any(path == category or path.startswith(f"{category}/") for path in paths)


def matched_words(
    index: NoteIndex, terms: Iterable[QueryTerm], places: Sequence[int]
) -> list[tuple[str, ...]]:
    """Return the words of a query that each of some notes has, in the order of the query."""
    words: list[list[str]] = [[] for _ in places]
    for term in terms:
        found = set(index.occurrences(term.term).places.tolist())
        for place, own in zip(places, words, strict=True):
            if place in found:
                own.append(term.word)
    return [tuple(dict.fromkeys(own)) for own in words]


def reef_shares(
    query_z: Mapping[int, float], profile: Mapping[int, float], n: int
) -> list[tuple[int, float]]:
    """Return the `n` reefs that contribute most to an overlap, with their share of it; `profile`: z-scores of
    the note by reef."""
    products = {reef_id: z * profile[reef_id] for reef_id, z in query_z.items() if reef_id in profile}
    total = math.fsum(products.values())
    largest = sorted(products.items(), key=lambda pair: (-pair[1], pair[0]))[:n]
    return [(reef_id, product / total) for reef_id, product in largest]
