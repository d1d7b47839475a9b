"""Quotations: whether a text contains what is quoted from it, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shoal.support.plain_text import line_range

EQUIVALENT = ("'’‘‚`´", '"“”„«»', "-‐‑‒–—−", "…")
"""Groups of characters that models use interchangeably."""
ELLIPSIS = re.compile(r"(?:\[\s*+)?(?:\.{3,}|…|\. \. \.)(?:\s*+\])?")
"""An omission in a quotation."""


@dataclass(frozen=True, slots=True)
class Found:
    """A quotation found in a document: `content[start_char:end_char]`; lines count from 1, end inclusive."""

    start_char: int
    end_char: int
    start_line: int
    end_line: int

    @property
    def lines(self) -> str:
        return line_range(self.start_line, self.end_line)


def find_quotation(quotation: str, content: str) -> Found | None:
    """Return the first place where a document contains the quoted words in this order, or None.

    Ignored are white space, the kind of quotation marks and dashes, case, and quotation marks or an ellipsis
    around the quotation. An ellipsis within it matches any text. Everything else must be equal: an added,
    missing or different word is no match.
    """
    parts = [part for part in (_trimmed(part) for part in ELLIPSIS.split(quotation)) if part]
    if not parts:
        return None
    start, position = -1, 0
    for part in parts:
        match = _pattern(part).search(content, position)
        if match is None:
            return None
        start = match.start() if start < 0 else start
        position = match.end()
    return Found(start, position, _line(content, start), _line(content, position - 1))


def _trimmed(part: str) -> str:
    return part.strip().strip("".join(EQUIVALENT[:2])).strip()


def _pattern(part: str) -> re.Pattern[str]:
    text = r"\s++".join("".join(map(_character_pattern, word)) for word in part.split())
    # Only whole words match: "art" does not match in "part".
    before = r"(?<!\w)" if part[0].isalnum() else ""
    after = r"(?!\w)" if part[-1].isalnum() else ""
    return re.compile(before + text + after, re.IGNORECASE)


def _character_pattern(character: str) -> str:
    group = next((group for group in EQUIVALENT if character in group), "")
    return f"[{re.escape(group)}]" if group else re.escape(character)


def _line(content: str, position: int) -> int:
    return content.count("\n", 0, position) + 1
