"""What a PDF page holds besides its text: values of form fields, text in boxes, and comments.

A field stands at its place on the page. Boxes and comments are texts of their own.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from shoal.conversion.pdf_lines import Cell, Line, PageText, View

MAX_ANNOTATIONS, MAX_ANNOTATIONS_OF_PAGE = 100_000, 5_000
"""Of a file, and of a page; further ones are not read."""
MAX_OPTIONS = 1_000
"""Of a field that offers a choice."""
MAX_VALUE_BYTES = 1_000_000
"""A longer value is not read."""
_CHECKED = "☒"
_LONG_VALUE = 100  # characters; a longer value is a paragraph, not a part of a line
_SIZE = 10.0  # of letters, in points, where there is no line to take it from
_NEAR_LINES = 50  # that a field is compared with


class Field(NamedTuple):
    """The value of a form field, with its box on the page as it is shown.

    `label`: what the field is called; empty for one that the page itself labels, such as a box to check.
    """

    value: str
    label: str
    left: float
    bottom: float
    right: float
    top: float


class Annotations(NamedTuple):
    """`texts`: boxes of text and comments, each with its author."""

    fields: list[Field]
    texts: list[str]


class AnnotationReader:
    """Reads the annotations of pages. `form`: PDFium's handle of the form, None for a file without one."""

    def __init__(self, raw: Any, form: Any) -> None:
        self._raw, self._form = raw, form
        self._n_left = MAX_ANNOTATIONS
        self._hidden = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
        self._marks = {
            raw.FPDF_ANNOT_HIGHLIGHT,
            raw.FPDF_ANNOT_UNDERLINE,
            raw.FPDF_ANNOT_SQUIGGLY,
            raw.FPDF_ANNOT_STRIKEOUT,
        }

    def read(self, page: Any, text: PageText) -> Annotations:
        """Return the annotations of a page that people see.

        A comment that only repeats words of the page is left out.
        """
        found = Annotations([], [])
        raw = self._raw
        n_annotations = min(raw.FPDFPage_GetAnnotCount(page), MAX_ANNOTATIONS_OF_PAGE, self._n_left)
        self._n_left -= n_annotations
        words = " ".join(line.text for line in text.lines) if n_annotations else ""
        for index in range(n_annotations):
            annotation = raw.FPDFPage_GetAnnot(page, index)
            if not annotation:
                continue
            try:
                if not raw.FPDFAnnot_GetFlags(annotation) & self._hidden:
                    self._read(annotation, text.view, words, found)
            finally:
                raw.FPDFPage_CloseAnnot(annotation)
        return found

    def _read(self, annotation: Any, view: View, words: str, found: Annotations) -> None:
        raw = self._raw
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if kind == raw.FPDF_ANNOT_WIDGET:
            field = self._field(annotation, view)
            if field is not None:
                found.fields.append(field)
        elif kind not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP):
            text = self._text(annotation, b"Contents")
            if not text or (kind in self._marks and text in words):
                return
            author = "" if kind == raw.FPDF_ANNOT_FREETEXT else self._text(annotation, b"T")
            found.texts.append(f"{author}: {text}" if author else text)

    def _field(self, annotation: Any, view: View) -> Field | None:
        raw = self._raw
        label = ""
        # Without a handle, as in a form of XFA, PDFium gives only what the annotation itself says.
        kind = raw.FPDFAnnot_GetFormFieldType(self._form, annotation) if self._form is not None else None
        if kind is None:
            value = "" if self._text(annotation, b"FT") == "Btn" else self._text(annotation, b"V")
        elif kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
            value = _CHECKED if raw.FPDFAnnot_IsChecked(self._form, annotation) else ""
        elif kind == raw.FPDF_FORMFIELD_PUSHBUTTON:
            value = ""
        else:
            value = self._selected(annotation) or self._form_text(raw.FPDFAnnot_GetFormFieldValue, annotation)
            label = self._form_text(raw.FPDFAnnot_GetFormFieldAlternateName, annotation)
        box = raw.FS_RECTF()
        if not value or not raw.FPDFAnnot_GetRect(annotation, box):
            return None
        left, bottom, right, top = view.seen(box.left, box.bottom, box.right, box.top)
        return Field(value, label, left, bottom, right, top)

    def _selected(self, annotation: Any) -> str:
        """Return the labels of the options that are selected; empty for a field without options."""
        raw = self._raw
        n_options = min(raw.FPDFAnnot_GetOptionCount(self._form, annotation), MAX_OPTIONS)
        chosen = [i for i in range(n_options) if raw.FPDFAnnot_IsOptionSelected(self._form, annotation, i)]
        labels = [
            read_string(partial(raw.FPDFAnnot_GetOptionLabel, self._form, annotation, i)) for i in chosen
        ]
        return ", ".join(filter(None, labels))

    def _form_text(self, function: Any, annotation: Any) -> str:
        return read_string(partial(function, self._form, annotation))

    def _text(self, annotation: Any, key: bytes) -> str:
        return read_string(partial(self._raw.FPDFAnnot_GetStringValue, annotation, key))


def read_string(read: Callable[[Any, int], int]) -> str:
    """Return a text that PDFium writes into a buffer, with single spaces."""
    size = read(None, 0)
    if not 2 < size <= MAX_VALUE_BYTES:
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(buffer, size)
    text = bytes(buffer)[: size - 2].decode("utf-16-le", "ignore")
    return " ".join(text.replace("\x00", " ").split())


def with_fields(lines: Sequence[Line], fields: Sequence[Field], page: int) -> list[Line]:
    """Return the lines of a page with the values of its fields, each at its place.

    A short value becomes a part of the line beside it. Others follow the line above them.
    """
    beside: dict[int, list[Cell]] = {}
    below: dict[int, list[Line]] = {}
    rows = sorted(range(len(lines)), key=lambda i: lines[i].bottom)
    bottoms = [lines[i].bottom for i in rows]
    for field in sorted(fields, key=lambda field: (-field.bottom, field.left)):
        first = bisect_left(bottoms, field.bottom - _SIZE)
        near = rows[first : first + _NEAR_LINES]
        middles = [(i, lines[i].bottom + lines[i].size / 3) for i in near]
        row = [i for i, middle in middles if field.bottom <= middle <= field.top]
        if row and len(field.value) <= _LONG_VALUE:
            nearest = min(row, key=lambda i: _gap(lines[i], field))
            beside.setdefault(nearest, []).append(Cell(field.left, field.right, field.value))
            continue
        above = [i for i, middle in middles if middle > field.bottom]
        nearest = min(above, key=lambda i: lines[i].bottom - field.top + _gap(lines[i], field), default=-1)
        size = lines[nearest].size if above else _SIZE
        text = f"{field.label}: {field.value}" if field.label else field.value
        line = Line(page, text, field.left, field.right, field.bottom, size, False, False, ())
        below.setdefault(nearest, []).append(line)
    merged = list(below.get(-1, ()))
    for i, line in enumerate(lines):
        merged.append(_with_cells(line, beside[i]) if i in beside else line)
        merged += below.get(i, ())
    return merged


def _gap(line: Line, field: Field) -> float:
    """Return the distance in points between a line and a field from left to right; 0 if they overlap."""
    return max(field.left - line.right, line.left - field.right, 0.0)


def _with_cells(line: Line, cells: Sequence[Cell]) -> Line:
    own = line.cells or (Cell(line.left, line.right, line.text),)
    parts = sorted([*own, *cells], key=lambda cell: cell.left)
    return line._replace(
        text=" ".join(cell.text for cell in parts),
        left=parts[0].left,
        right=max(cell.right for cell in parts),
        cells=tuple(parts) if line.cells else (),
    )
