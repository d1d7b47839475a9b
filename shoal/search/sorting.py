"""The order of a column's values: numbers that are greater the earlier a document comes.

Of a field with several values, the one that comes first counts. False comes before true, truth values before
numbers, numbers before texts; texts are compared without regard to case. A document without a value, or with
null or an object, has 0, so it comes last in both directions.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.index.index import Index
from shoal.models.search import SortValue
from shoal.search.filtering.columns import EXACT, FALSE, NUMBER, TRUE, Column
from shoal.search.filtering.dates import moment_of
from shoal.search.filtering.evaluation import Fields
from shoal.search.filtering.fields import Field, Kind
from shoal.search.order_arguments import SortKey
from shoal.storage.database import Snapshot

Ints = NDArray[np.int64]


class Sorting:
    """The sort keys of a search on one state of the library."""

    def __init__(self, snapshot: Snapshot, index: Index, fields: Fields, keys: Sequence[SortKey]) -> None:
        self._table = fields.documents.of(snapshot)
        self._index = index
        self._keys = tuple(keys)
        self._columns = [self._table.column(snapshot, key.field) for key in keys]

    def levels(self) -> tuple[Ints, ...]:
        """Return, for each sort key, i64 (n_places,): greater for what comes earlier, 0 without a value."""
        return tuple(
            self._table.placed(self._index, _ranks(column).levels(is_descending=key.is_descending))
            for key, column in zip(self._keys, self._columns, strict=True)
        )

    def values(self, document_id: int) -> tuple[SortValue, ...]:
        """Return the value of a document that each sort key compares."""
        row = int(np.searchsorted(self._table.ids, document_id))
        return tuple(
            _value(column, key.field, _ranks(column).place_of(row, is_descending=key.is_descending))
            for key, column in zip(self._keys, self._columns, strict=True)
        )

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for each field that no document has a value of."""
        pairs = zip(self._keys, self._columns, strict=True)
        return tuple(
            f"nothing is sorted by {key.field.text[:60]}: no document has a value there"
            for key, column in pairs
            if not len(_ranks(column).rows)
        )


class Ranks:
    """The order of the values of a column, ascending.

    rows    i32 (m,): the row of each value that can be compared
    places  i64 (m,): its place in the column
    ranks   i64 (m,): from 0; equal values have the same
    """

    def __init__(self, column: Column) -> None:
        codes = column.codes
        self._n = column.n
        self.places = np.flatnonzero((codes >= 0) | (codes == NUMBER) | (codes == TRUE) | (codes == FALSE))
        codes = codes[self.places]
        self.rows = column.rows[self.places]
        self.ranks = np.zeros(len(codes), dtype=np.int64)
        self.ranks[codes == TRUE] = 1
        is_number, is_text = codes == NUMBER, codes >= 0
        if is_number.any():
            ranks = _number_ranks(column, self.places[is_number])
            self.ranks[is_number] = 2 + ranks
            first_text = 3 + int(ranks.max())
        else:
            first_text = 2
        if is_text.any():
            used, numbers_of = np.unique(codes[is_text], return_inverse=True)
            texts = [column.texts.texts[code] for code in used.tolist()]
            folded = [text.casefold() for text in texts]
            rank_of = {text: rank for rank, text in enumerate(sorted(set(folded)))}
            ranks = np.array([rank_of[text] for text in folded], dtype=np.int64)
            self.ranks[is_text] = first_text + ranks[numbers_of]

    def levels(self, *, is_descending: bool) -> Ints:
        """Return, for each row, i64 (n,): greater for what comes earlier, 0 without a value."""
        levels = np.zeros(self._n, dtype=np.int64)
        own = self.ranks + 1 if is_descending else self.ranks.max(initial=0) + 1 - self.ranks
        np.maximum.at(levels, self.rows, own)
        return levels

    def place_of(self, row: int, *, is_descending: bool) -> int | None:
        """Return the place in the column of the value that counts for a row; None without one."""
        own = np.flatnonzero(self.rows == row)
        if not len(own):
            return None
        ranks = self.ranks[own]
        return int(self.places[own[int(np.argmax(ranks) if is_descending else np.argmin(ranks))]])


def _number_ranks(column: Column, places: Ints) -> Ints:
    """The ranks of the numbers at some places of a column, from 0."""
    if not column.exact:
        return np.asarray(np.unique(column.numbers[places], return_inverse=True)[1], dtype=np.int64)
    numbers = [column.exact.get(place, float(column.numbers[place])) for place in places.tolist()]
    rank_of = {number: rank for rank, number in enumerate(sorted(set(numbers)))}
    return np.array([rank_of[number] for number in numbers], dtype=np.int64)


_RANKS: weakref.WeakKeyDictionary[Column, Ranks] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def _ranks(column: Column) -> Ranks:
    """The order of a column; sorting the texts of 100,000 documents takes a fifth of a second, once."""
    ranks = _RANKS.get(column)
    if ranks is None:
        with _LOCK:
            ranks = _RANKS.get(column)
            if ranks is None:
                ranks = _RANKS[column] = Ranks(column)
    return ranks


def _value(column: Column, field: Field, place: int | None) -> SortValue:
    if place is None:
        return None
    code = int(column.codes[place])
    if code >= 0:
        return column.texts.texts[code]
    if code in (TRUE, FALSE):
        return code == TRUE
    number = column.exact.get(place, float(column.numbers[place]))
    if field.kind is Kind.date:
        return moment_of(int(number))
    if isinstance(number, int):
        return number
    return int(number) if number.is_integer() and abs(number) <= EXACT else number
