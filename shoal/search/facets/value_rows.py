"""The different values of a column, in order, with the rows that have each: what a facet counts."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.filters.columns import EXACT, FALSE, NO_DATE, NULL, NUMBER, TRUE, Column
from shoal.filters.fields import Kind
from shoal.search.facets.intervals import NO_BUCKET, Interval

Ints = NDArray[np.int64]
Key = tuple[int, Any]
"""A value, or the number of a bucket, after the rank of its type. Keys sort as values do in a response: truth
values, numbers, texts, null."""
TRUTHS, NUMBERS, TEXTS, NULLS = range(4)


@dataclass(frozen=True, eq=False)
class ValueRows:
    """The rows of each value; a row is at most once with a value. A group is the rows of one key and one
    document.

    keys          ascending
    rows          i32 (m,), ordered by key, then row
    group_starts  i32 (g + 1,): the first row of each group, and m
    key_groups    i32 (k + 1,): the first group of each key, and g
    documents     i32 (g,): the document of each group; without documents, the row
    """

    keys: list[Key]
    rows: NDArray[np.int32]
    group_starts: NDArray[np.int32]
    key_groups: NDArray[np.int32]
    documents: NDArray[np.int32]

    def count(self, weights: NDArray[Any]) -> tuple[Ints, Ints, NDArray[np.int32]]:
        """Return (documents of each key, sum of weights of each key, the documents with any key), given the
        weight of each row, whole numbers (n,). A row of weight 0 does not count."""
        sums = _sums(weights[self.rows])[self.group_starts]
        is_hit = sums[1:] > sums[:-1]
        n_documents, n_chunks = (np.diff(each[self.key_groups]) for each in (_sums(is_hit), sums))
        return n_documents, n_chunks, self.documents[is_hit]


def _sums(numbers: NDArray[Any]) -> Ints:
    """Return the sums of the first 0, 1, ... numbers: one pass in order, which `bincount` is not."""
    sums = np.zeros(len(numbers) + 1, dtype=np.int64)
    np.cumsum(numbers, out=sums[1:])
    return sums


def value_rows(column: Column, kind: Kind, interval: Interval | None, document_of: Any = None) -> ValueRows:
    """Return the rows of each value, or of each bucket. `document_of`: (n,), ascending, the document of each
    row."""
    asked = (kind, interval)
    with _LOCK:
        held = _HELD.get(column, {}).get(asked)
    if held is None:
        keys, codes, places = _values(column) if interval is None else _buckets(column, kind, interval)
        held = _grouped(keys, codes, column.rows[places], column.n, document_of)
        with _LOCK:
            _HELD.setdefault(column, {})[asked] = held
    return held


_HELD: weakref.WeakKeyDictionary[Column, dict[Hashable, ValueRows]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def _values(column: Column) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int64]]:
    """(keys, the key of each value, its place in the column). Objects and empty lists are no values."""
    code_of: dict[Key, int] = {}

    def code(key: Key) -> int:
        return code_of.setdefault(key, len(code_of))

    codes = np.full(len(column.codes), -1, dtype=np.int64)
    is_text = column.codes >= 0
    if is_text.any():
        # A text is looked up once, however many rows have it.
        new = np.full(len(column.texts), -1, dtype=np.int64)
        used = np.zeros(len(column.texts), dtype=np.bool_)
        used[column.codes[is_text]] = True
        texts = column.texts.texts
        for each in np.flatnonzero(used).tolist():
            new[each] = code((TEXTS, texts[each]))
        codes[is_text] = new[column.codes[is_text]]
    is_number = column.codes == NUMBER
    if is_number.any():
        # First, so that an integer is shown as one if a float equals it.
        of_exact = {place: code((NUMBERS, number)) for place, number in column.exact.items()}
        distinct, places = np.unique(column.numbers[is_number], return_inverse=True)
        new = np.array([code((NUMBERS, _short(number))) for number in distinct.tolist()], dtype=np.int64)
        codes[is_number] = new[places]
        for place, own in of_exact.items():
            codes[place] = own
    for stored, key in ((TRUE, (TRUTHS, True)), (FALSE, (TRUTHS, False)), (NULL, (NULLS, 0))):
        is_stored = column.codes == stored
        if is_stored.any():
            codes[is_stored] = code(key)
    keys = list(code_of)
    places = np.flatnonzero(codes >= 0)
    in_order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(keys), dtype=np.int64)
    rank[in_order] = np.arange(len(keys))
    return [keys[each] for each in in_order], rank[codes[places]], places


def _buckets(
    column: Column, kind: Kind, interval: Interval
) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int64]]:
    """The same for the buckets of values; what is no date or no number is in none."""
    is_number = column.codes == NUMBER
    if interval.unit is None:
        buckets = interval.of_values(np.where(is_number, column.numbers, np.nan))
    elif kind is Kind.date:
        buckets = np.full(len(column.codes), NO_BUCKET)
        buckets[is_number] = interval.of_moments(column.numbers[is_number].astype(np.int64))
    else:
        dates = column.texts.dates()
        moments = np.full(len(column.codes), NO_DATE)
        is_text = column.codes >= 0
        moments[is_text] = dates[column.codes[is_text]]
        buckets = np.full(len(column.codes), NO_BUCKET)
        buckets[moments != NO_DATE] = interval.of_moments(moments[moments != NO_DATE])
    places = np.flatnonzero(buckets != NO_BUCKET)
    distinct, codes = np.unique(buckets[places], return_inverse=True)
    return [(NUMBERS, bucket) for bucket in distinct.tolist()], codes.astype(np.int64), places


def _grouped(
    keys: list[Key], codes: NDArray[np.int64], rows: NDArray[np.int32], n: int, document_of: Any
) -> ValueRows:
    pairs = np.unique(codes * max(n, 1) + rows)
    key_of, in_order = (each.astype(np.int32) for each in np.divmod(pairs, max(n, 1)))
    documents = in_order if document_of is None else np.asarray(document_of)[in_order].astype(np.int32)
    is_first = np.ones(len(in_order), dtype=np.bool_)
    is_first[1:] = (key_of[1:] != key_of[:-1]) | (documents[1:] != documents[:-1])
    starts = np.flatnonzero(is_first)
    key_groups = np.searchsorted(key_of[starts], np.arange(len(keys) + 1))
    bounds = np.append(starts, len(in_order))
    return ValueRows(keys, in_order, bounds.astype(np.int32), key_groups.astype(np.int32), documents[starts])


def _short(number: float) -> float:
    """The integer that a number is, if it is a short one."""
    return int(number) if number.is_integer() and abs(number) <= EXACT else number
