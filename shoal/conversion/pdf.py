"""PDF files, read with PDFium. Pages are locators."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any

from shoal.conversion.converted import ConversionError, Converted, LocatorKind, broken
from shoal.conversion.draft import Draft
from shoal.conversion.pdf_headings import OutlineItem
from shoal.conversion.pdf_layout import BlockKind, PdfBlock, read_blocks
from shoal.conversion.pdf_lines import Line, PageReader
from shoal.conversion.pdf_repeated import split_contents, split_repeated
from shoal.conversion.progress import report

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
# Titles that programs write without being asked.
_NO_TITLE = re.compile(
    r"""untitled | microsoft[ ](?:word|powerpoint|excel)[ ]-[ ].*
      | .*\.(?:docx?|pptx?|xlsx?|od[tps]|tex|dvi|html?)""",
    re.VERBOSE | re.IGNORECASE,
)
_LISTED_PAGES = 20
_READING = 0.7
"""Share of the reading of pages in the time of a conversion. Finding blocks takes nearly all of the rest."""


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
        return _Reader(document, pdfium, raw, ocr_language if ocr else None).convert()
    finally:
        document.close()


class _Reader:
    """`ocr_language` is None if pages without text are not to be recognised."""

    def __init__(self, document: Any, pdfium: Any, raw: Any, ocr_language: str | None) -> None:
        self._document, self._pdfium, self._raw = document, pdfium, raw
        self._ocr_language = ocr_language
        self._draft = Draft()
        self._labels: list[str] = []
        self._recognised: dict[int, str] = {}
        self._without_text: list[int] = []
        self._unreadable: list[int] = []

    def convert(self) -> Converted:
        n_pages = len(self._document)
        if n_pages > MAX_PAGES:
            self._draft.warn(f"the pages after {MAX_PAGES:,} are left out; the file has {n_pages:,}")
        reader = PageReader(self._raw)
        pages: list[list[Line]] = []
        for number in range(min(n_pages, MAX_PAGES)):
            pages.append(self._read_page(reader, number))
            report(_READING * (number + 1), min(n_pages, MAX_PAGES))
        if not any(pages) and not self._recognised:
            raise self._no_text(n_pages)
        kept, removed = split_repeated(pages, self._labels)
        kept, contents = split_contents(kept)
        for reason, text in [*removed, *contents]:
            self._draft.remove(reason, text)
        self._write(read_blocks(kept, self._outline()))
        self._warn()
        return self._draft.converted(self._title())

    def _read_page(self, reader: PageReader, number: int) -> list[Line]:
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
                lines = reader.lines(
                    textpage.raw, number, page.get_rotation(), page.get_width(), page.get_height()
                )
            finally:
                textpage.close()
            if not lines:
                self._without_text.append(number)
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

    def _title(self) -> str:
        try:
            title: str = self._document.get_metadata_value("Title")
        except (self._pdfium.PdfiumError, UnicodeError):
            return ""
        return "" if _NO_TITLE.fullmatch(title.strip()) else title

    # Writing

    def _write(self, blocks: list[PdfBlock]) -> None:
        page = -1
        recognised = sorted(self._recognised)
        for block in blocks:
            while recognised and recognised[0] < block.pieces[0].page:
                self._write_recognised(recognised.pop(0))
                page = -1
            for i, piece in enumerate(block.pieces):
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
        advice = (
            "text recognition (OCR) found none in them either"
            if self._ocr_language is not None and shutil.which("tesseract")
            else "install tesseract and set SHOAL_OCR=1 to read scans by text recognition (OCR)"
        )
        return ConversionError("no_text", "the pages of the file are pictures without text", advice)

    def _warn(self) -> None:
        missing = [page for page in self._without_text if page not in self._recognised]
        if missing:
            self._draft.warn(f"pages without text, which may be empty or pictures: {_listed(missing)}")
        if self._recognised:
            read = _listed(sorted(self._recognised))
            self._draft.warn(f"pages read by text recognition (OCR), with possible errors: {read}")
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
