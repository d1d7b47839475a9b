"""The two scores of every chunk for a query, in whole numbers: BM25F of its words, and overlap of its reefs.

BM25F (Robertson and Zaragoza, 2009): for each term, impact = idf * (k1 + 1) * tf / (tf + k1). tf is the sum
over text, headings and title of weight * frequency / norm, where norm = 1 - b + b * length / mean length of
the field, and idf = ln(1 + (N - n + 0.5) / (n + 0.5)) for a term in n of N chunks. A term may also count by
its impact in a chunk's block: the at most BLOCK neighbouring chunks of its document that say what it is
about. Impacts are whole multiples of 1 / UNIT.

The overlap is the sum over shared reefs of query_z * chunk_z / norm(chunk). z-scores are not negative. The
query's are in millionths, the chunk's weights in units of 1 / REEF_UNIT.

So a score is exactly the sum of the parts that explain it, in any order of addition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index import kernels
from shoal.index.index import Index, Totals
from shoal.index.kernels import Factors, Formula
from shoal.index.matching import Matches
from shoal.index.ragged import starts_of
from shoal.index.segment import Segment

SHORTEST = 0.15
"""Shorter texts count as long as this share of the mean: so few words say little about a subject."""
SMALLEST_NORM = 1e-3
"""Only with b = 1 has an empty unit a smaller norm."""
UNIT = 1_000_000_000
"""Scores are whole multiples of 1 / UNIT: BM25 of a word in a million chunks is still 500 units."""
REEF_UNIT = 65_535
"""Weights are whole multiples of 1 / REEF_UNIT, so a weight of 1 fills two bytes."""
Z_UNIT = 1_000_000
OVERLAP_UNIT = Z_UNIT * REEF_UNIT
"""Overlaps are whole multiples of 1 / OVERLAP_UNIT."""


class FieldWeights(NamedTuple):
    """The weight of an occurrence in each field."""

    text: float = 1.0
    headings: float = 1.5
    title: float = 2.0


class Bm25(NamedTuple):
    """The constants of BM25F; `context` is the share of the impact in a chunk's block."""

    k1: float = 1.2
    b: float = 0.75
    weights: FieldWeights = FieldWeights()
    context: float = 0.5


BM25 = Bm25()
"""The constants of `benchmarks/lexical_ranking.py`."""


class WeightedTerm(NamedTuple):
    """The matches of a term, and the factor of its impacts: 1 for a word, less for an expansion or pair.

    `has_context`: whether its impact in a chunk's block counts too.
    """

    matches: Matches
    weight: float = 1.0
    has_context: bool = False


def score_terms(index: Index, terms: Sequence[WeightedTerm], bm25: Bm25 = BM25) -> NDArray[np.int64]:
    """Return the score of the chunk at each place, in units of 1 / UNIT; 0 for deleted chunks and for those
    without any of the terms."""
    totals = np.zeros(len(index), dtype=np.int64)
    formulas = [_formula(index, term, bm25) for term in terms]
    kernel = kernels.active()
    factors = _factors(index, bm25)
    for number, (part, own) in enumerate(index.by_part(totals)):
        block_totals = np.zeros(len(part.segment.blocks.lengths), dtype=np.int64)
        for term, formula in zip(terms, formulas, strict=True):
            matches = term.matches.parts[number]
            if len(matches.ordinals):
                kernels.check(kernel.add_impacts(own, block_totals, *matches, factors[number], formula))
        if part.live_chunks is not None:
            np.multiply(own, part.live_chunks, out=own)
        kernel.add_blocks(own, block_totals, part.segment.blocks.of_chunks)
    return totals


def idf(n_chunks: int, n_matches: int) -> float:
    """Return the inverse document frequency of a term in `n_matches` of `n_chunks`."""
    return math.log1p((n_chunks - n_matches + 0.5) / (n_matches + 0.5))


def _factors(index: Index, bm25: Bm25) -> list[Factors]:
    """What an occurrence counts in each unit of each part."""
    found: list[Factors] | None = index.cached.get(bm25)
    if found is None:
        found = index.cached[bm25] = [_factors_of(part.segment, index.totals, bm25) for part in index.parts]
    return found


def _factors_of(segment: Segment, totals: Totals, bm25: Bm25) -> Factors:
    n_chunks = max(totals.n_chunks, 1)

    def factor(weight: float, lengths: NDArray[Any], mean: float) -> NDArray[np.float32]:
        shares = np.maximum(lengths.astype(np.float64) / (mean or 1.0), SHORTEST)
        norms = 1 - bm25.b + bm25.b * shares
        # An empty unit has no occurrences.
        return (weight / np.maximum(norms, SMALLEST_NORM)).astype(np.float32)

    weights, blocks = bm25.weights, segment.blocks
    distinct, length_of = segment.text.distinct_lengths
    return Factors(
        length_of,
        factor(weights.text, distinct, totals.n_words / n_chunks),
        segment.section_of,
        factor(weights.headings, segment.headings.lengths, totals.n_heading_words / n_chunks),
        segment.document_of,
        factor(weights.title, segment.title.lengths, totals.n_title_words / n_chunks),
        blocks.of_chunks,
        factor(weights.text, blocks.lengths, totals.n_words / max(totals.n_blocks, 1)),
    )


def _formula(index: Index, term: WeightedTerm, bm25: Bm25) -> Formula:
    scale = UNIT * (bm25.k1 + 1) * term.weight * idf(index.totals.n_chunks, term.matches.n_chunks)
    # With frequencies in 1 / unit, tf / (tf + k1) = unit * tf / (unit * tf + unit * k1).
    k1 = bm25.k1 * term.matches.unit
    return Formula(k1, scale, scale * bm25.context if term.has_context else 0.0)


def reef_weights(z_scores: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the weights of the reefs of several chunks, in units of 1 / `REEF_UNIT`.

    z_scores  i64 (p,), in any unit
    starts    i64 (n_chunks + 1,): where the reefs of each chunk start, and the end
    """
    counts = np.diff(starts)
    squares = np.diff(starts_of(z_scores**2)[starts])
    norms = np.sqrt(np.maximum(squares, 1).astype(np.float64))
    weights: NDArray[np.float64] = np.rint(z_scores * REEF_UNIT / np.repeat(norms, counts))
    return weights.astype(np.int64, copy=False)


class Overlaps(NamedTuple):
    """The overlap of the chunk at each place of an index; 0 without a shared reef and for deleted chunks.

    overlaps  i64 (n,), in units of 1 / OVERLAP_UNIT
    n_shared  u8 (n,): reefs in common with the query
    """

    overlaps: NDArray[np.int64]
    n_shared: NDArray[np.uint8]


def find_overlaps(index: Index, query_z: Mapping[int, float]) -> Overlaps:
    """Return the overlap of each chunk with the z-scores of a query by reef id."""
    add_overlaps = kernels.active().add_overlaps
    factors = np.array([round(z * Z_UNIT) for z in query_z.values()], dtype=np.int64)
    reef_ids = np.array(list(query_z), dtype=np.int64)
    found = Overlaps(np.zeros(len(index), dtype=np.int64), np.zeros(len(index), dtype=np.uint8))
    columns = zip(index.by_part(found.overlaps), index.by_part(found.n_shared), strict=True)
    for (part, totals), (_, n_shared) in columns:
        segment = part.segment
        is_here = reef_ids < segment.n_reefs
        postings = segment.reef_starts, segment.reef_ordinals, segment.reef_weights
        kernels.check(add_overlaps(totals, n_shared, *postings, reef_ids[is_here], factors[is_here]))
        if part.live_chunks is not None:
            np.multiply(totals, part.live_chunks, out=totals)
            np.multiply(n_shared, part.live_chunks, out=n_shared)
    return found
