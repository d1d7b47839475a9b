"""Converter of EPUB: the chapters in reading order."""

from __future__ import annotations

import posixpath
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
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
from shoal.conversion.main_content import RemovedTexts, find_main_content, text_of
from shoal.conversion.metadata import described
from shoal.conversion.package import Package
from shoal.conversion.texts import decode_markup
from shoal.conversion.web_pages import render_with_offsets
from shoal.models.documents import DocFormat
from shoal.models.files import LocatorKind, Removed

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"})
MAX_CHAPTERS = 10_000
_MAX_COVER_CHARS = 200
_MAX_LISTED_NAMES = 5
_CONTENTS_SHARE = 0.5
"""The least share of a table of contents, without its headings, that is links into the book."""
_MAX_ENTRY_CHARS = 150
"""The greatest mean length of these links."""
_MAX_LEAD_CHARS = 200
"""A longer text above the first entry of a file belongs to the chapter before."""


class _Entry(NamedTuple):
    """An entry of the table of contents: the id of the element in the file where its part begins."""

    fragment: str
    title: str


@dataclass(slots=True)
class _Book:
    """What the directory of the book says: paths of pages in reading order, and what they are."""

    title: str = ""
    facts: dict[str, list[str]] = field(default_factory=dict)  # that it states, by the names of Dublin Core
    spine: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)  # pages that are not in the reading order
    contents: set[str] = field(default_factory=set)  # said to be tables of contents
    covers: set[str] = field(default_factory=set)  # said to be covers
    navigation: str = ""
    index: str = ""


def convert_epub(data: bytes, name: str) -> Converted:
    """Convert a book to Markdown; each entry of its table of contents, or else each file, is a chapter."""
    members = Package(data)
    book = _read_book(members)
    _refuse_encrypted(members, book)
    entries = _entries(members, book)
    writer = _Writer()
    for done, path in enumerate(book.spine):
        report(done, len(book.spine))
        if path in members:
            page = _Page(path, members.read(path), book, entries.get(path, ()))
            if path in book.covers and page.is_cover():
                writer.removed.add("cover", page.text)
            else:
                writer.add(page)
    if not writer.text.length:
        raise ConversionError(
            "no_text", "the book has no text; its pages may be pictures", "convert it by OCR"
        )
    missing = [path for path in book.spine if path not in members]
    outside = [
        path for path in book.outside if path in members and _Page(path, members.read(path), book).text
    ]
    return Converted(
        writer.text.content(),
        DocFormat.markdown,
        book.title,
        tuple(writer.text.locators),
        writer.removed.listed(),
        (
            *_warnings("files that the book names are not in it", missing),
            *_warnings("pages outside of the reading order are not in the text", outside),
        ),
        described(
            author=book.facts.get("creator"),
            keywords=book.facts.get("subject"),
            language=book.facts.get("language"),
            publisher=book.facts.get("publisher"),
            created=book.facts.get("date of publication") or book.facts.get("date"),
            modified=book.facts.get("date of modification"),
        ),
    )


class _Page:
    """A file of the book: its text without tables of contents, which must be what they are said to be.

    `starts`: the title of the entry that begins at each element, 0 for the beginning of the file; `offsets`:
    where they begin in the text, in the order of the elements.
    """

    def __init__(self, path: str, data: bytes, book: _Book, entries: Sequence[_Entry] = ()) -> None:
        self.tree = tree = parse_html(decode_markup(data), xhtml=True)
        main = find_main_content(tree, whole=True)
        pages = {*book.spine, *book.outside}
        said = [0] if path in book.contents else []
        said += [node for node, name in enumerate(tree.names) if name == "nav"]
        contents = [node for node in said if _is_contents(tree, node, main.skipped, path, pages)]
        self.removed = main.removed + tuple(
            Removed("table of contents", text_of(tree, node, main.skipped), 1) for node in contents[:1]
        )
        main = replace(main, skipped=main.skipped.union(contents))
        self.starts = _starts(tree, entries)
        self.text, self.offsets = render_with_offsets(tree, main, self.starts)

    def is_cover(self) -> bool:
        """Whether it is a picture with hardly any text."""
        return len(self.text) <= _MAX_COVER_CHARS and not {"img", "image", "svg"}.isdisjoint(self.tree.names)


class _Writer:
    """Writes the chapters."""

    def __init__(self) -> None:
        self.text, self.removed = TextBuilder(), RemovedTexts()
        self._number, self._title = 0, ""  # of the last chapter

    def add(self, page: _Page) -> None:
        """Write a file: one chapter, or one for each entry that leads to its own place in it."""
        for entry in page.removed:
            self.removed.add(entry.reason, entry.text)
        nodes, offsets = [0, *sorted(page.starts)], [0, *page.offsets]
        node_ends, ends = [*nodes[1:], len(page.tree.names)], [*offsets[1:], len(page.text)]
        owns = [_first_heading(page.tree, node, end) for node, end in zip(nodes, node_ends, strict=True)]
        if len(nodes) > 1 and ends[0] <= _MAX_LEAD_CHARS and not owns[0]:
            offsets[1] = ends[0] = 0
        for i, node in enumerate(nodes):
            label = page.starts[node] if i else ""
            text = page.text[offsets[i] : ends[i]].strip()
            self._chapter(text, owns[i], label, continues=i == 0 and len(nodes) > 1)

    def _chapter(self, text: str, own_title: str, label: str, *, continues: bool = False) -> None:
        """Write a chapter with the title of its own heading, or else its label.

        `continues`: without either, it belongs to the chapter before.
        """
        if not text.strip():
            return
        is_own = own_title and (text.startswith("#") or own_title in label or label in own_title)
        title = own_title if is_own else label
        if title or not (continues and self._number):
            self._number, self._title = self._number + 1, title
        if label and not own_title:
            first, _, rest = text.partition("\n\n")
            text = f"{heading(1, label)}\n\n{rest if one_line(first) == label else text}".rstrip()
        start = self.text.block(text)
        self.text.locate(start, LocatorKind.chapter, self._title, self._number, self._number)


def _starts(tree: HtmlTree, entries: Sequence[_Entry]) -> dict[int, str]:
    ids: dict[str, int] = {}
    if any(entry.fragment for entry in entries):
        for node, attributes in tree.attributes.items():
            for name in ("id", "name"):
                ids.setdefault(attributes.get(name, ""), _heading_around(tree, node))
    starts: dict[int, str] = {}
    for entry in entries:
        if not entry.fragment or entry.fragment in ids:
            starts.setdefault(ids[entry.fragment] if entry.fragment else 0, entry.title)
    if entries and not starts:
        starts[0] = entries[0].title
    return starts


def _heading_around(tree: HtmlTree, node: int) -> int:
    """Return the heading that an element is in, else the element."""
    around = node
    while around and tree.names[around] not in HEADINGS:
        around = tree.parents[around]
    return around or node


def _is_contents(tree: HtmlTree, node: int, skipped: Container[int], path: str, pages: set[str]) -> bool:
    """Whether a part of a page is mostly short links to pages of the book."""
    n_links = n_link_chars = n_chars = 0
    at, link_end = node, 0
    while at < tree.ends[node]:
        if at in skipped or tree.names[at] in HEADINGS:
            at = tree.ends[at]
            continue
        if tree.names[at] == "a" and _target(path, tree.attribute(at, "href") or "?")[0] in pages:
            n_links, link_end = n_links + 1, tree.ends[at]
        length = len(tree.texts[at].strip())
        n_chars += length
        n_link_chars += length if at < link_end else 0
        at += 1
    return 0 < max(n_link_chars, _CONTENTS_SHARE * n_chars) <= n_link_chars <= _MAX_ENTRY_CHARS * n_links


def _warnings(message: str, paths: list[str]) -> tuple[str, ...]:
    names = ", ".join(path[:100] for path in paths[:_MAX_LISTED_NAMES])
    more = f" and {len(paths) - _MAX_LISTED_NAMES:,} more" if len(paths) > _MAX_LISTED_NAMES else ""
    return (f"{message}: {names}{more}",) if paths else ()


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
                    book.contents.add(target)
                elif attributes.get("media-type") == "application/x-dtbncx+xml":
                    book.index = target
            case "reference":
                target = _resolved(folder, attributes.get("href", ""))
                match attributes.get("type", "").lower():
                    case "toc":
                        book.contents.add(target)
                    case "cover":
                        book.covers.add(target)
    book.facts = _facts(elements)
    book.spine = _spine(elements, pages)
    book.outside = [path for path in dict.fromkeys(pages.values()) if path not in set(book.spine)]
    return book


def _facts(elements: list[XmlElement]) -> dict[str, list[str]]:
    """Return what the directory states of the book, by the names of Dublin Core."""
    facts: dict[str, list[str]] = {}
    for element in elements:
        name = element.name
        if name == "date" and "event" in element.attributes:
            name = f"date of {element.attributes['event']}"
        elif element.attributes.get("property") == "dcterms:modified":
            name = "date of modification"
        elif name not in ("creator", "language", "subject", "publisher", "date"):
            continue
        facts.setdefault(name, []).append(element.text)
    return facts


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


def _entries(members: Package, book: _Book) -> dict[str, list[_Entry]]:
    """Return the entries of the table of contents by path, in its order. A damaged table has none."""
    found: dict[str, list[_Entry]] = {}
    try:
        links = _navigation_links(members, book.navigation) or _index_links(members, book.index)
    except ConversionError:
        return {}
    for path, fragment, title in links:
        if title:
            found.setdefault(path, []).append(_Entry(fragment, title[:500]))
    return found


def _navigation_links(members: Package, path: str) -> list[tuple[str, str, str]]:
    """Return path, fragment and title of the entries of a page of navigation: not those of its lists of
    pages and landmarks."""
    if path not in members:
        return []
    tree = parse_html(decode_markup(members.read(path)), xhtml=True)
    kinds = {
        node: tree.attribute(node, "epub:type").split()
        for node, name in enumerate(tree.names)
        if name == "nav"
    }
    tables = (
        [node for node, types in kinds.items() if "toc" in types]
        or [node for node, types in kinds.items() if not types]
        or [0]
    )
    return [
        (*_target(path, tree.attribute(node, "href")), one_line(tree.text_of(node)))
        for table in tables
        for node in range(table, tree.ends[table])
        if tree.names[node] == "a"
    ]


def _index_links(members: Package, path: str) -> list[tuple[str, str, str]]:
    """The same of the index of an older book (NCX)."""
    found: list[tuple[str, str, str]] = []
    in_point, title = False, ""
    for element in xml_elements(members.read(path)) if path in members else ():
        if element.name in ("navPoint", "navTarget", "pageTarget"):
            in_point, title = element.name == "navPoint", ""
        elif element.name == "text":
            title = title or one_line(element.text)
        elif element.name == "content" and in_point:
            found.append((*_target(path, element.attributes.get("src", "")), title))
    return found


def _target(path: str, reference: str) -> tuple[str, str]:
    """Return path and fragment of a reference in the file at `path`; one without a path leads into it."""
    file, _, fragment = reference.partition("#")
    return (_resolved(posixpath.dirname(path), file) if file else path), unquote(fragment)


def _resolved(folder: str, reference: str) -> str:
    """Return the path inside the book that a reference leads to; it is only compared with names."""
    path = unquote(reference.partition("#")[0])
    return posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


def _first_heading(tree: HtmlTree, start: int, end: int) -> str:
    """Return the text of the first heading with words in a range of nodes."""
    for node in range(start, end):
        if tree.names[node] in HEADINGS and (title := one_line(tree.text_of(node))):
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
