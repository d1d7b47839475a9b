"""The signals of a search, and their fusion into one score.

final = w_lexical * lexical + w_reef * reef + w_field_boost * field_boost + w_dense * dense, with weights that
add up to 1. `dense` is there only for a library with vectors.

Each signal's raw scores are normalized to 0..1: divided by the best raw score in the whole library for this
query; a chunk without a match has 0. The best is taken before filters, so filters and pages do not change
scores. With reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009) the normalized score is (k + 1)
/ (k + rank), where rank is within the whole library too, and equal raw scores have equal ranks.

The lexical signal is the sum over the query's terms of a chunk's BM25F and half of that of the block of
chunks around it, times the square root of the term's frequency in the query; and PAIR_SHARE of the BM25 of
each pair of words that are neighbours in the query and in the text. `benchmarks/lexical_ranking.py` compares
formulas.

The field boost is the share of the query's terms that are in title or headings, by the stems of the index, or
equal a tag, as typed or in another case. 0..1.

The reef signal is the overlap of a query's profile with each chunk's: the sum over shared reefs of
query_z * chunk_z / norm(chunk). Both factors are whole numbers, so equal profiles get equal overlaps in any
order of addition.

The dense signal is the cosine of the query's vector with that of each chunk, where it is above a floor:

    dense = (cosine - floor) / (best cosine in the library - floor), 0 below the floor

The floor is the cosine that the query has with texts that have nothing to do with it
(`shoal.search.query_vectors`), so that not every chunk of a library is a match. A chunk without a vector,
such as one that is not embedded yet, is judged by its other signals alone: its dense score is estimated as
ESTIMATE times the mean of its other normalized scores, by their weights.

Scores are relative to the best match of a query; term coverage is absolute. It is the share of the query's
terms that a chunk contains, each weighted by its inverse document frequency as in BM25 (Robertson and
Zaragoza, 2009). Rare terms weigh more than common ones, and terms in no chunk weigh most.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index import kernels, scoring
from shoal.index.matching import EVERYWHERE, IN_TEXT, TITLE, IndexTerm, Matches, find
from shoal.index.scoring import Overlaps, WeightedTerm, idf
from shoal.models.queries import QueryReef
from shoal.models.search import Fusion, Preset, Weights
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import ParsedQuery, Term
from shoal.storage.column_values import packed_ids
from shoal.storage.database import Query, Snapshot, listed
from shoal.words.analysis import stems_of

RRF_K = 60
"""The constant of the paper."""

RRF_WEIGHTS = Weights(lexical=0.5, reef=0.5, field_boost=0.0, dense=0.5)
"""Weights of rankings that are fused by rank."""

HALF_TRUST_Z = 4.0
"""z-score of a query's strongest reef at which the trust factor is one half. The best reef weight of a query
rises with this z-score, more than with the number of known words or the lead of the first reef
(benchmarks/hybrid.py)."""
LOW_TRUST = 0.45
"""Trust factor below which the response has a warning: "good idea", "meaning of life", "thing" are below;
"king" and "heat transfer" are not."""

REEFS_BESIDE_VECTORS = 0.25
"""Share of the reef weight that is left where all chunks have vectors, which say more finely what reefs say.
Mean nDCG@10 of four collections is 0.669 with it and a dense weight of 0.4, and 0.662 with all of the reef
weight and 0.5; any three of them choose it for the fourth (benchmarks/dense_blend.py)."""
OVERLAP_UNIT = scoring.OVERLAP_UNIT
"""Overlaps are whole multiples of 1 / OVERLAP_UNIT."""
COSINE_UNIT = 1_000_000
"""Cosines are whole multiples of 1 / COSINE_UNIT."""
ESTIMATE = 1.0
"""With a random half of the vectors missing, nDCG@10 of four collections is highest with it
(benchmarks/dense_blend.py)."""
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
UNIT = scoring.UNIT
"""Scores are whole multiples of 1 / UNIT, so that equal scores compare as equal."""
PAIR_SHARE = 0.2
_IN_TITLE = frozenset({TITLE})
TAGGED = "SELECT document_id AS id FROM document_tags WHERE tag IN ({tags})"
TAGS_IN_USE = "SELECT DISTINCT tag FROM document_tags WHERE tag IN ({tags})"


def trust(strength: float) -> float:
    """Return the trust factor of a query's profile, 0..1, from the z-score of its strongest reef."""
    return strength / (strength + HALF_TRUST_Z)


def choose_weights(
    preset: Preset,
    given: Mapping[str, float] | None,
    fusion: Fusion,
    strength: float,
    *,
    vector_share: float | None = None,
) -> Weights:
    """Return the weights of a hybrid search, adding up to 1.

    Given weights are used as they are; missing ones are 0. If the preset is adaptive, its reef weight is
    multiplied by the trust factor of `strength`, the z-score of the query's strongest reef, and falls to
    REEFS_BESIDE_VECTORS with `vector_share`, the share of chunks with a vector, 0..1. If its vectors take
    from reefs, they get the weight that reefs lose in this way. If `strength` is 0, the query has no reefs
    and the reef weight is 0; if `vector_share` is None, that of `dense` is 0.
    """
    if given is not None:
        chosen = Weights(**{name: given.get(name, 0.0) for name in Weights._fields})
    elif fusion is Fusion.rrf:
        chosen = RRF_WEIGHTS
    else:
        chosen = preset.weights
        left = 1.0 - (1.0 - REEFS_BESIDE_VECTORS) * (vector_share or 0.0)
        if preset.is_adaptive:
            chosen = chosen._replace(reef=chosen.reef * trust(strength) * left)
        elif preset.vectors_take_from_reefs:
            chosen = chosen._replace(reef=chosen.reef * left, dense=chosen.reef * (1.0 - left))
    return chosen._replace(
        reef=chosen.reef if strength else 0.0, dense=0.0 if vector_share is None else chosen.dense
    ).normalized()


class Signal(NamedTuple):
    """The raw scores of a signal by place.

    best       the raw score that becomes 1 in a blend; 1.0 if there is no match
    normalize  normalizes some of the raw scores to 0..1; chunks that the signal does not match have 0
    """

    raw: NDArray[Any]
    best: float
    normalize: Callable[[NDArray[Any]], NDArray[np.float64]]


NO_SIGNAL = Signal(np.zeros(0), 1.0, lambda some: np.zeros(len(some)))
"""A signal that is not used."""


def signal(raw: NDArray[np.int64], fusion: Fusion) -> Signal:
    """Return the signal of these raw scores of the whole library."""
    best = float(raw.max(initial=0)) or 1.0 if raw.strides[0] else 1.0
    if fusion is Fusion.rrf:
        return Signal(raw, best, functools.partial(_by_rank, np.sort(raw[raw > 0])))
    return Signal(raw, best, lambda some: some / best)


def parts(raw: NDArray[np.int64], fusion: Fusion) -> NDArray[np.float64]:
    """Normalize the raw scores of a signal in the whole library."""
    return signal(raw, fusion).normalize(raw)


def blend(
    lexical: NDArray[np.float64],
    reef: NDArray[np.float64],
    field_boost: NDArray[np.float64],
    weights: Weights,
) -> NDArray[np.float64]:
    """Return the final scores, 0..1."""
    return weights.lexical * lexical + weights.reef * reef + weights.field_boost * field_boost


def _by_rank(in_order: NDArray[np.int64], raw: NDArray[np.int64]) -> NDArray[np.float64]:
    n_better = len(in_order) - np.searchsorted(in_order, raw, side="right")
    return np.where(raw > 0, (RRF_K + 1) / (RRF_K + 1 + n_better), 0.0)


def overlaps(library: LibraryIndex, reefs: Iterable[QueryReef]) -> Overlaps:
    """Return the overlap of the chunk at each place; 0 for one that shares no reef."""
    return scoring.find_overlaps(library.index, {reef.reef_id: reef.z_score for reef in reefs})


class DenseCosines(NamedTuple):
    """The cosines of a query with the chunks of a library, by place.

    raw         in units of `COSINE_UNIT`, 0 where it is negative or unknown
    has_vector  whether there is a vector
    floor       the cosine above which a chunk is a match, in units of `COSINE_UNIT`
    encoder     name and revision of the encoder
    """

    raw: Ints
    has_vector: Bools
    floor: int
    encoder: str = ""


def dense_signal(cosines: DenseCosines, fusion: Fusion) -> Signal:
    """Return the signal; its raw scores are the distances of the cosines from the floor."""
    above = np.where(cosines.has_vector, np.maximum(cosines.raw - cosines.floor, 0), 0)
    return signal(above, fusion)


def estimate_factor(weights: Weights) -> float:
    """Return what the sum of a chunk's other parts is multiplied by to estimate its dense score."""
    others = weights.lexical + weights.reef + weights.field_boost
    return ESTIMATE / others if others else 0.0


def add_dense(
    final: Doubles, is_found: Bools, cosines: DenseCosines, dense: Signal, weights: Weights, fusion: Fusion
) -> None:
    """Add the dense parts to the final scores, and mark matches as found."""
    factor = estimate_factor(weights)
    if fusion is Fusion.rrf:
        parts = np.where(cosines.has_vector, dense.normalize(dense.raw), final * factor)
        final += weights.dense * parts
        is_found |= dense.raw > 0
        return
    kernels.active().add_dense(
        final, is_found, dense.raw, cosines.has_vector, dense.best, weights.dense, factor
    )


def find_matches(library: LibraryIndex, terms: Sequence[Term]) -> dict[Term, Matches]:
    """Look up which chunks contain each term, in any inflection."""
    wanted = [IndexTerm(stems_of(term.tokens), _IN_TITLE if term.in_title else EVERYWHERE) for term in terms]
    return dict(zip(terms, find(library.index, wanted), strict=True))


def score_chunks(
    library: LibraryIndex, parsed: ParsedQuery, matches: Mapping[Term, Matches]
) -> NDArray[np.int64]:
    """Return the score of every chunk, in units of 1 / UNIT; 0 for a chunk without a term of the query."""
    return scoring.score_terms(library.index, weighted_terms(library, parsed, matches))


def weighted_terms(
    library: LibraryIndex, parsed: ParsedQuery, matches: Mapping[Term, Matches]
) -> list[WeightedTerm]:
    """Return the terms that add to a score: those of the query, and its pairs of neighbouring words."""
    weighted = [
        WeightedTerm(found, term_weight(parsed, term), has_context=True)
        for term, found in matches.items()
        if found.n_chunks
    ]
    present = [pair for pair in parsed.pairs if all(_is_present(matches, token) for token in pair.tokens)]
    pairs = [IndexTerm(stems_of(pair.tokens), IN_TEXT) for pair in present]
    weighted += [
        WeightedTerm(found, PAIR_SHARE * _pair_weight(parsed, pair), has_context=False)
        for pair, found in zip(present, find(library.index, pairs), strict=True)
        if found.n_chunks
    ]
    weighted += [
        WeightedTerm(found, term_weight(parsed, term), has_context=True)
        for term, found in find_matches(library, list(parsed.also)).items()
        if found.n_chunks
    ]
    return weighted


def term_weight(parsed: ParsedQuery, term: Term) -> float:
    """Return the factor of the BM25 of a term."""
    if term in parsed.also:
        return parsed.also[term]
    return math.sqrt(parsed.frequencies.get(term, 1)) * parsed.term_weights.get(term, 1.0)


def _pair_weight(parsed: ParsedQuery, pair: Term) -> float:
    return min(parsed.term_weights.get(Term((token,)), 1.0) for token in pair.tokens)


def _is_present(matches: Mapping[Term, Matches], token: str) -> bool:
    found = matches.get(Term((token,)))
    return found is not None and found.n_chunks > 0


@dataclass(frozen=True)
class TermStatistics:
    """`counts`: how many of the library's `n_chunks` contain each term, in the order of the query."""

    n_chunks: int
    counts: Mapping[Term, int]

    @property
    def missing(self) -> tuple[Term, ...]:
        """The terms in no chunk."""
        return tuple(term for term, count in self.counts.items() if not count)

    @functools.cached_property
    def weights(self) -> Mapping[Term, float]:
        """The share of each term in the query, adding up to 1."""
        idfs = {term: idf(self.n_chunks, count) for term, count in self.counts.items()}
        total = math.fsum(idfs.values())
        return {term: idf / total for term, idf in idfs.items()}

    def term_coverage(
        self, matches: Mapping[Term, Matches], chunk_ids: Sequence[int], places: NDArray[np.int64]
    ) -> dict[int, float]:
        """Return the term coverage of each chunk over title, headings and text, 0..1; empty for a query
        without terms. `places`: of the chunks in the index."""
        if not self.counts or not chunk_ids:
            return {}
        coverage = np.zeros(len(chunk_ids))
        for term, weight in self.weights.items():
            coverage += weight * matches[term].are_in(places)
        # Rounding errors may lift sums slightly above 1.
        return dict(zip(chunk_ids, np.minimum(coverage.round(6), 1.0).tolist(), strict=True))


NO_STATISTICS = TermStatistics(0, {})


def find_term_statistics(
    library: LibraryIndex, matches: Mapping[Term, Matches], parts: Collection[Term] = ()
) -> TermStatistics:
    """Count the chunks that contain each term, in any inflection. `parts` of identifiers do not count beside
    these."""
    counts = {term: found.n_chunks for term, found in matches.items() if term not in parts}
    return TermStatistics(library.n_chunks, counts) if counts else NO_STATISTICS


def field_counts(
    snapshot: Snapshot, library: LibraryIndex, matches: Mapping[Term, Matches]
) -> NDArray[np.uint16]:
    """Count, for the chunk at each place, the terms that are in title, headings or tags; outdated chunks have
    any number."""
    counts = np.zeros(len(library), dtype=np.uint16)
    tags = matching_tags(snapshot, tuple(matches)) if matches else {}
    for term, found in matches.items():
        if term not in tags:
            found.add_placed(counts)
            continue
        names, parameters = listed("tag", tags[term])
        documents = packed_ids(snapshot, TAGGED.format(tags=names), parameters)
        placed = np.zeros_like(counts)
        found.add_placed(placed)
        counts += (placed > 0) | library.index.of_documents(documents)
    return counts


def matching_tags(snapshot: Snapshot, terms: Sequence[Term]) -> dict[Term, tuple[str, ...]]:
    """Return, for each term that names tags in use, these tags."""
    term_of = _terms_by_spelling(terms)
    tags: dict[Term, tuple[str, ...]] = {}
    for (tag,) in snapshot.rows(*_tags_query(term_of)):
        tags[term_of[tag]] = (*tags.get(term_of[tag], ()), tag)
    return tags


def tags_query(terms: Sequence[Term]) -> Query:
    """Return what `matching_tags` reads."""
    return _tags_query(_terms_by_spelling(terms))


def _tags_query(tags: Iterable[str]) -> Query:
    names, parameters = listed("tag", tags)
    return Query(TAGS_IN_USE.format(tags=names), parameters)


def _terms_by_spelling(terms: Sequence[Term]) -> dict[str, Term]:
    return {spelling: term for term in terms if not term.in_title for spelling in tag_spellings(term.text)}


def tag_spellings(text: str) -> tuple[str, ...]:
    """Return the tags that a term names."""
    return text, text.lower(), text.upper(), text.capitalize(), text.title(), text.lower().replace(" ", "-")
