"""The largest of many scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

RUN = 256
"""Length of a run of scores; the largest of each run is compared first."""


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
