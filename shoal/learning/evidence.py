"""Evidence: sums of the observations of any number of documents, added and subtracted exactly.

Stored as columns instead of rows, because a wave has a hundred thousand rows. Sums do not depend on the order
of the rows.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.storage.column_values import unpack_contexts
from shoal.storage.observations import NO_PARTS
from shoal.storage.profiles import MAX_REEFS
from shoal.storage.vocabulary import EvidenceRow, Kind, StoredRow

Ints = NDArray[np.int64]

N_COUNTS = 5
"""n_occurrences, n_short, n_documents, n_chunks, n_lower."""
N_PARTS = 5
"""compounds.PartCounts; 0 where a row has none."""

Key = tuple[int, str]


ROWS_SUMMED = 100_000
"""Rows of observations added up at a time: about 100 MB."""
BLOCK_ROWS = 256
"""Rows whose sums are added up in one table, of half a megabyte."""


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
            np.array([row[2 : 2 + N_COUNTS] for row in given_rows], dtype=np.int64).reshape(-1, N_COUNTS),
            np.array([row.parts or _NO_PARTS for row in given_rows], dtype=np.int64).reshape(-1, N_PARTS),
            lengths,
            np.fromiter(chain(row.reefs for row in given_rows), dtype=np.int64, count=n_entries),
            np.fromiter(chain(row.sums for row in given_rows), dtype=np.int64, count=n_entries),
        )

    @staticmethod
    def of_stored(rows: Iterable[StoredRow]) -> Evidence:
        """Sum of rows by kind and word, from their columns at once: a wave has a million rows."""
        given_rows = list(rows)
        if not given_rows:
            return Evidence.of([])
        kinds, words, *counts, parts, contexts = zip(*given_rows, strict=True)
        lengths, reefs, sums = unpack_contexts(contexts)
        part_counts = np.zeros((len(given_rows), N_PARTS), dtype=np.int64)
        with_parts = [part != NO_PARTS for part in parts]
        if any(with_parts):
            part_counts[with_parts] = json.loads(f"[{','.join(itertools.compress(parts, with_parts))}]")
        return _summed(
            list(zip(kinds, words, strict=True)),
            np.array(counts, dtype=np.int64).T,
            part_counts,
            lengths,
            reefs,
            sums,
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


def total(rows: Iterator[StoredRow]) -> Evidence:
    """Sum of any number of rows. Sums of similar size are added first, so that each row is added log(n)
    times."""
    sums: list[tuple[int, Evidence]] = []
    while block := list(itertools.islice(rows, ROWS_SUMMED)):
        level, summed = 0, Evidence.of_stored(block)
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
    numbers: dict[Key, int] = {}
    found_as = np.fromiter(
        (numbers.setdefault(key, len(numbers)) for key in keys), dtype=np.int64, count=len(keys)
    )
    found = list(numbers)
    order = sorted(range(len(found)), key=found.__getitem__)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    row_of = ranks[found_as]
    all_counts = _added(row_of, counts, len(order))
    all_parts = _added(row_of, parts, len(order))
    is_kept: NDArray[np.bool_] = np.any(all_counts, axis=1)
    rows, all_reefs, all_sums = _added_entries(np.repeat(row_of, lengths), reefs, sums, len(order))
    # A row whose counts are all 0 has no sums left, unless rows were subtracted that had never been added.
    if not is_kept[rows].all():
        raise EvidenceError("the subtracted observations are not part of the evidence")
    kept = np.flatnonzero(is_kept)
    borders = np.searchsorted(rows, np.append(kept, len(order)))
    return Evidence(
        [found[order[i]] for i in kept.tolist()],
        all_counts[kept],
        all_parts[kept],
        borders,
        all_reefs,
        all_sums,
    )


def _added(row_of: Ints, values: Ints, n_rows: int) -> Ints:
    out = np.zeros((n_rows, values.shape[1]), dtype=np.int64)
    np.add.at(out, row_of, values)
    return out


def _added_entries(row_of: Ints, reefs: Ints, sums: Ints, n_rows: int) -> tuple[Ints, Ints, Ints]:
    """Add up the sums of equal rows and reefs; return rows, reefs and sums that are not 0, ascending.

    A table of BLOCK_ROWS rows is filled at a time, so the time grows with the entries and not with their
    logarithm. Sums in double precision are exact below 2^53.
    """
    block_of = (row_of // BLOCK_ROWS).astype(np.uint16 if n_rows < BLOCK_ROWS << 16 else np.int64)
    order = np.argsort(block_of, kind="stable")
    cells = ((row_of % BLOCK_ROWS) * MAX_REEFS + reefs)[order]
    weights = sums[order].astype(np.float64)
    ends = np.cumsum(np.bincount(block_of, minlength=-(-n_rows // BLOCK_ROWS))).tolist()
    all_cells: list[Ints] = []
    all_sums: list[Ints] = []
    for block, (first, last) in enumerate(itertools.pairwise([0, *ends])):
        table = np.bincount(cells[first:last], weights=weights[first:last])
        filled = np.flatnonzero(table)
        all_cells.append(filled + block * BLOCK_ROWS * MAX_REEFS)
        all_sums.append(table[filled].astype(np.int64))
    joined = np.concatenate(all_cells) if all_cells else np.zeros(0, dtype=np.int64)
    summed = np.concatenate(all_sums) if all_sums else np.zeros(0, dtype=np.int64)
    return joined // MAX_REEFS, joined % MAX_REEFS, summed
