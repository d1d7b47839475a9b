"""Excel workbooks (XLSX): the stored values of cells, with dates in ISO 8601."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from shoal.conversion.converted import ConversionError, Converted
from shoal.conversion.draft import Draft
from shoal.conversion.package import Element, Package, attribute, child, local, whole_number
from shoal.conversion.pptx import attribute_of_relation
from shoal.conversion.sheets import MAX_CELLS, NumberedRow, SheetWriter, cell_text

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384
MAX_SHARED_CHARS = 100_000_000
_MAX_MERGED = 100_000
_MAX_MERGED_ROWS = 10_000
_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_PERCENT_FORMATS = frozenset({9, 10})
_NOT_FORMAT = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_RANGE = re.compile(r"([A-Z]{1,3}\d{1,7}):([A-Z]{1,3}\d{1,7})")
_EPOCH, _EPOCH_1904 = dt.datetime(1899, 12, 30), dt.datetime(1904, 1, 1)  # noqa: DTZ001 - no zone
_MAX_SERIAL = 2_958_466  # the day after 9999-12-31
_TRUE = ("1", "true")


@dataclass(slots=True)
class _Formats:
    """Which formats of cells, by their number, show dates or percentages."""

    dates: set[int] = field(default_factory=set)
    percents: set[int] = field(default_factory=set)


def convert_xlsx(data: bytes, name: str) -> Converted:
    """Convert an XLSX file. Formulas give their last values; empty rows are left out."""
    package = Package(data)
    main = package.main_part("xl/workbook.xml")
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
        for sheet in sheets if sheets is not None else ():
            name = attribute(sheet, "name")
            _, part = self.relations.get(attribute_of_relation(sheet), ("", ""))
            if "chartsheet" in part:
                continue
            if part not in self.package:
                self.draft.warn(f"The sheet {name} is missing in the file.")
                continue
            if attribute(sheet, "state") in ("hidden", "veryHidden"):
                self.draft.warn(f"The sheet {name} is hidden in the file; it is in the text.")
            if writer.cells_left <= 0:
                self.draft.warn(f"The sheet {name} is left out: only {MAX_CELLS:,} cells of a file are read.")
                continue
            writer.write(name, self._rows(part))
        return self.draft.converted(self.package.title())

    def _rows(self, part: str) -> Iterator[NumberedRow]:
        merged = self._merged_cells(part)
        carried: dict[tuple[int, int], str] = {}
        number = 0
        for row in self.package.children(part, "sheetData"):
            if local(row) != "row":
                continue
            number = min(whole_number(attribute(row, "r"), number + 1, least=1), MAX_ROWS)
            cells: dict[int, str] = {}
            column = -1
            for cell in row:
                if local(cell) == "c":
                    reference = _REFERENCE.fullmatch(attribute(cell, "r"))
                    column = _column(reference.group(1)) if reference else column + 1
                    if column < MAX_COLUMNS:
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
        n_merged = 0
        for element in self.package.children(part, "mergeCells"):
            match = _RANGE.fullmatch(attribute(element, "ref"))
            n_merged += 1
            if match is None or n_merged > _MAX_MERGED:
                continue
            (first, column), (last, _) = _place(match.group(1)), _place(match.group(2))
            for row in range(first, min(last, first + _MAX_MERGED_ROWS - 1) + 1 if last > first else first):
                found.setdefault(row, {})[column] = (first, column)
        return found

    def _text(self, cell: Element) -> str:
        kind = attribute(cell, "t")
        if kind == "inlineStr":
            return cell_text(_inline_text(child(cell, "is")))
        value = child(cell, "v")
        text = (value.text or "").strip() if value is not None else ""
        if kind == "s":
            index = whole_number(text, -1, least=-1)
            return self.shared[index] if 0 <= index < len(self.shared) else ""
        if kind == "e":
            return ""  # such as #N/A
        if kind == "b":
            return "TRUE" if text == "1" else "FALSE" if text else ""
        if kind in ("str", "d"):
            return cell_text(text)
        return self._number(text, whole_number(attribute(cell, "s"), -1, least=-1))

    def _number(self, text: str, style: int) -> str:
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
                formats.dates.add(style)
            elif number in _PERCENT_FORMATS or "%" in code:
                formats.percents.add(style)
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
            for element in self.package.children(target, "sst"):
                texts.append(cell_text(_inline_text(element)))
                n_chars += len(texts[-1])
                if n_chars > MAX_SHARED_CHARS:
                    raise ConversionError("too_large", "The texts of the workbook are too long. Divide it.")
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


def _column(letters: str) -> int:
    column = 0
    for letter in letters:
        column = 26 * column + ord(letter) - ord("A") + 1
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
