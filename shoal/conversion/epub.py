"""Converter of EPUB: the chapters in reading order."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote
from xml.parsers import expat

from shoal.conversion.converted import (
    ConversionError,
    Converted,
    TextBuilder,
    broken,
    heading,
    one_line,
    report,
)
from shoal.conversion.html_tree import HEADINGS, HtmlTree, parse_html
from shoal.conversion.main_content import RemovedTexts, find_main_content
from shoal.conversion.package import Package
from shoal.conversion.texts import decode_markup
from shoal.conversion.web_pages import render_markdown
from shoal.models.documents import DocFormat
from shoal.models.files import LocatorKind

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
MAX_CHAPTERS = 10_000
_MAX_COVER_CHARS = 200
_MAX_LISTED_NAMES = 5


@dataclass(slots=True)
class _Book:
    """What the directory of the book says: paths of pages in reading order, and what they are."""

    title: str = ""
    spine: list[str] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    navigation: str = ""
    index: str = ""


def convert_epub(data: bytes, name: str) -> Converted:
    """Convert a book to Markdown; each file in its reading order is a chapter."""
    members = Package(data)
    book = _read_book(members)
    _refuse_encrypted(members, book)
    labels = _labels(members, book)
    text, removed = TextBuilder(), RemovedTexts()
    unreadable: list[str] = []
    number = 0
    for done, path in enumerate(book.spine):
        report(done, len(book.spine))
        if path not in members:
            unreadable.append(path)
            continue
        tree = parse_html(decode_markup(members.read(path)), xhtml=True)
        main = find_main_content(tree, whole=True)
        for entry in main.removed:
            removed.add(entry.reason, entry.text)
        chapter = render_markdown(tree, main)
        role = book.roles.get(path, "")
        if role == "toc" or (role == "cover" and len(chapter) <= _MAX_COVER_CHARS):
            removed.add("table of contents" if role == "toc" else "cover", chapter)
            continue
        if not chapter.strip():
            continue
        number += 1
        own_title = _first_heading(tree)
        title = own_title or labels.get(path, "")
        if not own_title and title:
            chapter = f"{heading(1, title)}\n\n{chapter}"
        text.locate(text.block(chapter), LocatorKind.chapter, title, number, number)
    if not text.length:
        raise ConversionError(
            "no_text", "the book has no text; its pages may be pictures", "convert it by OCR"
        )
    return Converted(
        text.content(),
        DocFormat.markdown,
        book.title,
        tuple(text.locators),
        removed.listed(),
        _warnings(unreadable),
    )


def _warnings(unreadable: list[str]) -> tuple[str, ...]:
    if not unreadable:
        return ()
    names = ", ".join(path[:100] for path in unreadable[:_MAX_LISTED_NAMES])
    return (f"files that the book names are not in it: {names}",)


def _read_book(members: Package) -> _Book:
    container = xml_elements(members.read(_CONTAINER))
    path = next(
        (element.attributes.get("full-path", "") for element in container if element.name == "rootfile"), ""
    )
    elements = xml_elements(members.read(path))
    folder = posixpath.dirname(path)
    book = _Book()
    pages: dict[str, str] = {}
    for element in elements:
        attributes = element.attributes
        match element.name:
            case "title" if not book.title:
                book.title = one_line(element.text)[:500]
            case "item":
                target = _resolved(folder, attributes.get("href", ""))
                if attributes.get("media-type", "") in _PAGES:
                    pages[attributes.get("id", "")] = target
                if "nav" in attributes.get("properties", "").split():
                    book.navigation = target
                    book.roles[target] = "toc"
                elif attributes.get("media-type") == "application/x-dtbncx+xml":
                    book.index = target
            case "reference" if attributes.get("type", "").lower() in ("toc", "cover"):
                book.roles.setdefault(
                    _resolved(folder, attributes.get("href", "")), attributes["type"].lower()
                )
    book.spine = _spine(elements, pages)
    return book


def _spine(elements: list[XmlElement], pages: dict[str, str]) -> list[str]:
    """Return the paths in reading order, each once; of a book without an order, all pages."""
    ids = [element.attributes.get("idref", "") for element in elements if element.name == "itemref"]
    paths = list(dict.fromkeys(pages[item] for item in ids if item in pages)) or list(
        dict.fromkeys(pages.values())
    )
    if not paths:
        raise ConversionError("no_text", "the book has no page")
    if len(paths) > MAX_CHAPTERS:
        raise ConversionError("too_large", f"the book has more than {MAX_CHAPTERS:,} chapters")
    return paths


def _refuse_encrypted(members: Package, book: _Book) -> None:
    """Raise ConversionError if pages are encrypted. Fonts often are, in books that anyone can read."""
    if _ENCRYPTION not in members:
        return
    encrypted = {
        unquote(element.attributes.get("URI", ""))
        for element in xml_elements(members.read(_ENCRYPTION))
        if element.name == "CipherReference"
    }
    if not encrypted.isdisjoint(book.spine):
        raise ConversionError("encrypted", "the book is protected against copying", "use a copy that is not")


def _labels(members: Package, book: _Book) -> dict[str, str]:
    """Return the titles of chapters in the table of contents, by path. A damaged table has none."""
    labels: dict[str, str] = {}
    try:
        if book.navigation in members:
            folder = posixpath.dirname(book.navigation)
            tree = parse_html(decode_markup(members.read(book.navigation)), xhtml=True)
            for node, name in enumerate(tree.names):
                if name == "a":
                    target = _resolved(folder, tree.attribute(node, "href"))
                    labels.setdefault(target, one_line(tree.text_of(node))[:500])
        elif book.index in members:
            folder = posixpath.dirname(book.index)
            label = ""
            for element in xml_elements(members.read(book.index)):
                if element.name == "text":
                    label = one_line(element.text)[:500]
                elif element.name == "content":
                    labels.setdefault(_resolved(folder, element.attributes.get("src", "")), label)
    except ConversionError:
        return {}
    return labels


def _resolved(folder: str, reference: str) -> str:
    """Return the path inside the book that a reference leads to; it is only compared with names."""
    path = unquote(reference.partition("#")[0])
    return posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


def _first_heading(tree: HtmlTree) -> str:
    for node, name in enumerate(tree.names):
        if name in HEADINGS:
            title = one_line(tree.text_of(node))
            if title:
                return title[:500]
    return ""


MAX_ELEMENTS = 500_000
MAX_DEPTH = 200
_MAX_TEXT_CHARS = 10_000


class XmlElement(NamedTuple):
    """An element: its name and its attributes without prefixes, and the text directly in it."""

    name: str
    attributes: dict[str, str]
    texts: list[str]

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()


class _RefusedError(Exception):
    pass


def xml_elements(data: bytes) -> list[XmlElement]:
    """Return the elements of an XML file in document order.

    No entity is resolved: a file that declares one is refused. Raises ConversionError.
    """
    elements: list[XmlElement] = []
    stack: list[XmlElement] = []
    parser = expat.ParserCreate()

    def begin(name: str, attributes: dict[str, str]) -> None:
        if len(elements) >= MAX_ELEMENTS or len(stack) >= MAX_DEPTH:
            raise _RefusedError("too many elements")
        element = XmlElement(_local(name), {_local(key): value for key, value in attributes.items()}, [])
        elements.append(element)
        stack.append(element)

    def end(_name: str) -> None:
        stack.pop()

    def add_text(text: str) -> None:
        if stack and len(stack[-1].texts) < _MAX_TEXT_CHARS:
            stack[-1].texts.append(text[:_MAX_TEXT_CHARS])

    def refuse(*_arguments: Any) -> None:
        raise _RefusedError("an entity is declared")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = add_text
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, _RefusedError, ValueError, LookupError) as error:
        raise broken(f"its XML cannot be read ({error})") from None
    return elements


def _local(name: str) -> str:
    return name.rpartition(":")[2]
