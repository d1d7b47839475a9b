"""The main content of a page: what is navigation, a banner, a footer or a script, and what is the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from shoal.conversion.converted import one_line
from shoal.conversion.html_tree import HtmlTree
from shoal.models.files import Removed
from shoal.support.plain_text import words_of

MAX_REMOVED = 200
"""Most kinds of removed text that are listed."""

_REMOVED_CHARS = 200
_SCRIPTS = frozenset({"script"})
# Never text of a document: programs, drawings, what is entered, what replaces something that is not here.
_NO_TEXT = words_of(
    "head style template svg canvas object embed audio video iframe noembed noframes noscript map button "
    "input select textarea datalist progress meter dialog colgroup script"
)
_NEVER_HIDDEN = frozenset({"math", "img", "body", "html"})
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class _ClassRule(NamedTuple):
    """What words of classes and ids say about an element.

    `most`: the greatest share of the page's text that is removed for it; `links`: the least share of the
    element's text that must be links.
    """

    reason: str
    most: float
    links: float
    words: frozenset[str]


_CLASS_RULES = (
    _ClassRule("cookie banner", 0.3, 0.0, words_of("cookie cookies consent gdpr ccpa onetrust")),
    _ClassRule(
        "navigation",
        0.5,
        0.0,
        words_of(
            "nav navbar navigation breadcrumb breadcrumbs pagination pager sidenav topnav subnav navbox "
            "catlinks sphinxsidebar localtoc skip skiplink"
        ),
    ),
    _ClassRule("navigation", 0.5, 0.5, words_of("menu toc tabs toolbar")),
    _ClassRule("sidebar", 0.3, 0.2, words_of("sidebar rail")),
    _ClassRule("footer", 0.3, 0.0, words_of("footer printfooter colophon siteinfo")),
    _ClassRule("sharing", 0.1, 0.0, words_of("share sharing social addtoany sharedaddy")),
    _ClassRule("related pages", 0.3, 0.5, words_of("related recommended trending outbrain taboola")),
    _ClassRule("pop-up", 0.1, 0.0, words_of("newsletter subscribe signup popup modal paywall")),
    _ClassRule("advertisement", 0.1, 0.0, words_of("advert advertisement ads adsbygoogle sponsor promo")),
    _ClassRule("mark", 0.05, 0.0, words_of("editsection headerlink noprint anchorjs permalink linenos")),
)
_RULE_OF_WORD = {word: rule for rule in _CLASS_RULES for word in rule.words}
_ROLE_REASONS = {
    "navigation": "navigation",
    "banner": "page header",
    "contentinfo": "footer",
    "complementary": "sidebar",
    "search": "navigation",
    "alertdialog": "pop-up",
    "dialog": "pop-up",
    "menu": "navigation",
    "menubar": "navigation",
    "toolbar": "navigation",
}
_TAG_REASONS = {"nav": "navigation", "footer": "footer", "header": "page header", "aside": "sidebar"}
_TEXT_PARTS = frozenset({"main", "article", "blockquote", "section", "figure"})
_MAIN_WORDS = words_of(
    "content main maincontent article post entry bodycontent bodytext document markdown prose mw"
)
_CONTAINERS = words_of("div section td table ul ol dl p form center nav body tr tbody")
_LINK_LISTS = words_of("ul ol div table p td dl")
_MIN_LINKS, _LIST_LINK_SHARE, _MAX_LINK_CHARS = 4, 0.8, 40
_MAIN_SHARE = 0.25
"""Least share of the page's text, without what was removed, that the marked main part must have."""
_CLASSED_SHARE = 0.6
"""The same of a part that only its class marks as main."""


@dataclass(frozen=True, slots=True)
class MainContent:
    """`root`: the node with the main content; `skipped`: nodes below it that are not part of it;
    `heading`: the page's first heading if it is outside the root, else -1."""

    root: int
    skipped: frozenset[int]
    heading: int
    removed: tuple[Removed, ...]


class RemovedTexts:
    """Collects what was removed, equal texts once."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str]] = Counter()

    def add(self, reason: str, text: str) -> None:
        key = (reason, one_line(text[: 4 * _REMOVED_CHARS])[:_REMOVED_CHARS])
        if key[1] and (key in self._times or len(self._times) < MAX_REMOVED):
            self._times[key] += 1

    def listed(self) -> tuple[Removed, ...]:
        return tuple(Removed(reason, text, times) for (reason, text), times in self._times.items())


def find_main_content(tree: HtmlTree, *, whole: bool = False) -> MainContent:
    """Find the main content. `whole`: of a letter or a chapter, which loses only scripts and the like."""
    page = _Page(tree)
    reasons = page.without_text()
    page.find_hidden(reasons)
    if not whole:
        page.find_boilerplate(reasons)
    removed = RemovedTexts()
    for node, reason in reasons.items():
        if reason:
            removed.add(reason, text_of(tree, node))
    root, heading = 0, -1
    if not whole:
        root = page.main_root(reasons)
        for node in page.outside(root):
            if node not in reasons:
                removed.add("outside the main content", text_of(tree, node, reasons))
        heading = page.lost_heading(root, reasons)
    return MainContent(root, frozenset(reasons), heading, removed.listed())


def text_of(tree: HtmlTree, node: int, skipped: Container[int] = ()) -> str:
    """Return the beginning of the text of a subtree."""
    pieces: list[str] = []
    length, at, end = 0, node, tree.ends[node]
    while at < end and length < 4 * _REMOVED_CHARS:
        if at in skipped:
            at = tree.ends[at]
            continue
        if tree.texts[at]:
            pieces.append(tree.texts[at][: 4 * _REMOVED_CHARS])
            length += len(pieces[-1].strip())
        at += 1
    return " ".join(pieces)


class _Page:
    """A tree with the numbers that decide: characters of text and of links, and links, per subtree."""

    def __init__(self, tree: HtmlTree) -> None:
        self.tree = tree
        size = len(tree.names)
        self.chars = [0] * size
        self.link_chars = [0] * size
        self.n_links = [0] * size

    def without_text(self) -> dict[int, str]:
        """Return the nodes that are no text, with the reason to list (empty: not listed); count the rest."""
        tree = self.tree
        reasons: dict[int, str] = {}
        node, size = 0, len(tree.names)
        while node < size:
            name = tree.names[node]
            if not name:
                self.chars[node] = len(tree.texts[node].strip())
            elif name in _NO_TEXT:
                reasons[node] = "script" if name in _SCRIPTS else ""
                node = tree.ends[node]
                continue
            node += 1
        for node in range(size - 1, 0, -1):
            if tree.names[node] == "a" and "href" in tree.attributes.get(node, ()):
                self.link_chars[node], self.n_links[node] = self.chars[node], self.n_links[node] + 1
            parent = tree.parents[node]
            self.chars[parent] += self.chars[node]
            self.link_chars[parent] += self.link_chars[node]
            self.n_links[parent] += self.n_links[node]
        return reasons

    def find_hidden(self, reasons: dict[int, str]) -> None:
        """Add the nodes that a page does not show. Most of its text is only hidden until a script runs."""
        tree = self.tree
        end = 0
        for node, attributes in tree.attributes.items():
            if node < end or node in reasons or tree.names[node] in _NEVER_HIDDEN:
                continue
            is_hidden = "hidden" in attributes and attributes["hidden"] != "until-found"
            is_hidden = is_hidden or bool(_HIDDEN_STYLE.search(attributes.get("style", "")))
            is_aside = attributes.get("aria-hidden") == "true" and self.chars[node] < 0.2 * self.chars[0]
            if is_aside or (is_hidden and self.chars[node] < 0.5 * self.chars[0]):
                reasons[node] = "hidden"
                end = tree.ends[node]

    def find_boilerplate(self, reasons: dict[int, str]) -> None:
        """Add the nodes that are not the page's text."""
        found = dict(self._boilerplate(reasons))
        kept = self.chars[0] - sum(self.chars[node] for node in found)
        # A page that would lose nearly everything is an index of links: only the certain parts go.
        if kept < 0.1 * self.chars[0]:
            certain = ("cookie banner", "pop-up", "advertisement", "mark", "sharing")
            found = {node: reason for node, reason in found.items() if reason in certain}
        reasons.update(found)

    def _boilerplate(self, reasons: dict[int, str]) -> Iterator[tuple[int, str]]:
        tree = self.tree
        total = self.chars[0] or 1
        node, size = 1, len(tree.names)
        text_part_end = 0
        while node < size:
            name = tree.names[node]
            if not name:
                node += 1
                continue
            if node in reasons:
                node = tree.ends[node]
                continue
            reason = self._reason(node, name, total, inside=node < text_part_end)
            if reason:
                yield node, reason
                node = tree.ends[node]
                continue
            if name in _TEXT_PARTS or tree.attribute(node, "role") == "main":
                text_part_end = max(text_part_end, tree.ends[node])
            node += 1

    def _reason(self, node: int, name: str, total: int, *, inside: bool) -> str:
        """Return why an element is not part of the text, or an empty string. `inside`: of an article."""
        chars = self.chars[node]
        link_share = self.link_chars[node] / chars if chars else 0.0
        attributes = self.tree.attributes.get(node, {})
        is_small = chars < 0.5 * total
        reason = _ROLE_REASONS.get(attributes.get("role", "")) or _TAG_REASONS.get(name)
        if reason and (is_small or (reason == "navigation" and link_share > 0.5)):
            if reason in ("navigation", "pop-up"):
                return reason
            if not inside or (reason == "sidebar" and link_share > 0.5):
                return reason
        if attributes and name not in ("body", "html", "main", "article"):
            for word in _class_words(attributes):
                rule = _RULE_OF_WORD.get(word)
                if rule and chars <= rule.most * total and link_share >= rule.links:
                    return rule.reason
        if (
            name in _LINK_LISTS
            and not inside
            and is_small
            and self.n_links[node] >= _MIN_LINKS
            and link_share > _LIST_LINK_SHARE
            and self.link_chars[node] < _MAX_LINK_CHARS * self.n_links[node]
        ):
            return "navigation"
        return ""

    def main_root(self, reasons: dict[int, str]) -> int:
        """Return the element that is marked as the main content and has enough of the text; else the root."""
        tree = self.tree
        kept = list(self.chars)
        for node in reasons:
            self._subtract(kept, node)
        total = kept[0]
        best = (0.0, 0)
        articles: list[int] = []
        node, size = 1, len(tree.names)
        while node < size:
            if node in reasons:
                node = tree.ends[node]
                continue
            name = tree.names[node]
            if name:
                attributes = tree.attributes.get(node, {})
                if name == "main" or attributes.get("role") == "main":
                    if kept[node] >= _MAIN_SHARE * total:
                        return node
                elif name == "article":
                    articles.append(node)
                elif (
                    attributes
                    and name in _CONTAINERS
                    # Of nested parts the inner one, unless it has clearly less.
                    and kept[node] >= max(_CLASSED_SHARE * total, 0.95 * best[0])
                    and not _MAIN_WORDS.isdisjoint(_class_words(attributes))
                ):
                    best = (kept[node], node)
            node += 1
        outer = [node for node in articles if not any(a < node < tree.ends[a] for a in articles[:1])]
        if len(outer) == 1 and kept[outer[0]] >= _MAIN_SHARE * total:
            return outer[0]
        return best[1]

    def _subtract(self, kept: list[int], node: int) -> None:
        chars, parent = self.chars[node], self.tree.parents[node]
        while chars:
            kept[parent] -= chars
            if not parent:
                break
            parent = self.tree.parents[parent]

    def outside(self, root: int) -> Iterator[int]:
        """Yield the largest subtrees that do not contain the root and are not in it."""
        tree = self.tree
        path = {0}
        node = root
        while node:
            path.add(node)
            node = tree.parents[node]
        node, size = 1, len(tree.names)
        while node < size and root:
            if node == root or node not in path:
                if node != root and self.chars[node]:
                    yield node
                node = tree.ends[node]
            else:
                node += 1

    def lost_heading(self, root: int, reasons: dict[int, str]) -> int:
        """Return the only heading of the first level if the main content does not contain it, else -1."""
        tree = self.tree
        headings = [node for node, name in enumerate(tree.names) if name == "h1" and self.chars[node]]
        if len(headings) != 1 or headings[0] in reasons:
            return -1
        (heading,) = headings
        is_inside = root <= heading < tree.ends[root]
        node = heading
        while node and is_inside:
            is_inside = node not in reasons
            node = tree.parents[node]
        return -1 if is_inside else heading


def _class_words(attributes: dict[str, str]) -> list[str]:
    return [
        word.lower()
        for word in _WORD.findall(f"{attributes.get('class', '')} {attributes.get('id', '')}"[:500])
    ]
