"""The dense signal: the cosines of the query's vector with those of all chunks, where they are above a floor.

    dense = (cosine - floor) / (best cosine in the library - floor), 0 below the floor

The floor is the cosine that the query has with texts that have nothing to do with it
(`shoal.search.query_vectors`), so that not every chunk of a library is a match.

A chunk without a vector, such as one that is not embedded yet, is judged by its other signals alone: its
dense score is estimated as ESTIMATE times the mean of its other normalized scores, by their weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index import kernels
from shoal.models.search import Fusion
from shoal.search.fusion import Signal, signal
from shoal.support.presets import Weights

UNIT = 1_000_000
"""Cosines are whole multiples of 1 / UNIT."""
ESTIMATE = 1.0
"""With a random half of the vectors missing, nDCG@10 of four collections is highest with it
(benchmarks/dense_blend.py)."""

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


class DenseCosines(NamedTuple):
    """The cosines of a query with the chunks of a library, by place.

    raw         in units of `UNIT`, 0 where it is negative or unknown
    has_vector  whether there is a vector
    floor       the cosine above which a chunk is a match, in units of `UNIT`
    encoder     name and revision of the encoder
    """

    raw: Ints
    has_vector: Bools
    floor: int
    encoder: str = ""


def dense_signal(cosines: DenseCosines, fusion: Fusion) -> Signal:
    """Return the signal; its raw scores are the distances of the cosines from the floor."""
    above = np.where(cosines.has_vector, np.maximum(cosines.raw - cosines.floor, 0), 0)
    return signal(above, fusion)


def estimate_factor(weights: Weights) -> float:
    """Return what the sum of a chunk's other parts is multiplied by to estimate its dense score."""
    others = weights.lexical + weights.reef + weights.field_boost
    return ESTIMATE / others if others else 0.0


def add_dense(
    final: Doubles, is_found: Bools, cosines: DenseCosines, dense: Signal, weights: Weights, fusion: Fusion
) -> None:
    """Add the dense parts to the final scores, and mark matches as found."""
    factor = estimate_factor(weights)
    if fusion is Fusion.rrf:
        parts = np.where(cosines.has_vector, dense.normalize(dense.raw), final * factor)
        final += weights.dense * parts
        is_found |= dense.raw > 0
        return
    kernels.active().add_dense(
        final, is_found, dense.raw, cosines.has_vector, dense.best, weights.dense, factor
    )
