"""The order of results: greater keys first, equal ones by chunk id, at most so many of a document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FIRST_DEPTH = 200
"""Chunks looked at in the first go; the limit a document has rarely needs more for a page of ten."""
DEEPER = 16
"""How many times as many are looked at when those were not enough."""

DocumentsOf = Callable[[NDArray[np.int64]], NDArray[np.int64]]


@dataclass(frozen=True)
class Order:
    """Chunks with a key each.

    chunk_ids     i64 (n,), ascending
    keys          f64 (n,)
    is_result     bool (n,): what may be a result at all
    documents_of  the documents of some of these chunks, by their ids
    """

    chunk_ids: NDArray[np.int64]
    keys: NDArray[np.float64]
    is_result: NDArray[np.bool_]
    documents_of: DocumentsOf

    def first(self, n: int, max_per_document: int | None) -> NDArray[np.int64]:
        """Where the first `n` results are, best first. Sorts no more than it must."""
        eligible = np.flatnonzero(self.is_result)
        keys = self.keys[eligible]
        most = n if max_per_document is None else max_per_document
        depth = max(FIRST_DEPTH, 2 * n)
        while True:
            if depth < len(keys):
                least = np.partition(keys, len(keys) - depth)[len(keys) - depth]
                some = np.flatnonzero(keys >= least)
            else:
                some = np.arange(len(keys))
            # Stable, so equal keys stay in the order of their ids.
            places = eligible[some[np.argsort(-keys[some], kind="stable")]]
            documents = self.documents_of(self.chunk_ids[places])
            results = places[_places_in_document(documents) < most][:n]
            if len(results) == n or len(places) == len(eligible):
                return results
            depth *= DEEPER

    def rank(
        self, place: int, max_per_document: int | None, *, among: NDArray[np.bool_] | None = None
    ) -> int | None:
        """The rank from 1 that a chunk has or would have among the results, or `among` these; None where as many better
        ones of its document are there as may be."""
        key = self.keys[place]
        ahead = np.flatnonzero((self.is_result if among is None else among) & (self.keys >= key))
        ahead = ahead[(self.keys[ahead] > key) | (ahead < place)]
        if max_per_document is None:
            return 1 + len(ahead)
        documents, counts = np.unique(self.documents_of(self.chunk_ids[ahead]), return_counts=True)
        own = self.documents_of(self.chunk_ids[[place]])[0]
        if counts[documents == own].sum() >= max_per_document:
            return None
        return 1 + int(np.minimum(counts, max_per_document).sum())


def _places_in_document(document_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each element how many before it have the same value."""
    by_document = np.argsort(document_ids, kind="stable")
    in_order = document_ids[by_document]
    firsts = np.searchsorted(in_order, in_order, side="left")
    places = np.empty(len(document_ids), dtype=np.int64)
    places[by_document] = np.arange(len(document_ids)) - firsts
    return places
