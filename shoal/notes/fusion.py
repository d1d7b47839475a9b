"""Reciprocal rank fusion of the signals of a ranking (Cormack, Clarke and Büttcher, SIGIR 2009).

    fused = sum over signals of 1 / (k + rank), with ranks from 0 and k = max(1, n // 5)

The k of the paper, 60, would compress the scores of a few notes; one that grows with their number n gives the
tenth of 50 notes about half of the score of the first, and so it is in 002.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NO_RANK = -1
"""The rank of what a signal does not match."""


def fusion_constant(n_notes: int) -> int:
    """Return k for a ranking of `n_notes`."""
    return max(1, n_notes // 5)


def ranks(raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each raw score: the number of larger ones; `NO_RANK` for those that are not above
    0."""
    found = np.full(len(raw), NO_RANK, dtype=np.int64)
    matches = np.flatnonzero(raw > 0)
    order = matches[np.argsort(-raw[matches])]
    scores = raw[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = scores[1:] != scores[:-1]
    found[order] = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    return found


def rank_parts(ranks: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return 1 / (k + rank), 0 without a rank."""
    return np.where(ranks == NO_RANK, 0.0, 1.0 / (k + np.maximum(ranks, 0)))
