"""Converter of EPUB: the chapters in reading order."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from urllib.parse import unquote

from shoal.conversion.archive_members import ArchiveMembers
from shoal.conversion.converted import ConversionError, Converted, LocatorKind
from shoal.conversion.html_markdown import render_markdown
from shoal.conversion.html_tree import HEADINGS, HtmlTree, parse_html
from shoal.conversion.main_content import RemovedTexts, find_main_content
from shoal.conversion.markdown_text import TextBuilder, heading, one_line
from shoal.conversion.texts import decode_markup
from shoal.conversion.xml_elements import XmlElement, xml_elements
from shoal.models import DocFormat

_EPUB = "EPUB"
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
MAX_CHAPTERS = 10_000
_MAX_COVER_CHARS = 200
_MAX_LISTED_NAMES = 5


@dataclass(slots=True)
class _Package:
    """What the directory of the book says: paths of pages in reading order, and what they are."""

    title: str = ""
    spine: list[str] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    navigation: str = ""
    index: str = ""


def convert_epub(data: bytes, name: str) -> Converted:
    """Convert a book to Markdown; each file in its reading order is a chapter."""
    members = ArchiveMembers(data, _EPUB)
    package = _read_package(members)
    _refuse_encrypted(members, package)
    labels = _labels(members, package)
    text, removed = TextBuilder(), RemovedTexts()
    unreadable: list[str] = []
    number = 0
    for path in package.spine:
        if path not in members:
            unreadable.append(path)
            continue
        tree = parse_html(decode_markup(members.read(path)), xhtml=True)
        main = find_main_content(tree, whole=True)
        for entry in main.removed:
            removed.add(entry.reason, entry.text)
        chapter = render_markdown(tree, main)
        role = package.roles.get(path, "")
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
        raise ConversionError("no_text", "the book has no text; its pages may be pictures")
    return Converted(
        text.content(),
        DocFormat.markdown,
        package.title,
        tuple(text.locators),
        removed.listed(),
        _warnings(unreadable),
    )


def _warnings(unreadable: list[str]) -> tuple[str, ...]:
    if not unreadable:
        return ()
    names = ", ".join(path[:100] for path in unreadable[:_MAX_LISTED_NAMES])
    return (f"{len(unreadable)} files that the book names are not in it: {names}",)


def _read_package(members: ArchiveMembers) -> _Package:
    container = xml_elements(members.read(_CONTAINER), _EPUB)
    path = next(
        (element.attributes.get("full-path", "") for element in container if element.name == "rootfile"), ""
    )
    elements = xml_elements(members.read(path), _EPUB)
    folder = posixpath.dirname(path)
    package = _Package()
    pages: dict[str, str] = {}
    for element in elements:
        attributes = element.attributes
        match element.name:
            case "title" if not package.title:
                package.title = one_line(element.text)[:500]
            case "item":
                target = _resolved(folder, attributes.get("href", ""))
                if attributes.get("media-type", "") in _PAGES:
                    pages[attributes.get("id", "")] = target
                if "nav" in attributes.get("properties", "").split():
                    package.navigation = target
                    package.roles[target] = "toc"
                elif attributes.get("media-type") == "application/x-dtbncx+xml":
                    package.index = target
            case "reference" if attributes.get("type", "").lower() in ("toc", "cover"):
                package.roles.setdefault(
                    _resolved(folder, attributes.get("href", "")), attributes["type"].lower()
                )
    package.spine = _spine(elements, pages)
    return package


def _spine(elements: list[XmlElement], pages: dict[str, str]) -> list[str]:
    """Return the paths in reading order, each once; of a book without an order, all pages."""
    ids = [element.attributes.get("idref", "") for element in elements if element.name == "itemref"]
    paths = list(dict.fromkeys(pages[item] for item in ids if item in pages)) or list(
        dict.fromkeys(pages.values())
    )
    if not paths:
        raise ConversionError("no_text", "the book has no page")
    if len(paths) > MAX_CHAPTERS:
        raise ConversionError("too_large", f"the book has more than {MAX_CHAPTERS:,} chapters; split it")
    return paths


def _refuse_encrypted(members: ArchiveMembers, package: _Package) -> None:
    """Raise ConversionError if pages are encrypted. Fonts often are, in books that anyone can read."""
    if _ENCRYPTION not in members:
        return
    encrypted = {
        unquote(element.attributes.get("URI", ""))
        for element in xml_elements(members.read(_ENCRYPTION), _EPUB)
        if element.name == "CipherReference"
    }
    if not encrypted.isdisjoint(package.spine):
        raise ConversionError("encrypted", "the book is protected against copying; use one that is not")


def _labels(members: ArchiveMembers, package: _Package) -> dict[str, str]:
    """Return the titles of chapters in the table of contents, by path. A damaged table has none."""
    labels: dict[str, str] = {}
    try:
        if package.navigation in members:
            folder = posixpath.dirname(package.navigation)
            tree = parse_html(decode_markup(members.read(package.navigation)), xhtml=True)
            for node, name in enumerate(tree.names):
                if name == "a":
                    target = _resolved(folder, tree.attribute(node, "href"))
                    labels.setdefault(target, one_line(tree.text_of(node))[:500])
        elif package.index in members:
            folder = posixpath.dirname(package.index)
            label = ""
            for element in xml_elements(members.read(package.index), _EPUB):
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
