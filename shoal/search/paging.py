"""Pages of a ranking that begin after a given result. Their cost hardly grows with their depth."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.search.ordering import BestFirst, DocumentLimit, Order, Places, per_document

GROWTH = 4
"""Growth of the number of candidates per round when documents that are used up hide too many."""


def first_after(order: Order, place: int, n: int, limit: DocumentLimit) -> Places:
    """Return the first `n` results that come after the one at `place`, best first.

    The limit per document counts the results up to `place`, too.
    """
    is_ahead = _up_to(order, place)
    behind = dataclasses.replace(order, is_result=order.is_result & ~is_ahead)
    if limit is None:
        return behind.first(n, None)
    n_best = per_document(limit, n)
    used = np.sort(order.index.document_ids(np.flatnonzero(is_ahead & order.is_result)))
    own = order.index.document_ids(np.array([place]))
    if not isinstance(limit, BestFirst):
        page = _within_after(behind, used, n, n_best)
        return Places(page, len(page))
    if np.count_nonzero(used == own) <= n_best:
        page = _within_after(behind, used, n, n_best)
        if len(page) == n:
            return Places(page, n)
    # The page has results beyond the limit, which begin after all others.
    everything = order.first(int(np.count_nonzero(order.is_result)), limit)
    at = 1 + int(np.flatnonzero(everything.places == place)[0])
    page = everything.places[at : at + n]
    return Places(page, min(max(0, everything.n_within - at), len(page)))


def _within_after(behind: Order, used: NDArray[np.int64], n: int, n_best: int) -> NDArray[np.int64]:
    """The first `n` results of `behind` that are among the `n_best` of their documents. `used`: the documents
    of the results before them, ascending."""
    wanted = n
    while True:
        found = behind.first(wanted, n_best).places
        left = _left_of(behind.index.document_ids(found), used, n_best)
        if np.count_nonzero(left) >= n or len(found) < wanted:
            return found[left][:n]
        wanted *= GROWTH


def _left_of(document_ids: NDArray[np.int64], used: NDArray[np.int64], limit: int) -> NDArray[np.bool_]:
    """Whether each result is among the first `limit` of its document, `used` ones before it included."""
    n_used = np.searchsorted(used, document_ids, "right") - np.searchsorted(used, document_ids, "left")
    seen: dict[int, int] = {}
    left = np.zeros(len(document_ids), dtype=np.bool_)
    for i, (document_id, before) in enumerate(zip(document_ids.tolist(), n_used.tolist(), strict=True)):
        left[i] = before + seen.get(document_id, 0) < limit
        seen[document_id] = seen.get(document_id, 0) + 1
    return left


def _up_to(order: Order, place: int) -> NDArray[np.bool_]:
    """Whether each place comes before `place` or is `place` itself."""
    # What the order compares before its keys, if anything.
    levels: tuple[NDArray[Any], ...] = getattr(order, "levels", ())
    is_ahead = np.zeros(len(order.keys), dtype=np.bool_)
    is_tied = np.ones(len(order.keys), dtype=np.bool_)
    for each in (*levels, order.keys):
        is_ahead |= is_tied & (each > each[place])
        is_tied &= each == each[place]
    tied = np.flatnonzero(is_tied)
    own = order.index.chunk_ids(np.array([place]))
    is_ahead[tied[order.index.chunk_ids(tied) <= own]] = True
    return is_ahead
