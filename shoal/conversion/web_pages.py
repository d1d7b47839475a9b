"""Converters of web pages: HTML, and MHTML as browsers save it.

The tree of the page becomes Markdown: headings, paragraphs, lists, quotes, tables and code; links as their
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from shoal.conversion.converted import (
    ConversionError,
    Converted,
    Metadata,
    escaped,
    fence,
    heading,
    meaningful_title,
    one_line,
    table,
)
from shoal.conversion.html_tree import BLOCKS, HEADINGS, HtmlTree, parse_html
from shoal.conversion.main_content import MainContent, find_main_content, text_of
from shoal.conversion.metadata import described
from shoal.conversion.mime import decode_header, leaf_parts, read_message
from shoal.conversion.texts import decode_markup
from shoal.models.documents import DocFormat
from shoal.models.files import Removed

_MAX_TITLE_CHARS = 500
_XHTML = re.compile(r"\s*+<\?xml|[^<]*+<!DOCTYPE[^>]{1,200}XHTML", re.IGNORECASE)
# Between the title of a page and the name of its site.
_SITE_AFTER = re.compile(r"\s(?:[-–—|·•»«/]|::?)\s")
_SITE_BEFORE = re.compile(r"\s(?:[-–—|·•»«/]|::?)\s$")
_META_NAMES = {
    **dict.fromkeys(
        ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author"), "author"
    ),
    **dict.fromkeys(
        (
            "article:published_time",
            "date",
            "dc.date",
            "dcterms.created",
            "citation_publication_date",
            "pubdate",
        ),
        "created",
    ),
    **dict.fromkeys(
        ("article:modified_time", "og:updated_time", "last-modified", "dcterms.modified"), "modified"
    ),
    **dict.fromkeys(("keywords", "news_keywords", "article:tag", "dc.subject"), "keywords"),
    **dict.fromkeys(("og:site_name", "dc.publisher", "citation_publisher"), "publisher"),
    **dict.fromkeys(("dc.language", "dcterms.language"), "language"),
}
_MAX_HEADINGS = 20  # that may be the title
NO_TEXT = ("the page has no text", "if a script writes it, save the page in a browser as it is shown")


class Page(NamedTuple):
    """A page as Markdown."""

    markdown: str
    title: str
    removed: tuple[Removed, ...]
    warnings: tuple[str, ...]
    metadata: Metadata


def convert_html(data: bytes, name: str, *, parts: str = "main") -> Converted:
    """Convert a web page to Markdown, without scripts.

    `parts`: `main`, without navigation, banners, comments and other parts that are no main content; `masked`,
    with these in comments of Markdown at the end, which are stored but not searched; or `all`.
    """
    return _converted(_of_parts(decode_markup(data), parts))


def convert_mhtml(data: bytes, name: str, *, parts: str = "main") -> Converted:
    """Convert the page in a web archive as `convert_html` does. Pictures and other parts are passed over."""
    whole = read_message(data)
    pages = [part for part in leaf_parts(whole) if part.media_type in ("text/html", "application/xhtml+xml")]
    if not pages:
        raise ConversionError("no_text", "the web archive contains no page")
    page = _of_parts(decode_markup(pages[0].payload(), pages[0].charset), parts)
    return _converted(page._replace(title=page.title or decode_header(whole.header("Subject"))))


def _of_parts(text: str, parts: str) -> Page:
    return render_page(text, whole=parts == "all", keep=parts == "masked")


def render_page(text: str, *, whole: bool = False, xhtml: bool | None = None, keep: bool = False) -> Page:
    """Return HTML as Markdown. `whole`: without looking for the main content, as for letters and chapters.

    `xhtml`: read it as XML would; by default if it says so. `keep`: what is left out follows in comments.
    """
    tree = parse_html(text, xhtml=_XHTML.match(text) is not None if xhtml is None else xhtml)
    main = find_main_content(tree, whole=whole, keep=keep)
    markdown = render_markdown(tree, main)
    if markdown.strip():
        markdown = "\n".join([markdown, *(_masked(reason, part) for reason, part in main.left_out if part)])
    return Page(markdown, _title(tree, main), main.removed, main.warnings, _metadata(tree))


def _masked(reason: str, text: str) -> str:
    """Return a comment of Markdown, which is stored and takes no part in searches."""
    return f"<!-- {reason}\n{text.replace('-->', '-- >')}\n-->\n"


def _title(tree: HtmlTree, main: MainContent) -> str:
    """Return the title that a page declares, else its first heading.

    Without the name of the site before or after it, if a heading or `og:title` is the title without it.
    """
    declared = meaningful_title(_first_text(tree, "title"))
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
    for node in _all_named(tree, wanted):
        if not _is_in_drawing(tree, node):
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


def _metadata(tree: HtmlTree) -> Metadata:
    """Return what a page says of itself in `meta` elements, and its language."""
    found: dict[str, list[str]] = {}
    body = tree.names.index("body") if "body" in tree.names else len(tree.names)
    for node in _all_named(tree, "meta"):
        key = (tree.attribute(node, "name") or tree.attribute(node, "property")).lower()
        if node < body and key in _META_NAMES:
            found.setdefault(_META_NAMES[key], []).append(tree.attribute(node, "content"))
    languages = [tree.attribute(node, "lang") for node in _all_named(tree, "html") if node < body]
    found["language"] = languages[-1:]
    found["author"] = [text for text in found.get("author", ()) if "://" not in text]
    return described(**found)


def _open_graph(tree: HtmlTree) -> dict[str, str]:
    """Return the properties that a page declares for previews, such as `og:title`."""
    found: dict[str, str] = {}
    for node in _all_named(tree, "meta"):
        if key := tree.attribute(node, "property"):
            found.setdefault(key, one_line(tree.attribute(node, "content"))[:_MAX_TITLE_CHARS])
    return found


def _all_named(tree: HtmlTree, name: str) -> Iterator[int]:
    node = -1
    for _ in range(tree.names.count(name)):
        node = tree.names.index(name, node + 1)
        yield node


def _is_in_drawing(tree: HtmlTree, node: int) -> bool:
    while node:
        node = tree.parents[node]
        if tree.names[node] == "svg":
            return True
    return False


def _converted(page: Page) -> Converted:
    if not page.markdown.strip():
        raise ConversionError("no_text", *NO_TEXT)
    return Converted(
        page.markdown,
        DocFormat.markdown,
        page.title,
        removed=page.removed,
        warnings=page.warnings,
        metadata=page.metadata,
    )


_MAX_LEVELS = 6
"""Lists and quotes that are nested deeper are written at this level."""
_MAX_CELL_CHARS = 2000
_MAX_SPAN = 50
_PROSE_SHARE = 0.7
"""A page with a greater share of its text in `pre` without code is a plain text."""
_BREAK = "\x01"
_SPACE = re.compile(r"[ \t\r\n\f\xa0\u2028\u2029]+")
_AROUND_BREAK = re.compile(r" ?\x01 ?")
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff\x01]")
_LANGUAGE = re.compile(
    r"(?:language|lang|highlight|brush|sourceCode)[-:\s]\s*([A-Za-z][\w+#.-]{0,30})|\bsourceCode\s+(\w+)"
)
_NO_LANGUAGES = frozenset({"default", "none", "text", "notranslate", "source", "plaintext"})
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_LISTS = frozenset({"ul", "ol", "menu", "dl"})
_TABLE_BLOCKS = frozenset({*HEADINGS, "table", "pre", "ul", "ol", "dl", "blockquote", "article", "section"})


def render_markdown(tree: HtmlTree, main: MainContent) -> str:
    """Return the main content of a tree as Markdown."""
    return _Renderer(tree, main).render()


def render_with_offsets(tree: HtmlTree, main: MainContent, nodes: Iterable[int]) -> tuple[str, list[int]]:
    """Return the main content as Markdown, and where the text of each node, or the next after it, begins.

    The beginning is that of a block: for a node within a paragraph that of the paragraph.
    """
    renderer = _Renderer(tree, main, nodes)
    return renderer.render(), renderer.offsets


class _Renderer:
    def __init__(self, tree: HtmlTree, main: MainContent, located: Iterable[int] = ()) -> None:
        self._tree = tree
        self._main = main
        self._skipped = main.skipped
        self._out: list[str] = []
        self._inline: list[str] = []
        # Prefixes of the lines of open quotes and list items; numbers of open lists (None: bullets).
        self._prefixes: list[str] = []
        self._numbers: list[int | None] = []
        self._marker: str | None = None
        self._in_list_before = False
        self._code_depth = 0
        # Elements to leave: the end of the subtree and what to undo.
        self._open: list[tuple[int, str, int]] = []
        self._pre_is_prose = self._is_plain_text()
        # Nodes whose offsets are wanted, the next one last; offsets in the order of the nodes.
        self._located = sorted(located, reverse=True)
        self._n_waiting = 0  # nodes before the next block
        self.offsets: list[int] = []
        self._length = self._block_start = 0

    def render(self) -> str:
        tree = self._tree
        if self._main.heading >= 0:
            self._write(heading(1, self._plain(self._main.heading)))
        node, end = self._main.root, tree.ends[self._main.root]
        while node < end:
            self._leave_before(node)
            if node in self._skipped:
                node = tree.ends[node]
            elif not tree.names[node]:
                self._inline.append(tree.texts[node])
                node += 1
            elif self._located and self._located[-1] < tree.ends[node]:
                node = self._enter_located(node, tree.names[node])
            else:
                node = self._enter(node, tree.names[node])
        self._leave_before(end)
        self._flush()
        self.offsets += [self._length] * (self._n_waiting + len(self._located))
        return "".join(self._out)

    def _enter_located(self, node: int, name: str) -> int:
        """Begin an element as `_enter` does, and keep the offsets of wanted nodes up to the next one."""
        if name in BLOCKS:
            self._flush()
        self._await_located(node + 1)
        n_blocks = len(self._out)
        next_node = self._enter(node, name)
        n_waiting = self._n_waiting
        self._await_located(next_node)
        if len(self._out) > n_blocks:
            # They are inside of the block that was written.
            self.offsets += [self._block_start] * (self._n_waiting - n_waiting)
            self._n_waiting = n_waiting
        return next_node

    def _await_located(self, end: int) -> None:
        while self._located and self._located[-1] < end:
            self._located.pop()
            self._n_waiting += 1

    def _is_plain_text(self) -> bool:
        tree = self._tree
        total = in_pre = 0
        for node in range(self._main.root, tree.ends[self._main.root]):
            total += len(tree.texts[node])
            is_pre = tree.names[node] in ("pre", "xmp") and not tree.attribute(node, "class")
            if is_pre and not any(name in _CODE for name in tree.names[node : tree.ends[node]][:3]):
                in_pre += sum(map(len, tree.texts[node : tree.ends[node]]))
        return in_pre > _PROSE_SHARE * total > 2000 * _PROSE_SHARE

    def _leave_before(self, node: int) -> None:
        while self._open and self._open[-1][0] <= node:
            _, action, value = self._open.pop()
            if action == "code":
                self._inline.append("`")
                self._code_depth -= 1
                continue
            if action == "quote mark":
                self._inline.append("”")
                continue
            self._flush()
            if action == "list":
                self._numbers.pop()
            elif action == "prefix":
                del self._prefixes[value:]
                self._marker = None

    def _enter(self, node: int, name: str) -> int:
        """Begin an element and return the node to go on with."""
        tree = self._tree
        if name in HEADINGS:
            self._flush()
            text = self._plain(node)
            self._write(text if self._prefixes else heading(HEADINGS[name], text))
            return tree.ends[node]
        if name in ("pre", "xmp"):
            self._flush()
            self._write_pre(node)
            return tree.ends[node]
        if name == "table":
            self._flush()
            rows = self._rows(node)
            if rows is not None:
                caption = self._caption(node)
                self._write(caption)
                self._write(table(rows))
                return tree.ends[node]
        elif name == "math":
            self._inline.append(f" {self._formula(node)} ")
            return tree.ends[node]
        if name in BLOCKS:
            self._flush()
            self._enter_block(node, name)
        else:
            self._enter_inline(node, name)
        return node + 1

    def _enter_block(self, node: int, name: str) -> None:
        tree = self._tree
        end = tree.ends[node]
        if name == "hr":
            return
        if name == "blockquote" and len(self._prefixes) < _MAX_LEVELS:
            self._open_prefix(end, "> ")
            self._marker = self._marker if self._marker is None else self._marker + "> "
        elif name in _LISTS:
            self._in_list_before = self._in_list_before and bool(self._prefixes)
            start = tree.attribute(node, "start")[:9]
            number = int(start) if start.isascii() and start.isdigit() else 1
            self._numbers.append(number if name == "ol" else None)
            self._open.append((end, "list", 0))
        elif name in ("li", "dd") and len(self._prefixes) < _MAX_LEVELS:
            marker = "- "
            if self._numbers and self._numbers[-1] is not None:
                marker = f"{self._numbers[-1]}. "
                self._numbers[-1] += 1
            outer = self._marker if self._marker is not None else "".join(self._prefixes)
            self._open_prefix(end, " " * len(marker))
            self._marker = outer + marker
        else:
            self._open.append((end, "block", 0))

    def _open_prefix(self, end: int, prefix: str) -> None:
        self._open.append((end, "prefix", len(self._prefixes)))
        self._prefixes.append(prefix)

    def _enter_inline(self, node: int, name: str) -> None:
        tree = self._tree
        if name == "br":
            self._inline.append(_BREAK)
        elif name == "img":
            alt = tree.attribute(node, "alt")
            if "math" in tree.attribute(node, "class") or "tex" in tree.attribute(node, "class").split():
                self._inline.append(alt)
        elif name in _CODE and not self._code_depth:
            code = tree.text_of(node)
            if code.strip() and len(code) < _MAX_CELL_CHARS and "`" not in code:
                self._inline.append("`")
                self._code_depth += 1
                self._open.append((tree.ends[node], "code", 0))
        elif name == "q":
            self._inline.append("“")
            self._open.append((tree.ends[node], "quote mark", 0))

    def _flush(self) -> None:
        """Write the open paragraph."""
        if self._inline:
            text = _joined(self._inline)
            self._inline.clear()
            self._write(escaped(text))

    def _write(self, text: str) -> None:
        """Write a block below the open quotes and list items."""
        if not text.strip():
            return
        rest = "".join(self._prefixes)
        first = self._marker if self._marker is not None else rest
        is_item = self._marker is not None and first[:1] != ">"
        if self._out:
            self._append("\n" if is_item and self._in_list_before else "\n\n")
        self._block_start = self._length
        self.offsets += [self._length] * self._n_waiting
        self._n_waiting = 0
        if rest:
            lines = text.split("\n")
            text = "\n".join(
                [first + lines[0], *(rest + line if line else rest.rstrip() for line in lines[1:])]
            )
        self._append(text)
        self._marker = None
        self._in_list_before = bool(self._prefixes) and any(prefix.isspace() for prefix in self._prefixes)

    def _append(self, text: str) -> None:
        self._out.append(text)
        self._length += len(text)

    def _write_pre(self, node: int) -> None:
        tree = self._tree
        pieces: list[str] = []
        at, end = node, tree.ends[node]
        while at < end:
            if at in self._skipped:
                at = tree.ends[at]
                continue
            pieces.append("\n" if tree.names[at] == "br" else tree.texts[at])
            at += 1
        code = "".join(pieces).strip("\n").rstrip()
        if not code.strip():
            return
        if self._pre_is_prose:
            self._write(escaped(code))
        else:
            self._write(fence(code, self._language(node)))

    def _language(self, node: int) -> str:
        tree = self._tree
        candidates = [node, tree.parents[node], tree.parents[tree.parents[node]]]
        candidates += [
            at for at in range(node + 1, min(node + 3, tree.ends[node])) if tree.names[at] == "code"
        ]
        for at in candidates:
            match = _LANGUAGE.search(tree.attribute(at, "class"))
            language = (match.group(1) or match.group(2) or "").lower() if match else ""
            if language and language not in _NO_LANGUAGES:
                return language
        return ""

    def _plain(self, node: int) -> str:
        """Return the text of a subtree on one line."""
        tree = self._tree
        pieces: list[str] = []
        at, end = node, tree.ends[node]
        while at < end:
            name = tree.names[at]
            if at in self._skipped and at != node:
                at = tree.ends[at]
                continue
            if name == "math":
                pieces.append(f" {self._formula(at)} ")
                at = tree.ends[at]
                continue
            if name == "img" and "math" in tree.attribute(at, "class"):
                pieces.append(tree.attribute(at, "alt"))
            pieces.append(tree.texts[at] if not name else " " if name in BLOCKS or name == "br" else "")
            at += 1
        return one_line(_joined(pieces))

    def _formula(self, node: int) -> str:
        tree = self._tree
        for at in range(node, tree.ends[node]):
            if tree.names[at] == "annotation":
                return one_line(tree.text_of(at))
        return one_line(tree.attribute(node, "alttext") or tree.text_of(node))

    def _span(self, cell: int, name: str) -> int:
        text = self._tree.attribute(cell, name)[:4]
        return min(max(int(text), 1), _MAX_SPAN) if text.isascii() and text.isdigit() else 1

    def _caption(self, node: int) -> str:
        tree = self._tree
        for at in range(node + 1, min(node + 5, tree.ends[node])):
            if tree.names[at] == "caption":
                return escaped(self._plain(at))
        return ""

    def _rows(self, node: int) -> list[list[str]] | None:
        """Return the cells of a table of data; None for one that only arranges a page."""
        tree = self._tree
        rows: list[list[str]] = []
        going_on: dict[int, tuple[int, str]] = {}  # by column: rows that a cell above still has, and its text
        at, end = node + 1, tree.ends[node]
        while at < end:
            name = tree.names[at]
            if at in self._skipped:
                at = tree.ends[at]
                continue
            if name in _TABLE_BLOCKS:
                return None
            if name == "tr":
                rows.append([])
                _go_on(rows[-1], going_on)
            elif name in ("td", "th"):
                if any(tree.names[inner] in _TABLE_BLOCKS for inner in range(at + 1, tree.ends[at])):
                    return None
                text = self._plain(at)
                if len(text) > _MAX_CELL_CHARS:
                    return None
                if not rows:
                    rows.append([])
                column = len(rows[-1])
                n_columns, n_rows = self._span(at, "colspan"), self._span(at, "rowspan")
                rows[-1] += [text, *[""] * (n_columns - 1)]
                if n_rows > 1:
                    going_on |= {column + i: (n_rows - 1, text if i == 0 else "") for i in range(n_columns)}
                _go_on(rows[-1], going_on)
                at = tree.ends[at]
                continue
            elif name == "caption":
                at = tree.ends[at]
                continue
            at += 1
        rows = [row for row in rows if any(row)]
        if len(rows) < 2 or max(map(len, rows)) < 2:
            return None
        return rows


def _go_on(row: list[str], going_on: dict[int, tuple[int, str]]) -> None:
    """Add the cells of rows above that stand next in a row, and count the row for them."""
    while (cell := going_on.get(len(row))) is not None:
        n_rows, text = cell
        if n_rows > 1:
            going_on[len(row)] = (n_rows - 1, text)
        else:
            del going_on[len(row)]
        row.append(text)


def _joined(pieces: list[str]) -> str:
    """Return a paragraph: white space as one blank, breaks as newlines, nothing invisible."""
    text = _SPACE.sub(" ", "".join(pieces))
    if _BREAK in text:
        text = _AROUND_BREAK.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    return text.strip()
