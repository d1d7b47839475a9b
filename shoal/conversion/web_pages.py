"""Converters of web pages: HTML, and MHTML as browsers save it."""

from __future__ import annotations

import re
from typing import NamedTuple

from shoal.conversion.converted import ConversionError, Converted, Removed
from shoal.conversion.html_markdown import render_markdown
from shoal.conversion.html_tree import HtmlTree, parse_html
from shoal.conversion.main_content import find_main_content
from shoal.conversion.markdown_text import one_line
from shoal.conversion.mime import decode_header, leaf_parts, read_part
from shoal.conversion.texts import decode_markup
from shoal.models import DocFormat

_MAX_TITLE_CHARS = 500
_XHTML = re.compile(r"\s*+<\?xml|[^<]*+<!DOCTYPE[^>]{1,200}XHTML", re.IGNORECASE)
NO_TEXT = "the page has no text; if a script writes it, save the page in a browser as it is shown"


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
    return Page(render_markdown(tree, main), _title(tree), main.removed)


def _title(tree: HtmlTree) -> str:
    """Return the title that a page declares, else its first heading."""
    for wanted in ("title", "h1"):
        for node, name in enumerate(tree.names):
            if name == wanted and not _is_in_drawing(tree, node):
                title = one_line(tree.text_of(node)[: 4 * _MAX_TITLE_CHARS])[:_MAX_TITLE_CHARS]
                if title:
                    return title
    return ""


def _is_in_drawing(tree: HtmlTree, node: int) -> bool:
    while node:
        node = tree.parents[node]
        if tree.names[node] == "svg":
            return True
    return False


def _converted(page: Page) -> Converted:
    if not page.markdown.strip():
        raise ConversionError("no_text", NO_TEXT)
    return Converted(page.markdown, DocFormat.markdown, page.title, removed=page.removed)
