"""The overlap of a query's reefs with each chunk's.

overlap = sum over shared reefs of query_z * chunk_z / norm(chunk). z-scores are not negative.

Both factors are whole numbers, so sums are exact: the query's z-scores in millionths, the chunk's weights in
units of 1 / REEF_UNIT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index import kernels
from shoal.index.index import Index
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


Z_UNIT = 1_000_000
OVERLAP_UNIT = Z_UNIT * REEF_UNIT
"""Overlaps are whole multiples of 1 / OVERLAP_UNIT."""


class Overlaps(NamedTuple):
    """The overlap of the chunk at each place of an index; 0 without a shared reef and for deleted chunks.

    overlaps  i64 (n,), in units of 1 / OVERLAP_UNIT
    n_shared  u8 (n,): reefs in common with the query
    """

    overlaps: NDArray[np.int64]
    n_shared: NDArray[np.uint8]


def overlaps(index: Index, query_z: Mapping[int, float]) -> Overlaps:
    """Return the overlap of each chunk with the z-scores of a query by reef id."""
    add_overlaps = kernels.active().add_overlaps
    factors = np.array([round(z * Z_UNIT) for z in query_z.values()], dtype=np.int64)
    reef_ids = np.array(list(query_z), dtype=np.int64)
    found = Overlaps(np.zeros(len(index), dtype=np.int64), np.zeros(len(index), dtype=np.uint8))
    columns = zip(index.by_part(found.overlaps), index.by_part(found.n_shared), strict=True)
    for (part, totals), (_, n_shared) in columns:
        segment = part.segment
        is_here = reef_ids < segment.n_reefs
        postings = segment.reef_starts, segment.reef_ordinals, segment.reef_weights
        kernels.check(add_overlaps(totals, n_shared, *postings, reef_ids[is_here], factors[is_here]))
        if part.live_chunks is not None:
            np.multiply(totals, part.live_chunks, out=totals)
            np.multiply(n_shared, part.live_chunks, out=n_shared)
    return found
