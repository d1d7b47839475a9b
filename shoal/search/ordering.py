"""The order of results: by sort levels if there are any, then greater keys first, equal keys by chunk id.

The number of results of one document can be limited, or the best few of each can come before all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index import kernels
from shoal.index.index import Index

FIRST_DEPTH = 200
"""Best chunks sorted in the first round. For a page of ten, the limit per document rarely needs more."""
DEPTH_FACTOR = 16
"""Growth of the depth per round when a round yields too few results."""


RUN = 256
"""Neighbouring places; at first only the best of them is compared; divides `PLACES_TOGETHER`."""
Keys = NDArray[Any]
_ALL = np.empty(0, dtype=np.bool_)


class BestFirst(NamedTuple):
    """The `n` best results of each document come first, then all others in the same order."""

    n: int


DocumentLimit = int | BestFirst | None
"""Most results of one document, or those of it that come first; None: documents do not matter."""


class Places(NamedTuple):
    """Places of results in their order. The first `n_within` are within the limit per document."""

    places: NDArray[np.int64]
    n_within: int


@dataclass(frozen=True)
class Order:
    """Chunks with a sort key each, which is not negative.

    keys       i64 or f64 (n,), by place in the index
    is_result  bool (n,): whether the chunk may be a result
    levels     i64 (n,) each, not negative: what chunks are ordered by before their keys, greater first
    """

    index: Index
    keys: Keys
    is_result: NDArray[np.bool_]
    levels: tuple[NDArray[np.int64], ...] = ()

    def first(self, n: int, limit: DocumentLimit) -> Places:
        """Return the first `n` results, best first. Sorts only as many chunks as necessary."""
        n_best = per_document(limit, n)
        depth = max(FIRST_DEPTH, 2 * n)
        while True:
            places = self._best_places(depth)
            levels = [-level[places] for level in reversed(self.levels)]
            places = places[np.lexsort((self.index.chunk_ids(places), -self.keys[places], *levels))]
            is_within = _places_in_document(self.index.document_ids(places)) < n_best
            results: NDArray[np.int64] = places[is_within][:n]
            n_within = len(results)
            if n_within == n or len(places) < depth:
                if isinstance(limit, BestFirst):
                    results = np.concatenate([results, places[~is_within][: n - n_within]])
                return Places(results, n_within)
            depth *= DEPTH_FACTOR

    def rank(self, place: int, limit: DocumentLimit, *, among: NDArray[np.bool_] | None = None) -> int | None:
        """Return the rank, from 1, that a chunk has or would have among the results, or among `among`.

        None if as many better chunks of its document come before it as the limit allows.
        """
        own = np.array([place])
        among = self.is_result if among is None else among
        ahead = self._not_behind(place, among)
        is_tied = np.logical_and.reduce([each[ahead] == each[place] for each in (*self.levels, self.keys)])
        ahead = ahead[~is_tied | (self.index.chunk_ids(ahead) < self.index.chunk_ids(own))]
        if limit is None:
            return 1 + len(ahead)
        n_best = per_document(limit, len(ahead))
        documents, counts = np.unique(self.index.document_ids(ahead), return_counts=True)
        if counts[documents == self.index.document_ids(own)].sum() < n_best:
            return 1 + int(np.minimum(counts, n_best).sum())
        if not isinstance(limit, BestFirst):
            return None
        _, of_all = np.unique(self.index.document_ids(np.flatnonzero(among)), return_counts=True)
        return 1 + int(np.minimum(of_all, n_best).sum() + np.maximum(counts - n_best, 0).sum())

    def _best_places(self, n: int) -> NDArray[np.int64]:
        """The places of the first `n` results and of those that are equal to the last, in any order."""
        chosen: list[NDArray[np.int64]] = []
        is_left = self.is_result
        for level in self.levels:
            places = best_places(level, n, is_left)
            if len(places) <= n:
                return np.concatenate([*chosen, places])
            # Too many have the last value: of these, the next level or the key chooses.
            found = level[places]
            last = int(found.min())
            chosen.append(places[found > last])
            n -= len(chosen[-1])
            is_left = is_left & (level == last)
        return np.concatenate([*chosen, best_places(self.keys, n, is_left)])

    def _not_behind(self, place: int, among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The places of chunks that come before one, and of those that are equal to it."""
        ahead, is_tied = np.zeros_like(among), among
        for each in (*self.levels, self.keys):
            ahead |= is_tied & (each > each[place])
            is_tied = is_tied & (each == each[place])
        return np.flatnonzero(ahead | is_tied)


def per_document(limit: DocumentLimit, most: int) -> int:
    """Return the results of a document that a limit concerns; `most` without one."""
    if limit is None:
        return most
    return limit.n if isinstance(limit, BestFirst) else limit


def best_places(
    keys: Keys, n: int, is_eligible: NDArray[np.bool_] | None = None, *, least: int = 0
) -> NDArray[np.int64]:
    """Return the places of the `n` best keys and of those tied with the last, ascending; all if there are
    fewer.

    Only keys of at least `least` count, and only where `is_eligible` holds. If n runs have a key of at least
    t, n keys are at least t, so runs whose best key is below need no look.
    """
    best = kernels.active().best_of_runs(keys, _ALL if is_eligible is None else is_eligible, RUN)
    is_chosen = best >= least
    if n < len(best):
        is_chosen &= best >= np.partition(best, len(best) - n)[len(best) - n]
    runs = np.flatnonzero(is_chosen)
    places: NDArray[np.int64] = (runs[:, None] * RUN + np.arange(RUN)).ravel()
    places = places[: np.searchsorted(places, len(keys))]
    if is_eligible is not None:
        places = places[is_eligible[places]]
    places = places[keys[places] >= least]
    if n < len(places):
        chosen = keys[places]
        places = places[chosen >= np.partition(chosen, len(chosen) - n)[len(chosen) - n]]
    return places


def _places_in_document(document_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count, for each element, the elements before it with the same value."""
    by_document = np.argsort(document_ids, kind="stable")
    in_order = document_ids[by_document]
    firsts = np.searchsorted(in_order, in_order, side="left")
    places = np.empty(len(document_ids), dtype=np.int64)
    places[by_document] = np.arange(len(document_ids)) - firsts
    return places
