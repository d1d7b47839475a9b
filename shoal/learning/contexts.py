"""The company of words: what the sentence and the chunk around an occurrence are about, in whole numbers.

The context of a sentence is the profile of the sentence blended with that of its chunk, each of unit length:
z-scores above 0 over their Euclidean norm. The sentence has the larger share where it is confident, that is
where its strongest reef leads clearly; else the chunk has (specification, section 3). Profiles and shares are
rounded before they are added, so that sums are exact and don't depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagoon.observing import ObservedText

PROFILE_SCALE = 256
"""Unit profiles are rounded to 1/256, a twentieth of a typical entry; benchmarks/vocabulary_learning.py ranks the
same with 1/1000."""
SHARE_SCALE = 64
"""Shares of sentence and chunk are rounded to 1/64."""
CONTEXT_SCALE = PROFILE_SCALE * SHARE_SCALE

# z-scores are rounded to 1/64 for their norm: sums of their squares are whole numbers, the same in any order.
_Z_SCALE = 64.0
BLOCK_SENTENCES = 1024
"""Sentences whose profiles are held at once: 207 float64 each, a few MB with what is made of them."""

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BlendOptions:
    """confidence      z of the strongest reef minus z of the second from which on a sentence is confident
    sentence_weight  its share then; 1 minus that where it isn't
    """

    confidence: float
    sentence_weight: float


@dataclass(frozen=True)
class Block:
    """Sentences first..last-1: their profiles (sentences, reefs) in 1/PROFILE_SCALE and their shares (sentences,)
    in 1/SHARE_SCALE; whole numbers as float64."""

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
    """Contexts of some sentences of a block, (len(sentences), reefs) in 1/CONTEXT_SCALE. Where `above`, that of a
    heading above the sentence: the profile of the chunk that the sentence begins."""
    at = sentences - block.first
    shares = np.where(above, 0.0, block.shares[at])[:, None]
    blended: Doubles = shares * block.profiles[at]
    blended += (SHARE_SCALE - shares) * chunks[text.segment_of[sentences]]
    return blended


def add_contexts(totals: Doubles, text: ObservedText, chunks: Doubles, block: Block, times: Ints) -> None:
    """Add to `totals` (texts, reefs) the contexts of the block's sentences, each so many `times` (sentences,); in
    1/CONTEXT_SCALE."""
    segment_of = text.segment_of[block.first : block.last]
    held = slice(int(segment_of[0]), int(segment_of[-1]) + 1)
    weights = np.bincount(segment_of - held.start, times * (SHARE_SCALE - block.shares))
    text_of = text.text_of_sentence[block.first : block.last]
    if text_of[0] == text_of[-1]:
        totals[text_of[0]] += (times * block.shares) @ block.profiles + weights @ chunks[held]
        return
    texts, first_sentences = np.unique(text_of, return_index=True)
    first_segments = segment_of[first_sentences] - held.start
    for weighted, profiles, firsts in (
        (times * block.shares, block.profiles, first_sentences),
        (weights, chunks[held], first_segments),
    ):
        totals[texts] += np.add.reduceat(weighted[:, None] * profiles, firsts, axis=0)


def strongest(sums: Doubles, keep: int) -> NDArray[np.bool_]:
    """Where the `keep` largest positive entries of each row are; of equal ones those of lower columns."""
    n_columns = sums.shape[1]
    if keep >= n_columns:
        return sums > 0
    # Distinct whole numbers in the order wanted: exact while sums stay below 2**53 / columns.
    ranked = sums * n_columns + np.arange(n_columns - 1, -1, -1)
    bound = np.partition(ranked, -keep, axis=1)[:, -keep, None]
    chosen: NDArray[np.bool_] = (ranked >= bound) & (sums > 0)
    return chosen


def _unit_profiles(z: Doubles) -> tuple[Doubles, Doubles]:
    """Rows over their norm, what is below 0 left out, in 1/PROFILE_SCALE; and by how much z the strongest entry of
    each row leads. Rows without anything above 0 stay 0."""
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
