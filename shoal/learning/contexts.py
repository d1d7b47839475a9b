"""Contexts of words: the topics of the sentence and the chunk around an occurrence, in whole numbers.

The context of a sentence blends the profile of the sentence with that of its chunk. Profiles have unit
length: z-scores above 0 over their Euclidean norm. A confident sentence, whose strongest reef leads clearly,
    has the larger
share; otherwise the chunk has (specification, section 3). Profiles and shares are rounded before they are
added, so that sums are exact and do not depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagoon.analysis import ObservedText

PROFILE_SCALE = 256
"""Unit profiles are rounded to 1/256, a twentieth of a typical entry; benchmarks/vocabulary_learning.py gives
the same ranking with 1/1000."""
SHARE_SCALE = 64
"""Shares of sentence and chunk are rounded to 1/64."""
CONTEXT_SCALE = PROFILE_SCALE * SHARE_SCALE

# z-scores are rounded to 1/64 for their norm: their squares add up to the same whole number in any order.
_Z_SCALE = 64.0
BLOCK_SENTENCES = 1024
"""Sentences whose profiles are in memory at once: 207 float64 each, a few MB with their derived arrays."""

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BlendOptions:
    """Blend of the profiles of sentence and chunk.

    confidence       least lead of a confident sentence: z of its strongest reef minus z of the second
    sentence_weight  share of a confident sentence; the share of any other sentence is 1 minus this
    """

    confidence: float
    sentence_weight: float


@dataclass(frozen=True)
class Block:
    """Sentences first..last-1: their profiles (sentences, reefs) in 1/PROFILE_SCALE and their shares
    (sentences,) in 1/SHARE_SCALE; whole numbers as float64."""

    first: int
    last: int
    profiles: Doubles
    shares: Doubles


def chunk_profiles(text: ObservedText) -> Doubles:
    """(chunks, reefs) unit profiles in 1/PROFILE_SCALE."""
    return _unit_profiles(text.segments.raw_z(0, len(text.segments)))[0]


def sentence_profiles(text: ObservedText, options: BlendOptions) -> Iterator[Block]:
    """Profiles and shares of all sentences."""
    share = round(options.sentence_weight * SHARE_SCALE)
    n = len(text.sentences)
    for first in range(0, n, BLOCK_SENTENCES):
        last = min(first + BLOCK_SENTENCES, n)
        profiles, lead = _unit_profiles(text.sentences.raw_z(first, last))
        shares = np.where(lead >= options.confidence, float(share), float(SHARE_SCALE - share))
        yield Block(first, last, profiles, shares)


def contexts(
    text: ObservedText, chunks: Doubles, block: Block, sentences: Ints, above: NDArray[np.bool_]
) -> Doubles:
    """Contexts of `sentences` of a block, (len(sentences), reefs) in 1/CONTEXT_SCALE.

    Where `above`, the context of a heading above the sentence: the profile of the chunk that begins there.
    """
    at = sentences - block.first
    shares = np.where(above, 0.0, block.shares[at])[:, None]
    blended: Doubles = shares * block.profiles[at]
    blended += (SHARE_SCALE - shares) * chunks[text.segment_of[sentences]]
    return blended


def add_contexts(totals: Doubles, text: ObservedText, chunks: Doubles, block: Block, times: Ints) -> None:
    """Add the contexts of the block's sentences, each multiplied by its `times` (sentences,), to `totals`
    (texts, reefs) in 1/CONTEXT_SCALE."""
    segment_of = text.segment_of[block.first : block.last]
    in_block = slice(int(segment_of[0]), int(segment_of[-1]) + 1)
    weights = np.bincount(segment_of - in_block.start, times * (SHARE_SCALE - block.shares))
    text_of = text.text_of_sentence[block.first : block.last]
    if text_of[0] == text_of[-1]:
        totals[text_of[0]] += (times * block.shares) @ block.profiles + weights @ chunks[in_block]
        return
    texts, first_sentences = np.unique(text_of, return_index=True)
    first_segments = segment_of[first_sentences] - in_block.start
    for weighted, profiles, firsts in (
        (times * block.shares, block.profiles, first_sentences),
        (weights, chunks[in_block], first_segments),
    ):
        totals[texts] += np.add.reduceat(weighted[:, None] * profiles, firsts, axis=0)


def strongest(sums: Doubles, keep: int) -> NDArray[np.bool_]:
    """Mask of the `keep` largest positive entries of each row; ties go to the lower column."""
    n_columns = sums.shape[1]
    if keep >= n_columns:
        return sums > 0
    # Make entries distinct in the wanted order: exact while sums stay below 2**53 / columns.
    ranked = sums * n_columns + np.arange(n_columns - 1, -1, -1)
    bound = np.partition(ranked, -keep, axis=1)[:, -keep, None]
    chosen: NDArray[np.bool_] = (ranked >= bound) & (sums > 0)
    return chosen


def _unit_profiles(z: Doubles) -> tuple[Doubles, Doubles]:
    """Positive parts of the rows over their norm, in 1/PROFILE_SCALE, and the lead of each row's largest z.

    Rows without a positive entry stay 0.
    """
    scaled = np.maximum(z, 0.0)
    scaled *= _Z_SCALE
    np.rint(scaled, out=scaled)
    squares = np.einsum("ij,ij->i", scaled, scaled)
    lead = _lead(scaled) / _Z_SCALE
    scaled *= (PROFILE_SCALE / np.sqrt(np.where(squares > 0, squares, 1.0)))[:, None]
    np.rint(scaled, out=scaled)
    return scaled, lead


def _lead(scaled: Doubles) -> Doubles:
    """Largest minus second entry of each row."""
    if not scaled.size:
        return np.zeros(len(scaled))
    rows = np.arange(len(scaled))
    at = scaled.argmax(axis=1)
    first: Doubles = scaled[rows, at]
    scaled[rows, at] = 0.0
    second = scaled.max(axis=1)
    scaled[rows, at] = first
    return np.asarray(first - second)
