"""Spreadsheets: Excel workbooks (XLSX), with dates in ISO 8601, and how tables become text.

A table becomes text row by row, as `Header: value; …`, with the sheet and its rows as locators.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from shoal.conversion.converted import ConversionError, Converted, Draft, cleaned_line
from shoal.conversion.metadata import office_metadata
from shoal.conversion.package import (
    Element,
    Package,
    attribute,
    child,
    local,
    nesting_errors,
    whole_number,
    write_drawing,
)
from shoal.conversion.pptx import attribute_of_relation
from shoal.models.files import LocatorKind
from shoal.support.plain_text import words_of

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384
MAX_SHARED_CHARS = 100_000_000
_MAX_MERGED = 100_000
_MAX_MERGED_ROWS = 200_000  # of one sheet
# Codes of the formats that every workbook has, by their number. Currencies among them depend on the place.
_FORMAT_CODES = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: "0", 6: "0", 7: "0.00", 8: "0.00", 9: "0%", 10: "0.00%",
    **dict.fromkeys((*range(14, 18), *range(27, 32), *range(50, 59)), "yyyy-mm-dd"), 17: "yyyy-mm",
    18: "hh:mm", 19: "hh:mm:ss", 20: "hh:mm", 21: "hh:mm:ss", 22: "yyyy-mm-dd hh:mm",
    **dict.fromkeys((32, 33), "hh:mm:ss"), **dict.fromkeys((34, 35, 36), "yyyy-mm-dd"),
    37: "0", 38: "0", 39: "0.00", 40: "0.00", 41: "0", 42: "0", 43: "0.00", 44: "0.00",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss",
}  # fmt: skip
_FORMAT_PARTS = re.compile(
    r'"(?P<text>[^"]{0,255})"|\\(?P<char>.)|_.|\*.|\[\$(?P<currency>[^\]-]{0,20})[^\]]{0,20}\]'
    r"|\[(?P<elapsed>[hms]{1,9})\]|\[[^\]]{0,255}\]|(?P<general>general)|(?P<digits>[.,]?[0#?][0#?.,]*)"
    r"|(?P<date>y+|m+|d+|h+|s+|[geb]+|am/pm|a/p)|(?P<other>.)",
    re.IGNORECASE,
)
_MAX_FORMAT_CHARS = 1000
_MAX_DECIMALS = 15
_MINUTES = re.compile("(?<=h)m|m(?=s)")
_MAX_ROUNDED = 1e15
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_MERGED = re.compile(rb'mergeCell\s+ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')
_EPOCH, _EPOCH_1904 = dt.datetime(1899, 12, 30), dt.datetime(1904, 1, 1)  # noqa: DTZ001 - no zone
_MAX_SERIAL = 2_958_466  # the day after 9999-12-31
_COLUMN_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MAX_COLUMN_LETTERS = 3
_TRUE = ("1", "true")


class _Format(NamedTuple):
    """How a number is shown.

    `parts`: those of a date, as `date_text` has them; empty for other numbers.
    `decimals` is None for the number as it is, and negative for as many as needed, at most so many.
    """

    parts: str = ""
    decimals: int | None = None
    width: int = 1  # least digits before the point
    factor: float = 1.0
    before: str = ""
    after: str = ""

    def text(self, number: float, epoch: dt.datetime) -> str:
        if self.parts and 0 <= number < _MAX_SERIAL:
            return date_text(number, epoch, self.parts)
        if self.decimals is None or not abs(number) < _MAX_ROUNDED:
            digits = number_text(number * self.factor)
        else:
            exact = Decimal(format(number * self.factor, ".15g"))
            digits = format(exact.quantize(Decimal(1).scaleb(-abs(self.decimals)), ROUND_HALF_UP), "f")
            if self.decimals < 0:
                digits = digits.rstrip("0").rstrip(".")
        sign = "-" if digits.startswith("-") and digits.strip("-0.") else ""
        whole, point, fraction = digits.lstrip("-").partition(".")
        return f"{sign}{self.before}{whole.zfill(self.width)}{point}{fraction}{self.after}".strip()


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
        self.n_without_value = 0  # formulas
        self.formats = self._formats()
        self.shared = self._shared_texts()

    def convert(self) -> Converted:
        writer = SheetWriter(self.draft)
        sheets = child(self.workbook, "sheets")
        read: set[str] = set()
        for sheet in sheets if sheets is not None else ():
            name = attribute(sheet, "name")
            _, part = self.relations.get(attribute_of_relation(sheet), ("", ""))
            if part in read:
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
            is_chart = "chartsheet" in part
            writer.write(name, () if is_chart else self._rows(part), self._notes(part))
            self._write_drawings(name, part, writer)
        if self.n_without_value:
            self.draft.warn(f"formulas without a value in the file are in the text: {self.n_without_value:,}")
        return self.draft.converted(self.package.title(), metadata=office_metadata(self.package))

    def _rows(self, part: str) -> Iterator[NumberedRow]:
        merged, spans = self._merged_cells(part)
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
            yield NumberedRow(number, dict(sorted(cells.items())), spans.get(number, {}))

    def _notes(self, part: str) -> Iterator[tuple[int, str]]:
        """Yield the comments and the text boxes of a sheet, each with its row."""
        for kind, target in self.package.relations(part).values():
            root = self.package.optional_xml(target) if kind == "comments" else None
            for comment in _all(root, "comment"):
                place = _REFERENCE.match(attribute(comment, "ref"))
                text = _inline_text(child(comment, "text")).strip()
                if text.startswith("[Threaded comment]"):
                    text = text.partition("Comment:")[2].strip()
                if place and text:
                    number = whole_number(place.group(2), 1, least=1, most=MAX_ROWS)
                    yield number, cell_text(f"Comment on {place.group()}: {text}")
        for row, anchor, _ in self._anchors(part):
            for body in _all(anchor, "txBody"):
                for paragraph in _all(body, "p"):
                    if text := cell_text("".join(run.text or "" for run in _all(paragraph, "t"))):
                        yield row, text

    def _write_drawings(self, sheet: str, part: str, writer: SheetWriter) -> None:
        """Write the charts and diagrams of a sheet, each with the row where it stands."""
        for row, anchor, relations in self._anchors(part):
            for name, key in (("chart", "id"), ("relIds", "dm")):
                for drawing in _all(anchor, name):
                    target = relations.get(attribute(drawing, key), ("", ""))[1]
                    if target in self.package:
                        writer.begin(sheet)
                        self.draft.place(LocatorKind.sheet, sheet, row)
                        write_drawing(self.draft, self.package, target)
                        self.draft.end_place()

    def _anchors(self, part: str) -> Iterator[tuple[int, Element, dict[str, tuple[str, str]]]]:
        """Yield what stands on a sheet: its row, its element, and the relations of the drawing it is in."""
        for kind, target in self.package.relations(part).values():
            root = self.package.optional_xml(target) if kind == "drawing" else None
            relations = self.package.relations(target) if root is not None else {}
            for anchor in root if root is not None else ():
                row = child(anchor, "from", "row")
                text = (row.text or "").strip() if row is not None else ""
                yield whole_number(text, most=MAX_ROWS - 1) + 1, anchor, relations

    def _merged_cells(
        self, part: str
    ) -> tuple[dict[int, dict[int, tuple[int, int]]], dict[int, dict[int, int]]]:
        """Return for each row the columns that are merged into a cell of the same column, with that cell, and
        the number of columns of the cells that have several.

        The value of a merged cell counts for each of its rows.
        """
        found: dict[int, dict[int, tuple[int, int]]] = {}
        spans: dict[int, dict[int, int]] = {}
        rows_left = _MAX_MERGED_ROWS
        # The list is behind the cells, and most sheets have none: a search is faster than reading them twice.
        for match in islice(_MERGED.finditer(self.package.read(part)), _MAX_MERGED):
            (first, column), (last, last_column) = map(_place, match.group(1).decode().split(":"))
            if last_column > column:
                spans.setdefault(first, {})[column] = last_column - column + 1
            if last > first:
                last = min(last, first + rows_left - 1)
                rows_left -= max(last - first + 1, 0)
                for row in range(first, last + 1):
                    found.setdefault(row, {})[column] = (first, column)
        return found, spans

    def _text(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return cell_text(_inline_text(child(cell, "is")))
        text = formula = ""
        for inner in cell:
            if inner.tag.endswith("}v"):
                text = (inner.text or "").strip()
            elif inner.tag.endswith("}f"):
                formula = (inner.text or "").strip()
        if formula and not text:
            self.n_without_value += 1
            return cell_text(f"={formula}")
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
        return self.formats.get(style, _Format()).text(number, self.epoch)

    def _formats(self) -> dict[str, _Format]:
        """Return the formats of cells by their number as text."""
        root = self._part("styles")
        custom: dict[int, str] = {}
        for element in child(root, "numFmts") or () if root is not None else ():
            custom[whole_number(attribute(element, "numFmtId"), -1, least=-1)] = attribute(
                element, "formatCode"
            )
        cells = child(root, "cellXfs")
        numbers = [
            whole_number(attribute(element, "numFmtId")) for element in (() if cells is None else cells)
        ]
        return {
            str(style): _read_format(custom.get(number, _FORMAT_CODES.get(number, "")))
            for style, number in enumerate(numbers)
        }

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


@lru_cache(maxsize=1000)
def _read_format(code: str) -> _Format:
    """Read the code of a format for positive numbers, such as `[$€-407] #,##0.00` or `yyyy\\-mm`."""
    parts, digits = "", ""
    around = ["", ""]
    for match in _FORMAT_PARTS.finditer(code[:_MAX_FORMAT_CHARS]):
        kind, text = match.lastgroup, match.group(match.lastgroup) if match.lastgroup else ""
        if kind == "other" and text == ";":
            break
        if digits and (kind in ("date", "digits") or text == "/"):
            return _Format()  # powers of ten, fractions and patterns of digits
        if kind == "elapsed":
            parts += "e" + text[0].lower()
        elif kind == "date":
            parts += {"e": "y", "b": "y", "g": "", "a": ""}.get(text[0].lower(), text[0].lower())
        elif kind in ("general", "digits"):
            digits = digits or text
        elif kind is not None:
            around[bool(digits)] += text
    if parts:
        return _Format(_MINUTES.sub("n", parts))
    if not digits or digits.lower() == "general":
        return _Format("", None, before=around[0].lstrip(), after=around[1].rstrip()) if digits else _Format()
    before, after = around
    scale = 1000.0 ** (len(digits.rstrip(",")) - len(digits))
    if "%" in before + after:
        before, after, scale = before.replace("%", ""), " %", 100.0
    whole, _, fraction = digits.rstrip(",").partition(".")
    fraction = fraction[:_MAX_DECIMALS]
    decimals = len(fraction) if not fraction.strip("0") else -len(fraction)
    width = min(whole.count("0"), _MAX_DECIMALS)
    return _Format("", decimals, max(width, 1), scale, before.lstrip(), after.rstrip())


def _all(element: Element | None, name: str) -> Iterator[Element]:
    """Yield the elements of a name below another."""
    for inner in element.iter() if element is not None else ():
        if isinstance(inner.tag, str) and local(inner) == name:
            yield inner


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


def date_text(serial: float, epoch: dt.datetime, parts: str = "") -> str:
    """Return a date, time or both in ISO 8601; `serial` counts days from the epoch.

    `parts`: those that are shown, of `ymdhns` (`n`: minutes), with `e` for hours beyond a day; by default all
    that are not zero.
    """
    seconds = round(serial * 86_400)
    if "e" in parts:
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}"
        return f"{clock}:{seconds % 60:02}" if "s" in parts else clock
    moment = epoch + dt.timedelta(seconds=seconds)
    has_time = not set("hns").isdisjoint(parts) if parts else bool(seconds % 86_400)
    has_date = not set("ymd").isdisjoint(parts) if parts else serial >= 1
    time = moment.strftime("%H:%M:%S" if not parts or "s" in parts else "%H:%M") if has_time else ""
    date = moment.date().isoformat() if has_date else ""
    if parts and has_date and not has_time and "d" not in parts:
        date = date[:7] if "m" in parts else date[:4]
    return f"{date} {time}".strip()


MAX_CELLS = 1_000_000
"""Of one file. Further rows are left out with a warning."""
MAX_CELL_CHARS = 32_767
"""The limit of Excel."""
MAX_SINGLE_ROWS = 20_000
"""Rows of a file with a place of their own. Later rows share one: a million places would take 50 MB."""
MAX_ROWS_OF_PLACE = 20
MAX_CHARS_OF_PLACE = 2000
_ROWS_AHEAD = 11  # above which a header is looked for
_MAX_HEADER_ROWS = 4
_MAX_ROWS_JUDGED = 20  # of a table, to tell it from the next
_YEAR = re.compile(r"(?:1[89]|20)\d\d")
_SIGNS = frozenset({"#", "№", "%", "‰", "$", "€", "£", "¥", "Σ", "Ø", "±", "+/-"})  # that name a column
_NO_NAMES = words_of("n/a na nan none null nil tbd tba yes no true false")
_MAX_HEADER_CHARS = 100

Row = Mapping[int, str]
"""The texts of the cells that are not empty, by the number of their column, from 0 and ascending."""


class NumberedRow(NamedTuple):
    number: int  # from 1, as in the file
    cells: Row
    spans: Mapping[int, int] = {}  # the number of columns of merged cells, by their first column


class SheetWriter:
    """Writes the sheets of one file; `cells_left` and `single_rows_left` limit them together."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.cells_left = MAX_CELLS
        self.single_rows_left = MAX_SINGLE_ROWS
        self._name = ""  # of the last sheet

    def write(self, name: str, rows: Iterable[NumberedRow], notes: Iterable[tuple[int, str]] = ()) -> None:
        """Write a sheet, with a heading unless `name` is empty; one without any text is passed over.

        `notes`: texts outside of the cells, each with its row; they come after the rows, and are read then.
        """
        ahead = deque(islice(limited := self._limited(name, _without_empty(rows)), _ROWS_AHEAD))
        notes = notes if ahead else list(notes)
        if not (ahead or notes):
            return
        self.begin(name)
        place = _Place(self, name)
        table = _Table(ahead)
        last = ahead[0].number if ahead else 0
        while ahead:
            if ahead[0].number > last + 1 and table.is_ended(ahead, ahead[0].number - last - 1):
                table.write_unused(place)
                table = _Table(ahead)
            row = ahead.popleft()
            if (further := next(limited, None)) is not None:
                ahead.append(further)
            if (text := table.line(row, after_gap=row.number > last + 1)) is not None:
                place.add(row.number, text)
            last = row.number
        table.write_unused(place)
        for number, text in notes:
            place.add(number, text)
        place.end()

    def begin(self, name: str) -> None:
        """Write the heading of a sheet, unless it is that of the last one."""
        self.draft.end_place()
        if name != self._name:
            self.draft.heading(1, name)
        self._name = name

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


class _Table:
    """A table of a sheet, with titles above it: the names of its columns, and which of them have values."""

    def __init__(self, ahead: Sequence[NumberedRow]) -> None:
        """`ahead`: the next rows; they begin with the first row of the table or a title of it."""
        self._header: Row = {}
        self._unused: dict[int, str] = {}  # names of columns that no row has a value of, so far
        self._header_rows = range(0)
        self._n_rows = 0  # looked at
        self._values: set[int] = set()  # columns in which these have values
        for i, row in enumerate(ahead):
            if len(row.cells) > 1:
                n_rows, names = _names(ahead, i)
                if i + n_rows < len(ahead):
                    self._header = names
                    self._header_rows = range(row.number, ahead[i + n_rows].number)
                    self._unused = dict(names)
                return
        # A table of one column has a name if it stands above values.
        if len(ahead) > 1 and not _is_value(_only(ahead[0])) and _is_value(_only(ahead[1])):
            self._header, self._header_rows = ahead[0].cells, range(ahead[0].number, ahead[1].number)
            self._unused = dict(self._header)

    def write_unused(self, place: _Place) -> None:
        """Write the names of columns without values."""
        if self._unused:
            place.add(self._header_rows.start, "; ".join(self._unused.values()))

    def is_ended(self, ahead: Sequence[NumberedRow], gap: int) -> bool:
        """Whether another table begins with the next row, `gap` empty rows below the last.

        Names stand there where this table has values, in other columns, or above values where it has none.
        """
        if ahead[0].number in self._header_rows:
            return False
        i = next((i for i, row in enumerate(ahead) if len(row.cells) > 1), len(ahead))
        if any(ahead[j].number != ahead[j - 1].number + 1 for j in range(2, min(i + 1, len(ahead)))):
            return False
        n_rows, names = _names(ahead, i)
        if not names or i + n_rows >= len(ahead):
            return False
        below = {column for column, text in ahead[i + n_rows].cells.items() if _is_value(text)}
        return (
            gap > 1
            or not self._values.isdisjoint(names)
            or not names.keys() <= self._header.keys()
            or not below <= self._values
        )

    def line(self, row: NumberedRow, *, after_gap: bool) -> str | None:
        """Return the text of a row; None for one with the names of the columns.

        The names count for no row that has more columns without a name than with one.
        """
        if row.number in self._header_rows:
            return None
        cells, header = row.cells, self._header
        if row.number < self._header_rows.start:
            return _line({}, cells)
        if self._n_rows < _MAX_ROWS_JUDGED:
            self._n_rows += 1
            self._values.update(column for column, text in cells.items() if _is_value(text))
        # A text of its own between the rows is a title or a note.
        is_apart = after_gap and len(cells) == 1 < len(header) and not _is_value(_only(row))
        is_wider = len(cells) > len(header) and 2 * len(cells.keys() - header.keys()) > len(cells)
        if is_apart or is_wider:
            return _line({}, cells)
        for column in cells.keys() & self._unused.keys() if self._unused else ():
            del self._unused[column]
        return _line(header, cells)


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
    for row in rows:
        kept = {column: text for column, text in row.cells.items() if text}
        if kept:
            yield NumberedRow(row.number, kept, row.spans)


def _line(header: Row, cells: Row) -> str:
    return "; ".join(
        f"{header[column].rstrip(':')}: {text}" if column in header else text
        for column, text in cells.items()
    )


def _names(rows: Sequence[NumberedRow], at: int) -> tuple[int, Row]:
    """Return the number of the rows at a place that name the columns, and the names; none if they are values.

    All names are different. Rows below each other are one header if cells of the upper one span columns.
    """
    names: dict[int, str] = {}
    for i in range(at, min(at + _MAX_HEADER_ROWS, len(rows))):
        is_above = _is_above_names(rows, i)
        for column, text in (_spread(rows[i]) if is_above else rows[i].cells).items():
            above = names.get(column, "")
            names[column] = text if above in ("", text) else f"{above} {text}"
        if not is_above:
            return (i - at + 1, names) if _are_names(list(names.values())) else (0, {})
    return 0, {}


def _is_above_names(rows: Sequence[NumberedRow], at: int) -> bool:
    """Whether cells of a row span columns, and the next row names these: it repeats its names or those above,
    or stands above values."""
    if at + 1 >= len(rows) or not any(rows[at].spans.get(column, 1) > 1 for column in rows[at].cells):
        return False
    below = rows[at + 1].cells
    if any(_is_value(text) and not _YEAR.fullmatch(text) for text in below.values()):
        return False
    data = rows[at + 2].cells if at + 2 < len(rows) else {}
    return (
        len(set(below.values())) < len(below)
        or any(rows[at].cells.get(column) == text for column, text in below.items())
        or any(column in below and _is_value(text) for column, text in data.items())
    )


def _spread(row: NumberedRow) -> dict[int, str]:
    """Return the texts of a row, those of merged cells in each of their columns."""
    return {
        inner: text
        for column, text in row.cells.items()
        for inner in range(column, min(column + row.spans.get(column, 1), MAX_COLUMNS))
    }


def _are_names(texts: list[str]) -> bool:
    """Whether all texts are different and words, besides years beside a word."""
    is_value = [_is_value(text) and not _YEAR.fullmatch(text) for text in texts]
    return (
        len(texts) > 1
        and len(set(texts)) == len(texts)
        and not any(is_value)
        and not all(map(_is_value, texts))
    )


def _only(row: NumberedRow) -> str:
    return next(iter(row.cells.values()))


def _is_value(text: str) -> bool:
    """Whether a text is a number, amount, date, mark or longer than a name, rather than a header."""
    if len(text) > _MAX_HEADER_CHARS or text.casefold() in _NO_NAMES:
        return True
    return not any(map(str.isalpha, text)) and (text not in _SIGNS)
