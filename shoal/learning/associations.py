"""Derive the reefs of a word from its contexts.

The mean context of a word is compared with the average context of all words of the corpus, because a reef
that is common everywhere says nothing about a word. The excess is measured in square roots of that average,
which estimate the standard deviation up to a factor (the deviation itself ranks the same and would need
another sum for each document and reef). A word keeps the reefs above an absolute and a relative bound, up to
`max_reefs`; with more, it would match nearly every topic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.learning.evidence import Evidence
from shoal.learning.observations import CONTEXT_UNIT, document_share
from shoal.storage.vocabulary_records import Kind

# The average of a small corpus is that of its few topics, and no word would exceed it. So the average
# includes this many words of imaginary text that is about all reefs alike.
PRIOR_WORDS = 2000.0

# Strengths and probabilities are stored and compared with this many digits.
STRENGTH_DIGITS = 4
PROBABILITY_DIGITS = 3

# Logistic regression on words of the dictionary that were hidden and learned again
# (`benchmarks/masked_words.py`): of the excess, occurrences, rank and strength of an association.
INTERCEPT, EXCESS, OCCURRENCES, RANK, STRENGTH = -1.906, 1.105, 0.443, -0.203, 0.425

# Words whose contexts are expanded to dense arrays at a time.
_BLOCK = 8192

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AssociationOptions:
    """Bounds for the reefs of a word.

    minimum    least excess over the average, in square roots of the average
    relative   least share of the word's largest excess
    max_reefs  most reefs of a word
    """

    minimum: float
    relative: float
    max_reefs: int


@dataclass(frozen=True)
class Associations:
    """Reefs of several words.

    lengths           (words,): number of reefs of each word, 0 if none exceeds the bounds
    reefs, strengths  (entries,): word after word, strongest first; the strongest has strength 1
    probabilities     (entries,): expected agreement with a dictionary, 0..1
    """

    lengths: Ints
    reefs: Ints
    strengths: Doubles
    probabilities: Doubles


def average_context(evidence: Evidence, n_reefs: int) -> Doubles:
    """Average context of all words, (n_reefs,); above 0."""
    total, n_words = np.zeros(n_reefs), 0.0
    if evidence.keys and evidence.keys[0][0] == Kind.totals:
        total = evidence.dense(np.array([0]), n_reefs)[0]
        n_words = float(evidence.counts[0, 0])
    # The entries are whole numbers, so their sum is exact.
    uniform = total.sum() / (n_words * n_reefs) if total.any() else 1.0
    return (total + PRIOR_WORDS * uniform) / (n_words + PRIOR_WORDS)


def associate(sums: Evidence, indices: Ints, average: Doubles, options: AssociationOptions) -> Associations:
    """Find the reefs of the words in rows `indices`."""
    blocks = [
        _strongest(sums, indices[first : first + _BLOCK], average, options)
        for first in range(0, len(indices), _BLOCK)
    ]
    if not blocks:
        empty = np.empty(0, dtype=np.int64)
        return Associations(empty, empty, np.empty(0), np.empty(0))
    return Associations(
        np.concatenate([block.lengths for block in blocks]),
        np.concatenate([block.reefs for block in blocks]),
        np.concatenate([block.strengths for block in blocks]),
        np.concatenate([block.probabilities for block in blocks]),
    )


def _strongest(sums: Evidence, indices: Ints, average: Doubles, options: AssociationOptions) -> Associations:
    n = sums.counts[indices, 0]
    mean = sums.dense(indices, len(average)) / (n * float(CONTEXT_UNIT))[:, None]
    excess = (mean - average) / np.sqrt(average)
    largest = excess.max(axis=1)
    order = np.argsort(-excess, axis=1, kind="stable")[:, : options.max_reefs]
    leading = np.take_along_axis(excess, order, axis=1)
    # Without its document's share, less of a context is left to exceed the average.
    minimum = options.minimum * (1.0 - document_share(n / sums.counts[indices, 2]))
    bound = np.maximum(minimum, options.relative * largest)
    is_kept = (leading >= bound[:, None]) & (leading > 0)
    strengths = np.round(leading / np.where(largest > 0, largest, 1.0)[:, None], STRENGTH_DIGITS)
    chances = _agreement(leading, n[:, None], strengths)
    return Associations(is_kept.sum(axis=1), order[is_kept], strengths[is_kept], chances[is_kept])


def _agreement(excess: Doubles, n_occurrences: Ints, strengths: Doubles) -> Doubles:
    """Probability that a dictionary would give a word each of its reefs, (words, reefs), strongest first."""
    rank = np.arange(excess.shape[1])
    logit = (
        INTERCEPT
        + EXCESS * np.log(np.maximum(excess, 1e-9))
        + OCCURRENCES * np.log(n_occurrences)
        + RANK * np.log1p(rank)
        + STRENGTH * strengths
    )
    chances: Doubles = np.round(1.0 / (1.0 + np.exp(-logit)), PROBABILITY_DIGITS)
    return chances
