"""Word documents (DOCX): paragraphs with their styles, lists, tables, footnotes and text boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.conversion.converted import ConversionError, Converted, Draft, escaped
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
from shoal.conversion.recognition import recognise
from shoal.conversion.rtf import convert_rtf
from shoal.conversion.texts import decode_markup, decode_text
from shoal.conversion.web_pages import convert_mhtml, render_page

_HEADING_STYLE = re.compile(r"heading (\d)", re.IGNORECASE)
_CONTENTS_STYLE = re.compile(r"(?:toc \d|table of figures|index \d)\Z", re.IGNORECASE)
_ENTRY = re.compile(r"(?:^|\S)\s*(?:\d{1,5}|[ivxlc]{1,8}|[A-Z]-\d{1,4})\s*\Z")  # ends with its page
_PAGE_NUMBER = re.compile(r"\W*(?:\w{1,6}\.?\s)?[\divxlc]{1,6}(?:\s?\S{1,3}\s?\d{1,5})?\W*", re.IGNORECASE)
_BODY_LEVEL = 9  # the outline level of text that is no heading
_MAX_STYLE_CHAIN = 20
_MAX_DEPTH = 2  # of documents in each other
_BULLET_FORMATS = frozenset({"bullet", "none", ""})
# Parts of a paragraph without text of the document: deleted text, instructions of fields, and the copies of
# drawings for old programs.
_PASSED_OVER = frozenset(
    {"del", "moveFrom", "instrText", "delText", "Fallback", "pPr", "rPr", "tblPr", "tcPr"}
)
_BLOCKS = frozenset({"p", "tbl", "sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag"})


class _ListStyle(NamedTuple):
    number_id: str
    depth: int


@dataclass(frozen=True, slots=True)
class _Style:
    level: int | None = None  # of the heading, from 1
    list_style: _ListStyle | None = None
    is_contents: bool = False


@dataclass(slots=True)
class _Text:
    """The text of a paragraph, and the text boxes and drawings anchored in it."""

    parts: list[str] = field(default_factory=list)
    boxes: list[Element] = field(default_factory=list)
    drawings: list[str] = field(default_factory=list)  # ids of relations to charts and diagrams

    def joined(self) -> str:
        return "".join(self.parts)


def convert_docx(data: bytes, name: str) -> Converted:
    """Convert a DOCX file. Deleted text is left out; footnotes and comments come after the text."""
    return _converted(data, 0)


def _converted(data: bytes, depth: int) -> Converted:
    """`depth`: of documents in each other."""
    package = Package(data)
    main = package.main_part("word/document.xml")
    with nesting_errors():
        return _Reader(package, main, depth).convert()


class _Reader:
    def __init__(self, package: Package, main: str, depth: int) -> None:
        self.package, self.main, self.depth = package, main, depth
        self.draft = Draft()
        self.parts: dict[str, list[str]] = {}
        self.relations = package.relations(main)
        self.of_first_page: list[str] = []  # headers and footers that are on no other
        for kind, target in self.relations.values():
            self.parts.setdefault(kind, []).append(target)
        self.styles = self._styles()
        self.bullets = self._bulleted_lists()
        self.counters: dict[str, list[int]] = {}
        self.notes_used: list[tuple[str, str]] = []
        self.chunks_read: set[str] = set()

    def convert(self) -> Converted:
        for element in self.package.children(self.main, "body"):
            self._block(element)
        self._notes()
        self._headers()
        self._comments()
        return self.draft.converted(self.package.title(), metadata=office_metadata(self.package))

    # Blocks

    def _block(self, element: Element) -> None:
        name = local(element)
        if name == "p":
            self._paragraph(element)
        elif name == "tbl":
            self._table(element)
        elif name == "altChunk":
            self._chunk(self._target(attribute(element, "id")))
        elif name == "sectPr":
            self._section(element)
        elif name in _BLOCKS:
            for inner in element:
                self._block(inner)

    def _target(self, relation: str) -> str:
        """Return the part that a relation of the document leads to; empty if there is none."""
        return self.relations.get(relation, ("", ""))[1]

    def _chunk(self, part: str) -> None:
        """Write a document of another format that is a part of this one."""
        if part not in self.package or part in self.chunks_read:
            return
        self.chunks_read.add(part)
        data = self.package.read(part)
        try:
            match recognise(data, part).id:
                case "docx" if self.depth < _MAX_DEPTH:
                    content = _converted(data, self.depth + 1).content
                case "html":
                    content = render_page(decode_markup(data), whole=True).markdown
                case "mhtml":
                    content = convert_mhtml(data, part).content
                case "rtf":
                    content = convert_rtf(data, part).content
                case "text" | "markdown":
                    content = escaped(decode_text(data))
                case _:
                    content = ""
        except ConversionError:
            content = ""
        self.draft.markdown(content)
        if not content:
            self.draft.warn(f"a part of the document cannot be read and is left out: {part[:200]}")

    def _section(self, properties: Element) -> None:
        if child(properties, "titlePg") is None:
            return
        for reference in properties:
            if local(reference).endswith("Reference") and attribute(reference, "type") == "first":
                self.of_first_page.append(self._target(attribute(reference, "id")))

    def _paragraph(self, element: Element) -> None:
        text = _Text()
        self._collect(element, text)
        content = text.joined()
        properties = child(element, "pPr")
        style = self.styles.get(_value(child(properties, "pStyle")), _Style())
        level = _outline_level(properties) or style.level
        list_style = _list_style(properties, style.list_style)
        if not content.strip():
            pass
        elif style.is_contents and (_ENTRY.search(content) or _has_link(element)):
            self.draft.remove("table of contents", content)
        elif level is not None and 1 <= level <= _BODY_LEVEL:
            self.draft.heading(level, content)
        elif list_style is not None and list_style.number_id != "0":
            self.draft.item(list_style.depth, content, self._next_number(list_style))
        else:
            self.draft.paragraph(content)
        for box in text.boxes:
            for inner in box:
                self._block(inner)
        for relation in text.drawings:
            write_drawing(self.draft, self.package, self._target(relation))
        if (section := child(properties, "sectPr")) is not None:
            self._section(section)

    def _table(self, table: Element) -> None:
        rows = list(_rows(table))
        if all(len(row) == 1 for row in rows):
            # A frame around text, not a table.
            for row in rows:
                for inner in row[0]:
                    self._block(inner)
            return
        above: dict[int, str] = {}
        self.draft.table([self._cells(row, above) for row in rows])

    def _cells(self, row: list[Element], above: dict[int, str]) -> list[str]:
        """Return the texts of a row. `above`: the texts of cells that may go on in it, by their column."""
        texts: list[str] = []
        for cell in row:
            properties = child(cell, "tcPr")
            merge = child(properties, "vMerge")
            text = " ".join(self._texts(cell))
            if merge is None:
                above.pop(len(texts), None)
            elif attribute(merge, "val") in ("", "continue"):
                text = above.get(len(texts), "")
            else:
                above[len(texts)] = text
            span = whole_number(_value(child(properties, "gridSpan")), 1, least=1, most=100)
            texts += [text, *[""] * (span - 1)]
        return texts

    def _texts(self, element: Element) -> Iterator[str]:
        """Yield the text of every paragraph inside an element, with those of tables and boxes."""
        for inner in element:
            if local(inner) == "p":
                text = _Text()
                self._collect(inner, text)
                yield text.joined()
                for box in text.boxes:
                    yield from self._texts(box)
            elif local(inner) not in _PASSED_OVER:
                yield from self._texts(inner)

    def _collect(self, element: Element, text: _Text) -> None:
        for inner in element:
            name = local(inner)
            if name == "t":
                text.parts.append(inner.text or "")
            elif name in ("tab", "ptab"):
                text.parts.append("\t")
            elif name == "br":
                text.parts.append("\n" if attribute(inner, "type") in ("", "textWrapping") else " ")
            elif name == "cr":
                text.parts.append("\n")
            elif name == "noBreakHyphen":
                text.parts.append("-")
            elif name in ("footnoteReference", "endnoteReference"):
                text.parts.append(self._note_mark(name.removesuffix("Reference"), attribute(inner, "id")))
            elif name == "txbxContent":
                text.boxes.append(inner)
            elif name == "chart":
                text.drawings.append(attribute(inner, "id"))
            elif name == "relIds":
                text.drawings.append(attribute(inner, "dm"))
            elif name not in _PASSED_OVER:
                self._collect(inner, text)

    # Lists

    def _next_number(self, style: _ListStyle) -> int | None:
        """Return the number of the next item of a list, or None for a bullet."""
        if (style.number_id, style.depth) in self.bullets or style.number_id not in self.known_lists:
            return None
        counters = self.counters.setdefault(style.number_id, [])
        del counters[style.depth + 1 :]
        counters += [0] * (style.depth + 1 - len(counters))
        counters[style.depth] += 1
        return counters[style.depth]

    def _bulleted_lists(self) -> set[tuple[str, int]]:
        self.known_lists: set[str] = set()
        bullets: dict[str, set[int]] = {}
        found: set[tuple[str, int]] = set()
        for part in self.parts.get("numbering", ()):
            root = self.package.optional_xml(part)
            for element in root if root is not None else ():
                if local(element) == "abstractNum":
                    levels = bullets.setdefault(attribute(element, "abstractNumId"), set())
                    for level in element:
                        if local(level) == "lvl" and _value(child(level, "numFmt")) in _BULLET_FORMATS:
                            levels.add(whole_number(attribute(level, "ilvl")))
                elif local(element) == "num":
                    number_id = attribute(element, "numId")
                    self.known_lists.add(number_id)
                    abstract = _value(child(element, "abstractNumId"))
                    found |= {(number_id, depth) for depth in bullets.get(abstract, ())}
        return found

    # Styles

    def _styles(self) -> dict[str, _Style]:
        elements: dict[str, Element] = {}
        for part in self.parts.get("styles", ()):
            root = self.package.optional_xml(part)
            for element in root if root is not None else ():
                if local(element) == "style" and attribute(element, "type") in ("", "paragraph"):
                    elements[attribute(element, "styleId")] = element
        return {style_id: _style(style_id, elements) for style_id in elements}

    # Notes and other parts

    def _note_mark(self, kind: str, note_id: str) -> str:
        self.notes_used.append((kind, note_id))
        return f"[^{len(self.notes_used)}]"

    def _notes(self) -> None:
        texts: dict[tuple[str, str], str] = {}
        for kind in ("footnote", "endnote"):
            for part in self.parts.get(f"{kind}s", ()):
                root = self.package.optional_xml(part)
                for note in root if root is not None else ():
                    texts[kind, attribute(note, "id")] = " ".join(self._texts(note)).strip()
        for number, key in enumerate(list(self.notes_used), 1):
            if texts.get(key):
                self.draft.paragraph(f"[^{number}] {texts[key]}")

    def _headers(self) -> None:
        """Report headers and footers, and write those of the first page alone, such as a letterhead."""
        first: list[str] = []
        for text in self._paragraphs_of(*self.of_first_page):
            if _PAGE_NUMBER.fullmatch(text):
                self.draft.remove("page number", text)
            else:
                first.append(text)
        for kind in ("header", "footer"):
            for part in self.parts.get(kind, ()):
                if part not in self.of_first_page:
                    for paragraph in self._paragraphs_of(part):
                        self.draft.remove(f"repeated {kind}", paragraph)
        if first:
            self.draft.heading(1, "Header and footer of the first page")
        for text in dict.fromkeys(first):
            self.draft.paragraph(text)

    def _comments(self) -> None:
        comments = [
            (attribute(comment, "author"), text)
            for part in self.parts.get("comments", ())
            if (root := self.package.optional_xml(part)) is not None
            for comment in root
            if (text := " ".join(self._texts(comment)).strip())
        ]
        if comments:
            self.draft.heading(1, "Comments")
        for author, text in comments:
            self.draft.paragraph(f"{author}: {text}" if author else text)

    def _paragraphs_of(self, *parts: str) -> list[str]:
        roots = [self.package.optional_xml(part) for part in parts]
        return [text for root in roots if root is not None for text in self._texts(root) if text.strip()]


def _has_link(paragraph: Element) -> bool:
    """Whether a paragraph is mostly a link, as an entry of a table of contents."""
    linked = sum(len(text) for inner in paragraph if local(inner) == "hyperlink" for text in inner.itertext())
    return linked > 0 and 2 * linked >= sum(map(len, paragraph.itertext()))


def _value(element: Element | None) -> str:
    return "" if element is None else attribute(element, "val")


def _rows(table: Element) -> Iterator[list[Element]]:
    """Yield the cells of each row. Rows and cells may be inside content controls."""
    for row in table:
        if local(row) == "tr":
            yield list(_row_cells(row))
        elif local(row) in _BLOCKS:
            yield from _rows(row)


def _row_cells(row: Element) -> Iterator[Element]:
    for cell in row:
        if local(cell) == "tc":
            yield cell
        elif local(cell) in _BLOCKS:
            yield from _row_cells(cell)


def _outline_level(properties: Element | None) -> int | None:
    element = child(properties, "outlineLvl")
    return None if element is None else whole_number(attribute(element, "val"), _BODY_LEVEL) + 1


def _list_style(properties: Element | None, inherited: _ListStyle | None) -> _ListStyle | None:
    numbering = child(properties, "numPr")
    if numbering is None:
        return inherited
    number, depth = child(numbering, "numId"), child(numbering, "ilvl")
    number_id = _value(number) if number is not None else inherited.number_id if inherited else ""
    if not number_id:
        return inherited
    return _ListStyle(number_id, whole_number(_value(depth), most=8))


def _style(style_id: str, elements: dict[str, Element]) -> _Style:
    """Return what a style says of headings and lists, with what it inherits."""
    level: int | None = None
    list_style: _ListStyle | None = None
    is_contents = False
    for _ in range(_MAX_STYLE_CHAIN):
        element = elements.get(style_id)
        if element is None:
            break
        name = _value(child(element, "name"))
        heading = _HEADING_STYLE.match(name)
        if level is None:
            level = (
                int(heading.group(1))
                if heading
                else 1
                if name.casefold() == "title"
                else _outline_level(child(element, "pPr"))
            )
        if list_style is None:
            list_style = _list_style(child(element, "pPr"), None)
        is_contents = is_contents or bool(_CONTENTS_STYLE.match(name))
        style_id = _value(child(element, "basedOn"))
    return _Style(level, list_style, is_contents)
