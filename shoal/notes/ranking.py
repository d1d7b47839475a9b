"""The ranking of one owner's notes for a query, step by step; every step can be explained.

    words       BM25F of note and session / that of a note with every word of the query once
    passage     the same of the passage: the notes around it in its session, as one text
    reefs       OF_REEFS * overlap with the profile / the largest one
    vectors     OF_VECTORS * cosine above the floor of the query / the largest one, with an encoder
    similarity  OF_SIMILARITY * similarity / the largest one, for the best by the others
    turn        OF_SPEAKER if the query names the speaker of a turn, less OF_QUESTION if the turn asks; for a
                note, OF_SELF if query and note are about the one who asks
    recency     OF_RECENCY, halved for every HALF_LIFE days before the newest note
    fact        what the best of the notes that it replaced scores more
    signals     the sum of these parts
    final       signals * affinity + relevance_part       affinity, relevance

Words have the statistics of the owner's active notes alone. Notes of a session follow each other, and each
has a share of the words of those around it, as passages have of their document. Gates and filters come last:
they decide which notes are results and change no score. Of the notes of a fact, the valid one is a result.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index.scoring import BM25, OVERLAP_UNIT, UNIT, idf
from shoal.models.notes import TURN, NoteScores
from shoal.notes.affinity import factor, similarity_of_share, tag_weights
from shoal.notes.environment import Environment
from shoal.notes.note_index import NO_DAY, NoteIndex, Occurrences, parse_list, parse_relevance
from shoal.notes.note_query import SELF_TERMS, NoteQuery, QueryTerm
from shoal.notes.note_vectors import NoteCosines
from shoal.notes.prerequisites import Prerequisites
from shoal.notes.relevance import boost, is_filtered, relevance_in
from shoal.search.signals import PAIR_SHARE
from shoal.settings import Settings
from shoal.words.analysis import terms_of

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

NOTE_BM25 = BM25._replace(b=0.3)
"""Notes are short, and their lengths say less than those of passages."""
CONTEXT_SHARES = (0.5, 0.4)
"""What a word counts for the notes that are one and two before and behind in the session, in parts of its
BM25. This and the weights below were chosen on three conversations (`benchmarks/locomo.py`) and on half of
the statements of `benchmarks/similarity.py`."""
OF_PASSAGE = 1.0
"""What a passage with every word of the query adds to the score of each of its notes."""
PASSAGE_B = 0.75
"""How much the length of a passage counts (the `b` of BM25)."""
OF_SPEAKER = 0.2
"""What a turn has more whose speaker the query names: who says *I* is seldom named."""
OF_QUESTION = 0.15
"""What a turn has less that ends with a question mark: it has the words of a question, not the answer."""
OF_SELF = 0.05
"""What a note with *I*, *my* or *the user* has more if the query has *I* or *my*: of notes that match about
equally, those about others are no answer. A fifth and four times as much give the same results
(`benchmarks/memory_year.py`)."""
USER_TERMS = (*SELF_TERMS, *terms_of("user"))
OF_RECENCY = 0.02
"""What the newest note has more: it decides between notes that match about equally."""
HALF_LIFE = 90
"""Days after which half of that is left."""
OF_REEFS = 0.1
"""What the largest overlap adds to a score; all words of the query in one note add about 1."""
OF_VECTORS, OF_TURN_VECTORS = 0.9, 0.3
"""What the largest cosine adds to the score of a note and of a turn. More is better for notes
(`benchmarks/note_tasks.py`), and worse for turns (`benchmarks/locomo.py`)."""
MOST_MARGIN = 0.3
"""Largest difference of two nearnesses that counts."""
OF_SIMILARITY = 0.2
"""What the largest similarity adds to a score."""
TINY = 1e-9
"""Keeps a division by the largest of no values finite."""
MAX_COMPARED = 50
"""Best notes whose similarity is computed."""
RELEVANCE_UNIT = 10.0
"""What `boost` is multiplied by: with a weight of 0.01, a relevance of 1 adds a tenth of what all words of
the query add."""
RUN = 256
"""Length of a run of scores; the largest of each run is compared first."""


@dataclass(frozen=True, slots=True)
class NoteFilters:
    """What a result must meet.

    environment  gates and tags; None if nothing is known, and then all gates hold
    category     or one of its subcategories
    tags         all of them
    shown        ids of notes that the session was shown already
    turns        whether turns of conversations are results without being asked for by their kind
    first_day, last_day   of what a result happened in, wholly or in part: the days that its text names, else
                 the day on which it was said; as `date.toordinal`
    valid_at     the day on which a result held; None: results hold now
    """

    environment: Environment | None = None
    category: str | None = None
    kind: str | None = None
    tags: tuple[str, ...] = ()
    shown: tuple[int, ...] = ()
    turns: bool = True
    first_day: int | None = None
    last_day: int | None = None
    valid_at: int | None = None


class Step(NamedTuple):
    """A gate or filter: which of the ranked notes pass it."""

    name: str
    passes: Bools


@dataclass(frozen=True)
class NoteRanking:
    """The notes that a signal matches, in any order; every array has an element for each.

    places                   in the index
    words, reefs             raw scores, in units of 1 / UNIT and 1 / OVERLAP_UNIT
    words_part to recency_part   what each signal adds
    cosine, nearness         NaN without a vector (`NoteCosines`)
    fact_ids                 the fact of each, 0 for a note that replaced none
    is_turn, is_named, is_question   of turns: all, those whose speaker the query names, those that ask
    tag_similarity           NaN without tags to compare
    relevance                mean relevance; NaN without judgements
    steps                    gates and filters, in order
    """

    index: NoteIndex
    places: Ints
    words: Ints
    reefs: Ints
    words_part: Doubles
    said_part: Doubles
    names: frozenset[str]
    passage_part: Doubles
    reefs_part: Doubles
    vectors_part: Doubles
    cosine: Doubles
    nearness: Doubles
    similarity_part: Doubles
    turn_part: Doubles
    recency_part: Doubles
    fact_ids: Ints
    is_turn: Bools
    is_named: Bools
    is_question: Bools
    affinity: Doubles
    tag_similarity: Doubles
    relevance: Doubles
    relevance_part: Doubles
    steps: tuple[Step, ...]

    def with_similarities(self, similarity: Mapping[int, float]) -> NoteRanking:
        """Return the ranking with the similarities of some notes to the query, by ordinal, as a signal.

        The largest of the `MAX_COMPARED` best notes counts as a whole, whatever the filters leave out.
        """
        parts = np.zeros(len(self.places))
        best = max((similarity[i] for i in self.most(MAX_COMPARED) if i in similarity), default=0.0)
        for ordinal, value in similarity.items():
            parts[ordinal] = OF_SIMILARITY * min(value / best, 1.0) if best else 0.0
        return dataclasses.replace(self, similarity_part=parts)

    @functools.cached_property
    def support(self) -> float:
        """How much more of the query the best turn of a named speaker holds than the best of another, -1..1,
        without names of speakers and turns that ask; 0 if the query names no speaker, or nobody else
        speaks."""
        others = self.is_turn & ~self.is_named
        if not (self.is_named.any() and others.any()):
            return 0.0
        held = np.where(self.said_part > 0, self.said_part + self.reefs_part, 0.0) * ~self.is_question
        return min(max(float(held[self.is_named].max() - held[others].max()), -1.0), 1.0)

    @functools.cached_property
    def margins(self) -> Doubles:
        """How much nearer to the query each note is than the nearest other result that is no turn, or than
        the floor, at most MOST_MARGIN; NaN without a vector."""
        of_results = np.where(self.is_result & ~self.is_turn, np.nan_to_num(self.nearness, nan=-1.0), -1.0)
        first, second = np.partition(np.r_[of_results, 0.0, 0.0], -2)[[-1, -2]]
        others = np.where(of_results >= first, second, first)
        margins: Doubles = np.clip(self.nearness - others, -MOST_MARGIN, MOST_MARGIN)
        return margins

    @functools.cached_property
    def own_signals(self) -> Doubles:
        """The sum of the parts of the signals of each note alone."""
        parts = (self.words_part, self.passage_part, self.reefs_part, self.vectors_part, self.similarity_part)
        return sum((*parts, self.turn_part, self.recency_part), np.zeros(len(self.places)))

    @functools.cached_property
    def fact_part(self) -> Doubles:
        """What the best note of the fact of each has more."""
        return self.best_of_facts(self.own_signals) - self.own_signals

    def best_of_facts(self, values: Doubles) -> Doubles:
        """Return the largest value of the notes of each one's fact; of a note without a fact, its own."""
        in_facts = np.flatnonzero(self.fact_ids)
        if not len(in_facts):
            return values
        _, groups = np.unique(self.fact_ids[in_facts], return_inverse=True)
        best = np.full(groups.max() + 1, -np.inf)
        np.maximum.at(best, groups, values[in_facts])
        largest = values.copy()
        largest[in_facts] = best[groups]
        return largest

    @functools.cached_property
    def signals(self) -> Doubles:
        """The sum of the parts of the signals, with that of the fact."""
        return self.own_signals + self.fact_part

    @functools.cached_property
    def final(self) -> Doubles:
        return self.signals * self.affinity + self.relevance_part

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
        return self._best(np.flatnonzero(self.is_result), n)

    def most(self, n: int) -> list[int]:
        """Return the ordinals of the notes with the best scores, results or not."""
        return self._best(np.arange(len(self.places)), n)

    def _best(self, results: Ints, n: int) -> list[int]:
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

        def known(values: Doubles) -> float | None:
            return None if math.isnan(values[ordinal]) else float(values[ordinal])

        return NoteScores(
            bm25=int(self.words[ordinal]) / UNIT,
            overlap=int(self.reefs[ordinal]) / OVERLAP_UNIT,
            words_part=float(self.words_part[ordinal]),
            passage_part=float(self.passage_part[ordinal]),
            reefs_part=float(self.reefs_part[ordinal]),
            similarity_part=float(self.similarity_part[ordinal]),
            turn_part=float(self.turn_part[ordinal]),
            recency_part=float(self.recency_part[ordinal]),
            fact_part=float(self.fact_part[ordinal]),
            signals=float(self.signals[ordinal]),
            affinity=float(self.affinity[ordinal]),
            tag_similarity=known(self.tag_similarity),
            relevance=known(self.relevance),
            relevance_part=float(self.relevance_part[ordinal]),
            final=float(self.final[ordinal]),
            vectors_part=float(self.vectors_part[ordinal]),
            cosine=known(self.cosine),
        )


def bm25(index: NoteIndex, terms: Iterable[QueryTerm]) -> Ints:
    """Return the BM25 of the note at each place, in units of 1 / UNIT, by its own words alone."""
    totals = np.zeros(len(index), dtype=np.int64)
    for term in terms:
        found = index.occurrences(term.term)
        totals[found.places] += _impacts(index, found, math.sqrt(term.frequency))
    return totals


class WordScores(NamedTuple):
    """Scores of the words of a query in units of 1 / UNIT, i64 (n,) each, for each place of an index.

    words     of the note
    passages  of its passage; 0 where no note has a session
    said      of the note, without words that name a speaker
    speakers  1 if a title has a word of the query, else 0
    whole, whole_said   that of a note of mean length with each term once, and without names of speakers
    names     terms of the query that name a speaker
    """

    words: Ints
    passages: Ints
    said: Ints
    speakers: Ints
    whole: float
    whole_said: float
    names: frozenset[str]


def score_words(index: NoteIndex, terms: Sequence[QueryTerm], is_turn: Bools) -> WordScores:
    """Score the words of a query. `is_turn`: (n,), of the notes.

    In a note, each term counts by its BM25, or by a share of that in a note near it in its session,
    whichever is largest; and each pair of neighbours of the query that are neighbours in the note, too. In a
    passage, each term counts by its BM25 in all of its notes together.
    """
    totals, of_names = np.zeros(len(index), dtype=np.int64), np.zeros(len(index), dtype=np.int64)
    passages, speakers = np.zeros_like(totals), np.zeros_like(totals)
    whole = whole_of_names = 0.0
    names: set[str] = set()
    norms = _passage_norms(index)
    is_found = []
    for term in terms:
        found, weight = index.occurrences(term.term), math.sqrt(term.frequency)
        most = UNIT * weight * idf(index.n_active, len(found.places))
        whole += most
        is_found.append(bool(len(found.places)))
        if not is_found[-1]:
            continue
        added = _with_context(index, found, _impacts(index, found, weight))
        totals += added
        if index.sessions is not None:
            passages += _in_passages(index, found, weight, norms)
        titled = found.places[found.in_title > 0]
        speakers[titled] = 1
        if is_turn[titled].any():
            names.add(term.term)
            of_names += added
            whole_of_names += most
    said = totals - of_names
    for (first, second), are_found in zip(
        itertools.pairwise(terms), map(all, itertools.pairwise(is_found)), strict=True
    ):
        if not are_found:
            continue
        found = index.occurrences(first.term, second.term)
        totals[found.places] += _impacts(index, found, PAIR_SHARE)
    return WordScores(totals, passages, said, speakers, whole, whole - whole_of_names, frozenset(names))


def _passage_norms(index: NoteIndex) -> Doubles:
    """By what the length of the passage of each place divides how often it has a term."""
    lengths = index.passage_lengths
    mean = float(lengths.sum()) / max(index.n_active, 1) or 1.0
    norms: Doubles = np.multiply(lengths, PASSAGE_B / mean, dtype=np.float64) + (1 - PASSAGE_B)
    return norms


def _in_passages(index: NoteIndex, found: Occurrences, weight: float, norms: Doubles) -> Ints:
    """BM25 of a term in the passage of each place."""
    counts = np.zeros(len(index), dtype=np.int64)
    counts[found.places] = found.in_text + found.in_title
    frequency = index.passages(counts) / norms
    scale = UNIT * (NOTE_BM25.k1 + 1) * weight * idf(index.n_active, len(found.places))
    return np.rint(scale * frequency / (frequency + NOTE_BM25.k1)).astype(np.int64)


def _with_context(index: NoteIndex, found: Occurrences, impacts: Ints) -> Ints:
    """What a term adds at each place of the index."""
    reach = np.zeros(len(index), dtype=np.int64)
    reach[found.places] = impacts
    if index.sessions is not None:
        for distance, share in enumerate(CONTEXT_SHARES, 1):
            of_others = np.rint(impacts * share).astype(np.int64)
            for each in (-distance, distance):
                sources, targets = index.sessions.beside(found.places, each)
                reach[targets] = np.maximum(reach[targets], of_others[sources])
    return reach


def _impacts(index: NoteIndex, found: Occurrences, weight: float) -> Ints:
    """BM25F (`shoal.index.scoring`) of a term in the notes that have it, with the statistics of the owner's
    active notes."""
    n_notes, n_text, n_title = index.totals

    def norm(lengths: Ints, n_terms: int) -> Doubles:
        return 1 - NOTE_BM25.b + NOTE_BM25.b * (lengths / (n_terms / max(n_notes, 1) or 1.0))

    frequency: Doubles = NOTE_BM25.weights.text * found.in_text / norm(found.text, n_text)
    frequency += NOTE_BM25.weights.title * found.in_title / norm(found.title, n_title)
    scale = UNIT * (NOTE_BM25.k1 + 1) * weight * idf(n_notes, len(found.places))
    return np.maximum(np.rint(scale * frequency / (frequency + NOTE_BM25.k1)), 1.0).astype(np.int64)


def rank_notes(
    index: NoteIndex,
    query: NoteQuery,
    filters: NoteFilters,
    settings: Settings,
    cosines: NoteCosines | None = None,
) -> NoteRanking:
    """Rank the notes of an index by words and reefs, and with an encoder by vectors."""
    every = _FacetValues(index, np.arange(len(index)))
    scored = score_words(index, query.terms, every.meet("kind", lambda value: value == TURN))
    reefs = index.overlaps(query.query_z)
    if cosines is None:
        cosines = NoteCosines(np.full(len(index), math.nan), 0.0)
    above = cosines.above_floor
    fact_ids = index.times("fact_id")
    is_match = (scored.words > 0) | (scored.passages > 0) | (reefs > 0) | (above > 0)
    # The valid note of a fact is a result where one that it replaced matches.
    is_match |= np.isin(fact_ids, np.unique(fact_ids[is_match & (fact_ids > 0)]))
    places = np.flatnonzero(is_match & index.is_live)
    words, reefs, above = scored.words[places], reefs[places], above[places]
    whole = max(scored.whole, 1.0)
    values = _FacetValues(index, places)
    is_turn = values.meet("kind", lambda value: value == TURN)
    is_question = values.meet("is_question", lambda value: value == "yes")
    speakers = scored.speakers[places]
    tags = () if filters.environment is None else tuple(filters.environment.tags)
    tag_similarity, factors = _affinities(values, tags)
    relevance, parts, is_relevant = _relevances(values, tags, settings)
    return NoteRanking(
        index=index,
        places=places,
        words=words,
        reefs=reefs,
        words_part=words / whole,
        said_part=scored.said[places] / max(scored.whole_said, 1.0),
        names=scored.names,
        passage_part=np.multiply(scored.passages[places], OF_PASSAGE / whole, dtype=np.float64),
        reefs_part=OF_REEFS * reefs / max(int(reefs.max(initial=0)), 1),
        vectors_part=np.where(is_turn, OF_TURN_VECTORS, OF_VECTORS)
        * (above / max(float(above.max(initial=0.0)), TINY)),
        cosine=cosines.values[places],
        nearness=cosines.nearness[places],
        similarity_part=np.zeros(len(places)),
        turn_part=np.where(
            is_turn,
            OF_SPEAKER * speakers - OF_QUESTION * is_question,
            OF_SELF * _are_of_self(index)[places] if query.is_of_self else 0.0,
        ),
        recency_part=_recency_parts(index, places),
        fact_ids=fact_ids[places],
        is_turn=is_turn,
        is_named=is_turn & (speakers > 0),
        is_question=is_question,
        affinity=factors,
        tag_similarity=tag_similarity,
        relevance=relevance,
        relevance_part=parts,
        steps=(Step("relevance", is_relevant), *_filter_steps(values, filters)),
    )


def _are_of_self(index: NoteIndex) -> Bools:
    """Whether the note at each place is about the one who asks."""
    are = np.zeros(len(index), dtype=np.bool_)
    for term in USER_TERMS:
        are[index.occurrences(term).places] = True
    return are


def _recency_parts(index: NoteIndex, places: Ints) -> Doubles:
    said = index.times("said")[places]
    parts: Doubles = OF_RECENCY * 0.5 ** ((said.max(initial=0) - said) / HALF_LIFE)
    return parts


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


def _relevances(
    values: _FacetValues, environment_tags: Sequence[str], settings: Settings
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
            parts[number] = boost(found, settings) * RELEVANCE_UNIT
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
    elif not filters.turns:
        yield Step("turns", values.meet("kind", lambda value: value != TURN))
    if filters.tags:
        wanted = set(filters.tags)
        yield Step("tags", values.meet("tags", lambda value: wanted <= set(parse_list(value))))
    yield from _time_steps(values, filters)
    if filters.shown:
        yield Step("shown", ~values.index.is_one_of(filters.shown)[values.places])


def _time_steps(values: _FacetValues, filters: NoteFilters) -> Iterable[Step]:
    index, places = values.index, values.places
    valid_from, valid_to = (index.times(name)[places] for name in ("valid_from", "valid_to"))
    if filters.valid_at is None:
        yield Step("valid", valid_to == NO_DAY)
    else:
        yield Step("valid", (valid_from <= filters.valid_at) & (filters.valid_at < valid_to))
    if filters.first_day is not None or filters.last_day is not None:
        said, first, last = (index.times(name)[places] for name in ("said", "event_from", "event_to"))
        names_none = first == NO_DAY
        first, last = np.where(names_none, said, first), np.where(names_none, said, last)
        passes = np.ones(len(places), dtype=np.bool_)
        if filters.first_day is not None:
            passes &= last >= filters.first_day
        if filters.last_day is not None:
            passes &= first <= filters.last_day
        yield Step("time", passes)


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


def largest(raw: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return the places of the `n` largest raw scores above 0, largest first; equal ones by place."""
    places = among_largest(raw, n)
    places = places[raw[places] > 0]
    return places[np.argsort(-raw[places], kind="stable")[:n]]


def among_largest(scores: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Return the places, ascending, of the `n` largest scores, of all equal to them, and of few others."""
    if n >= len(scores):
        return np.arange(len(scores))
    n_runs = len(scores) // RUN
    # At least n scores are as large as the nth of the largest ones of the runs.
    tops = scores[: n_runs * RUN].reshape(n_runs, RUN).max(axis=1) if n_runs > n else scores
    return np.flatnonzero(scores >= np.partition(tops, len(tops) - n)[len(tops) - n])
