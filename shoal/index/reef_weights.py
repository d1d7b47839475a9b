"""The weight of a reef in a chunk: its z-score divided by the norm of the chunk's z-scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.index.ragged import starts_of

REEF_UNIT = 65_535
"""Weights are whole multiples of 1 / REEF_UNIT, so a weight of 1 fills two bytes."""


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
