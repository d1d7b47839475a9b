"""OpenDocument files of LibreOffice: texts (ODT), presentations (ODP) and spreadsheets (ODS)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from shoal.conversion.converted import ConversionError, Converted, Draft, cleaned_line, meaningful_title
from shoal.conversion.metadata import opendocument_metadata
from shoal.conversion.package import (
    Element,
    Package,
    attribute,
    child,
    encrypted,
    local,
    nesting_errors,
    whole_number,
)
from shoal.conversion.spreadsheets import (
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_ROWS,
    NumberedRow,
    SheetWriter,
    cell_text,
    number_text,
)
from shoal.models.files import LocatorKind

_CONTENT, _STYLES, _META = "content.xml", "styles.xml", "meta.xml"
_MANIFEST, _MIMETYPE = "META-INF/manifest.xml", "mimetype"
_MAX_SPACES = 100
_MAX_REPEATED = 100  # rows or columns with text; empty ones are only counted
_PASSED_OVER = frozenset(
    {
        "annotation-end", "tracked-changes", "change", "sequence-decls", "forms",
        "variable-decls", "user-field-decls", "note-citation", "desc", "binary-data", "event-listeners",
        "settings", "object", "ruby-text",
    }
)  # fmt: skip
_SHAPES = frozenset(
    {
        "rect",
        "custom-shape",
        "ellipse",
        "circle",
        "polygon",
        "polyline",
        "path",
        "caption",
        "connector",
        "line",
    }
)
_INDEXES = frozenset(
    {"table-of-content", "illustration-index", "table-index", "alphabetical-index", "user-index"}
)
_FURNITURE = {
    "date-time": "date",
    "footer": "repeated footer",
    "header": "repeated header",
    "page-number": "page number",
}


def convert_opendocument(data: bytes, name: str) -> Converted:
    """Convert a text, presentation or spreadsheet, whichever the file says it is."""
    with nesting_errors():
        return _convert(_open(data))


def _convert(package: Package) -> Converted:
    declared = package.read(_MIMETYPE).decode("ascii", "replace") if _MIMETYPE in package else ""
    for kind, convert in _CONVERTERS.items():
        if kind in declared:
            return convert(package)
    for element in package.children(_CONTENT, "body"):
        if (convert_ := _CONVERTERS.get(local(element))) is not None:
            return convert_(package)
    raise ConversionError("unsupported", "the file is neither a text nor a presentation nor a spreadsheet")


def _convert_odt(package: Package) -> Converted:
    """Convert a text. Deleted text is left out; notes and comments come after the text."""
    draft = Draft()
    writer = _TextWriter(draft, package)
    for element in package.children(_CONTENT, "text"):
        writer.block(element)
    writer.notes()
    _write_headers(package, draft)
    writer.comments()
    return _converted(draft, package)


def _convert_odp(package: Package) -> Converted:
    """Convert a presentation: each slide a section and a locator, with its notes."""
    draft = Draft()
    writer = _TextWriter(draft, package)
    number = 0
    for page in package.children(_CONTENT, "presentation"):
        if local(page) == "page":
            number += 1
            _write_slide(page, number, writer)
    return _converted(draft, package)


def _convert_ods(package: Package) -> Converted:
    """Convert a spreadsheet. Formulas give their last values; empty rows are left out."""
    draft = Draft()
    writer = SheetWriter(draft)
    for (_, sheet), rows in groupby(_sheet_rows(package), key=itemgetter(0)):
        if writer.cells_left <= 0:
            draft.warn(f"the sheet {sheet} is left out: only {MAX_CELLS:,} cells of a file are read")
            continue
        comments: list[tuple[int, str]] = []
        writer.write(sheet, _values((row for _, row in rows), comments), comments)
    return _converted(draft, package)


_CONVERTERS = {"text": _convert_odt, "presentation": _convert_odp, "spreadsheet": _convert_ods}


def _open(data: bytes) -> Package:
    package = Package(data)
    manifest = package.optional_xml(_MANIFEST)
    if manifest is not None and any(local(element) == "encryption-data" for element in manifest.iter()):
        raise encrypted()
    package.main_part(_CONTENT)
    return package


def _converted(draft: Draft, package: Package) -> Converted:
    _write_charts(draft, package)
    meta = package.optional_xml(_META)
    title = child(meta, "meta", "title")
    named = meaningful_title(_plain(title)) if title is not None else ""
    return draft.converted(named, metadata=opendocument_metadata(meta))


def _write_charts(draft: Draft, package: Package) -> None:
    """Write titles and values of the charts, which are documents inside of the document, after the text."""
    draft.end_place()
    for part in package.names():
        try:
            root = package.xml(part) if part.endswith("/content.xml") else None
        except ConversionError:
            continue
        chart = child(root, "body", "chart")
        for element in chart.iter() if chart is not None else ():
            if local(element) == "chart":
                titles = [_plain(inner) for inner in element.iter() if local(inner) in ("title", "subtitle")]
                draft.paragraph("; ".join(titles))
            elif local(element) == "table":
                rows = _table_rows(element)
                draft.table([[_plain(cell) for cell in row if local(cell) == "table-cell"] for row in rows])


def _write_headers(package: Package, draft: Draft) -> None:
    """Report headers and footers, and write those of the first page alone, such as a letterhead."""
    pages = child(package.optional_xml(_STYLES), "master-styles")
    first: list[str] = []
    for page in pages if pages is not None else ():
        for element in page:
            name = local(element)
            if name in ("header-first", "footer-first"):
                first += filter(None, [_plain(element)])
            elif name.startswith(("header", "footer")):
                draft.remove(f"repeated {name[:6]}", _plain(element))
    if first:
        draft.heading(1, "Header and footer of the first page")
    for text in dict.fromkeys(first):
        draft.paragraph(text)


@dataclass(slots=True)
class _Text:
    parts: list[str] = field(default_factory=list)
    frames: list[Element] = field(default_factory=list)


class _TextWriter:
    """Writes paragraphs, lists and tables of texts and slides."""

    def __init__(self, draft: Draft, package: Package) -> None:
        self.draft = draft
        self._notes: list[str] = []
        self._comments: list[str] = []
        self._numbered, self._titles = _styles(package)

    def block(self, element: Element) -> None:
        name = local(element)
        if name == "h":
            self._paragraph(element, level=whole_number(attribute(element, "outline-level"), 1, least=1))
        elif name == "p":
            is_title = attribute(element, "style-name") in self._titles
            self._paragraph(element, level=1 if is_title else None)
        elif name == "list":
            self._list(element, attribute(element, "style-name"), 0)
        elif name == "table":
            self._table(element)
        elif name in _INDEXES and _is_index(element):
            self.draft.remove("table of contents", _plain(element))
        elif name == "annotation":
            self._comment(element)
        elif name not in _PASSED_OVER:
            for inner in element:
                self.block(inner)

    def notes(self) -> None:
        for number, note in enumerate(self._notes, 1):
            self.draft.paragraph(f"[^{number}] {note}")

    def comments(self) -> None:
        """Write the comments as a section of their own."""
        comments = self.take_comments()
        if comments:
            self.draft.heading(1, "Comments")
        for comment in comments:
            self.draft.paragraph(comment)

    def take_comments(self) -> list[str]:
        """Return the comments that were read since the last call."""
        taken, self._comments = self._comments, []
        return taken

    def _comment(self, annotation: Element) -> None:
        author, text = child(annotation, "creator"), _plain_paragraphs(annotation)
        name = cleaned_line("".join(author.itertext())) if author is not None else ""
        if text:
            self._comments.append(f"{name}: {text}" if name else text)

    def _paragraph(self, element: Element, *, level: int | None = None) -> None:
        text = _Text()
        self._collect(element, text)
        if level is None:
            self.draft.paragraph("".join(text.parts))
        else:
            self.draft.heading(level, "".join(text.parts))
        for frame in text.frames:
            for inner in frame:
                self.block(inner)

    def _list(self, element: Element, style: str, depth: int) -> None:
        number = 0
        for entry in element:
            if local(entry) not in ("list-item", "list-header"):
                continue
            number = whole_number(attribute(entry, "start-value"), number + 1)
            begun = False
            for inner in entry:
                name = local(inner)
                if name == "p" and not begun:
                    text = _Text()
                    self._collect(inner, text)
                    is_numbered = (style, depth) in self._numbered
                    self.draft.item(depth, "".join(text.parts), number if is_numbered else None)
                    for frame in text.frames:
                        for part in frame:
                            self.block(part)
                    begun = True
                elif name == "list":
                    self._list(inner, attribute(inner, "style-name") or style, depth + 1)
                else:
                    self.block(inner)

    def _table(self, table: Element) -> None:
        above: dict[int, tuple[int, str]] = {}
        rows: list[list[str]] = []
        for number, cells in _numbered(_table_rows(table)):
            rows.append([])
            for column, cell in enumerate(cells):
                rows[-1].append(_cell_text(cell, self._inner_text))
                span = whole_number(attribute(cell, "number-rows-spanned"), 1, least=1, most=MAX_ROWS)
                if span > 1:
                    above[column] = (number + span - 1, rows[-1][-1])
                elif local(cell) == "covered-table-cell" and number <= above.get(column, (0, ""))[0]:
                    rows[-1][-1] = above[column][1]
        self.draft.table(rows)

    def _inner_text(self, element: Element) -> str:
        """Return the text of an element as one line, with that of frames, and keep its notes."""
        if local(element) in ("p", "h"):
            text = _Text()
            self._collect(element, text)
            return " ".join(["".join(text.parts), *(self._inner_text(frame) for frame in text.frames)])
        return " ".join(self._inner_text(inner) for inner in element if local(inner) not in _PASSED_OVER)

    def _collect(self, element: Element, text: _Text) -> None:
        text.parts.append(element.text or "")
        for inner in element:
            name = local(inner)
            if name == "s":
                text.parts.append(" " * whole_number(attribute(inner, "c"), 1, most=_MAX_SPACES))
            elif name == "tab":
                text.parts.append("\t")
            elif name == "line-break":
                text.parts.append("\n")
            elif name == "note":
                note = child(inner, "note-body")
                self._notes.append(cleaned_line(self._inner_text(note)) if note is not None else "")
                text.parts.append(f"[^{len(self._notes)}]")
            elif name in ("text-box", "table") or name in _SHAPES:
                text.frames.append(inner)
            elif name == "title" and "svg" in inner.tag:
                text.parts.append(f" {inner.text or ''} ")  # of a picture
            elif name == "annotation":
                self._comment(inner)
            elif name not in _PASSED_OVER:
                self._collect(inner, text)
            text.parts.append(inner.tail or "")


def _styles(package: Package) -> tuple[set[tuple[str, int]], set[str]]:
    """Return the numbered levels of list styles, and the names of the styles of titles."""
    numbered: set[tuple[str, int]] = set()
    titles = {"Title"}
    for part in (_STYLES, _CONTENT):
        for kind in ("automatic-styles", "styles"):
            for style in package.children(part, kind) if part in package else ():
                name = attribute(style, "name")
                if local(style) == "list-style":
                    numbered |= {
                        (name, whole_number(attribute(level, "level"), 1, least=1) - 1)
                        for level in style
                        if local(level) == "list-level-style-number" and attribute(level, "num-format")
                    }
                elif local(style) == "style" and attribute(style, "parent-style-name") == "Title":
                    titles.add(name)
    return numbered, titles


def _write_slide(page: Element, number: int, writer: _TextWriter) -> None:
    draft = writer.draft
    frames = list(_frames(page))
    title = next((_plain(frame) for frame in frames if attribute(frame, "class") == "title"), "")
    notes = [_plain(frame) for frame in _frames(child(page, "notes")) if attribute(frame, "class") == "notes"]
    texts = [frame for frame in frames if attribute(frame, "class") not in ("title", *_FURNITURE)]
    for frame in frames:
        reason = _FURNITURE.get(attribute(frame, "class"))
        if reason:
            draft.remove(reason, _plain(frame))
    if not (title or any(notes) or any(map(_plain, texts))):
        return
    draft.place(LocatorKind.slide, title, number)
    draft.heading(1, title or f"Slide {number}")
    for frame in texts:
        writer.block(frame)
    for note in filter(None, notes):
        draft.paragraph(f"Notes: {note}")
    for comment in writer.take_comments():
        draft.paragraph(f"Comment: {comment}")


def _frames(page: Element | None) -> Iterator[Element]:
    """Yield what stands on a slide, without its notes; groups are opened."""
    for element in page if page is not None else ():
        if local(element) == "g":
            yield from _frames(element)
        elif local(element) not in ("notes", *_PASSED_OVER):
            yield element


def _plain(element: Element) -> str:
    """Return the text of all paragraphs of an element as one line."""
    return _plain_paragraphs(element) or cleaned_line("".join(element.itertext()))


def _plain_paragraphs(element: Element) -> str:
    return cleaned_line(" ".join("".join(paragraph.itertext()) for paragraph in _paragraphs(element)))


def _paragraphs(element: Element) -> list[Element]:
    return [inner for inner in element.iter() if isinstance(inner.tag, str) and local(inner) in ("p", "h")]


def _is_index(element: Element) -> bool:
    """Whether most lines of what is said to be an index are its title, or end with the number of a page or
    are a link."""
    lines = [paragraph for paragraph in _paragraphs(element) if "".join(paragraph.itertext()).strip()]
    n_entries = sum(
        "".join(line.itertext()).rstrip()[-1].isdigit() or child(line, "a") is not None for line in lines
    )
    return 2 * (n_entries + 1) > len(lines)


# Tables


def _table_rows(table: Element) -> Iterator[Element]:
    for element in table:
        if local(element) == "table-row":
            yield element
        elif local(element) in ("table-header-rows", "table-row-group", "table-rows"):
            yield from _table_rows(element)


def _sheet_rows(package: Package) -> Iterator[tuple[tuple[int, str], Element]]:
    """Yield the rows of all sheets, each with the number and name of its sheet."""
    number, name = 0, ""
    for event, element in package.events(_CONTENT):
        kind = local(element)
        if event == "start" and kind == "table":
            number, name = number + 1, attribute(element, "name")
        elif event == "end" and kind == "table-row":
            yield (number, name), element
            element.clear()


def _numbered(rows: Iterable[Element]) -> Iterator[tuple[int, list[Element]]]:
    """Yield number and cells of the rows that have text, repeated as the file says, up to a limit."""
    number = 0
    for row in rows:
        cells = [cell for cell in row if local(cell) in ("table-cell", "covered-table-cell")]
        times = whole_number(attribute(row, "number-rows-repeated"), 1, least=1, most=MAX_ROWS)
        if any(len(cell) for cell in cells):
            for i in range(min(times, _MAX_REPEATED)):
                yield number + i + 1, cells
        number += times


def _cell_text(cell: Element, inner_text: Callable[[Element], str]) -> str:
    return "" if local(cell) == "covered-table-cell" else inner_text(cell)


def _values(rows: Iterable[Element], comments: list[tuple[int, str]]) -> Iterator[NumberedRow]:
    """Yield the rows with text. Comments are added to `comments`, each with its row."""
    carried: dict[int, tuple[int, str]] = {}  # by column: the last row of a merged cell, and its text
    for number, cells in _numbered(rows):
        row: dict[int, str] = {}
        spans: dict[int, int] = {}
        column = 0
        for cell in cells:
            times = whole_number(attribute(cell, "number-columns-repeated"), 1, least=1, most=MAX_COLUMNS)
            text = _value(cell)
            if (comment := child(cell, "annotation")) is not None and (words := _plain_paragraphs(comment)):
                comments.append((number, f"Comment: {words}"))
            if local(cell) == "covered-table-cell" and not text:
                last, above = carried.get(column, (0, ""))
                text = above if number <= last else ""
            span = whole_number(attribute(cell, "number-rows-spanned"), 1, least=1, most=MAX_ROWS)
            if span > 1:
                carried[column] = (number + span - 1, text)
            spans[column] = whole_number(attribute(cell, "number-columns-spanned"), 1, most=MAX_COLUMNS)
            if text and column < MAX_COLUMNS:
                for i in range(min(times, _MAX_REPEATED)):
                    row[column + i] = text
            column += times
        yield NumberedRow(min(number, MAX_ROWS), row, spans)


def _value(cell: Element) -> str:
    """Return the value of a cell: a date in ISO 8601, otherwise the text that is shown."""
    kind = attribute(cell, "value-type")
    if kind == "date":
        return cell_text(attribute(cell, "date-value").replace("T", " "))
    if kind == "float":
        try:
            return number_text(float(attribute(cell, "value")))
        except ValueError:
            pass
    paragraphs = [inner for inner in cell if local(inner) == "p"]
    return cell_text(" ".join("".join(paragraph.itertext()) for paragraph in paragraphs))
