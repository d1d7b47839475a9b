"""Evidence: sums of the observations of any number of documents, added and subtracted exactly.

Stored as columns instead of rows, because a wave has a hundred thousand rows. Sums do not depend on the order
of the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
"""Rows of observations added up at a time: about 20 MB."""


class EvidenceError(ValueError):
    """The subtracted observations are not part of the evidence: a sum would fall below 0."""


@dataclass(frozen=True)
class Evidence:
    """One row for each of `keys`, ascending (kind, word).

    counts   i64 (n, N_COUNTS);  parts  i64 (n, N_PARTS)
    borders  i64 (n + 1,): row i has entries borders[i]..borders[i+1]-1 of `reefs`, ascending, and of `sums`,
             not 0
    """

    keys: list[Key]
    counts: Ints
    parts: Ints
    borders: Ints
    reefs: Ints
    sums: Ints

    @staticmethod
    def of(rows: Iterable[EvidenceRow]) -> Evidence:
        """Sum of rows by kind and word."""
        given_rows = list(rows)
        lengths = np.fromiter((len(row.reefs) for row in given_rows), dtype=np.int64, count=len(given_rows))
        n_entries = int(lengths.sum())
        chain = itertools.chain.from_iterable
        return _summed(
            [(row.kind, row.word) for row in given_rows],
            np.array([row[2:6] for row in given_rows], dtype=np.int64).reshape(-1, N_COUNTS),
            np.array([row.parts or _NO_PARTS for row in given_rows], dtype=np.int64).reshape(-1, N_PARTS),
            lengths,
            np.fromiter(chain(row.reefs for row in given_rows), dtype=np.int64, count=n_entries),
            np.fromiter(chain(row.sums for row in given_rows), dtype=np.int64, count=n_entries),
        )

    def __add__(self, other: Evidence) -> Evidence:
        return self._with(other, 1)

    def __sub__(self, other: Evidence) -> Evidence:
        """Raises EvidenceError if a count would fall below 0."""
        return self._with(other, -1)

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evidence) and self.rows() == other.rows()

    __hash__ = None  # type: ignore[assignment]

    @property
    def words(self) -> list[str]:
        """Words and compounds, ascending within each kind, without the totals."""
        return [word for kind, word in self.keys if kind != Kind.totals]

    def rows(self) -> list[EvidenceRow]:
        """Rows in the order of (kind, word)."""
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
        """Sums of the rows at `indices`, (len(indices), n_reefs)."""
        lengths = np.diff(self.borders)[indices]
        first = np.repeat(self.borders[indices] - (np.cumsum(lengths) - lengths), lengths)
        at = first + np.arange(int(lengths.sum()))
        out = np.zeros((len(indices), n_reefs))
        out[np.repeat(np.arange(len(indices)), lengths), self.reefs[at]] = self.sums[at]
        return out

    def renamed(self, names: Mapping[Key, str]) -> Evidence:
        """The same with other words for the rows of some keys; rows of the same word are added up."""
        keys = [(key[0], names.get(key, key[1])) for key in self.keys]
        return _summed(keys, self.counts, self.parts, np.diff(self.borders), self.reefs, self.sums)

    def _with(self, other: Evidence, sign: int) -> Evidence:
        if not len(other):
            return self
        if not len(self) and sign > 0:
            return other
        total = _summed(
            self.keys + other.keys,
            np.concatenate((self.counts, sign * other.counts)),
            np.concatenate((self.parts, sign * other.parts)),
            np.concatenate((np.diff(self.borders), np.diff(other.borders))),
            np.concatenate((self.reefs, other.reefs)),
            np.concatenate((self.sums, sign * other.sums)),
        )
        if min(total.counts.min(initial=0), total.parts.min(initial=0), total.sums.min(initial=0)) < 0:
            raise EvidenceError("the subtracted observations are not part of the evidence")
        return total


def total(rows: Iterator[EvidenceRow]) -> Evidence:
    """Sum of any number of rows. Sums of similar size are added first, so that each row is added log(n)
    times."""
    sums: list[tuple[int, Evidence]] = []
    while block := list(itertools.islice(rows, ROWS_SUMMED)):
        level, summed = 0, Evidence.of(block)
        while sums and sums[-1][0] <= level:
            level, summed = level + 1, sums.pop()[1] + summed
        sums.append((level, summed))
    whole = Evidence.of([])
    for _, partial in reversed(sums):
        whole = partial + whole
    return whole


_NO_PARTS = (0,) * N_PARTS


def _summed(
    keys: Sequence[Key], counts: Ints, parts: Ints, lengths: Ints, reefs: Ints, sums: Ints
) -> Evidence:
    """Add up rows of equal keys, in the order of keys; rows whose counts are all 0 are dropped."""
    order = sorted(set(keys))
    number = {key: index for index, key in enumerate(order)}
    row_of = np.fromiter(map(number.__getitem__, keys), dtype=np.int64, count=len(keys))
    all_counts = _added(row_of, counts, len(order))
    all_parts = _added(row_of, parts, len(order))
    is_kept: NDArray[np.bool_] = np.any(all_counts, axis=1)
    if not is_kept.all():
        order = [key for key, keep in zip(order, is_kept.tolist(), strict=True) if keep]
    new_number = np.cumsum(is_kept) - 1

    stride = int(reefs.max(initial=0)) + 1
    cells = np.repeat(row_of, lengths) * stride + reefs
    distinct, entry = np.unique(cells, return_inverse=True)
    all_sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(all_sums, entry, sums)
    # A row whose counts are all 0 has no sums left, unless rows were subtracted that had never been added.
    is_nonzero = all_sums != 0
    rows, all_reefs = distinct[is_nonzero] // stride, distinct[is_nonzero] % stride
    if not is_kept[rows].all():
        raise EvidenceError("the subtracted observations are not part of the evidence")
    borders = np.searchsorted(new_number[rows], np.arange(len(order) + 1))
    return Evidence(order, all_counts[is_kept], all_parts[is_kept], borders, all_reefs, all_sums[is_nonzero])


def _added(row_of: Ints, values: Ints, n_rows: int) -> Ints:
    out = np.zeros((n_rows, values.shape[1]), dtype=np.int64)
    np.add.at(out, row_of, values)
    return out
