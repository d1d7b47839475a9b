"""PDF files, read with PDFium: pages are locators, and what pages repeat is left out.

Pages repeat headers, footers and page numbers. Besides its text, a page holds values of form fields, texts in
boxes, and comments. A field stands at its place on the page. Boxes and comments are texts of their own.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from shoal.conversion.accounts.pdf import PageCounter
from shoal.conversion.converted import ConversionError, Converted, Draft, broken, report
from shoal.conversion.metadata import pdf_metadata, xmp_of
from shoal.conversion.pdf_headings import OutlineItem, roman_value
from shoal.conversion.pdf_layout import BlockKind, PdfBlock, read_blocks
from shoal.conversion.pdf_lines import Cell, Line, PageReader, PageText, View
from shoal.models.files import LocatorKind

MAX_PAGES = 20_000
"""Further pages are left out with a warning."""
OCR_DPI = 300
OCR_SECONDS_PER_PAGE = 120
MAX_OCR_PIXELS = 40_000_000
"""Of a page's picture; a page of A3 has 17 million at 300 dpi."""
_MAX_OUTLINE = 20_000
_MAX_OUTLINE_DEPTH = 6
_FPDF_ERR_PASSWORD = 4
_POINTS_PER_INCH = 72
# Titles that programs write without being asked, besides those of all kinds of files.
_NO_TITLE = re.compile(
    r"""(?:layout | page | scan)[ -]?\d* | untitled[ ]-.*
      | microsoft[ ](?:word|powerpoint|excel|visio)[ ]-[ ].*
      | \S*\.(?:pdf|e?ps|ai|indd|cdr|qxd|pub|rtf|txt|wpd) | file:/.*
      | .*\.(?:docx?|pptx?|xlsx?|od[tps]|tex|dvi|html?|jpe?g|png|gif|tiff?|svg)""",
    re.VERBOSE | re.IGNORECASE,
)
_MAX_OBJECTS = 1000  # of a page that are asked for their kind
_LISTED_PAGES = 20
_READING = 0.7
"""Share of the reading of pages in the time of a conversion. Finding blocks takes nearly all of the rest."""
_EDGE_LINES = 3  # at the top and bottom of a page that may be a header or footer
_MIN_REPEATS = 3
_MAX_NUMBERS = 4
_MAX_CHARS = 200
_CONTENTS = re.compile(
    r"(?:table of )?contents|inhalt(?:sverzeichnis)?|table des matières|índice|sommaire", re.IGNORECASE
)
_ENTRY_NUMBER = re.compile(r"\b(\d{1,5})\Z")
_MIN_ENTRIES, _MAX_ENTRIES = 3, 2000
_NUMBER = re.compile(r"\d{1,9}")
_ROMAN = re.compile(r"[ivxlcdm]{1,8}", re.IGNORECASE)
_BARE_PAGE_NUMBER = re.compile(
    r"(?:page |p\. ?)?[-–—\[(]? ?(\d{1,6}) ?[-–—\])]?(?: ?(?:/|of) ?\d{1,6})?", re.IGNORECASE
)
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


def convert_pdf(data: bytes, name: str, *, ocr: bool = False, ocr_language: str = "") -> Converted:
    """Convert a PDF file. Needs pypdfium2.

    `ocr`: read pages that are only pictures with tesseract, if it is installed. `ocr_language`: as for its
    option `-l`, such as `eng+deu`; empty for its default.
    """
    try:
        import pypdfium2 as pdfium
        import pypdfium2.raw as raw
    except ImportError as error:
        raise ConversionError(
            "missing_extra", "PDF files need a library that is not installed", "pip install 'shoal[pdf]'"
        ) from error
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        # Some failures leave the code of an earlier one.
        if getattr(error, "err_code", None) == _FPDF_ERR_PASSWORD and b"/Encrypt" in data:
            raise ConversionError("encrypted", "the file is protected by a password") from error
        raise broken(str(error)) from error
    try:
        return _Reader(data, document, pdfium, raw, ocr_language if ocr else None).convert()
    finally:
        document.close()


class _Reader:
    """`ocr_language` is None if pages without text are not to be recognised."""

    def __init__(self, data: bytes, document: Any, pdfium: Any, raw: Any, ocr_language: str | None) -> None:
        self._data, self._document, self._pdfium, self._raw = data, document, pdfium, raw
        self._ocr_language = ocr_language
        self._draft = Draft()
        self._counter = PageCounter(raw)
        self._labels: list[str] = []
        self._recognised: dict[int, str] = {}
        self._without_text: list[int] = []
        self._unreadable: list[int] = []
        self._unmapped: list[int] = []
        self._has_pictures = False
        # By page: texts at an angle to its lines; boxes and comments.
        self._turned: dict[int, list[str]] = {}
        self._asides: dict[int, list[str]] = {}

    def convert(self) -> Converted:
        n_pages = len(self._document)
        if n_pages > MAX_PAGES:
            self._draft.warn(f"the pages after {MAX_PAGES:,} are left out; the file has {n_pages:,}")
        reader = PageReader(self._raw)
        annotations = AnnotationReader(self._raw, self._form())
        pages: list[list[Line]] = []
        for number in range(min(n_pages, MAX_PAGES)):
            pages.append(self._read_page(reader, annotations, number))
            report(_READING * (number + 1), min(n_pages, MAX_PAGES))
        if not any([*pages, *self._turned.values(), *self._asides.values(), self._recognised]):
            raise self._no_text(n_pages)
        kept, removed = split_repeated(pages, self._labels)
        margins = self._remove_margins()
        kept, contents = split_contents(kept)
        for reason, text in [*removed, *margins, *contents]:
            self._draft.remove(reason, text)
        asides = [self._turned.get(i, []) + self._asides.get(i, []) for i in range(len(pages))]
        self._write(read_blocks(kept, asides, self._outline()))
        self._warn()
        titles, metadata = pdf_metadata(self._stated, self._language(), n_pages, xmp_of(self._data))
        title = next((title for title in titles if not _NO_TITLE.fullmatch(title)), "")
        return replace(self._draft.converted(title, metadata=metadata), counter=self._counter)

    def _form(self) -> Any:
        """Return PDFium's handle of the file's form; None if it has none that can be read."""
        try:
            self._document.init_forms()
        except self._pdfium.PdfiumError:
            self._draft.warn("the form of the file cannot be read")
        return self._document.formenv

    def _remove_margins(self) -> list[Repeated]:
        """Take out the texts at an angle that several pages have."""
        counts = Counter(text for texts in self._turned.values() for text in set(texts))
        removed = []
        for page, texts in self._turned.items():
            self._turned[page] = [text for text in texts if counts[text] < _MIN_REPEATS]
            removed += [Repeated("repeated margin", text) for text in texts if counts[text] >= _MIN_REPEATS]
        return removed

    def _read_page(self, reader: PageReader, annotations: AnnotationReader, number: int) -> list[Line]:
        label = ""
        try:
            label = self._document.get_page_label(number)
            page = self._document[number]
        except (self._pdfium.PdfiumError, UnicodeError):
            self._labels.append(label)
            self._unreadable.append(number)
            return []
        self._labels.append(label)
        try:
            textpage = page.get_textpage()
            try:
                self._counter.read(number, page.raw, textpage.raw)
                text = reader.read(
                    textpage.raw, number, page.get_rotation(), page.get_width(), page.get_height()
                )
            finally:
                textpage.close()
            fields, asides = annotations.read(page.raw, text)
            lines = with_fields(text.lines, fields, number)
            self._turned[number], self._asides[number] = text.turned, asides
            if text.n_unmapped:
                self._unmapped.append(number)
            if not (lines or text.turned or asides):
                self._without_text.append(number)
                self._has_pictures = self._has_pictures or self._is_picture(page)
                if self._ocr_language is not None:
                    self._recognise(page, number)
            return lines
        except self._pdfium.PdfiumError:
            self._unreadable.append(number)
            return []
        finally:
            page.close()

    def _outline(self) -> list[OutlineItem]:
        items: list[OutlineItem] = []
        try:
            for bookmark in self._document.get_toc(max_depth=_MAX_OUTLINE_DEPTH):
                target = bookmark.get_dest()
                page = target.get_index() if target is not None else None
                if page is not None and page >= 0:
                    items.append(OutlineItem(bookmark.level + 1, bookmark.get_title(), page))
                if len(items) >= _MAX_OUTLINE:
                    break
        except (self._pdfium.PdfiumError, UnicodeError):
            self._draft.warn("the outline of the file cannot be read")
        return items

    def _stated(self, key: str) -> str:
        """Return what the file's information says."""
        try:
            return str(self._document.get_metadata_value(key)).replace("\0", " ")
        except (self._pdfium.PdfiumError, UnicodeError):
            return ""

    def _language(self) -> str:
        return read_string(partial(self._raw.FPDFCatalog_GetLanguage, self._document.raw))

    # Writing

    def _write(self, blocks: list[PdfBlock]) -> None:
        page = -1
        recognised = sorted(self._recognised)
        for block in blocks:
            while recognised and recognised[0] < block.pieces[0].page:
                self._write_recognised(recognised.pop(0))
                page = -1
            for i, piece in enumerate(block.pieces):
                if i and block.kind is BlockKind.contents:
                    break
                if piece.page != page:
                    page = piece.page
                    self._place(page)
                if i:
                    self._draft.continue_paragraph(piece.text, joiner=piece.joiner)
                else:
                    self._write_block(block, piece.text)
        for number in recognised:
            self._write_recognised(number)

    def _write_block(self, block: PdfBlock, text: str) -> None:
        draft = self._draft
        if block.kind is BlockKind.heading:
            draft.heading(block.level, text)
        elif block.kind is BlockKind.item:
            draft.item(block.level, text, block.number)
        elif block.kind is BlockKind.table:
            draft.table(block.rows)
        elif block.kind is BlockKind.contents:
            draft.remove(block.kind.value, " ".join(piece.text for piece in block.pieces))
        else:
            draft.paragraph(text)

    def _place(self, page: int) -> None:
        self._draft.place(LocatorKind.page, self._labels[page], page + 1)

    def _write_recognised(self, page: int) -> None:
        self._place(page)
        for paragraph in re.split(r"\n\s*\n", self._recognised[page]):
            self._draft.paragraph(re.sub(r"(?<=[^\W\d_])-\n(?=[^\W\d_])", "", paragraph).replace("\n", " "))

    # Pages without text

    def _no_text(self, n_pages: int) -> ConversionError:
        if not n_pages or len(self._unreadable) == min(n_pages, MAX_PAGES):
            return broken("none of its pages can be read")
        if self._unmapped:
            reason = "the fonts of the file do not say which characters its glyphs are"
        elif self._has_pictures:
            reason = "the pages of the file are pictures without text"
        else:
            return ConversionError(
                "no_text", "the pages of the file have neither text nor pictures", "leave it out"
            )
        advice = (
            "text recognition (OCR) found none in them either"
            if self._ocr_language is not None and shutil.which("tesseract")
            else "install tesseract and set SHOAL_OCR=1 to read scans by text recognition (OCR)"
        )
        return ConversionError("no_text", reason, advice)

    def _warn(self) -> None:
        missing = [page for page in self._without_text if page not in self._recognised]
        if missing:
            self._draft.warn(f"pages without text, which may be empty or pictures: {_listed(missing)}")
        if self._recognised:
            read = _listed(sorted(self._recognised))
            self._draft.warn(f"pages read by text recognition (OCR), with possible errors: {read}")
        if self._unmapped:
            listed = _listed(self._unmapped)
            self._draft.warn(
                f"pages with glyphs that no character is known of, which were left out: {listed}"
            )
        if self._unreadable:
            self._draft.warn(f"pages that are broken and were left out: {_listed(self._unreadable)}")

    def _recognise(self, page: Any, number: int) -> None:
        """Read a page without text with tesseract."""
        program = shutil.which("tesseract")
        if program is None:
            self._draft.warn("text recognition (OCR) is switched on, but tesseract is not installed")
            return
        picture = self._picture(page)
        if picture is None:
            return
        language = ["-l", self._ocr_language] if self._ocr_language else []
        try:
            done = subprocess.run(
                [program, "stdin", "stdout", *language],
                input=picture,
                capture_output=True,
                timeout=OCR_SECONDS_PER_PAGE,
                env={**os.environ, "OMP_THREAD_LIMIT": "1"},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            self._draft.warn(f"text recognition of page {number + 1:,} failed or took too long")
            return
        text = done.stdout.decode("utf-8", errors="replace").replace("\f", "\n")
        if done.returncode:
            reason = done.stderr.decode("utf-8", errors="replace").strip().partition("\n")[0]
            self._draft.warn(f"text recognition failed: {reason[:200]}")
        elif text.strip():
            self._recognised[number] = text

    def _is_picture(self, page: Any) -> bool:
        """Whether a page has a picture, or drawings that may be letters."""
        kinds = (self._raw.FPDF_PAGEOBJ_IMAGE, self._raw.FPDF_PAGEOBJ_PATH, self._raw.FPDF_PAGEOBJ_FORM)
        n_objects = min(self._raw.FPDFPage_CountObjects(page.raw), _MAX_OBJECTS)
        return any(
            self._raw.FPDFPageObj_GetType(self._raw.FPDFPage_GetObject(page.raw, i)) in kinds
            for i in range(n_objects)
        )

    def _picture(self, page: Any) -> bytes | None:
        """Return a page as a grey picture (PGM); None if it has nothing on it."""
        width, height = page.get_size()
        if not page.get_objects or not self._raw.FPDFPage_CountObjects(page.raw) or width * height <= 0:
            return None
        scale = min(OCR_DPI / _POINTS_PER_INCH, (MAX_OCR_PIXELS / (width * height)) ** 0.5)
        bitmap = page.render(scale=scale, grayscale=True)
        try:
            pixels = memoryview(bitmap.buffer).cast("B")
            rows = [
                bytes(pixels[y * bitmap.stride : y * bitmap.stride + bitmap.width])
                for y in range(bitmap.height)
            ]
            return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + b"".join(rows)
        finally:
            bitmap.close()


def _listed(pages: list[int]) -> str:
    """Return page numbers from 1 as a person writes them: `1, 3-5`."""
    ranges: list[list[int]] = []
    for page in pages:
        if ranges and page == ranges[-1][1] + 1:
            ranges[-1][1] = page
        else:
            ranges.append([page, page])
    texts = [str(a + 1) if a == b else f"{a + 1}-{b + 1}" for a, b in ranges]
    more = len(texts) - _LISTED_PAGES
    return ", ".join(texts[:_LISTED_PAGES]) + (f" and {more} more" if more > 0 else "")


class Repeated(NamedTuple):
    reason: str
    text: str


def split_repeated(
    pages: Sequence[Sequence[Line]], labels: Sequence[str]
) -> tuple[list[list[Line]], list[Repeated]]:
    """Return the lines of each page without headers, footers and page numbers, and those that were taken out.

    A line at the edge of a page is one of them if the same text is at the same edge of two other pages,
    where its numbers may grow with the pages; or if it is the number of the page.
    """
    edges = [_edge_lines(page) for page in pages]
    counts: Counter[tuple[str, str]] = Counter()
    for number, lines in enumerate(edges):
        counts.update({key for edge, line in lines for key in _signatures(edge, line, number)})
    least = min(_MIN_REPEATS, max(len(pages), 2))
    kept: list[list[Line]] = []
    removed: list[Repeated] = []
    for number, (page, lines) in enumerate(zip(pages, edges, strict=True)):
        reasons: dict[int, str] = {}
        for edge, line in lines:
            reason = ""
            if _is_page_number(line.text, number, labels[number]):
                reason = "page number"
            elif any(counts[key] >= least for key in _signatures(edge, line, number)):
                bare = _ROMAN.fullmatch(line.text) or not any(map(str.isalpha, line.text))
                reason = "page number" if bare else f"repeated {edge}"
            if reason:
                reasons[id(line)] = reason
        if len(reasons) == len(page):
            # A page with nothing else is no page with a header.
            reasons = {key: reason for key, reason in reasons.items() if reason == "page number"}
        removed += [Repeated(reasons[id(line)], line.text) for line in page if id(line) in reasons]
        kept.append([line for line in page if id(line) not in reasons])
    return kept, removed


def split_contents(pages: Sequence[Sequence[Line]]) -> tuple[list[list[Line]], list[Repeated]]:
    """Return the lines of each page without the table of contents, and its lines.

    It is a line with its usual name, then lines with rising numbers of pages at their ends. An entry may
    have two lines.
    """
    lines = [line for page in pages for line in page]
    out: set[int] = set()
    removed: list[Repeated] = []
    for start, line in enumerate(lines):
        if not _CONTENTS.fullmatch(line.text):
            continue
        end = _contents_end(lines, start + 1)
        out.update(map(id, lines[start:end]))
        removed += [Repeated("table of contents", entry.text) for entry in lines[start:end]]
        if end > start:
            break
    return [[line for line in page if id(line) not in out] for page in pages], removed


def _contents_end(lines: Sequence[Line], start: int) -> int:
    """Return the end of the entries after a heading; `start - 1`, the heading, if they are too few."""
    numbers = [_ENTRY_NUMBER.search(line.text) for line in lines[start : start + _MAX_ENTRIES]]
    last_page = n_entries = 0
    end = start
    for i, number in enumerate(numbers):
        following = numbers[i + 1] if i + 1 < len(numbers) else None
        if number is None and following is None:
            break
        if number is not None:
            page = int(number.group(1))
            if page < last_page:
                break
            last_page, n_entries, end = page, n_entries + 1, start + i + 1
    return end if n_entries >= _MIN_ENTRIES else start - 1


def _edge_lines(page: Sequence[Line]) -> list[tuple[str, Line]]:
    from_top = sorted(page, key=lambda line: -line.bottom)
    top = from_top[:_EDGE_LINES]
    bottom = from_top[max(_EDGE_LINES, len(page) - _EDGE_LINES) :]
    return [("header", line) for line in top] + [("footer", line) for line in bottom]


def _signatures(edge: str, line: Line, page: int) -> Iterator[tuple[str, str]]:
    """Yield the keys that a line shares with its repetitions: its text, and its text with one number as a
    distance from the page."""
    if len(line.text) > _MAX_CHARS:
        return
    yield edge, line.text
    for number in list(_NUMBER.finditer(line.text))[:_MAX_NUMBERS]:
        distance = int(number.group()) - page
        yield edge, f"{line.text[: number.start()]}<{distance}>{line.text[number.end() :]}"
    if _ROMAN.fullmatch(line.text):
        yield edge, f"<{roman_value(line.text) - page}>"


def _is_page_number(text: str, page: int, label: str) -> bool:
    match = _BARE_PAGE_NUMBER.fullmatch(text)
    return (match is not None and int(match.group(1)) == page + 1) or (bool(label) and text == label)


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
