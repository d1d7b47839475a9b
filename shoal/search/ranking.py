"""The ranking of a whole library for one query, with every part of every score.

Each signal scores every chunk it matches. Filters come afterwards: they decide which chunks are results and
change no score.

Exact matches are named parts of the score: names that are the query, and passages with all identifiers of
the query, come before others. The index marks where a name begins and ends (`shoal.index.building`), so a
title, heading or file name that is the query is a phrase of the marks and all words of the query.

A shortlist ranks documents first, as wholes: only passages of the best of them are results. The score of a
document is made like that of a chunk, from the document's own profile, with the same weights:

    lexical  BM25 of the whole document: the occurrences of a term in all its chunks count together against
             the length of the whole text, and its title and headings once
    reef     the mean overlap of its chunks with the query, which is the overlap with their mean profile
    dense    the mean cosine of its chunks

Each is divided by the best of the library. Only documents with a result of the search are on the shortlist,
so filters cannot empty it; they change no score.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index import kernels
from shoal.index.building import FIRST, LAST
from shoal.index.index import NOWHERE, Index, Part
from shoal.index.matching import HEADINGS, TITLE, IndexTerm, Matches, PartMatches, find
from shoal.index.scoring import BM25, WeightedTerm, idf
from shoal.models.scores import BoostPart
from shoal.models.search import Fusion, SearchMode, SortValue, Weights
from shoal.search.filters import CompiledFilters
from shoal.search.library_index import LibraryIndex
from shoal.search.ordering import AddedScores, DocumentLimit, Order, Places, Sorting, first_after
from shoal.search.pins import AppliedPins, apply_pins
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.query_language import MAX_PHRASE_WORDS, ParsedQuery
from shoal.search.request import RawScores
from shoal.search.signals import (
    COSINE_UNIT,
    NO_SIGNAL,
    OVERLAP_UNIT,
    UNIT,
    DenseCosines,
    Signal,
    add_dense,
    blend,
    dense_signal,
    estimate_factor,
    field_counts,
    overlaps,
    score_chunks,
    signal,
    weighted_terms,
)
from shoal.storage.database import Snapshot
from shoal.words.analysis import stems_of, tokens_of

OF_NAME = 1.0
"""What an exact name adds to a score, in parts of the best score in all signals."""
OF_IDENTIFIERS = 0.25
"""What all identifiers of the query add to a score, in the same parts; chosen with
`benchmarks/identifiers.py`."""
DEFINING = ("def", "class", "func", "fn", "function", "fun", "struct", "interface", "trait", "enum", "type")
"""First words of the headings that definitions have in source code (`shoal.conversion.source_code`)."""
DEFINING_STEMS = tuple(stems_of(DEFINING))
IDENTIFIER = re.compile(r"(?=[A-Za-z_$][\w$]*?(?:_|(?<=[a-z])[A-Z]))[\w$]++(?:\(\))?")
"""A name in code of several words, such as `before_request`, `LocalProxy` or `run_app()`."""
MOST_IDENTIFIED = 10
"""Passages with the rarest identifier; in more, it singles out none."""
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ExactMatches:
    """What exact matches add to the score of each place of an index.

    named       bool (n,): whether a name of the passage is the query; None if none is
    identified  bool (n,): whether it has all identifiers that the library has; None without any
    unit        the best score
    """

    named: NDArray[np.bool_] | None
    identified: NDArray[np.bool_] | None
    unit: float

    def added_to(self, keys: NDArray[Any], scale: float) -> NDArray[Any]:
        """Return keys with what is added, in units of 1 / scale."""
        keys = keys.copy()
        for mask, share in ((self.named, OF_NAME), (self.identified, OF_IDENTIFIERS)):
            if mask is not None:
                keys[np.flatnonzero(mask)] += keys.dtype.type(self.unit * share * scale)
        return keys

    def of_name(self, place: int) -> float:
        """Return what an exact name adds to the score of a place."""
        return OF_NAME * self.unit if self.named is not None and self.named[place] else 0.0

    def of_identifiers(self, place: int) -> float:
        """Return what the identifiers add to the score of a place."""
        return OF_IDENTIFIERS * self.unit if self.identified is not None and self.identified[place] else 0.0


def find_exact_matches(
    library: LibraryIndex, analyzed_query: AnalyzedQuery, is_found: NDArray[np.bool_], unit: float
) -> ExactMatches | None:
    """Return the exact matches among those that a signal found; None if there are none."""
    named = _named(library, analyzed_query.parsed)
    identified = _identified(analyzed_query)
    if named is None and identified is None:
        return None
    return ExactMatches(
        None if named is None else named & is_found,
        None if identified is None else identified & is_found,
        unit,
    )


def _named(library: LibraryIndex, parsed: ParsedQuery) -> NDArray[np.bool_] | None:
    tokens = tokens_of(parsed.plain)
    if not tokens or len(tokens) > MAX_PHRASE_WORDS or parsed.required or parsed.excluded:
        return None
    stems = stems_of(tokens)
    name = IndexTerm((FIRST, *stems, LAST), frozenset({TITLE, HEADINGS}))
    is_word = len(parsed.plain.split()) == 1
    definitions = [
        IndexTerm((FIRST, keyword, *stems, LAST), frozenset({HEADINGS}))
        for keyword in (DEFINING_STEMS if is_word else ())
    ]
    named, *defined = (matches for matches in find(library.index, [name, *definitions]))
    masks = [matches.mask() for matches in defined if matches.n_chunks]
    # An identifier is no name in words: `stream_with_context` is not the section "Streaming with context".
    if named.n_chunks and not (masks and IDENTIFIER.fullmatch(parsed.plain.strip())):
        masks.append(named.mask())
    return functools.reduce(np.logical_or, masks) if masks else None


def _identified(analyzed_query: AnalyzedQuery) -> NDArray[np.bool_] | None:
    matches = analyzed_query.matches
    present: list[Matches] = [
        matches[term]
        for term in analyzed_query.parsed.identifiers
        if term in matches and matches[term].n_chunks
    ]
    if not present or min(found.n_chunks for found in present) > MOST_IDENTIFIED:
        return None
    return functools.reduce(np.logical_and, (found.mask() for found in present))


@dataclass(frozen=True, slots=True)
class Ranked:
    """A chunk in a ranking.

    `score` is the sort key: the final score in a hybrid search, else the raw score of the signal. `lexical`,
    `reef`, `field_boost` and `dense` are normalized scores, 0..1; `lexical_raw` is BM25, `reef_raw` the
    overlap. A signal that is not used or does not match the chunk has 0. `dense_raw` is the cosine, 0..1;
    None without a vector, and then `dense` is an estimate. `decay` and `boosts` are what the request adds to
    the score, `sort_values` what it sorts by; None if it does neither. `is_pinned`: a pin put it first.
    `is_further`: the best of its document come first (`ordering.BestFirst`), and it is none of them.
    `exact_name`, `identifiers`: what exact matches add to the score. `place`: in the index.
    """

    chunk_id: int
    document_id: int
    score: float
    lexical: float
    reef: float
    field_boost: float
    lexical_raw: float
    reef_raw: float
    n_shared: int
    dense: float = 0.0
    dense_raw: float | None = None
    is_dense_match: bool = False
    decay: float | None = None
    boosts: tuple[BoostPart, ...] | None = None
    sort_values: tuple[SortValue, ...] | None = None
    is_pinned: bool = False
    is_further: bool = False
    exact_name: float = 0.0
    identifiers: float = 0.0
    place: int = field(default=NOWHERE, compare=False)


class Signals(NamedTuple):
    """The signals of a ranking; one that is not used is 0 everywhere."""

    lexical: Signal
    reef: Signal
    field_boost: Signal
    dense: Signal = NO_SIGNAL


@dataclass(frozen=True)
class Ranking:
    """The scores of all chunks of a library; every array has one element per place of its index.

    signals   raw and normalized scores
    n_shared  reefs in common with the query
    cosines   of the dense signal; None if it is not used
    added     what the request adds to the scores of the matches; None without a decay and boosts
    sorting   what results are sorted by before their scores; None without `sort`
    pins      what comes first, and what is hidden; None without pins for the query
    shortlist the documents that may have results; None if all may
    exact     what exact matches add to the score; None if there are none
    is_match  whether a signal found the chunk; a field boost alone finds none
    is_found  whether the chunk is a result without filters; a pinned one is, a hidden one is not
    order     the results and their order
    """

    library: LibraryIndex
    mode: SearchMode
    weights: Weights
    signals: Signals
    n_shared: NDArray[np.uint8]
    is_match: NDArray[np.bool_]
    is_found: NDArray[np.bool_]
    order: Order
    cosines: DenseCosines | None = None
    added: AddedScores | None = None
    sorting: Sorting | None = None
    pins: AppliedPins | None = None
    shortlist: Shortlist | None = None
    exact: ExactMatches | None = None

    @property
    def lexical_raw(self) -> Ints:
        """BM25 in units of `lexical_ranking.UNIT`."""
        return self.signals.lexical.raw

    @property
    def reef_raw(self) -> Ints:
        """Overlap in units of `reef_ranking.OVERLAP_UNIT`."""
        return self.signals.reef.raw

    @property
    def dense_raw(self) -> Ints:
        """Cosine above the floor in units of `dense_ranking.COSINE_UNIT`; empty without the dense signal."""
        return self.signals.dense.raw

    @property
    def n_results(self) -> int:
        """Chunks that are results, on all pages together."""
        return int(np.count_nonzero(self.order.is_result))

    @property
    def n_documents(self) -> int:
        """Documents of the results, as they are grouped."""
        document_ids = self.order.groups(np.flatnonzero(self.order.is_result))
        # Chunks of a document are neighbours, so few ids are left to be sorted.
        is_first = np.diff(document_ids, prepend=-1) != 0
        return len(np.unique(document_ids[is_first]))

    def first(self, n: int, limit: DocumentLimit) -> list[Ranked]:
        """Return the first results, best first, equal scores by chunk id. `limit`: per document."""
        return self.at(self.order.first(n, limit))

    def at(self, places: Places) -> list[Ranked]:
        """Return the chunks at some places of the index."""
        at, index = places.places, self.library.index
        normalized = (each.normalize(each.raw[at]).tolist() for each in self.signals[:3])
        ids = index.chunk_ids(at).tolist(), index.document_ids(at).tolist()
        columns = zip(at.tolist(), *ids, zip(*normalized, strict=True), strict=True)
        return [
            self._ranked(*each, is_further=number >= places.n_within) for number, each in enumerate(columns)
        ]

    def first_after(self, chunk_id: int, n: int, limit: DocumentLimit) -> list[Ranked] | None:
        """Return the first results after a chunk, like `first`; None if the chunk is no result."""
        place = self.library.index.place_of(chunk_id)
        if place is None or not self.order.is_result[place]:
            return None
        return self.at(first_after(self.order, place, n, limit))

    def raw_scores_of(self, chunk_id: int) -> RawScores:
        """Return what the key of a result is made of."""
        place = self.library.index.place_of(chunk_id)
        if place is None:
            return RawScores()
        raw = [int(each.raw[place]) if len(each.raw) else 0 for each in self.signals]
        key = float(self.order.keys[place])
        without = RawScores(*raw)
        return without._replace(added=key - self._key_of(without))

    def start_after(self, last: RawScores, most: int) -> int:
        """Return how many results come before those of the page after a result with these raw scores, at most
        `most`; `most` for sorted results."""
        if self.sorting is not None or self.pins is not None:
            return max(most, 0)
        ahead = np.count_nonzero(self.order.is_result & (self.order.keys > self._key_of(last) + last.added))
        return max(min(most, int(ahead)), 0)

    def _key_of(self, raw: RawScores) -> float:
        """The key of a result with these raw scores, without what is added to their blend."""
        if self.mode is not SearchMode.hybrid:
            signal = {SearchMode.lexical: raw.lexical, SearchMode.reef: raw.reef, SearchMode.dense: raw.dense}
            return float(signal[self.mode])
        return math.fsum(
            weight * float(each.normalize(np.array([value]))[0])
            for weight, each, value in zip(self.weights, self.signals, raw[:4], strict=True)
            if weight and len(each.raw)
        )

    def of(self, chunk_id: int, document_id: int) -> Ranked:
        """Return one chunk, whether a result or not; all scores are 0 if no signal matched it."""
        place = self.library.index.place_of(chunk_id)
        if place is None:
            return Ranked(chunk_id, document_id, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
        return self.at(Places(np.array([place]), 1))[0]

    def matches(self, chunk_id: int) -> bool:
        """Return whether a signal found a chunk."""
        place = self.library.index.place_of(chunk_id)
        return place is not None and bool(self.is_match[place])

    def rank_of(self, chunk_id: int, limit: DocumentLimit, *, filtered: bool = True) -> int | None:
        """Return the rank of a chunk among the results, from 1.

        Without `filtered`, the rank is that of the same search without filters, phrases and exclusions. None
        if no signal matched the chunk, or if better chunks of its document use up the limit.
        """
        place = self.library.index.place_of(chunk_id)
        if place is None or not self._is_match_or_pinned(place):
            return None
        return self.order.rank(place, limit, among=None if filtered else self.is_found)

    def best_of(self, document_id: int) -> int | None:
        """Return the best chunk of a document, pinned ones and then results before others; None if no signal
        matched any."""
        places = self.library.index.places_of_document(document_id)
        places = places[[self._is_match_or_pinned(place) for place in places.tolist()]]
        if not len(places):
            return None
        results = places[self.order.is_result[places]]
        among = results if len(results) else places
        if self.pins is not None:
            among = among[self.pins.level[among] == self.pins.level[among].max()]
        best = among[np.argmax(self.order.keys[among])]
        return int(self.library.index.chunk_ids(best[None])[0])

    def _is_match_or_pinned(self, place: int) -> bool:
        return bool(self.is_match[place]) or (self.pins is not None and place in self.pins.pin_of)

    def _ranked(
        self,
        place: int,
        chunk_id: int,
        document_id: int,
        normalized: tuple[float, float, float],
        *,
        is_further: bool,
    ) -> Ranked:
        """The chunk at a place; `normalized`: its scores in the first three signals."""
        dense, cosine, is_near = self._dense(place, normalized)
        lexical_raw = int(self.lexical_raw[place]) / UNIT
        reef_raw = int(self.reef_raw[place]) / OVERLAP_UNIT
        exact_name = 0.0 if self.exact is None else self.exact.of_name(place)
        identifiers = 0.0 if self.exact is None else self.exact.of_identifiers(place)
        score = {
            SearchMode.lexical: lexical_raw + exact_name + identifiers,
            SearchMode.reef: reef_raw,
            SearchMode.dense: cosine or 0.0,
        }
        added = self.added if self.is_found[place] else None
        return Ranked(
            chunk_id,
            document_id,
            score[self.mode] if self.mode in score else float(self.order.keys[place]),
            *normalized,
            lexical_raw,
            reef_raw,
            int(self.n_shared[place]),
            dense,
            cosine,
            is_near,
            None if added is None else added.decay_of(place),
            added.boosts_of(place) if added is not None and added.boosts else None,
            None if self.sorting is None else self.sorting.values(document_id),
            self.pins is not None and place in self.pins.pin_of,
            is_further,
            exact_name=exact_name,
            identifiers=identifiers,
            place=place,
        )

    def _dense(self, place: int, others: tuple[float, float, float]) -> tuple[float, float | None, bool]:
        """The normalized score, the cosine, and whether it is a match; `others`: the other normalized
        scores."""
        if self.cosines is None:
            return 0.0, None, False
        if not self.cosines.has_vector[place]:
            known = sum(weight * score for weight, score in zip(self.weights[:3], others, strict=True))
            return known * estimate_factor(self.weights), None, False
        signal = self.signals.dense
        normalized = float(signal.normalize(signal.raw[place : place + 1])[0])
        return normalized, int(self.cosines.raw[place]) / COSINE_UNIT, normalized > 0


def rank(
    snapshot: Snapshot,
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    compiled_filters: CompiledFilters,
    *,
    mode: SearchMode,
    fusion: Fusion,
    added: AddedScores | None = None,
    sorting: Sorting | None = None,
    shortlist_size: int = 0,
    has_whole_boost: NDArray[np.bool_] | None = None,
) -> Ranking:
    """Rank a library, given its index. `added` is for hybrid searches only. `shortlist_size`: how many
    documents may have results; 0: all. `has_whole_boost`: whether each place has a field boost of 1."""
    n = len(library)
    weights = analyzed_query.weights
    lexical_raw = reef_raw = _zeros(n, np.int64, mode)
    n_shared = _zeros(n, np.uint8, mode)
    if mode.uses("reef") and analyzed_query.reefs:
        reef_raw, n_shared = overlaps(library, analyzed_query.reefs)
        if analyzed_query.other_data is not None:
            # Their reefs cannot be compared with the query's.
            is_comparable = ~library.has_other_data(snapshot, analyzed_query.other_data)
            reef_raw, n_shared = reef_raw * is_comparable, n_shared * is_comparable
    if mode.uses("lexical"):
        scores = analyzed_query.lexical_scores
        lexical_raw = (
            score_chunks(library, analyzed_query.parsed, analyzed_query.matches) if scores is None else scores
        )
    cosines = analyzed_query.cosines if mode.uses("dense") and weights.dense else None
    signals = Signals(
        signal(lexical_raw, fusion),
        signal(reef_raw, fusion),
        _of_fields(snapshot, library, analyzed_query, mode, has_whole_boost),
        NO_SIGNAL if cosines is None else dense_signal(cosines, fusion),
    )
    keys: NDArray[Any]
    if mode is SearchMode.lexical:
        keys, is_found = lexical_raw, lexical_raw > 0
    elif mode is SearchMode.reef:
        keys, is_found = reef_raw, n_shared > 0
    elif mode is SearchMode.dense:
        keys = np.zeros(n, dtype=np.int64) if cosines is None else signals.dense.raw
        is_found = keys > 0
    else:
        keys, is_found = _blended(signals, n_shared, weights, fusion)
        if cosines is not None:
            add_dense(keys, is_found, cosines, signals.dense, weights, fusion)
        if added is not None:
            added.add_to(keys, is_found)
    is_match = is_found
    exact = _exact(library, analyzed_query, keys, is_found, mode)
    if exact is not None:
        keys = exact.added_to(keys, UNIT if mode is SearchMode.lexical else 1.0)
    is_met = compiled_filters.met_by(snapshot, library, analyzed_query.matches) if compiled_filters else None
    shortlist = None
    if shortlist_size:
        shortlist = make_shortlist(
            library.index,
            shortlist_size,
            mode,
            weights,
            weighted_terms(library, analyzed_query.parsed, analyzed_query.matches),
            {"reef": reef_raw, "dense": signals.dense.raw},
            is_found if is_met is None else is_found & is_met,
        )
        is_found = is_found & shortlist.mask
    levels, pins = () if sorting is None else sorting.levels(), None
    if analyzed_query.pins:
        pins = apply_pins(analyzed_query.pins, library.index, keys, is_found, is_met)
        is_found, levels = pins.is_found, (pins.level, *levels)
    order = Order(library.index, keys, is_found if is_met is None else is_found & is_met, levels)
    return Ranking(
        library,
        mode,
        weights,
        signals,
        n_shared,
        is_match,
        is_found,
        order,
        cosines,
        added,
        sorting,
        pins,
        shortlist,
        exact,
    )


def _zeros(n: int, kind: type[np.number[Any]], mode: SearchMode) -> NDArray[Any]:
    """The raw scores of a signal that finds nothing: an array for a blend, else one number of any length."""
    return np.zeros(n, dtype=kind) if mode is SearchMode.hybrid else np.broadcast_to(kind(0), n)


def _of_fields(
    snapshot: Snapshot,
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    mode: SearchMode,
    is_whole: NDArray[np.bool_] | None,
) -> Signal:
    """The signal of the terms in titles, headings and tags. `is_whole`: chunks that have all of it."""
    if mode is not SearchMode.hybrid or not analyzed_query.weights.field_boost:
        return NO_SIGNAL._replace(raw=_zeros(len(library), np.uint16, mode))
    counts = field_counts(snapshot, library, analyzed_query.matches)
    n_terms = float(max(len(analyzed_query.matches), 1))
    if is_whole is not None:
        counts[is_whole] = n_terms
    return Signal(counts, n_terms, lambda some: some / n_terms)


def _exact(
    library: LibraryIndex,
    analyzed_query: AnalyzedQuery,
    keys: NDArray[Any],
    is_found: NDArray[np.bool_],
    mode: SearchMode,
) -> ExactMatches | None:
    """The exact matches of a search that ranks by words."""
    if mode is SearchMode.lexical:
        return find_exact_matches(library, analyzed_query, is_found, int(keys.max(initial=0)) / UNIT)
    return find_exact_matches(library, analyzed_query, is_found, 1.0) if mode is SearchMode.hybrid else None


def _blended(
    signals: Signals, n_shared: NDArray[np.uint8], weights: Weights, fusion: Fusion
) -> tuple[Doubles, NDArray[np.bool_]]:
    """(final scores without the dense signal, whether each chunk is found). A field boost alone makes no
    result."""
    lexical, reef, field_boost = signals[:3]
    if fusion is Fusion.rrf:
        by_words, by_reefs, by_fields = (each.normalize(each.raw) for each in signals[:3])
        final = blend(by_words, by_reefs, by_fields, weights)
        return final, (final > 0) & ((lexical.raw > 0) | (n_shared > 0))
    final, is_found = np.empty(len(n_shared)), np.empty(len(n_shared), dtype=np.bool_)
    raw = lexical.raw, reef.raw, field_boost.raw
    best = lexical.best, reef.best, field_boost.best
    kernels.active().blend(final, is_found, raw, n_shared, best, weights[:3])
    return final, is_found


@dataclass(frozen=True)
class Shortlist:
    """The documents that may have results.

    size          most documents on it
    document_ids  i64 (d,): of all documents with a result, best first
    """

    index: Index
    size: int
    document_ids: NDArray[np.int64]

    @functools.cached_property
    def mask(self) -> Bools:
        """Whether the chunk at each place is one of a document on the list."""
        return self.index.of_documents(self.document_ids[: self.size])

    def rank_of(self, document_id: int) -> int | None:
        """The rank of a document, from 1; None for one without a result."""
        places = np.flatnonzero(self.document_ids == document_id)
        return int(places[0]) + 1 if len(places) else None


def make_shortlist(
    index: Index,
    size: int,
    mode: SearchMode,
    weights: Weights,
    terms: Sequence[WeightedTerm],
    chunk_scores: Mapping[str, NDArray[Any]],
    is_result: Bools,
) -> Shortlist:
    """Rank the documents that have a result. `terms`: of the query. `chunk_scores`: raw `reef` and `dense`
    scores of the chunk at each place; empty ones count as 0."""
    if not index.parts:
        return Shortlist(index, size, np.empty(0, dtype=np.int64))
    scores = {name: _means(index, each) for name, each in chunk_scores.items() if len(each)}
    if mode.uses("lexical"):
        scores["lexical"] = _lexical_scores(index, terms)
    total = np.zeros(sum(part.segment.n_documents for part in index.parts))
    for name, each in scores.items():
        best = float(each.max(initial=0.0))
        if best > 0:
            total += (getattr(weights, name) if mode is SearchMode.hybrid else 1.0) * each / best
    ids = _by_document(index, lambda part, _: part.segment.document_ids)
    has_result = _by_document(index, _has_result, is_result)
    order = np.lexsort((ids[has_result], -total[has_result]))
    return Shortlist(index, size, ids[has_result][order].astype(np.int64))


def _by_document(index: Index, of_part: Any, column: NDArray[Any] | None = None) -> NDArray[Any]:
    """Join what `of_part` returns for the documents of each part and its share of a column of places."""
    column = np.zeros(len(index), dtype=np.bool_) if column is None else column
    parts = [of_part(part, own) for part, own in index.by_part(column)]
    return np.concatenate(parts)


def _has_result(part: Part, is_result: Bools) -> Bools:
    return np.bincount(part.segment.document_of[is_result], minlength=part.segment.n_documents) > 0


def _means(index: Index, column: NDArray[Any]) -> Doubles:
    """The mean of a column over the chunks of each document."""

    def of_part(part: Part, own: NDArray[Any]) -> Doubles:
        return _sums(part, own) / np.diff(part.segment.document_starts)

    return _by_document(index, of_part, column)


def _lexical_scores(index: Index, terms: Sequence[WeightedTerm]) -> Doubles:
    """BM25 of each document as a whole."""
    mean = index.totals.n_words / max(index.totals.n_documents, 1) or 1.0
    norms = index.cached.get(Shortlist)
    if norms is None:
        norms = [1 - BM25.b + BM25.b * _lengths(part) / mean for part in index.parts]
        index.cached[Shortlist] = norms
    scores = [np.zeros(part.segment.n_documents) for part in index.parts]
    for term in terms:
        frequencies = [
            _frequencies(part, matches, norm) / term.matches.unit
            for part, matches, norm in zip(index.parts, term.matches.parts, norms, strict=True)
        ]
        n_holding = sum(int(np.count_nonzero(each)) for each in frequencies)
        weight = term.weight * idf(index.totals.n_documents, n_holding) * (BM25.k1 + 1)
        for of_part, tf in zip(scores, frequencies, strict=True):
            np.add(of_part, weight * tf / (tf + BM25.k1), out=of_part)
    return np.concatenate(scores)


def _lengths(part: Part) -> Doubles:
    """The number of words of each document."""
    return _sums(part, part.segment.text.lengths)


def _sums(part: Part, column: NDArray[Any]) -> Doubles:
    """The sum of a column over the chunks of each document."""
    n_documents = part.segment.n_documents
    sums = np.bincount(part.segment.document_of, weights=column.astype(np.float64), minlength=n_documents)
    return sums.astype(np.float64)


def _frequencies(part: Part, matches: PartMatches, norms: Doubles) -> Doubles:
    """The weighted frequency of a term in each live document, in its unit."""
    n = part.segment.n_documents
    documents = part.segment.document_of[matches.ordinals]
    found = BM25.weights.text * np.bincount(documents, weights=matches.text, minlength=n) / norms
    # Headings and title are those of every chunk below them, and count once.
    for weight, each in ((BM25.weights.headings, matches.headings), (BM25.weights.title, matches.title)):
        if len(each):
            once = np.zeros(n)
            np.maximum.at(once, documents, each)
            found += weight * once
    if part.live_documents is not None:
        found *= part.live_documents
    return found
