"""HTML as a flat tree: elements and texts in document order, each with its parent and the end of its subtree.

The reader follows the rules of HTML that matter for text: elements without an end, ends that are implied,
text that is no markup. It is linear in the text: depth, attributes and nodes have limits, and what is nested
deeper becomes a sibling.
"""

from __future__ import annotations

import html
import re
from typing import Final

from shoal.conversion.converted import ConversionError
from shoal.support.plain_text import words_of

MAX_DEPTH = 150
"""Pages in real use have up to 100 levels."""
MAX_NODES = 4_000_000
"""At about 250 bytes each; a page of 32 MiB has about a million."""
MAX_ATTRIBUTES = 200
MAX_VALUE_CHARS = 2000
_KEPT_SCRIPT_CHARS = 200

# An attribute as HTML reads it. Contents of groups are possessive, so the time is linear.
_ATTRIBUTE = r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>"'][^\s>]*+)?)?"""
_TAG = re.compile(rf"<(?:(!--)|([!?])|(/?)([a-zA-Z][^\s/>]*+)((?:[\s/]*+{_ATTRIBUTE})*)[\s/]*+)")
_ATTRIBUTES = re.compile(
    r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>"'][^\s>]*+))?)?"""
)
_RAW_END = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "iframe", "noembed", "noframes", "xmp")
}
_HUGE_NUMBER = re.compile(r"&#[xX]?[0-9a-fA-F]{8,};?")

VOID = words_of("area base br col embed hr img input link meta param source track wbr basefont frame")
BLOCKS = words_of(
    "address article aside blockquote body center details dialog dd div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p pre search section "
    "summary table tbody td tfoot th thead tr ul caption option optgroup select"
)
HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_SCOPES = frozenset({"td", "th", "table", "caption", "button", "template", "svg", "math", "object"})
_CLOSES_P = BLOCKS - {
    "td",
    "th",
    "tr",
    "tbody",
    "thead",
    "tfoot",
    "caption",
    "option",
    "optgroup",
    "html",
    "body",
}
# An opening tag of the first kind ends open elements of the second, up to one of the third.
_IMPLIED_ENDS = {
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu"})),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "option": (frozenset({"option"}), frozenset({"select"})),
    "td": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "th": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    "tbody": (frozenset({"tbody", "thead", "tfoot"}), frozenset({"table"})),
    "tfoot": (frozenset({"tbody", "thead", "tfoot"}), frozenset({"table"})),
    "thead": (frozenset({"tbody", "thead", "tfoot"}), frozenset({"table"})),
    "body": (frozenset({"head"}), frozenset({"html"})),
}
# Text in a head that was not closed would be no text of the page.
_IN_HEAD = words_of("base basefont bgsound link meta noscript script style template title head html object")
_WANTED = words_of(
    "class id role style hidden aria-hidden colspan rowspan start alt alttext type href name content "
    "epub:type open lang src property"
)
_TABLE_PARTS = frozenset({"td", "th", "tr", "tbody", "thead", "tfoot", "table", "caption"})


class HtmlTree:
    """Nodes in document order. Node 0 is the root.

    names       the element's name in lower case; empty for a text
    texts       the text of a text node, references resolved; empty for elements
    parents     index of the parent
    ends        index after the last node below
    attributes  the attributes that matter, of the elements that have any
    """

    def __init__(self) -> None:
        self.names: list[str] = ["#root"]
        self.texts: list[str] = [""]
        self.parents: list[int] = [0]
        self.ends: list[int] = [0]
        self.attributes: dict[int, dict[str, str]] = {}

    def attribute(self, node: int, name: str) -> str:
        attributes = self.attributes.get(node)
        return attributes.get(name, "") if attributes else ""

    def text_of(self, node: int) -> str:
        """Return all text of a subtree."""
        return "".join(self.texts[node : self.ends[node]])


def unescape(text: str) -> str:
    """Resolve character references; those of huge numbers, which are no characters, are removed."""
    if "&" not in text:
        return text
    return html.unescape(_HUGE_NUMBER.sub("", text) if "&#" in text else text)


def parse_html(text: str, *, xhtml: bool = False) -> HtmlTree:
    """Read any text as HTML. `xhtml`: `<a/>` is an element without content, as in XML.

    Raises ConversionError with `too_large` beyond MAX_NODES.
    """
    return _Reader(text, xhtml).read()


class _Reader:
    def __init__(self, text: str, xhtml: bool) -> None:
        self._text = text
        self._xhtml = xhtml
        self._tree = HtmlTree()
        self._open = [0]
        self._n_open: dict[str, int] = {}
        # Elements beyond the depth limit, whose ends must not end others of their name.
        self._too_deep: dict[str, int] = {}
        self._names: dict[str, str] = {}

    def read(self) -> HtmlTree:
        text, tree = self._text, self._tree
        at = 0
        while (start := text.find("<", at)) >= 0:
            tag = _TAG.match(text, start)
            self._add_text(text[at : start if tag else start + 1])
            at = self._read_tag(tag) if tag else start + 1
        self._add_text(text[at:])
        self._close_to(0)
        tree.ends[0] = len(tree.names)
        return tree

    def _read_tag(self, tag: re.Match[str]) -> int:
        """Read a tag, comment or declaration, and return the position after it."""
        comment, declaration, closing, name, attributes = tag.groups()
        if comment:
            return self._after("-->", tag.end())
        if declaration:
            if self._text.startswith("<![CDATA[", tag.start()):
                end = self._text.find("]]>", tag.end())
                end = len(self._text) if end < 0 else end
                self._add(self._open[-1], "", self._text[tag.start() + 9 : end])
                return min(end + 3, len(self._text))
            return self._after(">", tag.end())
        lower = self._names.setdefault(name, name.lower())
        at = min(tag.end() + 1, len(self._text))
        if closing:
            self._end(lower)
            return at
        is_empty = self._xhtml and self._text.startswith("/", tag.end() - 1)
        self._begin(lower, attributes, is_empty)
        if lower in _RAW_END and not is_empty and not self._n_open.get("svg"):
            return self._read_raw(lower, at)
        return at

    def _after(self, mark: str, at: int) -> int:
        end = self._text.find(mark, at)
        return len(self._text) if end < 0 else end + len(mark)

    def _read_raw(self, name: str, at: int) -> int:
        closing = _RAW_END[name].search(self._text, at)
        end = closing.start() if closing else len(self._text)
        body = self._text[at : at + _KEPT_SCRIPT_CHARS] if name in ("script", "style") else self._text[at:end]
        body = body[: end - at]
        self._add(self._open[-1], "", unescape(body) if name in ("title", "textarea") else body)
        self._end(name)
        return self._after(">", end)

    def _add(self, parent: int, name: str, text: str = "") -> int:
        tree = self._tree
        node = len(tree.names)
        if node >= MAX_NODES:
            raise ConversionError("too_large", f"the page has more than {MAX_NODES:,} elements")
        tree.names.append(name)
        tree.texts.append(text)
        tree.parents.append(parent)
        tree.ends.append(node + 1)
        return node

    def _add_text(self, text: str) -> None:
        if text:
            self._add(self._open[-1], "", unescape(text))

    def _begin(self, name: str, attributes: str, is_empty: bool) -> None:
        if name in _CLOSES_P and self._n_open.get("p"):
            self._end_implied(frozenset({"p"}), _SCOPES)
        if name not in _IN_HEAD and self._n_open.get("head"):
            self._end_implied(*_IMPLIED_ENDS["body"])
        implied = _IMPLIED_ENDS.get(name)
        if implied is not None and any(map(self._n_open.get, implied[0])):
            self._end_implied(*implied)
        node = self._add(self._open[-1], name)
        if attributes:
            self._keep_attributes(node, attributes)
        if name in VOID or is_empty:
            return
        if len(self._open) >= MAX_DEPTH:
            self._too_deep[name] = self._too_deep.get(name, 0) + 1
            return
        self._open.append(node)
        self._n_open[name] = self._n_open.get(name, 0) + 1

    def _keep_attributes(self, node: int, source: str) -> None:
        kept: dict[str, str] = {}
        for number, match in enumerate(_ATTRIBUTES.finditer(source)):
            if number >= MAX_ATTRIBUTES:
                break
            name = match.group(1).lower()
            if name in _WANTED and name not in kept:
                value = match.group(2) or match.group(3) or match.group(4) or ""
                kept[name] = unescape(value[:MAX_VALUE_CHARS])
        if kept:
            self._tree.attributes[node] = kept

    def _end(self, name: str) -> None:
        if self._too_deep.get(name):
            self._too_deep[name] -= 1
            return
        if not self._n_open.get(name):
            return
        names = self._tree.names
        is_block = name in BLOCKS
        for position in range(len(self._open) - 1, 0, -1):
            current = names[self._open[position]]
            if current == name:
                self._close_to(position)
                return
            # The end of a part of a text does not end blocks, and that of a block no cell of a table.
            if current in BLOCKS and (not is_block or (current in _SCOPES and name not in _TABLE_PARTS)):
                return

    def _end_implied(self, ended: frozenset[str], limits: frozenset[str]) -> None:
        names = self._tree.names
        for position in range(len(self._open) - 1, 0, -1):
            current = names[self._open[position]]
            if current in ended:
                self._close_to(position)
                return
            if current in limits or current == "table":
                return

    def _close_to(self, position: int) -> None:
        """Close the open elements from this position of the stack on."""
        tree = self._tree
        for node in self._open[max(position, 1) :]:
            tree.ends[node] = len(tree.names)
            self._n_open[tree.names[node]] -= 1
        del self._open[max(position, 1) :]
