"""Documents that are grouped under others: the attachments of a mail under the mail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.storage.database import Snapshot

PARENTS = "SELECT document_id, MIN(parent_id) FROM document_parents GROUP BY document_id ORDER BY document_id"
_MAX_STEPS = 16
"""Attachments of attachments are followed over 2^16 documents; links may form a circle."""


@dataclass(frozen=True)
class Families:
    """The documents that attached ones are grouped under: the outermost, by the parent that was stored first.

    attached  i64 (n,), ascending
    heads     i64 (n,)
    """

    attached: NDArray[np.int64]
    heads: NDArray[np.int64]

    @classmethod
    def read(cls, snapshot: Snapshot) -> Families:
        rows = list(snapshot.tuples(PARENTS))
        attached, heads = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        families = cls(attached, heads)
        for _ in range(_MAX_STEPS):
            further = families.of(families.heads)
            if np.array_equal(further, families.heads):
                break
            families = cls(attached, further)
        return families

    def of(self, document_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the head of each document; itself if it is attached to none."""
        if not len(self.attached):
            return document_ids
        at = np.minimum(np.searchsorted(self.attached, document_ids), len(self.attached) - 1)
        return np.where(self.attached[at] == document_ids, self.heads[at], document_ids)

    def members(self, heads: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the documents of these families, their heads among them."""
        return np.concatenate([heads, self.attached[np.isin(self.heads, heads)]])
