"""Passages of Markdown documents as markup: their structure, without anything that acts or loads."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

MAX_RENDERED_CHARS = 8_000
"""A longer passage is shown as it is written."""
MAX_CELLS = 5_000
"""Most bars of a line, times lines: short rows of tables are filled up, so few characters make many cells."""
MAX_NESTING = 20
"""Levels of lists, quotations and emphasis."""

# Noncharacters: no text has them, and Markdown reads them as letters.
_MARK, _END_MARK, _NEAR, _END_NEAR = _SIGNS = "\ufdd0\ufdd1\ufdd2\ufdd3"
_SIGN = re.compile(f"([{_SIGNS}])")
_REPLACED = dict.fromkeys(map(ord, _SIGNS), "\ufffd")
_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f]", re.IGNORECASE)
_LIST_NUMBER = re.compile(r"\s*\d{1,9}[.)]\s")
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,})(.*)$", re.MULTILINE)
_LETTER = re.compile(r"[^\W_]")


class Run(NamedTuple):
    """A span of text; `is_mark` if it matches the query, `is_near` in the sentence that is nearest to it."""

    text: str
    is_mark: bool
    is_near: bool = False


class _Renderer(RendererHTML):
    """Writes the texts of tokens with what is marked in them."""

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return _with_marks(tokens[idx].content, env)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<code>{_with_marks(tokens[idx].content, env)}</code>"

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<pre><code>{_with_marks(tokens[idx].content, env)}</code></pre>\n"

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        _with_marks(tokens[idx].info, env)
        return self.code_block(tokens, idx, options, env)

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        for value in tokens[idx].attrs.values():
            _with_marks(str(value), env)
        return _with_marks(self.renderInlineAsText(tokens[idx].children, options, env), env)

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        for value in tokens[idx].attrs.values():
            _with_marks(str(value), env)
        href = _SIGN.sub("", str(tokens[idx].attrs.get("href", ""))).strip()
        env["is_link"] = bool(_LINK.match(href))
        return f'<a href="{escape(href)}" rel="noopener noreferrer">' if env["is_link"] else ""

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</a>" if env["is_link"] else ""

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        env["n_shown"] += len(tokens[idx].info)  # its number
        return self.renderToken(tokens, idx, options, env)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return '<p class="heading">'  # the headings of the page are its own

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</p>\n"

    @staticmethod
    def renderAttrs(token: Token) -> str:  # noqa: N802 - a method of the library
        return f' start="{int(token.attrs["start"])}"' if "start" in token.attrs else ""


def _with_marks(text: str, env: dict[str, Any]) -> str:
    """Escape a text and mark what lies between signs. What a token leaves open goes on in the next one."""
    opened: set[str] = env["opened"]
    parts = []
    for piece in _SIGN.split(text):
        if piece in (_MARK, _NEAR):
            opened.add(piece)
        elif piece in (_END_MARK, _END_NEAR):
            opened.discard(_MARK if piece == _END_MARK else _NEAR)
        elif piece:
            env["n_shown"] += _n_letters(piece)
            shown = str(escape(piece))
            if _MARK in opened:
                shown = f"<mark>{shown}</mark>"
            parts.append(f'<span class="near">{shown}</span>' if _NEAR in opened else shown)
    return "".join(parts)


def _n_letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _reader() -> MarkdownIt:
    reader = MarkdownIt(
        "commonmark", {"html": False, "maxNesting": MAX_NESTING}, renderer_cls=_Renderer
    ).enable(["table", "strikethrough"])
    reader.disable("reference")  # a passage seldom holds the address and the link
    # The renderer decides which addresses become links; the others stay text.
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    reader.normalizeLink = lambda url: url  # type: ignore[method-assign]
    reader.normalizeLinkText = lambda link: link  # type: ignore[method-assign]
    return reader


_READER = _reader()
_OUTLINE = _reader().disable("inline")


def render_markdown(runs: Sequence[Run]) -> Markup | None:
    """Render a passage. Returns None if it is to be shown as it is written: it is too long, its tables are
    too large, it may begin inside a code block, or letters would be lost, as in what is nested too deep."""
    text = "".join(run.text for run in runs)
    if not _is_readable(text):
        return None
    env: dict[str, Any] = {"opened": set(), "n_shown": 0}
    rendered = _READER.render("".join(_signed(runs)), env)
    if env["n_shown"] < _n_letters(html.unescape(text)):
        return None
    return Markup(rendered)  # noqa: S704 - the renderer escapes all texts


def _is_readable(text: str) -> bool:
    lines = text.split("\n")
    if len(text) > MAX_RENDERED_CHARS or max(line.count("|") for line in lines) * len(lines) > MAX_CELLS:
        return False
    fences = _FENCE.findall(text)
    return len(fences) % 2 == 0 or bool(fences[0].strip())


def _signed(runs: Sequence[Run]) -> Iterator[str]:
    """The text of runs with signs around the letters of those that are marked, so that no sign stands before
    what makes a list, a heading or a table."""
    before = "\n"
    for run in runs:
        text = run.text.translate(_REPLACED)
        number = _LIST_NUMBER.match(text)
        start = number.end() if number else 0
        first = _LETTER.search(text, start)
        is_number = run.is_mark and text.isdigit() and before.rstrip(" ").endswith(("\n", ">"))
        before = text
        if not first or is_number or not (run.is_mark or run.is_near):
            yield text
            continue
        end = len(text.rstrip())
        while not _LETTER.match(text[end - 1]):
            end -= 1
        opening = _MARK * run.is_mark + _NEAR * run.is_near
        closing = _END_MARK * run.is_mark + _END_NEAR * run.is_near
        yield f"{text[: first.start()]}{opening}{text[first.start() : end]}{closing}{text[end:]}"


def whole_blocks(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a part of a passage until it cuts no table or code block, and no line of a list."""
    if not _is_readable(text):
        return start, end
    tokens = _OUTLINE.parse(text)
    lines = [0, *(found.end() for found in re.finditer("\n", text)), len(text)]
    for token in tokens:
        if token.level or not token.map or token.nesting < 0 or token.type == "paragraph_open":
            continue
        first, last = (lines[min(line, len(lines) - 1)] for line in token.map)
        is_list = token.type.endswith("list_open") or token.type == "blockquote_open"
        if first < start < last:
            start = text.rfind("\n", first, start) + 1 if is_list else first
            start = max(start, first)
        if first < end < last:
            line_end = text.find("\n", end, last)
            end = line_end if is_list and line_end >= 0 else last
    return start, end
