"""Ranking by reefs: how much of a query's profile a chunk shares.

score = sum over shared reefs of query_z * chunk_z / norm(chunk). The SQL below is the definition. It adds up
millionths of both factors: sums of whole numbers are exact, so equal profiles get equal scores in whatever order the
rows come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.models import QueryReef
from shoal.search.filters import CompiledFilters
from shoal.storage.database import Snapshot, listed
from shoal.storage.packed_columns import numbers, packed_ids

# The overlap with every chunk that shares a reef: each reef of the query is one contiguous run of postings.
SCORED = """
    query_reefs (reef_id, z) AS (VALUES {query_reefs}),
    scored AS (
        SELECT p.chunk_id, SUM(p.weight * q.z) AS overlap, COUNT(*) AS n_shared
        FROM query_reefs q
        CROSS JOIN reef_postings p
        WHERE p.reef_id = q.reef_id {restriction}
        GROUP BY p.chunk_id
    )
"""
RESTRICTION = "AND +p.chunk_id IN ({eligible})"

# The postings of each reef of a query, as one text: two numbers in one, because every number costs as much as adding.
POSTINGS_OF = """
    SELECT reef_id, group_concat(chunk_id * {radix} + weight) FROM reef_postings
    WHERE reef_id IN ({reefs}) GROUP BY reef_id
"""
RADIX = 1 << 20
"""More than any weight, which is at most a million."""

# Chunks get their place within their document among the best `depth`: few of them need to be looked at.
RANK = """
    WITH {scored},
    best AS (
        SELECT chunk_id, overlap, n_shared FROM scored ORDER BY overlap DESC, chunk_id LIMIT :depth
    ),
    ranked AS (
        SELECT b.chunk_id, c.document_id, b.overlap, b.n_shared,
               ROW_NUMBER() OVER (PARTITION BY c.document_id ORDER BY b.overlap DESC, b.chunk_id) AS place
        FROM best b
        JOIN chunks c ON c.id = b.chunk_id
    )
    SELECT chunk_id, document_id, overlap, n_shared, (SELECT COUNT(*) FROM best) AS n_best
    FROM ranked
    WHERE place <= :max_per_document
    ORDER BY overlap DESC, chunk_id
    LIMIT :n
"""

# Two looks into an index, where counting would read all of it.
ANY_OTHER_DATA = """
    SELECT EXISTS (SELECT 1 FROM chunks WHERE data_checksum < :data_checksum)
        OR EXISTS (SELECT 1 FROM chunks WHERE data_checksum > :data_checksum)
"""
COUNT_OTHER_DATA = "SELECT COUNT(*) FROM chunks WHERE data_checksum <> :data_checksum"
OTHER_DATA = "SELECT id FROM chunks WHERE data_checksum <> :data_checksum"

MILLIONTHS = 1_000_000
"""Query z-scores are handed over in millionths, as weights are stored: with six digits."""
FIRST_DEPTH = 200
"""Chunks looked at in the first go; the limit a document has rarely needs more for a page of ten."""
DEEPER = 16
"""How many times as many are looked at when those were not enough."""
DENSE = 8
"""Ids from the least to the greatest, for each posting, up to which an array has a place for every id between."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A chunk in a ranking. `overlap` is its score in millionths of millionths."""

    chunk_id: int
    document_id: int
    overlap: int
    n_shared: int

    @property
    def score(self) -> float:
        """The overlap with the query; more is better, and 0 is none."""
        return self.overlap / MILLIONTHS**2


class Overlaps(NamedTuple):
    """chunk_ids  i64 (n,), ascending
    overlaps   i64 (n,): in millionths of millionths
    n_shared   i64 (n,): reefs in common with the query
    """

    chunk_ids: NDArray[np.int64]
    overlaps: NDArray[np.int64]
    n_shared: NDArray[np.int64]


NO_OVERLAPS = Overlaps(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def overlaps(snapshot: Snapshot, reefs: Sequence[QueryReef]) -> Overlaps:
    """The overlap of every chunk that shares a reef, as `SCORED` defines it; added up here, which takes half the time."""
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
    least = int(ids.min())
    if int(ids.max()) - least < DENSE * len(ids):
        counts = np.bincount(ids - least)
        shared = np.flatnonzero(counts)
        sums = np.bincount(ids - least, weights=products)[shared]
        return Overlaps(shared + least, sums.astype(np.int64), counts[shared])
    chunk_ids, places = np.unique(ids, return_inverse=True)
    sums = np.bincount(places, weights=products)
    return Overlaps(chunk_ids, sums.astype(np.int64), np.bincount(places))


def rank(
    snapshot: Snapshot,
    reefs: Sequence[QueryReef],
    compiled_filters: CompiledFilters,
    *,
    n: int,
    max_per_document: int | None,
) -> list[Ranked]:
    """The first `n` chunks that meet the conditions, at most `max_per_document` of a document.

    Equal scores are ordered by chunk id. There must be at least one reef.
    """
    statement = RANK.format(scored=_scored(reefs, compiled_filters))
    parameters = _parameters(reefs, compiled_filters)
    parameters |= {"n": n, "max_per_document": n if max_per_document is None else max_per_document}
    depth = max(FIRST_DEPTH, 2 * n)
    while True:
        rows = snapshot.rows(statement, {**parameters, "depth": depth})
        # Enough, or every chunk was looked at.
        if len(rows) == n or not rows or rows[0]["n_best"] < depth:
            return [Ranked(row[0], row[1], row[2], row[3]) for row in rows]
        depth *= DEEPER


def any_other_data(snapshot: Snapshot, data_checksum: str) -> bool:
    """Whether some chunk was scored with other data than this; reefs of different data can't be compared."""
    return bool(snapshot.value(ANY_OTHER_DATA, {"data_checksum": data_checksum}))


def count_other_data(snapshot: Snapshot, data_checksum: str) -> int:
    """How many chunks were scored with other data than this."""
    count: int = snapshot.value(COUNT_OTHER_DATA, {"data_checksum": data_checksum})
    return count


def other_data(snapshot: Snapshot, data_checksum: str) -> NDArray[np.int64]:
    """The chunks that were scored with other data than this."""
    return packed_ids(snapshot, OTHER_DATA, {"data_checksum": data_checksum})


def _scored(reefs: Sequence[QueryReef], compiled_filters: CompiledFilters) -> str:
    pairs = ", ".join(f"(:reef_id_{i}, :reef_z_{i})" for i in range(len(reefs)))
    restriction = RESTRICTION.format(eligible=compiled_filters.eligible) if compiled_filters else ""
    return SCORED.format(query_reefs=pairs, restriction=restriction)


def _parameters(reefs: Sequence[QueryReef], compiled_filters: CompiledFilters) -> dict[str, Any]:
    parameters = dict(compiled_filters.parameters)
    for i, reef in enumerate(reefs):
        parameters[f"reef_id_{i}"] = reef.reef_id
        parameters[f"reef_z_{i}"] = round(reef.z_score * MILLIONTHS)
    return parameters
