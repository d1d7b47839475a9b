"""The reef signal: the overlap of a query's profile with each chunk's.

overlap = sum over shared reefs of query_z * chunk_z / norm(chunk). Both factors are whole numbers, so equal
profiles get equal overlaps in any order of addition.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from shoal.index import overlaps as index_overlaps
from shoal.index.overlaps import Overlaps
from shoal.models.query_info import QueryReef
from shoal.search.library_index import LibraryIndex
from shoal.storage.database import Snapshot
from shoal.storage.packed_columns import packed_ids

UNIT = index_overlaps.OVERLAP_UNIT
"""Overlaps are whole multiples of 1 / UNIT."""

OTHER_DATA = """
    SELECT id FROM chunks WHERE data_checksum < :data_checksum
    UNION ALL SELECT id FROM chunks WHERE data_checksum > :data_checksum
"""


def overlaps(library: LibraryIndex, reefs: Iterable[QueryReef]) -> Overlaps:
    """Return the overlap of the chunk at each place; 0 for one that shares no reef."""
    return index_overlaps.overlaps(library.index, {reef.reef_id: reef.z_score for reef in reefs})


def other_data(snapshot: Snapshot, data_checksum: str) -> NDArray[np.int64]:
    """Return the ids of the chunks that were scored with other lagoon data."""
    return packed_ids(snapshot, OTHER_DATA, {"data_checksum": data_checksum})
