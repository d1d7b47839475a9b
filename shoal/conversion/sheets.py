"""Tables as text: each row as `Header: value; …`, with the sheet and its rows as locators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from shoal.conversion.converted import LocatorKind
from shoal.conversion.draft import Draft, one_line

MAX_CELLS = 1_000_000
"""Of one file. Further rows are left out with a warning."""
MAX_CELL_CHARS = 32_767
"""The limit of Excel."""
MAX_SINGLE_ROWS = 20_000
"""Rows of a file with a place of their own. Later rows share one: a million places would take 50 MB."""
MAX_ROWS_OF_PLACE = 20
MAX_CHARS_OF_PLACE = 2000
_ROWS_BEFORE_HEADER = 10
_MAX_HEADER_CHARS = 100

Row = Mapping[int, str]
"""The texts of the cells that are not empty, by the number of their column, from 0 and ascending."""


class NumberedRow(NamedTuple):
    number: int  # from 1, as in the file
    cells: Row


class SheetWriter:
    """Writes the sheets of one file; `cells_left` and `single_rows_left` limit them together."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.cells_left = MAX_CELLS
        self.single_rows_left = MAX_SINGLE_ROWS

    def write(self, name: str, rows: Iterable[NumberedRow]) -> None:
        """Write a sheet. The heading is left out if `name` is empty."""
        limited = self._limited(name, _without_empty(rows))
        head = list(islice(limited, _ROWS_BEFORE_HEADER + 1))
        if not head:
            return
        self.draft.end_place()
        self.draft.heading(1, name)
        header_at = _header_index(head)
        header: Row = {} if header_at is None else head[header_at].cells
        before = head[:header_at] if header_at is not None else []
        rest = head[len(before) + bool(header) :]
        if header_at is not None and not rest:
            before, header = head, {}
        place = _Place(self, name)
        for row in before:
            place.add(row.number, "; ".join(row.cells.values()))
        for row in rest:
            place.add(row.number, _line(header, row.cells))
        for row in limited:
            place.add(row.number, _line(header, row.cells))
        place.end()

    def _limited(self, name: str, rows: Iterable[NumberedRow]) -> Iterator[NumberedRow]:
        for row in rows:
            self.cells_left -= len(row.cells)
            if self.cells_left < 0:
                sheet = f" of the sheet {name}" if name else ""
                self.draft.warn(
                    f"rows from {row.number:,} on{sheet} are left out: only the first {MAX_CELLS:,} cells "
                    "of a file are read; split it into several files"
                )
                return
            yield row


class _Place:
    """Places of rows: each row its own, and beyond `single_rows_left` a few rows together."""

    def __init__(self, writer: SheetWriter, name: str) -> None:
        self._writer, self._draft, self._name = writer, writer.draft, name
        self._rows: list[str] = []
        self._first = self._last = self._chars = 0

    def add(self, number: int, text: str) -> None:
        is_full = len(self._rows) >= MAX_ROWS_OF_PLACE or self._chars + len(text) > MAX_CHARS_OF_PLACE
        if is_full or self._writer.single_rows_left > 0:
            self.end()
        # A damaged file may have rows in any order.
        self._first = min(self._first, number) if self._rows else number
        self._last = max(self._last, number) if self._rows else number
        self._rows.append(text)
        self._chars += len(text)

    def end(self) -> None:
        if self._rows:
            self._draft.place(LocatorKind.sheet, self._name, self._first, self._last)
            for text in self._rows:
                self._draft.paragraph(text)
            self._draft.end_place()
            self._writer.single_rows_left -= len(self._rows)
        self._rows, self._chars = [], 0


def cell_text(text: str) -> str:
    return one_line(text[:MAX_CELL_CHARS])


def _without_empty(rows: Iterable[NumberedRow]) -> Iterator[NumberedRow]:
    for number, cells in rows:
        kept = {column: text for column, text in cells.items() if text}
        if kept:
            yield NumberedRow(number, kept)


def _line(header: Row, cells: Row) -> str:
    return "; ".join(
        f"{header[column].rstrip(':')}: {text}" if column in header else text
        for column, text in cells.items()
    )


def _header_index(rows: list[NumberedRow]) -> int | None:
    """Return the index of the row that names the columns: the first of two cells or more, if all of them
    are different words. Titles of one cell may be above it."""
    for i, (_, cells) in enumerate(rows):
        texts = list(cells.values())
        if len(texts) < 2:
            continue
        is_header = len(set(texts)) == len(texts) and not any(map(_is_value, texts))
        return i if is_header and i + 1 < len(rows) else None
    # A table of one column has a name if it stands above values.
    return 0 if len(rows) > 1 and not _is_value(_only(rows[0])) and _is_value(_only(rows[1])) else None


def _only(row: NumberedRow) -> str:
    return next(iter(row.cells.values()))


def _is_value(text: str) -> bool:
    """Whether a text is a number, amount, date or longer than a name, rather than a header."""
    return len(text) > _MAX_HEADER_CHARS or not any(map(str.isalpha, text))
