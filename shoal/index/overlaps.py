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
from shoal.index.index import Index, Place
from shoal.index.kernels import SHARED_BITS
from shoal.index.reef_weights import REEF_UNIT

Z_UNIT = 1_000_000
OVERLAP_UNIT = Z_UNIT * REEF_UNIT
"""Overlaps are whole multiples of 1 / OVERLAP_UNIT."""
_SHARED_MASK = (1 << SHARED_BITS) - 1


class Overlaps(NamedTuple):
    """The overlap of each chunk of a part; 0 without a shared reef and for deleted chunks.

    overlaps  i64 (n,), in units of 1 / OVERLAP_UNIT
    n_shared  u8 (n,): reefs in common with the query
    """

    overlaps: NDArray[np.int64]
    n_shared: NDArray[np.uint8]


def overlaps(index: Index, query_z: Mapping[int, float]) -> list[Overlaps]:
    """Return the overlap of each chunk with the z-scores of a query by reef id, for each part."""
    add_overlaps = kernels.active().add_overlaps
    factors = [(reef_id, round(z * Z_UNIT)) for reef_id, z in query_z.items()]
    results = []
    for part in index.parts:
        totals = np.zeros(part.segment.n_chunks, dtype=np.int64)
        for reef_id, factor in factors:
            kernels.check(add_overlaps(totals, *part.segment.reef_postings(reef_id), factor))
        if part.live_chunks is not None:
            totals *= part.live_chunks
        n_shared = (totals & _SHARED_MASK).astype(np.uint8)
        totals >>= SHARED_BITS
        results.append(Overlaps(totals, n_shared))
    return results


def contributions(index: Index, query_z: Mapping[int, float], place: Place) -> dict[int, int]:
    """Return what each shared reef adds to the overlap of one chunk, by reef id, in units of
    1 / OVERLAP_UNIT."""
    segment = index.parts[place.part].segment
    shared = {}
    for reef_id, z in query_z.items():
        ordinals, weights = segment.reef_postings(reef_id)
        at = int(np.searchsorted(ordinals, place.ordinal))
        if at < len(ordinals) and ordinals[at] == place.ordinal:
            shared[reef_id] = round(z * Z_UNIT) * int(weights[at])
    return shared
