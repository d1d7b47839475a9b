"""Visible words of a PDF: the characters that PDFium finds on each page, and values of its annotations.

The order, lines and blocks of the converter are not used.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

from shoal.conversion.accounts.markup import FilePart, words_of

_MAX_PAGES = 20_000
_MAX_CHARS = 500_000  # of a page
_MAX_ANNOTATIONS = 2000  # of a page
_MAX_PLACES = 20  # of equal lines of a page
_SAME_PLACE = 3.0  # points
_MAX_VALUE_BYTES = 200_000
_DIVIDED = re.compile("[\x02\ufffe](?:\r\n?|\n)?|\ufffe")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]+")


class PageCounter:
    """Counts pages while the converter has them open, because to load them takes most of the time."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.pages: dict[int, list[FilePart]] = {}

    def read(self, number: int, page: Any, text: Any) -> None:
        """Count a page, by its number from 0, with PDFium's handles of it and of its text (may be null)."""
        place = f"page {number + 1}"
        words = words_of(_page_text(self._raw, text)) if text else []
        notes = words_of("\n".join(_annotations(self._raw, page)))
        parts = [FilePart("text", place, words)] if words else []
        parts += [FilePart("annotation", place, notes)] if notes else []
        self.pages[number] = parts or [FilePart("page without text", place)]


def pdf_parts(data: bytes, counter: PageCounter | None = None) -> Iterator[FilePart]:
    """Yield the text and the annotations of each page. A page without text is a part without words.

    `counter`: of pages that are read already; the others are read here.
    """
    import pypdfium2 as pdfium
    import pypdfium2.raw as raw

    counter = counter or PageCounter(raw)
    document = pdfium.PdfDocument(data)
    try:
        for number in range(min(len(document), _MAX_PAGES)):
            if number not in counter.pages:
                _read_page(document, number, counter)
            yield from counter.pages[number]
    finally:
        document.close()


def _read_page(document: Any, number: int, counter: PageCounter) -> None:
    import pypdfium2 as pdfium

    try:
        page = document[number]
        try:
            text = page.get_textpage()
            try:
                counter.read(number, page.raw, text.raw)
            finally:
                text.close()
        finally:
            page.close()
    except pdfium.PdfiumError:
        counter.pages[number] = [FilePart("broken page", f"page {number + 1}")]


def _page_text(raw: Any, page: Any) -> str:
    n_chars = min(raw.FPDFText_CountChars(page), _MAX_CHARS)
    if n_chars <= 0:
        return ""
    buffer = (ctypes.c_ushort * (n_chars + 1))()
    n_written = raw.FPDFText_GetText(page, 0, n_chars, buffer)
    text = bytes(buffer)[: 2 * max(n_written - 1, 0)].decode("utf-16-le", "replace")
    text = "".join(_drawn_once(raw, page, text))
    return _CONTROL.sub(" ", _DIVIDED.sub("", text))


def _drawn_once(raw: Any, page: Any, text: str) -> Iterator[str]:
    """Yield the lines of a page, those that are drawn again at the same place once."""
    places: dict[str, list[tuple[float, float]]] = {}
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    at = 0
    for line in text.splitlines(keepends=True):
        seen = places.setdefault(line.strip(), [])
        start = at + len(line) - len(line.lstrip())
        at += len(line)
        if len(seen) < _MAX_PLACES and line.strip():
            raw.FPDFText_GetCharBox(page, start, left, right, bottom, top)
            if any(abs(x - left.value) < _SAME_PLACE > abs(y - bottom.value) for x, y in seen):
                continue
            seen.append((left.value, bottom.value))
        yield line


def _annotations(raw: Any, page: Any) -> Iterator[str]:
    """Yield the values of form fields, and the contents of notes and boxes, that are not hidden."""
    for at in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, at)
        if not annotation:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            flags = raw.FPDFAnnot_GetFlags(annotation)
            if flags & (raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW):
                continue
            if kind == raw.FPDF_ANNOT_WIDGET:
                # Of a choice, the value is not what people see.
                if _value(raw, annotation, b"FT") not in ("Btn", "Ch"):
                    yield _value(raw, annotation, b"V")
            elif kind in (raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_FREETEXT):
                yield _value(raw, annotation, b"Contents")
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _value(raw: Any, annotation: Any, key: bytes) -> str:
    size = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    if not 2 < size <= _MAX_VALUE_BYTES:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    raw.FPDFAnnot_GetStringValue(annotation, key, buffer, size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace")
