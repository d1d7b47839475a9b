"""A column: the values of one field for all rows, as arrays, and which rows meet a condition.

Rows are documents, or the chunks of a segment. A row has no, one or several values; one that meets a
condition is enough.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.filters.tree import Condition, Kind, Op, Scalar, Span, span_of, span_of_year

Mask = NDArray[np.bool_]

NUMBER, TRUE, FALSE, NULL, OTHER = -1, -2, -3, -4, -5
"""Codes of values that are no texts. OTHER: an object or an empty list, which only exists."""
_CODES: dict[object, int] = {True: TRUE, False: FALSE}
NO_DATE = np.iinfo(np.int64).min
EXACT = 2**53
"""From here on, an integer may differ from the float that stands for it."""

_COMPARE: dict[Op, Callable[[Any, Any], Any]] = {
    Op.lt: operator.lt,
    Op.le: operator.le,
    Op.gt: operator.gt,
    Op.ge: operator.ge,
}
_WORD_BYTES = 8
_TEXT_BYTES, _EXACT_BYTES, _COLUMN_BYTES = 160, 130, 2_000
"""Memory of a text and of a large integer beside itself, and of a column without a value, about."""


class Texts:
    """The different texts of a column, each with a code. Texts are only added. Thread-safe."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.code_of: dict[str, int] = {}
        self.n_bytes = 0
        self._dates = np.empty(0, dtype=np.int64)
        self._pieces: list[_Piece] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.texts)

    def code(self, text: str) -> int:
        """Return the code of a text, which is added if it is new. Only one thread at a time may add."""
        code = self.code_of.setdefault(text, len(self.texts))
        if code == len(self.texts):
            self.texts.append(text)
            # The object and its folded form, and its code and date with their places.
            self.n_bytes += _TEXT_BYTES + 2 * sys.getsizeof(text)
        return code

    def dates(self) -> NDArray[np.int64]:
        """Return the begin of the span that each text names, in microseconds, or NO_DATE."""
        with self._lock:
            n = len(self._dates)
            if n < len(self.texts):
                spans = map(span_of, self.texts[n:])
                begins = [NO_DATE if span is None else span[0] for span in spans]
                self._dates = np.concatenate([self._dates, np.array(begins, dtype=np.int64)])
            return self._dates

    def codes_with(self, text: str, op: Op) -> NDArray[np.int64]:
        """Return the codes of the texts that contain, start or end with a text, whatever the case of
        letters."""
        with self._lock:
            n = sum(piece.n for piece in self._pieces)
            if n < len(self.texts):
                if len(self._pieces) >= 8:
                    self._pieces, n = [], 0
                self._pieces.append(_Piece(n, self.texts[n:]))
            pieces = list(self._pieces)
        needle = b"\0" * (op is Op.prefix) + _folded(text) + b"\0" * (op is Op.suffix)
        return np.concatenate([np.empty(0, dtype=np.int64), *(piece.codes_with(needle) for piece in pieces)])


class _Piece:
    """Texts one after the other, each between zero bytes, in lower case."""

    def __init__(self, first: int, texts: list[str]) -> None:
        self.first, self.n = first, len(texts)
        folded = [_folded(text) for text in texts]
        padded = b"\0" + b"\0".join(folded) + b"\0" + bytes(_WORD_BYTES)
        n = len(padded) - _WORD_BYTES
        lengths = np.fromiter(map(len, folded), dtype=np.int64, count=len(folded))
        self._starts = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]) if len(folded) else lengths
        self._bytes = np.frombuffer(padded, dtype=np.uint8, count=n)
        self._counts = np.bincount(self._bytes, minlength=256)
        # The word at a place has the bytes from there on.
        self._words = np.ndarray((n,), dtype="<u8", buffer=padded, strides=(1,))

    def codes_with(self, needle: bytes) -> NDArray[np.int64]:
        """Return the codes of the texts with these bytes, a code for each occurrence.

        Looks for the rarest byte of the needle, then compares whole words there: a few passes over all texts,
        however many have the needle.
        """
        rarest = min(range(len(needle)), key=lambda place: self._counts[needle[place]])
        places = np.flatnonzero(self._bytes == needle[rarest]) - rarest
        places = places[(places >= 0) & (places <= len(self._bytes) - len(needle))]
        for begin in range(0, len(needle), _WORD_BYTES):
            word = needle[begin : begin + _WORD_BYTES]
            mask = np.uint64(2 ** (8 * len(word)) - 1)
            places = places[(self._words[places + begin] & mask) == int.from_bytes(word, "little")]
        return np.searchsorted(self._starts, places, side="right") - 1 + self.first


def _folded(text: str) -> bytes:
    return text.casefold().replace("\0", "\2").encode("utf-8", "surrogatepass")


@dataclass(frozen=True, eq=False)
class Column:
    """The values of a field. Immutable, but for texts that other columns add.

    n        rows
    rows     i32 (m,): the row of each value
    codes    i32 (m,): of a text in `texts`, or what else the value is
    numbers  f64 (m,): NaN if the value is no number
    exact    the integers that no float equals, by the place of their value
    """

    n: int
    rows: NDArray[np.int32]
    codes: NDArray[np.int32]
    numbers: NDArray[np.float64]
    exact: Mapping[int, int]
    texts: Texts = field(default_factory=Texts)

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.float64]) -> Column:
        """Return a column with a number in each row."""
        n = len(numbers)
        return cls(n, np.arange(n, dtype=np.int32), np.full(n, NUMBER, dtype=np.int32), numbers, {})

    @property
    def n_bytes(self) -> int:
        """Memory, about."""
        exact = sum(map(sys.getsizeof, self.exact.values())) + _EXACT_BYTES * len(self.exact)
        return _COLUMN_BYTES + 16 * len(self.rows) + self.texts.n_bytes + exact

    def met(self, condition: Condition) -> Mask:
        """Return which rows meet a condition, bool (n,)."""
        match condition.op:
            case Op.exists:
                is_met = np.ones(len(self.rows), dtype=np.bool_)
            case Op.prefix | Op.suffix | Op.contains as op:
                is_met = self._has_code(self.texts.codes_with(str(condition.values[0]), op))
            case Op.eq | Op.any_of if condition.field.kind is Kind.date:
                is_met = _in_spans(self.numbers, [_span(value) for value in condition.values])
            case Op.eq | Op.any_of:
                is_met = self._equal(condition.values)
            case op if condition.field.kind is Kind.date:
                is_met = _within(self.numbers, op, _span(condition.values[0]))
            case op:
                is_met = self._in_range(op, condition.values[0])
        return self._rows_with(is_met)

    def _rows_with(self, is_met: Mask) -> Mask:
        """Which rows have one of these values."""
        if self._has_one_each:
            return is_met
        has_any = np.zeros(self.n, dtype=np.bool_)
        has_any[self.rows[is_met]] = True
        return has_any

    @functools.cached_property
    def _has_one_each(self) -> bool:
        """Whether each row has one value, in the order of the rows, as the numbers of passages are."""
        return len(self.rows) == self.n and bool((self.rows == np.arange(self.n)).all())

    def _has_code(self, codes: NDArray[np.int64]) -> Mask:
        if len(codes) == 1:
            return np.asarray(self.codes == codes[0])
        is_wanted = np.zeros(len(self.texts) + 1, dtype=np.bool_)
        is_wanted[codes] = True
        # Codes below 0 are no texts; the last element is for them.
        is_wanted[-1] = False
        return np.asarray(is_wanted[np.maximum(self.codes, -1)])

    def _equal(self, values: Iterable[Scalar]) -> Mask:
        is_met = np.zeros(len(self.rows), dtype=np.bool_)
        codes, numbers, large = [], [], set()
        for value in values:
            if isinstance(value, str):
                code = self.texts.code_of.get(value)
                codes += [] if code is None else [code]
            elif value is None or isinstance(value, bool):
                is_met |= self.codes == (NULL if value is None else _CODES[value])
            elif abs(value) >= EXACT:
                large.add(value)
            else:
                numbers.append(float(value))
        if codes:
            is_met |= self._has_code(np.array(codes, dtype=np.int64))
        if len(numbers) == 1:
            is_met |= self.numbers == numbers[0]
        elif numbers:
            is_met |= np.isin(self.numbers, np.array(numbers))
        if large:
            may_be = np.isin(self.numbers, np.array(list(map(_as_float, large))))
            for place in np.flatnonzero(may_be).tolist():
                is_met[place] |= self._number(place) in large
        return is_met

    def _in_range(self, op: Op, value: Scalar) -> Mask:
        if isinstance(value, str):
            dates = self.texts.dates()
            if not len(dates):
                return np.zeros(len(self.rows), dtype=np.bool_)
            begins = np.where(self.codes >= 0, dates[np.maximum(self.codes, 0)], NO_DATE)
            return np.asarray((begins != NO_DATE) & _within(begins, op, _span(value)))
        assert value is not None, "a range compares numbers and dates"
        return self._compared(op, value)

    def _compared(self, op: Op, value: float) -> Mask:
        nearest = _as_float(value)
        is_met: Mask = _COMPARE[op](self.numbers, nearest)
        if abs(value) >= EXACT:
            for place in np.flatnonzero(self.numbers == nearest).tolist():
                is_met[place] = _COMPARE[op](self._number(place), value)
        return is_met

    def _number(self, place: int) -> float:
        return self.exact.get(place, float(self.numbers[place]))

    def changed(self, n: int, is_outdated: Mask, added: Column) -> Column:
        """Return the column of `n` rows without the values of outdated rows, bool (n,), and with added
        ones, whose texts have the same codes."""
        is_kept = ~is_outdated[self.rows]
        exact = self.exact
        if exact:
            places = np.cumsum(is_kept) - 1
            exact = {int(places[place]): number for place, number in exact.items() if is_kept[place]}
        n_kept = int(np.count_nonzero(is_kept))
        return Column(
            n,
            np.concatenate([self.rows[is_kept], added.rows]),
            np.concatenate([self.codes[is_kept], added.codes]),
            np.concatenate([self.numbers[is_kept], added.numbers]),
            {**exact, **{place + n_kept: number for place, number in added.exact.items()}},
            self.texts,
        )


def make_column(n: int, values: Iterable[tuple[int, object]], texts: Texts | None = None) -> Column:
    """Return the column of values, each given with its row: a scalar, a list of values, or an object, which
    only exists."""
    texts = Texts() if texts is None else texts
    rows: list[int] = []
    codes: list[int] = []
    numbers: dict[int, float] = {}
    exact: dict[int, int] = {}

    def add(row: int, value: object) -> None:
        if isinstance(value, str):
            code = texts.code(value)
        elif value is None:
            code = NULL
        elif isinstance(value, bool):
            code = _CODES[value]
        elif isinstance(value, int | float):
            code = NUMBER
            numbers[len(rows)] = _as_float(value)
            if isinstance(value, int) and abs(value) > EXACT:
                exact[len(rows)] = value
        else:
            code = OTHER
        rows.append(row)
        codes.append(code)

    for row, value in values:
        if isinstance(value, list) and value:
            for element in value:
                add(row, element)
        else:
            add(row, value)
    floats = np.full(len(rows), np.nan)
    if numbers:
        floats[np.fromiter(numbers.keys(), np.int64, len(numbers))] = list(numbers.values())
    return Column(n, np.array(rows, dtype=np.int32), np.array(codes, dtype=np.int32), floats, exact, texts)


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer beyond the range of float; `exact` has it
        return float("inf") if number > 0 else float("-inf")


def _span(value: Scalar) -> Span:
    span = span_of(value) if isinstance(value, str) else span_of_year(int(value or 0))
    assert span is not None, "a condition on dates has dates"
    return span


def _in_spans(points: NDArray[np.float64], spans: Iterable[Span]) -> Mask:
    """Which points in time are in at least one of the spans, in one pass however many there are."""
    begins, ends = np.array(sorted(spans), dtype=np.float64).reshape(-1, 2).T
    if not len(begins):
        return np.zeros(len(points), dtype=np.bool_)
    latest_end = np.maximum.accumulate(ends)
    n_begun = np.searchsorted(begins, points, side="right")
    return np.asarray((n_begun > 0) & (points < latest_end[n_begun - 1]))


def _within(begins: NDArray[Any], op: Op, span: Span) -> Mask:
    """Compare points in time with a span: before it, up to its end, after it, or from its begin on."""
    begin, end = span
    compared = {
        Op.lt: lambda: begins < begin,
        Op.le: lambda: begins < end,
        Op.gt: lambda: begins >= end,
        Op.ge: lambda: begins >= begin,
    }
    return np.asarray(compared[op]())
