"""Spreadsheets: Excel workbooks (XLSX), with dates in ISO 8601, and tables in text files (CSV, TSV).

A table becomes text row by row, as `Header: value; …`, with the sheet and its rows as locators.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from shoal.conversion.converted import ConversionError, Converted, Draft, broken, cleaned_line, report
from shoal.conversion.package import Element, Package, attribute, child, local, nesting_errors, whole_number
from shoal.conversion.pptx import attribute_of_relation
from shoal.errors import ShoalError
from shoal.formats.decoding import CERTAIN_ENCODINGS, decode
from shoal.models.files import LocatorKind

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384
MAX_SHARED_CHARS = 100_000_000
_MAX_MERGED = 100_000
_MAX_MERGED_ROWS = 200_000  # of one sheet
_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_PERCENT_FORMATS = frozenset({9, 10})
_NOT_FORMAT = re.compile(r'"[^"]{0,255}"|\\.|_.|\*.|\[[^\]]{0,255}\]')
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_MERGED = re.compile(rb'mergeCell\s+ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')
_EPOCH, _EPOCH_1904 = dt.datetime(1899, 12, 30), dt.datetime(1904, 1, 1)  # noqa: DTZ001 - no zone
_MAX_SERIAL = 2_958_466  # the day after 9999-12-31
_COLUMN_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MAX_COLUMN_LETTERS = 3
_DELIMITERS = ",;\t|"
_MIN_CONFIDENCE = 0.5  # of a guessed encoding
_SAMPLE_CHARS = 20_000
_SAMPLE_LINES = 50
_TRUE = ("1", "true")
_ROWS_BETWEEN_REPORTS = 1000


@dataclass(slots=True)
class _Formats:
    """Which formats of cells, by their number as text, show dates or percentages."""

    dates: set[str] = field(default_factory=set)
    percents: set[str] = field(default_factory=set)


def convert_xlsx(data: bytes, name: str) -> Converted:
    """Convert an XLSX file. Formulas give their last values; empty rows are left out."""
    package = Package(data)
    main = package.main_part("xl/workbook.xml")
    with nesting_errors():
        return _Reader(package, main).convert()


class _Reader:
    def __init__(self, package: Package, main: str) -> None:
        self.package = package
        self.draft = Draft()
        self.relations = package.relations(main)
        self.workbook = package.xml(main)
        properties = child(self.workbook, "workbookPr")
        is_1904 = properties is not None and attribute(properties, "date1904") in _TRUE
        self.epoch = _EPOCH_1904 if is_1904 else _EPOCH
        self.formats = self._formats()
        self.shared = self._shared_texts()

    def convert(self) -> Converted:
        writer = SheetWriter(self.draft)
        sheets = child(self.workbook, "sheets")
        read: set[str] = set()
        for sheet in sheets if sheets is not None else ():
            name = attribute(sheet, "name")
            _, part = self.relations.get(attribute_of_relation(sheet), ("", ""))
            if "chartsheet" in part or part in read:
                continue
            read.add(part)
            if part not in self.package:
                self.draft.warn(f"the sheet {name} is missing in the file")
                continue
            if attribute(sheet, "state") in ("hidden", "veryHidden"):
                self.draft.warn(f"the sheet {name} is hidden in the file; its cells are in the text")
            if writer.cells_left <= 0:
                self.draft.warn(f"the sheet {name} is left out: only {MAX_CELLS:,} cells of a file are read")
                continue
            writer.write(name, self._rows(part))
        return self.draft.converted(self.package.title())

    def _rows(self, part: str) -> Iterator[NumberedRow]:
        merged = self._merged_cells(part)
        carried: dict[tuple[int, int], str] = {}
        number = 0
        for row in self.package.elements(part, "row"):
            number = min(whole_number(row.get("r", ""), number + 1, least=1), MAX_ROWS)
            cells: dict[int, str] = {}
            column = -1
            for cell in row:
                letters = cell.get("r", "").rstrip("0123456789")
                column = _column(letters) if letters else column + 1
                if 0 <= column < MAX_COLUMNS:
                    cells[column] = self._text(cell)
            for column, (first_row, first_column) in merged.get(number, {}).items():
                if (number, column) == (first_row, first_column):
                    carried[first_row, first_column] = cells.get(column, "")
                elif not cells.get(column):
                    cells[column] = carried.get((first_row, first_column), "")
            yield NumberedRow(number, dict(sorted(cells.items())))

    def _merged_cells(self, part: str) -> dict[int, dict[int, tuple[int, int]]]:
        """Return for each row the columns that are merged into a cell of the same column, with that cell.

        The value of a merged cell counts for each of its rows.
        """
        found: dict[int, dict[int, tuple[int, int]]] = {}
        rows_left = _MAX_MERGED_ROWS
        # The list is behind the cells, and most sheets have none: a search is faster than reading them twice.
        for match in islice(_MERGED.finditer(self.package.read(part)), _MAX_MERGED):
            (first, column), (last, _) = map(_place, match.group(1).decode().split(":"))
            if last > first:
                last = min(last, first + rows_left - 1)
                rows_left -= max(last - first + 1, 0)
                for row in range(first, last + 1):
                    found.setdefault(row, {})[column] = (first, column)
        return found

    def _text(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return cell_text(_inline_text(child(cell, "is")))
        text = ""
        for inner in cell:
            if inner.tag.endswith("}v"):
                text = (inner.text or "").strip()
        if kind == "s":
            index = whole_number(text, -1, least=-1)
            return self.shared[index] if 0 <= index < len(self.shared) else ""
        if kind == "e":
            return ""  # such as #N/A
        if kind == "b":
            return "TRUE" if text == "1" else "FALSE" if text else ""
        if kind in ("str", "d"):
            return cell_text(text)
        return self._number(text, cell.get("s", ""))

    def _number(self, text: str, style: str) -> str:
        try:
            number = float(text)
        except ValueError:
            return cell_text(text)
        if style in self.formats.dates and 0 <= number < _MAX_SERIAL:
            return date_text(number, self.epoch)
        if style in self.formats.percents:
            return number_text(number * 100) + " %"
        return number_text(number)

    def _formats(self) -> _Formats:
        formats = _Formats()
        root = self._part("styles")
        custom: dict[int, str] = {}
        for element in child(root, "numFmts") or () if root is not None else ():
            code = _NOT_FORMAT.sub("", attribute(element, "formatCode"))
            custom[whole_number(attribute(element, "numFmtId"), -1, least=-1)] = code.casefold()
        cells = child(root, "cellXfs")
        for style, element in enumerate(cells if cells is not None else ()):
            number = whole_number(attribute(element, "numFmtId"))
            code = custom.get(number, "")
            if number in _DATE_FORMATS or (code != "general" and any(char in code for char in "dmyhs")):
                formats.dates.add(str(style))
            elif number in _PERCENT_FORMATS or "%" in code:
                formats.percents.add(str(style))
        return formats

    def _part(self, kind: str) -> Element | None:
        targets = [target for kind_, target in self.relations.values() if kind_ == kind]
        return self.package.optional_xml(targets[0]) if targets else None

    def _shared_texts(self) -> list[str]:
        texts: list[str] = []
        n_chars = 0
        for kind, target in self.relations.values():
            if kind != "sharedStrings" or target not in self.package:
                continue
            for element in self.package.elements(target, "si"):
                texts.append(cell_text(_inline_text(element)))
                n_chars += len(texts[-1])
                if n_chars > MAX_SHARED_CHARS:
                    raise ConversionError("too_large", "the texts of the workbook are too long")
        return texts


def _inline_text(element: Element | None) -> str:
    """Return the text of runs, without the hints for pronunciation."""
    parts = []
    for inner in element if element is not None else ():
        if local(inner) == "t":
            parts.append(inner.text or "")
        elif local(inner) == "r":
            parts += [text.text or "" for text in inner if local(text) == "t"]
    return "".join(parts)


@lru_cache(maxsize=MAX_COLUMNS)
def _column(letters: str) -> int:
    """Return the number of a column from 0; -1 if its name is none."""
    column = 0
    for letter in letters if len(letters) <= _MAX_COLUMN_LETTERS else "":
        column = 26 * column + _COLUMN_LETTERS.find(letter) + 1
    return column - 1


def _place(reference: str) -> tuple[int, int]:
    match = _REFERENCE.fullmatch(reference)
    assert match is not None, "the pattern of a range contains that of a reference"
    return int(match.group(2)), _column(match.group(1))


def number_text(number: float) -> str:
    """Return a number as a person writes it: without the digits beyond the precision of a cell."""
    if number == int(number) and abs(number) < 1e15 if abs(number) < 1e300 else False:
        return str(int(number))
    return format(number, ".15g")


def date_text(serial: float, epoch: dt.datetime) -> str:
    """Return a date, time or both in ISO 8601; `serial` counts days from the epoch."""
    moment = epoch + dt.timedelta(seconds=round(serial * 86_400))
    if serial < 1:
        return moment.time().isoformat()
    is_day = not (moment.hour or moment.minute or moment.second)
    return moment.date().isoformat() if is_day else moment.isoformat(sep=" ")


# Tables in text files


def convert_csv(data: bytes, name: str) -> Converted:
    """Convert a table with one row on each line. Cells are divided by tabs if the name ends with `.tsv`,
    otherwise by the one of `,`, `;`, `|` and tabs that fits."""
    draft = Draft()
    try:
        decoded = decode(data, max_bytes=len(data), min_confidence=_MIN_CONFIDENCE)
    except ShoalError as error:
        raise broken(f"it is not a table: {error}") from error
    text = decoded.text.replace("\0", "")
    if decoded.encoding not in CERTAIN_ENCODINGS:
        draft.warn(f"the encoding of the file was guessed: {decoded.encoding}")
    is_tsv = name.casefold().endswith((".tsv", ".tab"))
    rows = _delimited_rows(text, "\t" if is_tsv else find_delimiter(text), draft)
    SheetWriter(draft).write("", rows)
    return draft.converted()


def find_delimiter(text: str) -> str:
    """Return the character that divides the cells: the one that most lines have equally often."""
    lines = text[:_SAMPLE_CHARS].splitlines()[:_SAMPLE_LINES]
    # The last line of the sample may be cut.
    lines = [line for line in (lines[:-1] if len(lines) > 1 else lines) if line.strip()]
    best, best_score = ",", 0
    for delimiter in _DELIMITERS:
        counts = Counter(_count_outside_quotes(line, delimiter) for line in lines)
        counts.pop(0, None)
        for count, n_lines in counts.items():
            score = n_lines * min(count, 20)
            if score > best_score:
                best, best_score = delimiter, score
    return best


def _count_outside_quotes(line: str, delimiter: str) -> int:
    return sum(part.count(delimiter) for part in line.split('"')[::2])


def _delimited_rows(text: str, delimiter: str, draft: Draft) -> Iterator[NumberedRow]:
    has_quotes = True
    if text.count('"') % 2:
        # An open quote would swallow the rest of the file.
        has_quotes = False
        draft.warn("a quotation mark in the table is never closed; all of them are read as text")
    lines = io.StringIO(text, newline="")
    if has_quotes:
        reader = csv.reader(lines, delimiter=delimiter)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    number = 0
    while True:
        number += 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            draft.warn(f"row {number:,} has a cell that is too long, and is left out")
            continue
        if number % _ROWS_BETWEEN_REPORTS == 0:
            report(lines.tell(), len(text))
        yield NumberedRow(number, {i: cell_text(cell) for i, cell in enumerate(row)})


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
    return cleaned_line(text[:MAX_CELL_CHARS])


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
