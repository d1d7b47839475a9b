"""Masking: everything that people do not read as words is replaced by spaces for the scorer, at the same
length.

The text itself never changes. The masked copy has spaces in place of link targets, tags and footnote marks.
Emphasis marks are masked too, so that a full stop inside them still ends its sentence. Every pattern begins
with a fixed character or a small set of characters and never scans past the next one of them, so that the
time is linear in the length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_COMMENT = re.compile(r"<!--[^<]*?-->")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:[ \t][^<>\r\n]*)?>")
_ANGLE_LINK = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*:[^<>\s]*>|<[\w.+-]+@[\w.-]+>")
# The target of a link or image: "](target "title")", with one level of parentheses, or "][reference]".
_TARGET = r"""\](?:
        \([ \t]*+<?[^()\s<>]*+(?:\([^()\s]*+\)[^()\s<>]*+)*+>?
          (?:[ \t]++(?:"[^"\r\n]*+"|'[^'\r\n]*+'))?+[ \t]*+\)
      | \[[^\[\]\r\n]{0,200}\]
    )"""
_LINK = re.compile(rf"(!?\[)([^\[\]]*+)({_TARGET})", re.VERBOSE)
_OUTER_TARGET = re.compile(_TARGET, re.VERBOSE)  # of a link around an image
# Footnote and citation marks, and residue in copies of encyclopedia pages.
_MARK = re.compile(
    r"""\[(?:
        \d{1,4}(?:[,–-][ ]?\d{1,4})* | [a-z]{1,2} | \^[^\[\]\s]{1,64}
      | (?:note|nb|n|fn)[ ]\d{1,3}
      | edit(?:[ ](?:\|[ ]edit[ ])?source)? | pg\.?[ ]\d{1,4}
      | (?:when|who|which|where|why|how|by[ ]whom|according[ ]to[ ]whom)\?
      | (?:[a-z-]{3,20}[ ]){1,3}needed | sic | dubious | verify | dead[ ]link | update | original[ ]research\?
    )\]""",
    re.VERBOSE | re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?:https?|ftp)://[^\s<>\"“”]*[\w/]")
_ENTITY = re.compile(r"&(?:[A-Za-z]{2,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
# A formula in copies of web pages: one symbol per line, between blank lines, perhaps followed by its source.
# It is masked as a whole, newlines included, so that the sentence around it stays one. Groups are not
# possessive, which is broken before Python 3.11.5 (gh-106052); their contents are, so there is no
# backtracking.
_FORMULA = re.compile(
    r"[\r\n](?:[ \t\xa0]*+\S{0,4}+[ \t\xa0]*+[\r\n]){5,}"
    r"(?:[ \t]*+\{\\displaystyle[^\r\n]*+(?:[\r\n][ \t]*+)*)?"
)
_MIN_FORMULA_SYMBOLS = 3
# White space, like the newline that it replaces, but it ends a sentence.
PARAGRAPH_SEPARATOR = "\u2029"
# Marks that are never part of a word: emphasis, code, strikethrough. The scorer treats "_" as a space anyway.
_MARKS = ("*", "_", "`", "~~")


def _blank(match: re.Match[str]) -> str:
    return " " * (match.end() - match.start())


def _blank_formula(match: re.Match[str]) -> str:
    """Return blanks for a formula; text after it that begins with a capital is a new paragraph."""
    symbols = match.group().split()
    words = sum(len(symbol) > 1 and symbol.rstrip(".,;:!?").isalpha() for symbol in symbols)
    if len(symbols) < _MIN_FORMULA_SYMBOLS or 2 * words > len(symbols):
        return match.group()
    blanks = " " * (match.end() - match.start() - 1)
    follower = match.string[match.end() : match.end() + 1]
    return blanks + (PARAGRAPH_SEPARATOR if follower.isupper() else " ")


def _blank_around_text(link: re.Match[str]) -> str:
    return " " * len(link.group(1)) + link.group(2) + " " * len(link.group(3))


def mask(content: str, spans: Sequence[tuple[int, int]] = ()) -> str:
    """Mask the markup of the content, and `spans` (sorted, disjoint)."""
    return _mask_spans(mask_inline(content), spans)


def mask_formulas(text: str) -> str:
    """Mask formulas that are a column of symbols; PARAGRAPH_SEPARATOR ends those that precede a paragraph."""
    return _FORMULA.sub(_blank_formula, text)


def mask_inline(text: str) -> str:
    """Mask the markup and residue that can occur within a line."""
    if "<" in text:
        if "<!--" in text:
            text = _COMMENT.sub(_blank, text)
        text = _TAG.sub(_blank, text)
        text = _ANGLE_LINK.sub(_blank, text)
    if "[" in text:
        text = _MARK.sub(_blank, text)
        text = _LINK.sub(_blank_around_text, text)
        text = _OUTER_TARGET.sub(_blank, text)
    if "://" in text:
        text = _ADDRESS.sub(_blank, text)
    if "&" in text:
        text = _ENTITY.sub(_blank, text)
    for mark in _MARKS:
        text = text.replace(mark, " " * len(mark))
    return text


def _mask_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += [text[at:start], " " * (end - start)]
        at = end
    parts.append(text[at:])
    return "".join(parts)
