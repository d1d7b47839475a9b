"""Reciprocal rank fusion of the signals of a ranking (Cormack, Clarke and Büttcher, SIGIR 2009).

    fused = sum over signals of 1 / (k + rank), with ranks from 0 and k = max(1, n // 5)

The k of the paper, 60, would compress the scores of a few notes; one that grows with their number n gives the
tenth of 50 notes about half of the score of the first, and so it is in 002.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_RANK = -1
"""The rank of what a signal does not match."""
RUN = 256
"""Length of a run of scores; the largest of each run is compared first."""
KEY_BITS = 63
"""Bits of a score and its place in one number."""


def fusion_constant(n_notes: int) -> int:
    """Return k for a ranking of `n_notes`."""
    return max(1, n_notes // 5)


def ranks(raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each raw score: the number of larger ones; `NO_RANK` for those that are not above
    0."""
    found = np.full(len(raw), NO_RANK, dtype=np.int64)
    matches = np.flatnonzero(raw > 0)
    order = matches[_descending(raw[matches])]
    scores = raw[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = scores[1:] != scores[:-1]
    found[order] = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    return found


def _descending(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of scores, which are above 0, from the largest to the smallest."""
    n_bits = len(scores).bit_length()
    if not len(scores) or int(scores.max()).bit_length() + n_bits > KEY_BITS:
        return np.argsort(-scores)
    # Sorting numbers is several times as fast as sorting places by them.
    keys = scores << n_bits | np.arange(len(scores))
    keys.sort()
    return keys[::-1] & ((1 << n_bits) - 1)


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


def rank_parts(ranks: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return 1 / (k + rank), 0 without a rank."""
    return np.where(ranks == NO_RANK, 0.0, 1.0 / (k + np.maximum(ranks, 0)))
