"""The order of results: greater keys first, equal keys by chunk id, with a limit per document."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FIRST_DEPTH = 200
"""Best chunks sorted in the first round. For a page of ten, the limit per document rarely needs more."""
DEPTH_FACTOR = 16
"""Growth of the depth per round when a round yields too few results."""


@dataclass(frozen=True)
class Order:
    """Chunks with a sort key each.

    chunk_ids     i64 (n,)
    document_ids  i64 (n,)
    keys          f64 (n,)
    is_result     bool (n,): whether the chunk may be a result
    """

    chunk_ids: NDArray[np.int64]
    document_ids: NDArray[np.int64]
    keys: NDArray[np.float64]
    is_result: NDArray[np.bool_]

    def first(self, n: int, max_per_document: int | None) -> NDArray[np.int64]:
        """Return the places of the first `n` results, best first. Sorts only as many chunks as necessary."""
        eligible = np.flatnonzero(self.is_result)
        keys = self.keys[eligible]
        limit = n if max_per_document is None else max_per_document
        depth = max(FIRST_DEPTH, 2 * n)
        while True:
            if depth < len(keys):
                threshold = np.partition(keys, len(keys) - depth)[len(keys) - depth]
                candidates = eligible[keys >= threshold]
            else:
                candidates = eligible
            places = candidates[np.lexsort((self.chunk_ids[candidates], -self.keys[candidates]))]
            results: NDArray[np.int64] = places[_places_in_document(self.document_ids[places]) < limit][:n]
            if len(results) == n or len(places) == len(eligible):
                return results
            depth *= DEPTH_FACTOR

    def rank(
        self, place: int, max_per_document: int | None, *, among: NDArray[np.bool_] | None = None
    ) -> int | None:
        """Return the rank, from 1, that a chunk has or would have among the results, or among `among`.

        None if `max_per_document` better chunks of its document come before it.
        """
        key = self.keys[place]
        ahead = np.flatnonzero((self.is_result if among is None else among) & (self.keys >= key))
        ahead = ahead[(self.keys[ahead] > key) | (self.chunk_ids[ahead] < self.chunk_ids[place])]
        if max_per_document is None:
            return 1 + len(ahead)
        documents, counts = np.unique(self.document_ids[ahead], return_counts=True)
        if counts[documents == self.document_ids[place]].sum() >= max_per_document:
            return None
        return 1 + int(np.minimum(counts, max_per_document).sum())


def _places_in_document(document_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count, for each element, the elements before it with the same value."""
    by_document = np.argsort(document_ids, kind="stable")
    in_order = document_ids[by_document]
    firsts = np.searchsorted(in_order, in_order, side="left")
    places = np.empty(len(document_ids), dtype=np.int64)
    places[by_document] = np.arange(len(document_ids)) - firsts
    return places
