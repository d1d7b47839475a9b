"""BM25F of terms over an index, in whole numbers (Robertson and Zaragoza, 2009).

For each term, impact = idf * (k1 + 1) * tf / (tf + k1). tf is the sum over text, headings and title of weight
* frequency / norm, where norm = 1 - b + b * length / mean length of the field, and idf = ln(1 + (N - n + 0.5)
/ (n + 0.5)) for a term in n of N chunks. A term may also count by its impact in a chunk's block: the at most
BLOCK neighbouring chunks of its document that say what it is about. Every impact is a whole multiple of 1 /
UNIT, so a score is exactly the sum of the parts that explain it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError
from shoal.index import kernels
from shoal.index.index import Index, Part, Place
from shoal.index.kernels import Factors, Formula
from shoal.index.matching import Matches, PartMatches
from shoal.index.ragged import firsts_of_runs

SMALLEST_NORM = 1e-3
"""Only with b = 1 has an empty unit a smaller norm."""
UNIT = 1_000_000_000
"""Scores are whole multiples of 1 / UNIT: BM25 of a word in a million chunks is still 500 units."""


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


def scores(index: Index, terms: Sequence[WeightedTerm], bm25: Bm25 = BM25) -> list[NDArray[np.int64]]:
    """Return the score of each chunk, in units of 1 / UNIT, for each part; 0 for deleted chunks and for those
    without any of the terms."""
    totals = []
    formulas = [_formula(index, term, bm25) for term in terms]
    add_impacts = kernels.active().add_impacts
    for number, part in enumerate(index.parts):
        own, of_blocks = _factors(index, part, bm25)
        part_totals = np.zeros(part.segment.n_chunks, dtype=np.int64)
        block_totals = np.zeros(part.blocks.n, dtype=np.int64)
        for term, formula in zip(terms, formulas, strict=True):
            matches = term.matches.parts[number]
            if not len(matches.ordinals):
                continue
            columns = matches.text, matches.headings, matches.title
            kernels.check(add_impacts(part_totals, matches.ordinals, *columns, own, formula))
            if term.has_context:
                blocks, text, title = _in_blocks(part, matches)
                impacts = _block_impacts(blocks, text, title, of_blocks, formula, bm25)
                block_totals[blocks] += impacts
        is_match = part_totals > 0
        if part.live_chunks is not None:
            is_match &= part.live_chunks
        part_totals += block_totals[part.blocks.of_chunks]
        part_totals *= is_match
        totals.append(part_totals)
    return totals


def impact(index: Index, term: WeightedTerm, bm25: Bm25, place: Place) -> int:
    """Return what a term adds to the score of a chunk that contains any term, in units of 1 / UNIT: its own
    impact and that of its block."""
    part, matches = index.parts[place.part], term.matches.parts[place.part]
    own, of_blocks = _factors(index, part, bm25)
    formula = _formula(index, term, bm25)
    total = 0
    at = int(np.searchsorted(matches.ordinals, place.ordinal))
    if at < len(matches.ordinals) and matches.ordinals[at] == place.ordinal:
        here = Factors(*(column[place.ordinal : place.ordinal + 1] for column in own))
        one = slice(at, at + 1)
        columns = matches.text[one], matches.headings[one], matches.title[one]
        total += int(kernels.impacts(*columns, here, formula)[0])
    if term.has_context and len(matches.ordinals):
        blocks, text, title = _in_blocks(part, matches)
        impacts = _block_impacts(blocks, text, title, of_blocks, formula, bm25)
        total += int(impacts[blocks == part.blocks.of_chunks[place.ordinal]].sum())
    return total


def _in_blocks(
    part: Part, matches: PartMatches
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """The blocks that contain a term, ascending, with its frequencies in their texts and titles."""
    blocks = part.blocks.of_chunks[matches.ordinals]
    firsts = firsts_of_runs(blocks)
    text = np.add.reduceat(matches.text.astype(np.int64), firsts)
    return blocks[firsts], text, matches.title[firsts] if len(matches.title) else matches.title


def _block_impacts(
    blocks: NDArray[np.int64],
    text: NDArray[np.int64],
    title: NDArray[np.uint8],
    factors: Factors,
    formula: Formula,
    bm25: Bm25,
) -> NDArray[np.int64]:
    own = Factors(*(column[blocks] for column in factors))
    of_context = formula._replace(scale=formula.scale * bm25.context)
    is_present = text > 0 if not len(title) else (text > 0) | (title > 0)
    return kernels.impacts(text, title[:0], title, own, of_context) * is_present


def idf(n_chunks: int, n_matches: int) -> float:
    """Return the inverse document frequency of a term in `n_matches` of `n_chunks`."""
    return math.log1p((n_chunks - n_matches + 0.5) / (n_matches + 0.5))


def _factors(index: Index, part: Part, bm25: Bm25) -> tuple[Factors, Factors]:
    """What an occurrence counts in each chunk of a part, and in each of its blocks."""
    cached = part.factors.get((index.totals, bm25))
    if cached is None:
        segment, totals, weights = part.segment, index.totals, bm25.weights
        n_chunks = max(totals.n_chunks, 1)

        def factor(weight: float, lengths: NDArray[Any], mean: float) -> NDArray[np.float32]:
            norms = 1 - bm25.b + bm25.b * (lengths.astype(np.float64) / (mean or 1.0))
            # An empty unit has no occurrences.
            return (weight / np.maximum(norms, SMALLEST_NORM)).astype(np.float32)

        try:
            text = factor(weights.text, segment.text.lengths, totals.n_words / n_chunks)
            headings = factor(weights.headings, segment.headings.lengths, totals.n_heading_words / n_chunks)
            title = factor(weights.title, segment.title.lengths, totals.n_title_words / n_chunks)
            own = Factors(text, headings[segment.section_of], title[segment.document_of])
        except IndexError as error:
            raise DamagedIndexError("a section or document is out of range") from error
        blocks = part.blocks
        lengths = np.bincount(blocks.of_chunks, weights=segment.text.lengths, minlength=blocks.n)
        block_text = factor(weights.text, lengths, totals.n_words / max(totals.n_blocks, 1))
        of_blocks = Factors(block_text, own.headings[blocks.firsts], own.title[blocks.firsts])
        cached = part.factors[index.totals, bm25] = own, of_blocks
    return cached


def _formula(index: Index, term: WeightedTerm, bm25: Bm25) -> Formula:
    scale = UNIT * (bm25.k1 + 1) * term.weight * idf(index.totals.n_chunks, term.matches.n_chunks)
    return Formula(bm25.k1, scale)
