"""The main content of a page: what is navigation, a banner, a comment or a script, and what is the text.

Names of elements, roles and classes say what a part is. What they do not say, prose does: blocks of sentences
that are not links. Most of the prose is in one part of the page. Parts beside it without prose, paragraphs
that are links, and short blocks after the last prose are not the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shoal.conversion.class_rules import COMMENTS, RULE_OF_WORD, ClassRule, class_words
from shoal.conversion.converted import one_line
from shoal.conversion.html_tree import BLOCKS, HEADINGS, HtmlTree
from shoal.models.files import Removed
from shoal.support.plain_text import words_of

_LABEL_CHARS = 800
_SCRIPTS = frozenset({"script"})
# Never text of a document: programs, drawings, what is entered, what replaces something that is not here.
_NO_TEXT = words_of(
    "head style template svg canvas object embed audio video iframe noembed noframes noscript map button "
    "input select textarea datalist progress meter dialog colgroup script"
)
_LEAST_WITHOUT_SCRIPT = 200
"""Characters in `noscript` that are the text of a page without any other; fewer ask to switch scripts on."""
_NEVER_HIDDEN = frozenset({"math", "img", "body", "html"})
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)

_OUTSIDE = "outside the main content"
_MISSED = (COMMENTS, _OUTSIDE, "related pages", "after the text")
_WARNED_SHARE = 0.1
"""A greater share of a page's text, left out for one of these reasons, is a warning."""


_MAX_SHORT_CHARS = 300
_SHORT_REASONS = frozenset({"sharing", "about the page", "control"})
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
_TAG_REASONS = {
    "nav": "navigation",
    "footer": "footer",
    "header": "page header",
    "aside": "sidebar",
    "form": "form",
}
_NO_ATTRIBUTES: Final[dict[str, str]] = {}
_TEXT_PARTS = frozenset({"main", "article", "blockquote", "section", "figure"})
_LINK_LISTS = words_of("ul ol div table p td dl")
_MIN_LINKS, _LIST_LINK_SHARE, _MAX_LINK_CHARS = 4, 0.8, 40
_MAIN_SHARE = 0.25
"""Least share of the page's text, without what was removed, that the marked main part must have."""

# Chosen with the half of the pages that `benchmarks/web_pages.py` calls seen.
_SENTENCE_END = re.compile(r"[.!?…。！？](?=[\s\"'”»)]|$)")
_MIN_SENTENCE_CHARS, _MIN_PROSE_CHARS = 40, 120
"""A block with fewer characters is no prose: one with the end of a sentence, and one without."""
_PROSE_SHARE = 0.6
"""A part with this share of the prose around it is the text; what is beside it must be prose too."""
_SIDE_PROSE, _SIDE_LINKS = {True: 0.5, False: 0.7}, {True: 0.3, False: 0.1}
"""Least share of prose, and greatest of links, of a part that stays before (True) or after the text."""
_TITLES = frozenset({"h1", "h2"})
_ARRANGED = words_of("div section article main td tr tbody table body html form center")
_INDEX_SHARE = 0.3
"""A page with a smaller share of prose is an index: it keeps its links, and its end."""
_LINK_SHARE = 0.8
_LISTS = frozenset({"ul", "ol"})
_LEAVES: Final = frozenset({"p", "div"})
_ENDS = _LEAVES | {"section", "address", "figcaption"}
_UNLABELLED = frozenset({"td", "th", "pre"})
_MAX_LABEL_CHARS, _LABELLED_SHARE = 60, 0.2
_CAPTIONS = frozenset({"caption", "figcaption"})
_NUMBERED = re.compile(
    r"\W*(?:fig|figure|table|listing|abb|abbildung|tabelle|figura|tabla|tableau)\b\W{0,3}\d", re.IGNORECASE
)
# The first words of a heading or a label above a part that is not the text.
_LABELS = re.compile(
    r"""\W*(?:
        you\ (?:may|might)\ (?:also\ )?(?:like|enjoy|be\ interested) | don.t\ miss | keep\ reading
      | (?:related|recommended|similar|popular|latest|recent|other|more|next|previous)
        \ (?:articles?|posts?|stories|story|news|reading|topics?|links|pages|from|on|like|about|by)\b
      | (?:also\ read|read\ (?:more|next|also)|explore\ (?:more|further)|most\ (?:read|popular|viewed))\b
      | trending\b | (?:leave|post|add)\ a\ (?:reply|comment) | (?:\d+\ |no\ )?(?:comments?|responses?)\b
      | share\ (?:this|on|via)\b | about\ the\ author | tags?: | tagged\b | filed\ under
      | (?:subscribe|sign\ up|newsletter|advertisement|sponsored)\b
      | (?:auch\ interessant|das\ könnte|über\ den\ autor|schreibe\ einen|kommentar|schlagw[oö]rt)
      | mehr\ (?:zum|aus|von|über)\b
      | (?:weitere|ähnliche|neueste)\ (?:artikel|themen|beiträge|meldungen|nachrichten|news|links)\b
      | (?:art[ií]culos?|noticias?)\ relacionad | te\ puede\ interesar | comentarios\b
      | (?:à\ lire|voir)\ aussi | articles?\ (?:similaires|liés) | commentaires\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class MainContent:
    """`root`: the node with the main content; `skipped`: nodes below it that are not part of it;
    `heading`: the page's first heading if it is outside the root, else -1.

    `left_out`: reason and text of each part that people see on the page and that is not main content.
    """

    root: int
    skipped: frozenset[int]
    heading: int
    removed: tuple[Removed, ...]
    warnings: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


class RemovedTexts:
    """Collects what was removed, equal texts once."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str]] = Counter()

    def add(self, reason: str, text: str) -> None:
        key = (reason, one_line(text))
        if key[1]:
            self._times[key] += 1

    def listed(self) -> tuple[Removed, ...]:
        return tuple(Removed(reason, text, times) for (reason, text), times in self._times.items())


def find_main_content(tree: HtmlTree, *, whole: bool = False, keep: bool = False) -> MainContent:
    """Find the main content. `whole`: of a letter or a chapter, which loses only scripts and the like.

    `keep`: return the texts that are left out.
    """
    page = _Page(tree)
    reasons = page.without_text(_NO_TEXT)
    if not page.chars[0] and "noscript" in tree.names:
        page = _Page(tree)
        reasons = page.without_text(_NO_TEXT - {"noscript"})
        if page.chars[0] < _LEAST_WITHOUT_SCRIPT:
            page = _Page(tree)
            reasons = page.without_text(_NO_TEXT)
    page.find_hidden(reasons)
    unseen = frozenset(reasons)
    if not whole:
        page.find_boilerplate(reasons)
    root, heading = 0, -1
    if not whole:
        prose = _Prose(tree, page.chars, reasons)
        root = page.main_root(reasons)
        page.find_sides(root, prose, reasons)
        heading = page.lost_heading(root, reasons)
    removed = RemovedTexts()
    sizes: Counter[str] = Counter()
    left_out: list[tuple[str, str]] = []
    end = 0
    for node in sorted(reasons):
        if node >= end and reasons[node]:
            removed.add(reasons[node], text_of(tree, node))
            sizes[reasons[node]] += page.chars[node]
            if keep and node not in unseen:
                left_out.append((reasons[node], _lines(tree, node, unseen)))
        end = max(end, tree.ends[node])
    for node in page.outside(root):
        if node not in reasons:
            removed.add(_OUTSIDE, text_of(tree, node, reasons))
            sizes[_OUTSIDE] += page.chars[node]
            if keep:
                left_out.append((_OUTSIDE, _lines(tree, node, reasons)))
    warnings = _warnings(sizes, page.chars[0])
    return MainContent(root, frozenset(reasons), heading, removed.listed(), warnings, tuple(left_out))


def _warnings(sizes: Counter[str], total: int) -> tuple[str, ...]:
    """Return a warning if much was left out that a reader may miss. `sizes`: characters by reason."""
    parts = [
        f"{reason} ({sizes[reason] / total:.0%} of its text)"
        for reason in _MISSED
        if sizes[reason] > _WARNED_SHARE * total
    ]
    return (f"parts of the page are left out: {', '.join(parts)}",) if parts else ()


def _lines(tree: HtmlTree, node: int, skipped: Container[int]) -> str:
    """Return all text of a subtree, a line for each block."""
    pieces: list[str] = []
    at, end = node, tree.ends[node]
    while at < end:
        if at in skipped:
            at = tree.ends[at]
            continue
        pieces.append(
            "\n" if tree.names[at] in BLOCKS or tree.names[at] == "br" else tree.texts[at].replace("\n", " ")
        )
        at += 1
    return "\n".join(filter(None, map(one_line, "".join(pieces).split("\n"))))


def text_of(tree: HtmlTree, node: int, skipped: Container[int] = ()) -> str:
    """Return the text of a subtree; elements end words."""
    pieces: list[str] = []
    at, end = node, tree.ends[node]
    while at < end:
        if at in skipped:
            at = tree.ends[at]
            continue
        if tree.texts[at]:
            pieces.append(tree.texts[at])
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
        self._rules_of_names: dict[tuple[str, str], tuple[ClassRule, ...]] = {}

    def without_text(self, names: Container[str]) -> dict[int, str]:
        """Return the nodes that are no text, with the reason to list (empty: not listed); count the rest.

        `names`: of elements whose text is none of the page.
        """
        tree = self.tree
        reasons: dict[int, str] = {}
        node, size = 0, len(tree.names)
        while node < size:
            name = tree.names[node]
            if not name:
                self.chars[node] = len(tree.texts[node].strip())
            elif name in names:
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
        comments = dict(self._comments(reasons))
        total = self.chars[0] - sum(self.chars[node] for node in comments)
        if total < 0.1 * self.chars[0]:
            # The comments are the text, as in a forum.
            comments, total = {}, self.chars[0]
        found = comments | dict(self._boilerplate(reasons | comments, total))
        kept = self.chars[0] - sum(self.chars[node] for node in found)
        # A page that would lose nearly everything is an index of links: only the certain parts go.
        if kept < 0.1 * self.chars[0]:
            certain = ("cookie banner", "pop-up", "advertisement", "mark", "sharing")
            found = {node: reason for node, reason in found.items() if reason in certain}
        reasons.update(found)

    def _comments(self, reasons: Container[int]) -> Iterator[tuple[int, str]]:
        """Yield the largest parts whose classes say that they are comments."""
        tree, end = self.tree, 0
        for node, attributes in tree.attributes.items():
            if node < end or not any(rule.reason == COMMENTS for rule in self._rules(attributes)):
                continue
            above = [node]
            while above[-1]:
                above.append(tree.parents[above[-1]])
            inside = any(map(self._is_text_part, above[1:]))
            is_comment = self._reason(node, tree.names[node], self.chars[0], inside=inside) == COMMENTS
            if is_comment and not any(each in reasons for each in above):
                yield node, COMMENTS
                end = tree.ends[node]

    def _is_text_part(self, node: int) -> bool:
        return self.tree.names[node] in _TEXT_PARTS or self.tree.attribute(node, "role") == "main"

    def _boilerplate(self, reasons: Container[int], total: int) -> Iterator[tuple[int, str]]:
        """Yield the largest parts that are no text, but for comments."""
        tree = self.tree
        total = total or 1
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
            if reason and reason != COMMENTS:
                yield node, reason
                node = tree.ends[node]
                continue
            if node >= text_part_end and self._is_text_part(node):
                text_part_end = tree.ends[node]
            node += 1

    def _reason(self, node: int, name: str, total: int, *, inside: bool) -> str:
        """Return why an element is not part of the text, or an empty string. `inside`: of an article."""
        attributes = self.tree.attributes.get(node, _NO_ATTRIBUTES)
        if not attributes and name not in _TAG_REASONS and name not in _LINK_LISTS:
            return ""
        chars = self.chars[node]
        link_share = self.link_chars[node] / chars if chars else 0.0
        is_small = chars < 0.5 * total
        reason = _ROLE_REASONS.get(attributes.get("role", "")) or _TAG_REASONS.get(name)
        if reason and (is_small or (reason == "navigation" and link_share > 0.5)):
            if reason in ("navigation", "pop-up", "footer", "form"):
                return reason
            if not inside or (reason == "sidebar" and link_share > 0.5):
                return reason
        if attributes and name not in ("body", "html", "main", "article"):
            for rule in self._rules(attributes):
                if (
                    chars <= rule.most * total
                    and link_share >= rule.links
                    and (chars <= _MAX_SHORT_CHARS or rule.reason not in _SHORT_REASONS)
                ):
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

    def _rules(self, attributes: dict[str, str]) -> tuple[ClassRule, ...]:
        """Return the rules of the words of the class and id, which many elements share."""
        key = (attributes.get("class", ""), attributes.get("id", ""))
        rules = self._rules_of_names.get(key)
        if rules is None:
            words = class_words(attributes)
            rules = tuple(RULE_OF_WORD[word] for word in words if word in RULE_OF_WORD)
            self._rules_of_names[key] = rules
        return rules

    def main_root(self, reasons: dict[int, str]) -> int:
        """Return the element that is marked as the main content and has enough of the text; else the root."""
        tree = self.tree
        kept = list(self.chars)
        for node in reasons:
            self._subtract(kept, node)
        articles: list[int] = []
        node, size = 1, len(tree.names)
        while node < size:
            if node in reasons:
                node = tree.ends[node]
                continue
            name = tree.names[node]
            if (name == "main" or tree.attribute(node, "role") == "main") and (
                kept[node] >= _MAIN_SHARE * kept[0]
            ):
                return node
            if name == "article" and not (articles and node < tree.ends[articles[0]]):
                articles.append(node)
            node += 1
        if len(articles) == 1 and kept[articles[0]] >= _MAIN_SHARE * kept[0]:
            return articles[0]
        return 0

    def find_sides(self, root: int, prose: _Prose, reasons: dict[int, str]) -> None:
        """Add parts of the main content that are beside its prose, as links or without sentences."""
        found = dict(self._beside(root, prose))
        kept = self.chars[root] - sum(
            self.chars[node] for node in (*reasons, *found) if root < node < self.tree.ends[root]
        )
        if prose.chars[root] > _INDEX_SHARE * kept:
            found.update(self._captions(root, prose, found))
            found.update(self._lists_of_links(root, prose, found))
            blocks = prose.blocks(root, found)
            found.update(self._labelled(root, prose, blocks))
            found.update(self._ends(prose, blocks, found))
        reasons.update(found)

    def _ends(self, prose: _Prose, blocks: list[int], skipped: Container[int]) -> Iterator[tuple[int, str]]:
        """Yield paragraphs of links, and short blocks after the last prose. Headings of what stays stay."""
        names = self.tree.names
        is_after, is_below = any(map(prose.is_prose, blocks)), False
        for node in reversed(blocks):
            is_after = is_after and not prose.is_prose(node)
            is_leaf = prose.own[node] >= _LINK_SHARE * self.chars[node]
            if is_leaf and prose.is_link(node):
                yield node, "links"
            elif (
                is_leaf and is_after and (names[node] in _ENDS or (names[node] in HEADINGS and not is_below))
            ):
                yield node, "after the text"
            elif node not in skipped:
                is_below = True

    def _captions(self, root: int, prose: _Prose, skipped: Container[int]) -> Iterator[tuple[int, str]]:
        """Yield the captions that are names of pictures. Sentences, and captions with a number, are text."""
        tree = self.tree
        node, end = root + 1, tree.ends[root]
        while node < end:
            if node in prose.removed or node in skipped:
                node = tree.ends[node]
                continue
            name = tree.names[node]
            if (
                self.chars[node]
                and not prose.n_blocks[node]
                and name != "caption"
                and (
                    name == "figcaption"
                    or not _CAPTIONS.isdisjoint(class_words(tree.attributes.get(node, {})))
                )
                and not _NUMBERED.match(one_line(text_of(tree, node)[:_LABEL_CHARS]))
            ):
                yield node, "caption of a picture"
                node = tree.ends[node]
            else:
                node += 1

    def _beside(self, root: int, prose: _Prose) -> Iterator[tuple[int, str]]:
        """Yield the parts beside those with most of the prose, from the root inwards."""
        tree = self.tree
        node = root
        while node >= 0:
            children = list(_children(tree, node, prose.removed))
            inner = next((child for child in children if self._has_most(node, child, prose)), -1)
            if inner >= 0:
                for child in children:
                    if child != inner and not self._is_text(child, prose, is_before=child < inner):
                        yield child, _OUTSIDE
            node = inner

    def _has_most(self, node: int, child: int, prose: _Prose) -> bool:
        name = self.tree.names[child]
        return (
            (name in _ARRANGED or "-" in name)
            and prose.n_blocks[child] > 1
            and prose.chars[child] >= _PROSE_SHARE * prose.chars[node]
        )

    def _is_text(self, node: int, prose: _Prose, *, is_before: bool) -> bool:
        chars, tree = self.chars[node], self.tree
        if not chars:
            return True
        link_share = self.link_chars[node] / chars
        if prose.chars[node] > _SIDE_PROSE[is_before] * chars and link_share < _SIDE_LINKS[is_before]:
            return True
        return is_before and link_share < 0.5 and not _TITLES.isdisjoint(tree.names[node : tree.ends[node]])

    def _lists_of_links(self, root: int, prose: _Prose, skipped: Container[int]) -> Iterator[tuple[int, str]]:
        """Yield the lists whose items are links to other pages. An index, as big as the prose, is a text."""
        tree = self.tree
        node, end = root + 1, tree.ends[root]
        while node < end:
            chars = self.chars[node]
            if node in prose.removed or node in skipped:
                node = tree.ends[node]
            elif (
                tree.names[node] in _LISTS
                and 0 < chars <= _LABELLED_SHARE * prose.chars[root]
                and self.link_chars[node] >= _LINK_SHARE * chars
            ):
                yield node, "links"
                node = tree.ends[node]
            else:
                node += 1

    def _labelled(self, root: int, prose: _Prose, blocks: list[int]) -> Iterator[tuple[int, str]]:
        """Yield the parts that begin with a label such as `Related articles`, or the label alone."""
        tree = self.tree
        most = _LABELLED_SHARE * prose.chars[root]
        for node in blocks:
            if (
                tree.names[node] in _UNLABELLED
                or prose.own[node] > _MAX_LABEL_CHARS
                or self.chars[node] > 2 * _MAX_LABEL_CHARS
            ):
                continue
            if not _LABELS.match(one_line(tree.text_of(node))):
                continue
            part, parent = node, tree.parents[node]
            while parent > root and prose.first_text[parent] >= part and prose.chars[parent] < most:
                part, parent = parent, tree.parents[parent]
            yield part, "related pages"

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
        if "h1" not in tree.names:
            return -1
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


class _Prose:
    """Prose of a tree without its removed nodes.

    A block owns the texts that have no other block in between. One of sentences or of many words, less than
    half of them links, is prose.

    own, own_links  characters of the texts that a block owns, and of those in links to other pages
    chars, n_blocks characters and number of the blocks of prose in a subtree
    first_text      the first node of a subtree with text, or the number of nodes
    """

    def __init__(self, tree: HtmlTree, chars: Sequence[int], removed: Container[int]) -> None:
        """`chars`: of each text without white space around it."""
        self.tree = tree
        self.removed = removed
        size = len(tree.names)
        self.own = [0] * size
        self.own_links = [0] * size
        self.chars = [0] * size
        self.n_blocks = [0] * size
        self.first_text = [size] * size
        self._has_sentence: set[int] = set()
        self._count_texts(chars)
        for node in range(size - 1, 0, -1):
            first = self.first_text[node]
            if first == size:
                continue
            if self.own[node] >= _MIN_SENTENCE_CHARS and self.is_prose(node):
                self.chars[node] += self.own[node]
                self.n_blocks[node] += 1
            parent = tree.parents[node]
            self.chars[parent] += self.chars[node]
            self.n_blocks[parent] += self.n_blocks[node]
            if first < self.first_text[parent]:
                self.first_text[parent] = first

    def _count_texts(self, chars: Sequence[int]) -> None:
        tree = self.tree
        block_of = [0] * len(tree.names)
        link_end = node = 0
        while node < len(tree.names):
            name = tree.names[node]
            if node in self.removed:
                node = tree.ends[node]
                continue
            block_of[node] = node if name in BLOCKS else block_of[tree.parents[node]]
            if name == "a" and tree.attribute(node, "href")[:1] not in ("", "#"):
                link_end = tree.ends[node]
            elif not name and chars[node]:
                block = block_of[node]
                self.own[block] += chars[node]
                self.own_links[block] += chars[node] if node < link_end else 0
                self.first_text[node] = node
                if block not in self._has_sentence and _SENTENCE_END.search(tree.texts[node]):
                    self._has_sentence.add(block)
            node += 1

    def is_prose(self, block: int) -> bool:
        least = _MIN_SENTENCE_CHARS if block in self._has_sentence else _MIN_PROSE_CHARS
        return self.own[block] >= least and self.own_links[block] < 0.5 * self.own[block]

    def is_link(self, block: int) -> bool:
        """Whether a block without others in it is nothing but links."""
        own = self.own[block]
        return self.tree.names[block] in _LEAVES and 0 < own * _LINK_SHARE <= self.own_links[block]

    def blocks(self, root: int, skipped: Container[int]) -> list[int]:
        """Return the blocks below the root that own text."""
        tree = self.tree
        found: list[int] = []
        node, end = root + 1, tree.ends[root]
        while node < end:
            if node in self.removed or node in skipped:
                node = tree.ends[node]
                continue
            if self.own[node]:
                found.append(node)
            node += 1
        return found


def _children(tree: HtmlTree, node: int, skipped: Container[int]) -> Iterator[int]:
    child, end = node + 1, tree.ends[node]
    while child < end:
        if child not in skipped:
            yield child
        child = tree.ends[child]
