"""Converters of web pages: HTML, and MHTML as browsers save it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from shoal.conversion.converted import ConversionError, Converted, Removed
from shoal.conversion.html_markdown import render_markdown
from shoal.conversion.html_tree import HtmlTree, parse_html
from shoal.conversion.main_content import MainContent, find_main_content, text_of
from shoal.conversion.markdown_text import one_line
from shoal.conversion.mime import decode_header, leaf_parts, read_part
from shoal.conversion.texts import decode_markup
from shoal.models.documents import DocFormat

_MAX_TITLE_CHARS = 500
_XHTML = re.compile(r"\s*+<\?xml|[^<]*+<!DOCTYPE[^>]{1,200}XHTML", re.IGNORECASE)
# Between the title of a page and the name of its site.
_SITE_AFTER = re.compile(r"\s(?:[-–—|·•»«/]|::?)\s")
_SITE_BEFORE = re.compile(r"\s(?:[-–—|·•»«/]|::?)\s$")
_MAX_HEADINGS = 20  # that may be the title
NO_TEXT = ("the page has no text", "if a script writes it, save the page in a browser as it is shown")


class Page(NamedTuple):
    """A page as Markdown."""

    markdown: str
    title: str
    removed: tuple[Removed, ...]


def convert_html(data: bytes, name: str) -> Converted:
    """Convert a web page to Markdown, without navigation, banners, footers and scripts."""
    return _converted(render_page(decode_markup(data)))


def convert_mhtml(data: bytes, name: str) -> Converted:
    """Convert the page in a web archive as `convert_html` does. Pictures and other parts are passed over."""
    whole = read_part(data)
    pages = [part for part in leaf_parts(whole) if part.media_type in ("text/html", "application/xhtml+xml")]
    if not pages:
        raise ConversionError("no_text", "the web archive contains no page")
    page = render_page(decode_markup(pages[0].payload(), pages[0].charset))
    return _converted(page._replace(title=page.title or decode_header(whole.header("Subject"))))


def render_page(text: str, *, whole: bool = False, xhtml: bool | None = None) -> Page:
    """Return HTML as Markdown. `whole`: without looking for the main content, as for letters and chapters.

    `xhtml`: read it as XML would; by default if it says so.
    """
    tree = parse_html(text, xhtml=_XHTML.match(text) is not None if xhtml is None else xhtml)
    main = find_main_content(tree, whole=whole)
    return Page(render_markdown(tree, main), _title(tree, main), main.removed)


def _title(tree: HtmlTree, main: MainContent) -> str:
    """Return the title that a page declares, else its first heading.

    Without the name of the site before or after it, if a heading or `og:title` is the title without it.
    """
    declared = _first_text(tree, "title")
    meta = _open_graph(tree)
    preview = meta.get("og:title", "")
    if not declared:
        return preview or _first_text(tree, "h1")
    # The site's name is more often behind the title, and may be the only heading on the page.
    lost = [text_of(tree, main.heading, main.skipped)] if main.heading >= 0 else []
    for text in (*islice(_headings(tree, main), _MAX_HEADINGS), preview, *lost):
        title = one_line(text)[:_MAX_TITLE_CHARS]
        name = meta.get("og:site_name")
        if title and title != name and _is_with_site(declared, title, only_after=text in lost):
            return title
    return declared


def _is_with_site(declared: str, title: str, *, only_after: bool) -> bool:
    """Whether a declared title is a title, a dash or bar between blanks, and the name of a site.

    `only_after`: the name is not looked for before the title.
    """
    declared, title = declared.casefold(), title.casefold()
    if _SITE_AFTER.match(declared, len(title)):
        return declared.startswith(title)
    return not only_after and declared.endswith(title) and bool(_SITE_BEFORE.search(declared[: -len(title)]))


def _first_text(tree: HtmlTree, wanted: str) -> str:
    """Return the text of the first element that has any, outside of drawings."""
    for node, name in enumerate(tree.names):
        if name == wanted and not _is_in_drawing(tree, node):
            text = one_line(tree.text_of(node)[: 4 * _MAX_TITLE_CHARS])[:_MAX_TITLE_CHARS]
            if text:
                return text
    return ""


def _headings(tree: HtmlTree, main: MainContent) -> Iterator[str]:
    """Yield the texts of the headings of the first level in the main content."""
    node, end = main.root, tree.ends[main.root]
    while node < end:
        if node in main.skipped:
            node = tree.ends[node]
            continue
        if tree.names[node] == "h1":
            yield text_of(tree, node, main.skipped)
        node += 1


def _open_graph(tree: HtmlTree) -> dict[str, str]:
    """Return the properties that a page declares for previews, such as `og:title`."""
    found: dict[str, str] = {}
    for node, name in enumerate(tree.names):
        if name == "meta" and (key := tree.attribute(node, "property")):
            found.setdefault(key, one_line(tree.attribute(node, "content"))[:_MAX_TITLE_CHARS])
    return found


def _is_in_drawing(tree: HtmlTree, node: int) -> bool:
    while node:
        node = tree.parents[node]
        if tree.names[node] == "svg":
            return True
    return False


def _converted(page: Page) -> Converted:
    if not page.markdown.strip():
        raise ConversionError("no_text", *NO_TEXT)
    return Converted(page.markdown, DocFormat.markdown, page.title, removed=page.removed)
