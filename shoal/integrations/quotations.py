"""Whether what a language model quotes is in the source, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass

ALIKE = ("'’‘‚`´", '"“”„«»', "-‐‑‒–—−", "…")
"""Characters that models write for one another."""
ELLIPSIS = re.compile(r"(?:\[\s*+)?(?:\.{3,}|…|\. \. \.)(?:\s*+\])?")
"""Where a quotation leaves something out."""


@dataclass(frozen=True, slots=True)
class Found:
    """A quotation in a document: `content[start_char:end_char]`, on these lines, from 1 and inclusive."""

    start_char: int
    end_char: int
    start_line: int
    end_line: int

    @property
    def lines(self) -> str:
        return lines(self.start_line, self.end_line)


def lines(first: int, last: int) -> str:
    """Lines as people write them."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


def find_quotation(quotation: str, content: str) -> Found | None:
    """The first place where a document says these words in this order; None if it does not.

    White space, the kind of quotation marks and dashes, and small and capital letters don't matter, nor do
    quotation marks and an ellipsis around it, and at an ellipsis within it something may be left out.
    Everything else does: a word more, less or other is no quotation.
    """
    parts = [part for part in (_trimmed(part) for part in ELLIPSIS.split(quotation)) if part]
    if not parts:
        return None
    start, position = -1, 0
    for part in parts:
        found = _pattern(part).search(content, position)
        if found is None:
            return None
        start = found.start() if start < 0 else start
        position = found.end()
    return Found(start, position, _line(content, start), _line(content, position - 1))


def _trimmed(part: str) -> str:
    return part.strip().strip("".join(ALIKE[:2])).strip()


def _pattern(part: str) -> re.Pattern[str]:
    text = r"\s++".join("".join(map(_either, word)) for word in part.split())
    # Not in the middle of a word: "art" is no quotation of "part".
    before = r"(?<!\w)" if part[0].isalnum() else ""
    after = r"(?!\w)" if part[-1].isalnum() else ""
    return re.compile(before + text + after, re.IGNORECASE)


def _either(character: str) -> str:
    alike = next((group for group in ALIKE if character in group), "")
    return f"[{re.escape(alike)}]" if alike else re.escape(character)


def _line(content: str, position: int) -> int:
    return content.count("\n", 0, position) + 1
