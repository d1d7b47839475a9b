"""Lists of different lengths in one array, without a loop over the lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def expand(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places starts[i], starts[i] + 1, ..., starts[i] + counts[i] - 1 for each i, in order."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return places


def starts_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each list starts if they follow each other, and the end of the last."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return arrays of whole numbers as one."""
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays], dtype=np.int64)


def firsts_of_runs(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places where a value differs from the one before."""
    is_first = np.ones(len(values), dtype=np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return np.flatnonzero(is_first)
