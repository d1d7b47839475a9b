"""From the company of a word to its reefs.

The mean context of a word is compared with what each reef averages over all words of the corpus: a reef that
is everywhere says nothing. The excess is measured in roots of that average, its spread up to a factor (the
spread itself ranks the same, and would need another sum for each document and reef). A word keeps the reefs
above an absolute and a relative bound, and not more than a few, or it would be near everything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.learning.evidence import Evidence
from shoal.learning.observations import CONTEXT_UNIT
from shoal.storage.vocabulary_records import Kind

# The average of a small corpus is that of its few topics, and against it nothing would stand out: it counts as
# if so many words of text about all reefs alike had been read before.
PRIOR_WORDS = 2000.0

# Strengths are stored and compared with this many digits.
STRENGTH_DIGITS = 4

# Words whose contexts are spread out at once.
_BLOCK = 8192

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AssociationOptions:
    """minimum   excess over the average, in roots of the average;  relative  share of the word's largest excess;
    max_reefs"""

    minimum: float
    relative: float
    max_reefs: int


@dataclass(frozen=True)
class Associations:
    """lengths (words,): reefs of each word, 0 where none stands out; reefs, strengths (entries,): word after word,
    strongest first. The strongest has strength 1."""

    lengths: Ints
    reefs: Ints
    strengths: Doubles


def average_context(evidence: Evidence, n_reefs: int) -> Doubles:
    """(n_reefs,) what each reef averages over all words; above 0."""
    total, n_words = np.zeros(n_reefs), 0.0
    if evidence.keys and evidence.keys[0][0] == Kind.totals:
        total = evidence.dense(np.array([0]), n_reefs)[0]
        n_words = float(evidence.counts[0, 0])
    # Whole numbers: their sum is exact.
    alike = total.sum() / (n_words * n_reefs) if total.any() else 1.0
    return (total + PRIOR_WORDS * alike) / (n_words + PRIOR_WORDS)


def associate(sums: Evidence, indices: Ints, average: Doubles, options: AssociationOptions) -> Associations:
    """Reefs of the words in rows `indices`."""
    found = [
        _strongest(sums, indices[first : first + _BLOCK], average, options)
        for first in range(0, len(indices), _BLOCK)
    ]
    if not found:
        nothing = np.empty(0, dtype=np.int64)
        return Associations(nothing, nothing, np.empty(0))
    return Associations(
        np.concatenate([block.lengths for block in found]),
        np.concatenate([block.reefs for block in found]),
        np.concatenate([block.strengths for block in found]),
    )


def _strongest(sums: Evidence, indices: Ints, average: Doubles, options: AssociationOptions) -> Associations:
    n = sums.counts[indices, 0]
    mean = sums.dense(indices, len(average)) / (n * float(CONTEXT_UNIT))[:, None]
    excess = (mean - average) / np.sqrt(average)
    largest = excess.max(axis=1)
    order = np.argsort(-excess, axis=1, kind="stable")[:, : options.max_reefs]
    leading = np.take_along_axis(excess, order, axis=1)
    bound = np.maximum(options.minimum, options.relative * largest)
    kept = (leading >= bound[:, None]) & (leading > 0)
    strengths = np.round(leading / np.where(largest > 0, largest, 1.0)[:, None], STRENGTH_DIGITS)
    return Associations(kept.sum(axis=1), order[kept], strengths[kept])
