"""The reef signal: the overlap of a query's profile with each chunk's.

overlap = sum over shared reefs of query_z * chunk_z / norm(chunk). Both factors are whole numbers of
millionths. Sums of whole numbers are exact, so equal profiles get equal overlaps in any order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.models import QueryReef
from shoal.storage.database import Snapshot, listed
from shoal.storage.packed_columns import numbers, packed_ids

# The posting list of each reef as one text. Chunk id and weight share a number: reading a number costs as
# much as adding it.
POSTINGS_OF = """
    SELECT reef_id, group_concat(chunk_id * {radix} + weight) FROM reef_postings
    WHERE reef_id IN ({reefs}) GROUP BY reef_id
"""
RADIX = 1 << 20
"""Above the largest weight, which is a million."""

# Two index lookups; a count would read the whole index.
ANY_OTHER_DATA = """
    SELECT EXISTS (SELECT 1 FROM chunks WHERE data_checksum < :data_checksum)
        OR EXISTS (SELECT 1 FROM chunks WHERE data_checksum > :data_checksum)
"""
COUNT_OTHER_DATA = "SELECT COUNT(*) FROM chunks WHERE data_checksum <> :data_checksum"
OTHER_DATA = "SELECT id FROM chunks WHERE data_checksum <> :data_checksum"

MILLIONTHS = 1_000_000
"""Scale of query z-scores, the same as that of stored weights: six digits."""
MAX_IDS_PER_POSTING = 8
"""Largest range of ids, per posting, for which an array with a place for every id is used."""


class Overlaps(NamedTuple):
    """The overlap of each chunk with a query.

    chunk_ids  i64 (n,), ascending
    overlaps   i64 (n,): in millionths of millionths
    n_shared   i64 (n,): reefs in common with the query
    """

    chunk_ids: NDArray[np.int64]
    overlaps: NDArray[np.int64]
    n_shared: NDArray[np.int64]


NO_OVERLAPS = Overlaps(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def overlaps(snapshot: Snapshot, reefs: Sequence[QueryReef]) -> Overlaps:
    """Read the postings and return the overlap of every chunk that shares a reef.

    Summing here takes half the time of summing in SQL (benchmarks/search_plans.py).
    """
    names, parameters = listed("reef", (reef.reef_id for reef in reefs))
    query_z = {reef.reef_id: round(reef.z_score * MILLIONTHS) for reef in reefs}
    runs = [
        (numbers(text), query_z[reef_id])
        for reef_id, text in snapshot.rows(POSTINGS_OF.format(radix=RADIX, reefs=names), parameters)
    ]
    if not runs:
        return NO_OVERLAPS
    ids = np.concatenate([run // RADIX for run, _ in runs])
    # Whole numbers below 2**53: floating-point addition is exact.
    products = np.concatenate([(run % RADIX) * float(z) for run, z in runs])
    first_id = int(ids.min())
    if int(ids.max()) - first_id < MAX_IDS_PER_POSTING * len(ids):
        counts = np.bincount(ids - first_id)
        shared = np.flatnonzero(counts)
        sums = np.bincount(ids - first_id, weights=products)[shared]
        return Overlaps(shared + first_id, sums.astype(np.int64), counts[shared])
    chunk_ids, places = np.unique(ids, return_inverse=True)
    sums = np.bincount(places, weights=products)
    return Overlaps(chunk_ids, sums.astype(np.int64), np.bincount(places))


def any_other_data(snapshot: Snapshot, data_checksum: str) -> bool:
    """Return whether any chunk was scored with other lagoon data; reefs of different data cannot be
    compared."""
    return bool(snapshot.value(ANY_OTHER_DATA, {"data_checksum": data_checksum}))


def count_other_data(snapshot: Snapshot, data_checksum: str) -> int:
    """Count the chunks that were scored with other lagoon data."""
    count: int = snapshot.value(COUNT_OTHER_DATA, {"data_checksum": data_checksum})
    return count


def other_data(snapshot: Snapshot, data_checksum: str) -> NDArray[np.int64]:
    """Return the ids of the chunks that were scored with other lagoon data."""
    return packed_ids(snapshot, OTHER_DATA, {"data_checksum": data_checksum})
