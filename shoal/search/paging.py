"""Pages of a ranking that begin after a given result. Their cost hardly grows with their depth."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.search.ordering import Order

GROWTH = 4
"""Growth of the number of candidates per round when documents that are used up hide too many."""


def first_after(order: Order, place: int, n: int, max_per_document: int | None) -> NDArray[np.int64]:
    """Return the places of the first `n` results that come after the one at `place`, best first.

    The limit per document counts the results up to `place`, too.
    """
    is_ahead = _up_to(order, place)
    behind = dataclasses.replace(order, is_result=order.is_result & ~is_ahead)
    if max_per_document is None:
        return behind.first(n, None)
    used = np.sort(order.index.document_ids(np.flatnonzero(is_ahead & order.is_result)))
    wanted = n
    while True:
        found = behind.first(wanted, max_per_document)
        left = _left_of(order.index.document_ids(found), used, max_per_document)
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
