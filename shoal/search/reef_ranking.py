"""The reef signal: the overlap of a query's profile with each chunk's.

overlap = sum over shared reefs of query_z * chunk_z / norm(chunk). Both factors, query_z and chunk_z /
norm(chunk), are whole numbers of millionths. Sums of whole numbers are exact, so equal profiles get equal
overlaps in any order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.models import QueryReef
from shoal.storage.database import Snapshot
from shoal.storage.packed_columns import packed_ids
from shoal.storage.profiles import MAX_REEFS, MILLIONTHS, batches

PROFILES = "SELECT id, document_id, profile FROM chunks ORDER BY id"

# Two index lookups; a count would read the whole index.
ANY_OTHER_DATA = """
    SELECT EXISTS (SELECT 1 FROM chunks WHERE data_checksum < :data_checksum)
        OR EXISTS (SELECT 1 FROM chunks WHERE data_checksum > :data_checksum)
"""
COUNT_OTHER_DATA = "SELECT COUNT(*) FROM chunks WHERE data_checksum <> :data_checksum"
OTHER_DATA = "SELECT id FROM chunks WHERE data_checksum <> :data_checksum"


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
    """Read all profiles and return the overlap of every chunk that shares a reef.

    For a process that searches once; others keep the postings of the reefs (`shoal.search.postings`).
    """
    query_z, is_asked = np.zeros(MAX_REEFS), np.zeros(MAX_REEFS, dtype=np.bool_)
    for reef in reefs:
        query_z[reef.reef_id], is_asked[reef.reef_id] = round(reef.z_score * MILLIONTHS), True
    parts = [NO_OVERLAPS]
    for chunk_ids, _, profiles in batches(snapshot.tuples(PROFILES)):
        found = np.flatnonzero(is_asked[profiles.reef_ids])
        chunks = profiles.chunks[found]
        # Whole numbers below 2**53: floating-point addition is exact.
        products = profiles.weights[found] * query_z[profiles.reef_ids[found]]
        n_shared = np.bincount(chunks, minlength=len(chunk_ids))
        sums = np.bincount(chunks, weights=products, minlength=len(chunk_ids)).astype(np.int64)
        shares = n_shared > 0
        parts.append(Overlaps(chunk_ids[shares], sums[shares], n_shared[shares]))
    return Overlaps(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


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
