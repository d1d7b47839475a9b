"""PowerPoint presentations (PPTX): each slide a section and a locator, with its tables and notes."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.conversion.converted import Converted, Draft, cleaned_line
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
from shoal.models.files import LocatorKind

_TITLES = frozenset({"title", "ctrTitle"})
_FURNITURE = {"dt": "date", "ftr": "repeated footer", "hdr": "repeated header", "sldNum": "page number"}
_LISTS = frozenset({"", "body", "obj"})
_PASSED_OVER = frozenset({"Fallback", "rPr", "pPr", "endParaRPr", "bodyPr", "lstStyle", "spPr", "txPr"})


def convert_pptx(data: bytes, name: str) -> Converted:
    """Convert a PPTX file. Slides come in the order of the show, hidden ones too."""
    package = Package(data)
    main = package.main_part("ppt/presentation.xml")
    relations = package.relations(main)
    draft = Draft()
    with nesting_errors():
        shown = _write_slides(package, main, relations, draft)
    return draft.converted(package.title() or shown, metadata=office_metadata(package))


def _write_slides(package: Package, main: str, relations: dict[str, tuple[str, str]], draft: Draft) -> str:
    """Write the slides and return the title of the first, or else its first text."""
    n_hidden = 0
    title = ""
    ids = map(attribute_of_relation, _slide_list(package, main))
    parts = dict.fromkeys(relations[slide][1] for slide in ids if slide in relations)
    for number, part in enumerate(parts, 1):
        if part not in package:
            draft.warn(f"slide {number} is missing in the file")
            continue
        slide = _Slide(package, part, number, draft)
        n_hidden += slide.write()
        title = title or slide.title or slide.first_text
    if n_hidden:
        draft.warn(f"slides that are hidden in the show are in the text: {n_hidden:,}")
    return title


def _slide_list(package: Package, main: str) -> list[Element]:
    slides = child(package.xml(main), "sldIdLst")
    return [] if slides is None else list(slides)


def attribute_of_relation(element: Element) -> str:
    """Return the id of the relation that an element names. Its own id has the same name without namespace."""
    return next((value for key, value in element.items() if key.startswith("{") and key.endswith("}id")), "")


class _Slide:
    def __init__(self, package: Package, part: str, number: int, draft: Draft) -> None:
        self.package, self.draft, self.number = package, draft, number
        self.root = package.xml(part)
        self.relations = package.relations(part)
        self.title = self.first_text = ""

    def write(self) -> bool:
        """Write the slide; return whether it is hidden."""
        shapes = list(_shapes(self.root))
        self.title = title = next((_plain(shape) for shape in shapes if _placeholder(shape) in _TITLES), "")
        texts = (_plain_paragraph(p) for shape in shapes if _has_text(shape) for p in _all(shape, "p"))
        self.first_text = next(filter(None, texts), "")
        has_text = title or any(_has_text(shape) for shape in shapes)
        notes = list(self._notes())
        comments = list(self._comments())
        drawings = list(self._drawings(shapes))
        self.draft.end_place()
        if has_text or notes or drawings or comments:
            self.draft.place(LocatorKind.slide, title, self.number)
            # Without a heading, its text would belong to the slide before it.
            self.draft.heading(1, title or f"Slide {self.number}")
        for shape in shapes:
            self._shape(shape)
        if has_text or notes or drawings or comments:
            for part in drawings:
                write_drawing(self.draft, self.package, part)
            for i, text in enumerate(notes):
                self.draft.paragraph(f"Notes: {text}" if i == 0 else text)
            for text in comments:
                self.draft.paragraph(f"Comment: {text}")
        return attribute(self.root, "show") in ("0", "false")

    def _shape(self, shape: Element) -> None:
        kind = _placeholder(shape)
        if kind in _TITLES:
            return
        if kind in _FURNITURE:
            self.draft.remove(_FURNITURE[kind], _plain(shape))
            return
        if local(shape) == "graphicFrame":
            for table in _all(shape, "tbl"):
                self.draft.table(_rows(table))
            return
        bodies = [element for element in shape if local(element) == "txBody"]
        paragraphs = [element for body in bodies for element in body if local(element) == "p"]
        texts = [(paragraph, _text(paragraph)) for paragraph in paragraphs]
        texts = [(paragraph, text) for paragraph, text in texts if text.strip()]
        numbers: dict[int, int] = {}
        for paragraph, text in texts:
            properties = child(paragraph, "pPr")
            depth = whole_number(attribute(properties, "lvl"), most=8) if properties is not None else 0
            mark = _mark(properties)
            if mark == "buAutoNum":
                numbers[depth] = numbers.get(depth, 0) + 1
                self.draft.item(depth, text, numbers[depth])
            elif mark == "buNone" or (not mark and not (kind in _LISTS and len(texts) > 1)):
                self.draft.paragraph(text)
            else:
                self.draft.item(depth, text)

    def _drawings(self, shapes: list[Element]) -> Iterator[str]:
        """Yield the parts of charts and of lists of terms (SmartArt)."""
        for shape in shapes:
            for name, key in (("chart", "id"), ("relIds", "dm")):
                for drawing in _all(shape, name):
                    part = self.relations.get(attribute(drawing, key), ("", ""))[1]
                    if part in self.package:
                        yield part

    def _comments(self) -> Iterator[str]:
        for kind, target in self.relations.values():
            root = self.package.optional_xml(target) if kind == "comments" else None
            for comment in root if root is not None else ():
                text = child(comment, "text")
                yield from filter(
                    None, [cleaned_line(text.text or "") if text is not None else _plain(comment)]
                )

    def _notes(self) -> Iterator[str]:
        for kind, target in self.relations.values():
            root = self.package.optional_xml(target) if kind == "notesSlide" else None
            for shape in _shapes(root) if root is not None else ():
                place = _placeholder(shape)
                if place in _FURNITURE:
                    self.draft.remove(_FURNITURE[place], _plain(shape))
                elif place != "sldImg":
                    yield from filter(None, map(_plain_paragraph, _all(shape, "p")))


def _shapes(root: Element) -> Iterator[Element]:
    """Yield the shapes of a slide, those in groups too."""
    for element in root:
        name = local(element)
        if name in ("sp", "graphicFrame"):
            yield element
        elif name not in _PASSED_OVER:
            yield from _shapes(element)


def _rows(table: Element) -> list[list[str]]:
    """Return the cells of a table; the text of a cell counts for each of its rows."""
    rows: list[list[str]] = []
    for element in table:
        if local(element) == "tr":
            cells = [cell for cell in element if local(cell) == "tc"]
            texts = [_plain(cell) for cell in cells]
            for i, cell in enumerate(cells):
                if attribute(cell, "vMerge") in ("1", "true") and rows and i < len(rows[-1]):
                    texts[i] = texts[i] or rows[-1][i]
            rows.append(texts)
    return rows


def _placeholder(shape: Element) -> str | None:
    """Return the kind of a placeholder, empty for the usual kind; None for other shapes."""
    for properties in shape:
        if local(properties).startswith("nv"):
            place = child(properties, "nvPr", "ph")
            return None if place is None else attribute(place, "type")
    return None


def _mark(properties: Element | None) -> str:
    """Return the name of the element that says how a paragraph is marked in a list; empty if none does."""
    marks = ("buNone", "buChar", "buAutoNum", "buBlip")
    return next((local(element) for element in properties or () if local(element) in marks), "")


def _text(paragraph: Element) -> str:
    parts = []
    for element in paragraph:
        name = local(element)
        if name in ("r", "fld"):
            parts += [inner.text or "" for inner in element if local(inner) == "t"]
        elif name == "br":
            parts.append("\n")
        elif name not in _PASSED_OVER:
            parts += [inner.text or "" for inner in _all(element, "t")]
    return "".join(parts)


def _plain_paragraph(paragraph: Element) -> str:
    return cleaned_line(_text(paragraph))


def _plain(element: Element) -> str:
    return " ".join(filter(None, map(_plain_paragraph, _all(element, "p"))))


def _has_text(shape: Element) -> bool:
    return _placeholder(shape) not in _FURNITURE and bool(_plain(shape))


def _all(element: Element, name: str) -> list[Element]:
    return [inner for inner in element.iter() if isinstance(inner.tag, str) and local(inner) == name]
