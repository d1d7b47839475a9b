"""Running sums of observations: rows of any number of documents, added and withdrawn exactly.

Columns instead of rows, because a wave has a hundred thousand of them. Nothing depends on the order in which
rows came.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.storage.vocabulary_records import EvidenceRow, Kind

Ints = NDArray[np.int64]

N_COUNTS = 4
"""n_occurrences, n_short, n_documents, n_chunks."""
N_PARTS = 5
"""compounds.PartCounts; 0 where a row has none."""

Key = tuple[int, str]


ROWS_SUMMED = 20_000
"""Rows of observations that are added up at a time: some 20 MB of them."""


class EvidenceError(ValueError):
    """More was withdrawn than there was: observations and running sums don't belong together."""


@dataclass(frozen=True)
class Evidence:
    """One row for each of `keys`, ascending (kind, word).

    counts   i64 (n, N_COUNTS);  parts  i64 (n, N_PARTS)
    borders  i64 (n + 1,): row i has the contexts reefs[borders[i]:borders[i+1]], ascending, with `sums`, not 0
    """

    keys: list[Key]
    counts: Ints
    parts: Ints
    borders: Ints
    reefs: Ints
    sums: Ints

    @staticmethod
    def of(rows: Iterable[EvidenceRow]) -> Evidence:
        """The sum of rows; rows of the same kind and word add up."""
        given = list(rows)
        lengths = np.fromiter((len(row.reefs) for row in given), dtype=np.int64, count=len(given))
        n_entries = int(lengths.sum())
        chain = itertools.chain.from_iterable
        return _summed(
            [(row.kind, row.word) for row in given],
            np.array([row[2:6] for row in given], dtype=np.int64).reshape(-1, N_COUNTS),
            np.array([row.parts or _NO_PARTS for row in given], dtype=np.int64).reshape(-1, N_PARTS),
            lengths,
            np.fromiter(chain(row.reefs for row in given), dtype=np.int64, count=n_entries),
            np.fromiter(chain(row.sums for row in given), dtype=np.int64, count=n_entries),
        )

    def __add__(self, other: Evidence) -> Evidence:
        return self._with(other, 1)

    def __sub__(self, other: Evidence) -> Evidence:
        """Raises EvidenceError where a count would fall below 0."""
        return self._with(other, -1)

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evidence) and self.rows() == other.rows()

    __hash__ = None  # type: ignore[assignment]

    @property
    def words(self) -> list[str]:
        """Words and compounds, ascending within each kind; not the totals."""
        return [word for kind, word in self.keys if kind != Kind.totals]

    def rows(self) -> list[EvidenceRow]:
        """In the order of (kind, word)."""
        reefs, sums, borders = self.reefs.tolist(), self.sums.tolist(), self.borders.tolist()
        return [
            EvidenceRow(
                kind,
                word,
                *counts,  # type: ignore[call-arg]
                tuple(parts) if kind == Kind.compound else (),
                tuple(reefs[first:last]),
                tuple(sums[first:last]),
            )
            for (kind, word), counts, parts, first, last in zip(
                self.keys, self.counts.tolist(), self.parts.tolist(), borders, borders[1:], strict=False
            )
        ]

    def dense(self, indices: Ints, n_reefs: int) -> NDArray[np.float64]:
        """(len(indices), n_reefs) sums of the rows at `indices`."""
        lengths = np.diff(self.borders)[indices]
        first = np.repeat(self.borders[indices] - (np.cumsum(lengths) - lengths), lengths)
        at = first + np.arange(int(lengths.sum()))
        out = np.zeros((len(indices), n_reefs))
        out[np.repeat(np.arange(len(indices)), lengths), self.reefs[at]] = self.sums[at]
        return out

    def _with(self, other: Evidence, sign: int) -> Evidence:
        total = _summed(
            self.keys + other.keys,
            np.concatenate((self.counts, sign * other.counts)),
            np.concatenate((self.parts, sign * other.parts)),
            np.concatenate((np.diff(self.borders), np.diff(other.borders))),
            np.concatenate((self.reefs, other.reefs)),
            np.concatenate((self.sums, sign * other.sums)),
        )
        if min(total.counts.min(initial=0), total.parts.min(initial=0), total.sums.min(initial=0)) < 0:
            raise EvidenceError("withdrawn observations are not part of the running sums")
        return total


def total(rows: Iterator[EvidenceRow]) -> Evidence:
    """The sum of any number of rows; equal amounts are added first, so that each row is seldom added again."""
    sums: list[tuple[int, Evidence]] = []
    while some := list(itertools.islice(rows, ROWS_SUMMED)):
        level, summed = 0, Evidence.of(some)
        while sums and sums[-1][0] <= level:
            level, summed = level + 1, sums.pop()[1] + summed
        sums.append((level, summed))
    whole = Evidence.of([])
    for _, one in reversed(sums):
        whole = one + whole
    return whole


_NO_PARTS = (0,) * N_PARTS


def _summed(
    keys: Sequence[Key], counts: Ints, parts: Ints, lengths: Ints, reefs: Ints, sums: Ints
) -> Evidence:
    """Rows of equal keys added, in the order of keys; those that nothing speaks for are gone."""
    order = sorted(set(keys))
    number = {key: index for index, key in enumerate(order)}
    row_of = np.fromiter(map(number.__getitem__, keys), dtype=np.int64, count=len(keys))
    all_counts = _added(row_of, counts, len(order))
    all_parts = _added(row_of, parts, len(order))
    there: NDArray[np.bool_] = np.any(all_counts, axis=1)
    if not there.all():
        order = [key for key, keep in zip(order, there.tolist(), strict=True) if keep]
    new_number = np.cumsum(there) - 1

    stride = int(reefs.max(initial=0)) + 1
    cells = np.repeat(row_of, lengths) * stride + reefs
    distinct, entry = np.unique(cells, return_inverse=True)
    all_sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(all_sums, entry, sums)
    # A row without any count left has no sums left either, unless what was withdrawn was never there.
    held = all_sums != 0
    rows, all_reefs = distinct[held] // stride, distinct[held] % stride
    if not there[rows].all():
        raise EvidenceError("withdrawn observations are not part of the running sums")
    borders = np.searchsorted(new_number[rows], np.arange(len(order) + 1))
    return Evidence(order, all_counts[there], all_parts[there], borders, all_reefs, all_sums[held])


def _added(row_of: Ints, values: Ints, n_rows: int) -> Ints:
    out = np.zeros((n_rows, values.shape[1]), dtype=np.int64)
    np.add.at(out, row_of, values)
    return out
